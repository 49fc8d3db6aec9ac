//! `mado adopt --tmux`: finds the pane and asks the host to take it over.

use super::args::AdoptArgs;
use super::client::Client;
use super::verbs::{project, show};
use super::{out, serve};
use mado::host::paths::Paths;
use mado::proto::{AdoptParams, ErrorInfo, Foreign, Reply, Request};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Runs the command.
pub fn run(a: AdoptArgs) -> Result<(), ErrorInfo> {
    let terminal = pane(&a)?;
    let cwd = std::env::current_dir().map(|c| c.display().to_string()).unwrap_or_default();
    let project = project(a.scope.project.as_deref())?;
    let paths = Paths::from_env()?;
    serve::ensure(&paths)?;
    let mut client = Client::connect(&paths, &project)?;
    let request = Request::Adopt(AdoptParams {
        project,
        profile: a.profile,
        name: a.name,
        cwd,
        profiles: BTreeMap::new(),
        terminal,
        found: None,
    });
    match client.ask(&request)? {
        Reply::Agent(agent) if !a.scope.json => {
            let limits = agent.limits.join(", ");
            out::line(&format!("{} ({}) is an agent now; {limits}", agent.name, agent.profile));
        }
        reply => show(reply, a.scope.json, false),
    }
    Ok(())
}

/// Finds the pane: its own id, its server's socket, its program.
fn pane(a: &AdoptArgs) -> Result<Foreign, ErrorInfo> {
    let mut command = Command::new("tmux");
    if let Some(socket) = &a.socket {
        command.arg("-S").arg(socket);
    } else if let Some(server) = &a.server {
        command.arg("-L").arg(server);
    }
    let wanted = &a.tmux;
    // The socket comes last, since a path may hold anything.
    let format = "#{pane_id} #{pane_dead} #{pane_pid} #{pane_tty} #{socket_path}";
    // `display-message` takes another pane where there is none of this name; this does not.
    command.args(["-u", "list-panes", "-t", wanted, ";", "display-message", "-p", "-t", wanted]);
    let output = command.arg(format).stdin(Stdio::null()).output().map_err(|e| {
        ErrorInfo::new("no_tmux", format!("tmux cannot be run: {e}"), "install it, or see PATH")
    })?;
    let missing = |why: &str| {
        let message = format!("there is no tmux pane {wanted:?}: {why}");
        ErrorInfo::new(
            "no_pane",
            message,
            "`tmux list-panes -a` lists them; -L or -S names a server",
        )
    };
    if !output.status.success() {
        return Err(missing(String::from_utf8_lossy(&output.stderr).trim()));
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut fields = said.lines().last().unwrap_or_default().splitn(5, ' ');
    let mut next = || fields.next().unwrap_or_default().to_owned();
    let (pane, dead, pid, tty, socket) = (next(), next(), next(), next(), next());
    if wanted.starts_with('%') && pane != *wanted {
        return Err(missing("the server has no pane of this id"));
    }
    if dead == "1" {
        let message = format!("the program of tmux pane {pane} has ended");
        return Err(ErrorInfo::new("dead_job", message, "adopt a pane whose program runs"));
    }
    let pid = pid.parse().map_err(|_| missing(&format!("tmux answered {said:?}")))?;
    Ok(Foreign::Tmux { socket, pane, pid, tty })
}
