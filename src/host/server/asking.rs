//! Models that are asked for prompts: one task a call, ended with the call.

use super::{Event, Server};
use crate::core::Input;
use crate::core::question::{self, NotTold, Question, Told};
use crate::host::llm::{self, Call, changes, config, key};
use crate::host::paths::make_folder;
use crate::proto::{
    ConnectParams, ErrorInfo, HopId, LoadParams, ProjectFile, ProjectRoute, Provider, Transform,
    TransformParams,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio_util::task::AbortOnDropHandle;

/// The calls that are under way, by hop, each with its number.
pub(super) type Asks = BTreeMap<HopId, (u64, AbortOnDropHandle<()>)>;

impl Server {
    /// Makes a call. Whatever happens to it, the core hears of its end.
    pub(super) fn ask(&mut self, hop: HopId, token: u64, question: Question) {
        let source = self.agents.get(&question.source);
        let env = source.map(|a| a.subject.env.clone()).unwrap_or_default();
        let cwd = source.map(|a| a.subject.cwd.clone());
        let folder = self.options.paths.state.join("asks");
        let work = AbortOnDropHandle::new(tokio::spawn(call(question, env, cwd, folder)));
        let events = self.events.clone();
        let task = tokio::spawn(async move {
            let result = work.await.unwrap_or_else(|e| {
                let text = format!("asking the model failed within mado: {e}");
                Err(NotTold { code: "internal".to_owned(), text, ..NotTold::default() })
            });
            let _ = events.send(Event::Input(Input::Asked { hop, token, result })).await;
        });
        self.asks.insert(hop, (token, AbortOnDropHandle::new(task)));
    }

    /// Ends a call: dropping its task closes its connection or kills its program.
    pub(super) fn cancel_ask(&mut self, hop: HopId) {
        self.asks.remove(&hop);
    }

    /// A call has ended by itself.
    pub(super) fn ask_ended(&mut self, input: &Input) {
        if let Input::Asked { hop, token, .. } = input
            && self.asks.get(hop).is_some_and(|(open, _)| open == token)
        {
            self.asks.remove(hop);
        }
    }

    /// Fills in whom a new route may ask, and refuses what cannot work.
    pub(super) fn ready_to_connect(
        &self,
        mut p: ConnectParams,
    ) -> Result<ConnectParams, ErrorInfo> {
        let editor = std::mem::take(&mut p.providers);
        let transform = p.options.transform.unwrap_or_default();
        let wish = p.options.provider.as_deref();
        let Some((providers, template)) = self.providers(transform, wish, editor)? else {
            return Ok(p);
        };
        let ways = [Some(&p.source), p.both.then_some(&p.target)];
        for source in ways.into_iter().flatten() {
            self.check_keys(&p.project, source, &providers)?;
        }
        p.providers = providers;
        p.options.template = p.options.template.or(template);
        Ok(p)
    }

    /// The same for a route that is changed.
    pub(super) fn ready_to_transform(
        &self,
        mut p: TransformParams,
    ) -> Result<TransformParams, ErrorInfo> {
        let editor = std::mem::take(&mut p.providers);
        let found = self.providers(p.transform, p.provider.as_deref(), editor)?;
        if let Some((providers, template)) = found {
            p.providers = providers;
            p.template = p.template.or(template);
        }
        Ok(p)
    }

    /// The same for the routes of a project's file, which names providers and never describes one.
    pub(super) fn ready_to_load(
        &self,
        mut p: LoadParams,
        file: ProjectFile,
    ) -> Result<LoadParams, ErrorInfo> {
        let editor = std::mem::take(&mut p.providers);
        let asks = |r: &ProjectRoute| {
            let options = &r.options;
            options.provider.is_some() || options.transform.is_some_and(Transform::asks_model)
        };
        if file.routes.iter().any(asks) {
            let config = config::load(&self.options.paths)?;
            p.provider = p.provider.or(config.provider);
            p.providers = config.providers;
            p.providers.extend(editor);
            for (name, spec) in &p.providers {
                config::check(name, spec)?;
            }
        }
        p.file = Some(file);
        Ok(p)
    }

    /// The providers that may be asked and the transform's own template; nothing where none is asked.
    #[allow(clippy::type_complexity, reason = "a pair, used twice")]
    fn providers(
        &self,
        transform: Transform,
        wish: Option<&str>,
        editor: BTreeMap<String, Provider>,
    ) -> Result<Option<(BTreeMap<String, Provider>, Option<String>)>, ErrorInfo> {
        if !transform.asks_model() && wish.is_none() {
            return Ok(None);
        }
        let config = config::load(&self.options.paths)?;
        let providers = config::choose(&config, editor, wish)?;
        Ok(Some((providers, config.templates.get(&transform).cloned())))
    }

    /// Says now what would fail later: a key that is not there.
    fn check_keys(
        &self,
        project: &str,
        source: &str,
        providers: &BTreeMap<String, Provider>,
    ) -> Result<(), ErrorInfo> {
        let [(name, spec)] = &providers.iter().collect::<Vec<_>>()[..] else { return Ok(()) };
        let Ok(source) = self.find(project, source) else { return Ok(()) };
        let Some(agent) = self.agents.get(&source) else { return Ok(()) };
        key::check(spec, &agent.subject.env).map_err(|e| {
            let remedy = "or name another variable: key_env, or a program: key_command";
            ErrorInfo::new("no_key", format!("provider {name}: {e}"), remedy)
        })
    }
}

async fn call(
    question: Question,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    folder: PathBuf,
) -> Result<Told, NotTold> {
    make_folder(&folder).map_err(|e| NotTold {
        code: e.code.clone(),
        text: e.to_string(),
        ..NotTold::default()
    })?;
    let mut changed = question.changed;
    let mut stat = Vec::new();
    if let Some(cwd) = &cwd {
        // A record names the real path of what the editor may know by a link.
        if let (Some(changed), Ok(real)) = (&mut changed, std::fs::canonicalize(cwd)) {
            let real = real.display().to_string();
            for path in changed {
                *path = question::relative(path, &real);
            }
        }
        stat = changes::of(cwd, changed.as_deref(), &env).await;
    }
    let files = question::files(changed.as_deref(), &stat);
    let call = Call {
        name: question.provider,
        spec: question.spec,
        stable: question.stable,
        variable: format!("{}{files}", question.variable),
        env,
        folder,
    };
    llm::ask(&call).await
}
