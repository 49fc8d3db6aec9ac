//! Commands that are one request to the host.

use super::args::{AttachArgs, Command, ListScope, OpenArgs, Scope};
use super::client::{Client, unexpected};
use super::{attach, out, serve, table};
use mado::host::paths::{Paths, project_of};
use mado::proto::{
    AgentParams, ApproveParams, ErrorInfo, FireParams, HandoffParams, HopId, HopParams, HopsParams,
    ListParams, OpenParams, PauseParams, RenameParams, Reply, Request, RouteParams, ScopeParams,
    SendParams,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// The project that a command speaks of.
pub fn project(given: Option<&Path>) -> Result<String, ErrorInfo> {
    let here = match given {
        Some(dir) => dir.to_owned(),
        None => cwd()?,
    };
    Ok(project_of(&here).display().to_string())
}

fn cwd() -> Result<std::path::PathBuf, ErrorInfo> {
    std::env::current_dir().map_err(|e| {
        let message = format!("the current directory cannot be used: {e}");
        ErrorInfo::new("no_directory", message, "change to one that exists")
    })
}

/// Runs a command.
pub fn run(command: Command) -> Result<ExitCode, ErrorInfo> {
    match command {
        Command::Open(a) => return open(a),
        Command::Attach(a) => return attach::run(&a, project(a.project.as_deref())?),
        Command::Ls(l) => list(&l, Request::Agents)?,
        Command::Routes(l) => list(&l, Request::Routes)?,
        Command::Queue(l) => list(&l, Request::Queue)?,
        Command::Log { route, hop, limit, list } => {
            let all = list.all || hop.is_some();
            let whole = hop.is_some() && !list.scope.json;
            let hop = hop.map(HopId);
            let make = |project| Request::Hops(HopsParams { project, all, route, hop, limit });
            match ask(&list.scope, make)? {
                Reply::Hops(hops) if whole => hops.iter().for_each(table::hop),
                reply => show(reply, list.scope.json, list.all),
            }
        }
        Command::Send { agent, text, deliver, scope } => {
            let text = text_or_stdin(&text)?;
            simple(&scope, |project| {
                Request::Send(SendParams { project, target: agent, text, deliver })
            })?;
        }
        Command::Connect { source, target, options, both, scope } => {
            let options = route_options(&options)?;
            raw(&scope, "connect", |project| {
                json!({"project": project, "source": source, "target": target, "both": both,
                       "options": options})
            })?;
        }
        Command::Disconnect { route, scope } => {
            simple(&scope, |project| Request::Disconnect(RouteParams { project, route }))?;
        }
        Command::Trigger { route, trigger, pattern, scope } => raw(
            &scope,
            "trigger",
            |project| json!({"project": project, "route": route, "trigger": trigger, "pattern": pattern}),
        )?,
        Command::Transform { route, transform, template, provider, scope } => {
            raw(&scope, "transform", |project| {
                json!({"project": project, "route": route, "transform": transform,
                       "template": template, "provider": provider})
            })?;
        }
        Command::Answer { agent, scope } => {
            simple(&scope, |project| Request::Answer(AgentParams { project, agent }))?;
        }
        Command::Pause { route, scope } => {
            simple(&scope, |project| Request::Pause(PauseParams { project, route, hop: None }))?;
        }
        Command::Resume { route, hop, scope } => simple(&scope, |project| {
            Request::Resume(PauseParams { project, route, hop: hop.map(HopId) })
        })?,
        Command::Toggle { route, scope } => {
            simple(&scope, |project| Request::Toggle(PauseParams { project, route, hop: None }))?;
        }
        Command::Fire { route, confirm, scope } => {
            simple(&scope, |project| Request::Fire(FireParams { project, route, confirm }))?;
        }
        Command::Handoff { source, target, text, scope } => simple(&scope, |project| {
            Request::Handoff(HandoffParams { project, source, target, text })
        })?,
        Command::Approve { hop, text, scope } => {
            let prompt = (!text.is_empty()).then(|| text_or_stdin(&text)).transpose()?;
            simple(&scope, |project| {
                Request::Approve(ApproveParams { project, hop: HopId(hop), prompt })
            })?;
        }
        Command::Drop { hop, scope } => {
            simple(&scope, |project| Request::Drop(HopParams { project, hop: HopId(hop) }))?;
        }
        Command::Rename { agent, name, scope } => {
            simple(&scope, |project| Request::Rename(RenameParams { project, agent, name }))?;
        }
        Command::Close { agent, scope } => {
            simple(&scope, |project| Request::Close(AgentParams { project, agent }))?;
        }
        Command::Restart { agent, scope } => {
            simple(&scope, |project| Request::Restart(AgentParams { project, agent }))?;
        }
        Command::Load { file, scope } => super::load::run(file, &scope)?,
        Command::Save(scope) => {
            match ask(&scope, |project| Request::Save(ScopeParams { project }))? {
                Reply::Data(data) if !scope.json => {
                    out::line(data["text"].as_str().unwrap_or_default().trim_end());
                }
                reply => show(reply, scope.json, false),
            }
        }
        Command::Next(scope) => {
            simple(&scope, |project| Request::Next(ScopeParams { project }))?;
        }
        Command::Screen { agent, scope } => {
            let make = |project| Request::Screen(AgentParams { project, agent });
            match ask(&scope, make)? {
                Reply::Data(data) if !scope.json => {
                    let rows = data["rows"].as_array().cloned().unwrap_or_default();
                    rows.iter().filter_map(Value::as_str).for_each(out::line);
                }
                reply => show(reply, scope.json, false),
            }
        }
        Command::Status(scope) => {
            simple(&scope, |project| Request::HostStatus(ScopeParams { project }))?;
        }
        // Handled before.
        Command::Serve(_)
        | Command::Wait(_)
        | Command::Events(_)
        | Command::Stop { .. }
        | Command::Hook { .. }
        | Command::Replay { .. }
        | Command::DemoAgent(_)
        | Command::Version { .. }
        | Command::Health { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(scope: &Scope, make: impl FnOnce(String) -> Request) -> Result<Reply, ErrorInfo> {
    let project = project(scope.project.as_deref())?;
    let mut client = Client::connect(&Paths::from_env()?, &project)?;
    client.ask(&make(project))
}

fn simple(scope: &Scope, make: impl FnOnce(String) -> Request) -> Result<(), ErrorInfo> {
    show(ask(scope, make)?, scope.json, false);
    Ok(())
}

fn list(l: &ListScope, make: impl FnOnce(ListParams) -> Request) -> Result<(), ErrorInfo> {
    let all = l.all;
    let reply = ask(&l.scope, |project| make(ListParams { project, all }))?;
    show(reply, l.scope.json, all);
    Ok(())
}

/// For requests whose values the host checks: its errors name the key.
fn raw(scope: &Scope, method: &str, make: impl FnOnce(String) -> Value) -> Result<(), ErrorInfo> {
    let project = project(scope.project.as_deref())?;
    let mut client = Client::connect(&Paths::from_env()?, &project)?;
    let request = json!({"method": method, "params": make(project)});
    show(client.ask_raw(request)?, scope.json, false);
    Ok(())
}

fn open(a: OpenArgs) -> Result<ExitCode, ErrorInfo> {
    let paths = Paths::from_env()?;
    let here = cwd()?;
    let cwd = a.cwd.map_or(here.clone(), |c| here.join(c));
    // What does not exist keeps its name, for the host's message.
    let cwd = std::fs::canonicalize(&cwd).unwrap_or(cwd);
    let project = match &a.scope.project {
        Some(_) => project(a.scope.project.as_deref())?,
        None => project(Some(&cwd))?,
    };
    serve::ensure(&paths)?;
    let mut client = Client::connect(&paths, &project)?;
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let request = Request::Open(OpenParams {
        profile: a.profile,
        name: a.name,
        project,
        cwd: cwd.display().to_string(),
        env: environment(),
        args: a.args,
        rows: a.rows.or(size.map(|s| s.ws_row)).unwrap_or(0),
        cols: a.cols.or(size.map(|s| s.ws_col)).unwrap_or(0),
        ..OpenParams::default()
    });
    let Reply::Agent(agent) = client.ask(&request)? else {
        return Err(unexpected(&Reply::Done));
    };
    if a.scope.json {
        out::json(&agent);
    } else if !a.attach {
        out::line(&agent.name);
    }
    if !a.attach {
        return Ok(ExitCode::SUCCESS);
    }
    // By number: the name could be changed before the view is there.
    let attach = AttachArgs {
        agent: format!("#{}", agent.id),
        project: a.scope.project,
        read_only: false,
        socket: None,
    };
    attach::run(&attach, agent.project)
}

/// The whole environment, as far as it is text.
pub fn environment() -> BTreeMap<String, String> {
    let pair = |(k, v): (OsString, OsString)| Some((k.into_string().ok()?, v.into_string().ok()?));
    std::env::vars_os().filter_map(pair).collect()
}

fn text_or_stdin(words: &[String]) -> Result<String, ErrorInfo> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).map_err(|e| {
        let message = format!("standard input cannot be read: {e}");
        ErrorInfo::new("no_input", message, "give UTF-8 text")
    })?;
    Ok(text)
}

/// `key=value` pairs, numbers and truth values as such where the key takes them.
fn route_options(pairs: &[String]) -> Result<Map<String, Value>, ErrorInfo> {
    let mut options = Map::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(ErrorInfo::new(
                "bad_option",
                format!("{pair:?} is not key=value"),
                "give options such as trigger=on-turn max_rounds=3",
            ));
        };
        let text = matches!(
            key,
            "trigger"
                | "pattern"
                | "transform"
                | "template"
                | "dispatch"
                | "stop_keyword"
                | "stopKeyword"
                | "deliver"
                | "when"
                | "join"
        );
        let parsed = match value.parse::<u64>() {
            Ok(number) if !text => number.into(),
            _ if text => value.into(),
            _ => value.parse::<bool>().map_or_else(|_| value.into(), Value::from),
        };
        options.insert(key.to_owned(), parsed);
    }
    Ok(options)
}

/// Prints an answer.
pub fn show(reply: Reply, as_json: bool, all: bool) {
    fn lines(list: &[impl serde::Serialize]) {
        list.iter().for_each(out::json);
    }
    match (reply, as_json) {
        (Reply::Done, false) => {}
        (Reply::Done, true) => out::json(&json!({})),
        (Reply::Said(text), false) => out::line(&text),
        (Reply::Said(text), true) => out::json(&json!({"said": text})),
        (Reply::Agents(list), true) => lines(&list),
        (Reply::Agents(list), false) => table::agents(&list, all),
        (Reply::Routes(list), true) => lines(&list),
        (Reply::Routes(list), false) => table::routes(&list, all),
        (Reply::Hops(list), true) => lines(&list),
        (Reply::Hops(list), false) => table::hops(&list),
        (Reply::Queue(list), true) => lines(&list),
        (Reply::Queue(list), false) => table::queue(&list),
        (Reply::Agent(agent), true) => out::json(&agent),
        (Reply::Agent(agent), false) => out::line(&agent.name),
        (Reply::Hop(hop), true) => out::json(&hop),
        (Reply::Hop(hop), false) => out::line(&format!("hop {} for {}", hop.id, hop.target)),
        (Reply::Answer(answer), true) => out::json(&answer),
        (Reply::Answer(answer), false) => out::line(&answer.text),
        (Reply::Hello(hello), _) => out::json(&hello),
        (Reply::Data(data), true) => out::json(&data),
        (Reply::Data(data), false) => {
            for (key, value) in data.as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                out::line(&format!("{key:<10} {text}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_what_their_keys_take() {
        let pairs = [
            "max_rounds=3",
            "confirm=false",
            "stop_keyword=5",
            "template=a=b",
            "when=5",
            "redact=true",
        ]
        .map(str::to_owned);
        let options = route_options(&pairs).unwrap();
        assert_eq!(options["max_rounds"], 3);
        assert_eq!(options["confirm"], false);
        assert_eq!(options["stop_keyword"], "5");
        assert_eq!(options["template"], "a=b");
        assert_eq!((&options["when"], &options["redact"]), (&"5".into(), &true.into()));
        assert!(route_options(&["x".to_owned()]).unwrap_err().message.contains("\"x\""));
    }
}
