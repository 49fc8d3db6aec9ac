//! `mado load`: a project's file, taken over from a shell. Who names it trusts it.

use super::args::Scope;
use super::client::{Client, unexpected};
use super::verbs::{environment, project};
use super::{out, serve};
use mado::host::paths::Paths;
use mado::proto::{ErrorInfo, LoadParams, LoadReply, OpenParams, Reply, Request};
use std::path::PathBuf;

/// Starts the file's agents that do not run, then makes its routes.
pub fn run(file: Option<PathBuf>, scope: &Scope) -> Result<(), ErrorInfo> {
    let project = project(scope.project.as_deref())?;
    let path = file.unwrap_or_else(|| PathBuf::from(&project).join(".mado/routes.json"));
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|e| {
        let message = format!("{shown} cannot be read: {e}");
        ErrorInfo::new("no_project_file", message, "name a file, or write one: mado save > FILE")
    })?;
    let paths = Paths::from_env()?;
    serve::ensure(&paths)?;
    let mut client = Client::connect(&paths, &project)?;
    let load = Request::Load(LoadParams {
        project: project.clone(),
        path: shown,
        text,
        ..LoadParams::default()
    });
    let mut reply = ask(&mut client, &load)?;
    if !reply.missing.is_empty() {
        for (name, agent) in std::mem::take(&mut reply.missing) {
            let cwd = PathBuf::from(&project).join(agent.cwd.unwrap_or_default());
            let open = Request::Open(OpenParams {
                profile: agent.profile,
                name: Some(name),
                project: project.clone(),
                cwd: cwd.display().to_string(),
                env: environment(),
                args: agent.args,
                ..OpenParams::default()
            });
            let Reply::Agent(agent) = client.ask(&open)? else {
                return Err(unexpected(&Reply::Done));
            };
            say(scope, &format!("started {}", agent.name));
        }
        reply = ask(&mut client, &load)?;
    }
    if scope.json {
        out::json(&reply);
        return Ok(());
    }
    for (what, routes) in [("connected", &reply.made), ("changed", &reply.changed)] {
        for route in routes {
            say(scope, &format!("{what} {} -> {}", route.source, route.target));
        }
    }
    reply.removed.iter().for_each(|name| say(scope, &format!("removed {name}")));
    Ok(())
}

fn say(scope: &Scope, text: &str) {
    if !scope.json {
        out::line(text);
    }
}

fn ask(client: &mut Client, load: &Request) -> Result<LoadReply, ErrorInfo> {
    let reply = client.ask(load)?;
    let Reply::Data(data) = reply else { return Err(unexpected(&reply)) };
    serde_json::from_value(data).map_err(|e| {
        let remedy = "host and program may be of different versions; `mado version` names both";
        ErrorInfo::new("bad_reply", format!("the host's answer is not understood: {e}"), remedy)
    })
}
