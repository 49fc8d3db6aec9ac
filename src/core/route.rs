//! Routes and chains: what fires, what guards it.

use super::question;
use crate::core::io::Now;
use crate::proto::{
    AgentId, ChainId, Dispatch, ErrorInfo, HopId, OnError, Provider, RouteId, RouteInfo,
    RouteOptions, RouteState, Rung, Shadow, Transform, Trigger,
};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Bounds of `max_rounds`.
pub const MAX_ROUNDS: std::ops::RangeInclusive<u32> = 1..=20;
/// Bounds of `cooldown_ms`.
pub const COOLDOWN_MS: std::ops::RangeInclusive<u64> = 1_000..=30_000;
/// Bounds of `idle_ms`. The lower one keeps a firing from racing the agent's own repaint.
pub const IDLE_MS: std::ops::RangeInclusive<u64> = 100..=600_000;
/// Bounds of `join_timeout_ms`: a second to a day.
pub const JOIN_TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

/// A firing that waits for its silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Armed {
    /// The source's turn.
    pub seq: u64,
    /// The evidence of its end.
    pub rung: Rung,
}

/// A route.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its id.
    pub id: RouteId,
    /// The source.
    pub source: AgentId,
    /// The target.
    pub target: AgentId,
    /// When it fires.
    pub trigger: Trigger,
    /// The compiled pattern of `on-keyword`.
    pub pattern: Option<Regex>,
    /// How the answer becomes a prompt.
    pub transform: Transform,
    /// The template of `prompt-wrap`, or the instructions of a model, where they are not the default.
    pub template: Option<String>,
    /// Everything that was asked for, the newest word on each.
    pub options: RouteOptions,
    /// The project's file names it.
    pub from_file: bool,
    /// Which decision maker delivers.
    pub dispatch: Dispatch,
    /// The source's newest turn that `legacy` need not fire for.
    pub legacy_turn: u64,
    /// What was decided for a turn that `legacy` has not fired yet.
    pub shadow: Option<(u64, Shadow)>,
    /// Whom `ai-routing` and `summary` ask, by name.
    pub provider: Option<(String, Provider)>,
    /// What becomes of a hop whose model gives no prompt.
    pub on_error: OnError,
    /// What the target is there for, in the user's words.
    pub task: Option<String>,
    /// Rounds within a chain.
    pub max_rounds: u32,
    /// Least time between firings.
    pub cooldown_ms: u64,
    /// Stops the route when the answer holds it.
    pub stop_keyword: Option<String>,
    /// Silence of `on-idle`; `None`: the host's default.
    pub idle_ms: Option<u64>,
    /// `Some(true)`: always one paste. `Some(false)`: always lines.
    pub paste: Option<bool>,
    /// Ask a person before each delivery.
    pub confirm: bool,
    /// Only an answer that it matches is handed on.
    pub when: Option<Regex>,
    /// Its answers wait for those of the other such routes into its target.
    pub join: bool,
    /// How long they wait.
    pub join_timeout_ms: u64,
    /// A header before the text; `None`: with the built-in templates.
    pub header: Option<bool>,
    /// Secrets are blacked out in prompts.
    pub redact: bool,
    /// Tokens that a chain may have used when it fires.
    pub chain_tokens: Option<u64>,
    /// Tokens that the host may have used in the last 24 hours when it fires.
    pub day_tokens: Option<u64>,
    /// Fires without an editor.
    pub detached: bool,
    /// Made by this client's kind of an editor.
    pub from_editor: bool,
    /// A person paused it.
    pub paused: bool,
    /// A guard stopped it: code and words.
    pub stopped: Option<(String, String)>,
    /// No editor is attached.
    pub held: bool,
    /// The chain that `round` counts in.
    pub chain: Option<ChainId>,
    /// Deliveries within it.
    pub round: u32,
    /// The turn of the source whose batches are this round (for `always`).
    pub round_turn: Option<u64>,
    /// When it last fired, monotonic milliseconds.
    pub fired: Option<u64>,
    /// A firing that waits for silence.
    pub armed: Option<Armed>,
    /// A hop that waits for the cooldown, a resume, or an editor.
    pub waiting: Option<HopId>,
    /// Why its last answer was not handed on, where the route itself is as it was.
    pub skipped: Option<String>,
    /// When an answer came that `when` did not match: a join does not wait for this source then.
    pub abstained: Option<u64>,
    /// The wait of its last answer for the others of a join was ended: a person may still fire it.
    pub unjoined: bool,
    /// What was last published.
    pub published: Option<RouteInfo>,
}

/// A chain: what follows from one human prompt.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// Hops so far, over the whole graph.
    pub hops: u32,
    /// Rounds that routes have had in it.
    pub rounds: BTreeMap<RouteId, u32>,
    /// Contents that have gone from one agent to another in it.
    pub delivered: BTreeSet<(AgentId, AgentId, u64)>,
    /// Tokens that models and agents are known to have used in it.
    pub tokens: u64,
    /// When it was last used, monotonic milliseconds.
    pub used: u64,
    /// The person's prompt that began it, where it is known.
    pub task: Option<String>,
}

impl Route {
    /// A route with the defaults.
    pub fn new(id: RouteId, source: AgentId, target: AgentId, cooldown_ms: u64) -> Route {
        Route {
            id,
            source,
            target,
            trigger: Trigger::OnIdle,
            pattern: None,
            transform: Transform::PromptWrap,
            template: None,
            options: RouteOptions::default(),
            from_file: false,
            dispatch: Dispatch::Madoagent,
            legacy_turn: 0,
            shadow: None,
            provider: None,
            on_error: OnError::Stop,
            task: None,
            max_rounds: 5,
            cooldown_ms,
            stop_keyword: None,
            idle_ms: None,
            paste: None,
            confirm: false,
            when: None,
            join: false,
            join_timeout_ms: 600_000,
            header: None,
            redact: false,
            chain_tokens: None,
            day_tokens: None,
            detached: false,
            from_editor: false,
            paused: false,
            stopped: None,
            held: false,
            chain: None,
            round: 0,
            round_turn: None,
            fired: None,
            armed: None,
            waiting: None,
            skipped: None,
            abstained: None,
            unjoined: false,
            published: None,
        }
    }

    /// Takes options; all are checked before any is taken. `name` is what messages call the route.
    pub fn apply(&mut self, options: &RouteOptions, name: &str) -> Result<(), ErrorInfo> {
        let bad = |message: String, remedy: &str| ErrorInfo::new("bad_value", message, remedy);
        let mut new = self.clone();
        if let Some(trigger) = options.trigger {
            new.trigger = trigger;
        }
        if let Some(pattern) = &options.pattern {
            new.pattern = Some(compile("pattern", pattern, name)?);
        }
        if new.trigger == Trigger::OnKeyword && new.pattern.is_none() {
            return Err(bad(
                format!("route {name}: on-keyword needs a pattern"),
                "give pattern=REGEX",
            ));
        }
        if let Some(transform) = options.transform {
            let models = transform.asks_model() || new.transform.asks_model();
            if models && transform != new.transform {
                // Words for the target are no instructions for a model.
                new.template = None;
            }
            new.transform = transform;
        }
        if new.transform.asks_model() && new.trigger == Trigger::Always {
            return Err(bad(
                format!(
                    "route {name}: {} cannot ask for every batch of always",
                    new.transform.name()
                ),
                "use trigger=on-turn or trigger=on-idle",
            ));
        }
        if let Some(template) = &options.template {
            check_template(new.transform, template)
                .map_err(|e| bad(format!("route {name}: {e}"), "mend the template"))?;
            new.template = Some(template.clone());
        }
        if let Some(dispatch) = options.dispatch {
            new.dispatch = dispatch;
        }
        if let Some((problem, remedy)) = super::legacy::dispatch_problem(&new) {
            return Err(bad(format!("route {name}: {problem}"), remedy));
        }
        if let Some(on_error) = options.on_error {
            new.on_error = on_error;
        }
        if let Some(task) = &options.task {
            question::check_length("the task", task, question::TASK_CHARS)
                .map_err(|e| bad(format!("route {name}: {e}"), "say it in fewer words"))?;
            new.task = (!task.trim().is_empty()).then(|| task.trim().to_owned());
        }
        if let Some(n) = options.max_rounds {
            if !MAX_ROUNDS.contains(&n) {
                return Err(bad(
                    format!("route {name}: max_rounds is {n}"),
                    "give a number from 1 to 20",
                ));
            }
            new.max_rounds = n;
        }
        if let Some(n) = options.cooldown_ms {
            if !COOLDOWN_MS.contains(&n) {
                return Err(bad(
                    format!("route {name}: cooldown_ms is {n}"),
                    "give milliseconds from 1000 to 30000",
                ));
            }
            new.cooldown_ms = n;
        }
        if let Some(n) = options.idle_ms {
            if !IDLE_MS.contains(&n) {
                return Err(bad(
                    format!("route {name}: idle_ms is {n}"),
                    "give milliseconds from 100 to 600000",
                ));
            }
            new.idle_ms = Some(n);
        }
        if let Some(word) = &options.stop_keyword {
            new.stop_keyword = (!word.is_empty()).then(|| word.clone());
        }
        match options.deliver.as_deref() {
            None => {}
            Some("lines") => new.paste = Some(false),
            Some("paste") => new.paste = Some(true),
            Some(other) => {
                return Err(bad(
                    format!("route {name}: deliver is {other:?}"),
                    "give lines or paste",
                ));
            }
        }
        if let Some(confirm) = options.confirm {
            new.confirm = confirm;
        }
        if let Some(detached) = options.route_detached {
            new.detached = detached;
        }
        new.apply_graph(options, name)?;
        new.options = merged(&self.options, options);
        *self = new;
        Ok(())
    }

    /// Takes over where another one of the same agents stands: its number, its rounds, its pause, and
    /// what waits at it.
    pub fn go_on_as(&mut self, old: &Route) {
        self.id = old.id;
        self.from_editor = old.from_editor;
        self.from_file = old.from_file;
        self.paused = old.paused;
        self.stopped.clone_from(&old.stopped);
        self.held = old.held;
        (self.chain, self.round, self.round_turn) = (old.chain, old.round, old.round_turn);
        self.fired = old.fired;
        self.waiting = old.waiting;
        self.legacy_turn = old.legacy_turn.max(self.legacy_turn);
        if self.trigger == old.trigger && self.dispatch == old.dispatch {
            self.armed.clone_from(&old.armed);
            self.shadow.clone_from(&old.shadow);
        }
        self.published.clone_from(&old.published);
        (self.abstained, self.unjoined) = (old.abstained, old.unjoined);
        if self.options.when == old.options.when {
            self.skipped.clone_from(&old.skipped);
        }
    }

    /// Takes the options that are about the graph and about what is said of the text's origin.
    fn apply_graph(&mut self, options: &RouteOptions, name: &str) -> Result<(), ErrorInfo> {
        let bad = |message: String, remedy: &str| ErrorInfo::new("bad_value", message, remedy);
        if let Some(when) = &options.when {
            self.when = Some(compile("when", when, name)?);
        }
        match options.join.as_deref() {
            None => {}
            Some("all") => self.join = true,
            Some("none") => self.join = false,
            Some(other) => {
                return Err(bad(format!("route {name}: join is {other:?}"), "give all or none"));
            }
        }
        if self.trigger == Trigger::Always {
            let key = if self.when.is_some() { "when" } else { "join" };
            if self.when.is_some() || self.join {
                return Err(bad(
                    format!(
                        "route {name}: always hands output on while it comes, so there is no answer for {key}= to look at"
                    ),
                    "use trigger=on-turn, on-idle or on-keyword with it",
                ));
            }
        }
        if let Some(n) = options.join_timeout_ms {
            if !JOIN_TIMEOUT_MS.contains(&n) {
                return Err(bad(
                    format!("route {name}: join_timeout_ms is {n}"),
                    "give milliseconds from 1000 to 86400000",
                ));
            }
            if !self.join {
                return Err(bad(
                    format!("route {name}: join_timeout_ms is for routes that wait for others"),
                    "add join=all, or leave it out",
                ));
            }
            self.join_timeout_ms = n;
        }
        self.header = options.header.or(self.header);
        self.redact = options.redact.unwrap_or(self.redact);
        for (key, value, field) in [
            ("chain_tokens", options.chain_tokens, &mut self.chain_tokens),
            ("day_tokens", options.day_tokens, &mut self.day_tokens),
        ] {
            if value == Some(0) {
                return Err(bad(
                    format!("route {name}: {key} is 0, and nothing could be handed on"),
                    "give a number of tokens, or leave it out for no limit",
                ));
            }
            *field = value.or(*field);
        }
        Ok(())
    }

    /// Whether a header goes before its texts, where the target can have one: the built-in templates
    /// say by it from whom the text comes, a template of the user's own says what the user wants.
    pub fn headed(&self) -> bool {
        let built_in = self.transform == Transform::PromptWrap && self.template.is_none();
        self.header.unwrap_or(built_in)
    }

    /// Takes the provider that was asked for, and refuses a transform that has none to ask. Without a
    /// wish, one that the route has already stays; else the only one there is is taken.
    pub fn choose(
        &mut self,
        wish: Option<&str>,
        known: &BTreeMap<String, Provider>,
        name: &str,
    ) -> Result<(), ErrorInfo> {
        let names = || known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        if let Some(wish) = wish {
            let spec = known.get(wish).ok_or_else(|| {
                let remedy = match known.len() {
                    0 => NO_PROVIDER.to_owned(),
                    _ => format!("the providers are {}", names()),
                };
                let message = format!("route {name}: there is no provider {wish:?}");
                ErrorInfo::new("unknown_provider", message, remedy)
            })?;
            self.provider = Some((wish.to_owned(), spec.clone()));
        }
        if !self.transform.asks_model() || self.provider.is_some() {
            return Ok(());
        }
        let asks = self.transform.name();
        let mut all = known.iter();
        match (all.next(), all.next()) {
            (Some((only, spec)), None) => {
                self.provider = Some((only.clone(), spec.clone()));
                Ok(())
            }
            (Some(_), Some(_)) => Err(ErrorInfo::new(
                "which_provider",
                format!("route {name}: {asks} can ask more than one provider"),
                format!(
                    "say provider=NAME (--provider NAME in mado transform); they are {}",
                    names()
                ),
            )),
            (None, _) => Err(ErrorInfo::new(
                "no_provider",
                format!(
                    "route {name}: {asks} asks a language model, and no provider is configured"
                ),
                NO_PROVIDER,
            )),
        }
    }

    /// Where it stands: a guard's stop is shown before a pause, a pause before a hold.
    pub fn state(&self) -> RouteState {
        if self.stopped.is_some() {
            RouteState::Stopped
        } else if self.paused {
            RouteState::Paused
        } else if self.held {
            RouteState::Held
        } else {
            RouteState::Active
        }
    }

    /// Counts rounds in a chain from here on, from where that chain had come to.
    pub fn enter(&mut self, chain: ChainId, round: u32) {
        if self.chain != Some(chain) {
            self.chain = Some(chain);
            self.round_turn = None;
        }
        self.round = round;
    }

    /// When the cooldown lets it fire again.
    pub fn cooled(&self, now: Now) -> Option<u64> {
        self.fired.map(|f| f + self.cooldown_ms).filter(|t| *t > now.mono)
    }

    /// What listings show.
    pub fn info(&self, source: &str, target: &str, project: &str) -> RouteInfo {
        let (reason_code, reason_text) = match self.state() {
            RouteState::Active => {
                let skipped = self.skipped.clone();
                (skipped.as_ref().map_or("", |_| "when").to_owned(), skipped.unwrap_or_default())
            }
            RouteState::Paused => ("paused".to_owned(), "paused; :Mado resume goes on".to_owned()),
            RouteState::Held => (
                "no_editor".to_owned(),
                "held while no editor is attached; route_detached=true lets it run".to_owned(),
            ),
            RouteState::Stopped => self.stopped.clone().unwrap_or_default(),
        };
        RouteInfo {
            id: self.id,
            source: source.to_owned(),
            target: target.to_owned(),
            project: project.to_owned(),
            trigger: self.trigger,
            pattern: self.pattern.as_ref().map(|p| p.as_str().to_owned()),
            transform: self.transform,
            template: self.template.clone(),
            provider: self.provider.as_ref().map(|(name, _)| name.clone()),
            model: self.provider.as_ref().map(|(_, p)| p.model_name().to_owned()),
            on_error: self.on_error,
            task: self.task.clone(),
            dispatch: self.dispatch,
            state: self.state(),
            round: self.round,
            max_rounds: self.max_rounds,
            cooldown_ms: self.cooldown_ms,
            stop_keyword: self.stop_keyword.clone(),
            when: self.when.as_ref().map(|w| w.as_str().to_owned()),
            join: self.join.then(|| "all".to_owned()),
            header: self.headed(),
            redact: self.redact,
            reason_code,
            reason_text,
        }
    }
}

/// Options with newer ones over them. It goes through their serialised form, so that an option that is
/// added later is not forgotten here.
fn merged(old: &RouteOptions, new: &RouteOptions) -> RouteOptions {
    let map = |options: &RouteOptions| match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let mut all = map(old);
    all.extend(map(new));
    serde_json::from_value(serde_json::Value::Object(all)).unwrap_or_else(|_| new.clone())
}

/// How a provider is configured, for those who have none.
const NO_PROVIDER: &str = "configure one in setup(), :help mado-providers, for example\n\
    providers = { cli = { kind = 'command', command = { 'claude', '-p' } } }\n\
    providers = { ollama = { kind = 'openai', base_url = 'http://127.0.0.1:11434/v1', model = 'qwen3' } }\n\
    providers = { api = { kind = 'anthropic', model = 'claude-haiku-4-5', key_env = 'ANTHROPIC_API_KEY' } }";

/// Checks a template for its transform.
fn check_template(transform: Transform, template: &str) -> Result<(), String> {
    question::check_length("the template", template, question::TEMPLATE_CHARS)?;
    if transform.asks_model() {
        question::check_instructions(template)
    } else {
        super::text::check_template(template)
    }
}

/// Compiles a route's regular expression; the error names the route, the key and the position.
fn compile(key: &str, pattern: &str, name: &str) -> Result<Regex, ErrorInfo> {
    let bad = |why: String| {
        ErrorInfo::new(
            "bad_pattern",
            format!("route {name}: invalid {key} {pattern:?}: {why}"),
            "mend the regular expression (Rust regex syntax)",
        )
    };
    if pattern.is_empty() {
        return Err(bad("it is empty and would match everywhere".to_owned()));
    }
    let regex = Regex::new(pattern).map_err(|e| {
        // The regex crate points at the place with a caret under the expression.
        let drawn = e.to_string();
        let caret = drawn.lines().find(|l| l.trim_start().starts_with('^'));
        let position = caret.and_then(|l| l.find('^')).map(|i| i.saturating_sub(4) + 1);
        let why =
            drawn.lines().last().unwrap_or("invalid").trim_start_matches("error: ").to_owned();
        bad(match position {
            Some(p) => format!("{why} at position {p}"),
            None => why,
        })
    })?;
    if regex.is_match("") {
        return Err(bad("it matches the empty text and would match everywhere".to_owned()));
    }
    Ok(regex)
}
