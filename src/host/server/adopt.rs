//! Agents in terminals that mado did not start: taking them over, and hearing of them.

use super::agents::Agent;
use super::{Next, Server};
use crate::core::{Input, Spawn};
use crate::host::adopted::{self, nvim, tmux};
use crate::host::paths::make_folder;
use crate::host::procs::Process;
use crate::host::records;
use crate::host::store::AgentRecord;
use crate::proto::{AdoptParams, AdoptedParams, ClientId, ErrorInfo, Foreign};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;

impl Server {
    pub(super) fn take_over(&mut self, spawn: &Spawn, params: &AdoptParams) {
        let agent = spawn.agent;
        let input = match self.adopt(spawn, params) {
            Ok(pid) => Input::Spawned { agent, pid },
            Err(error) => {
                self.remove(agent);
                Input::SpawnFailed { agent, error }
            }
        };
        self.next.push_back(Next::Input(input));
    }

    fn adopt(&mut self, spawn: &Spawn, params: &AdoptParams) -> Result<u32, ErrorInfo> {
        let gone = |what: &str| {
            let message = format!("{} is not adopted: {what}", spawn.name);
            ErrorInfo::new("gone", message, "adopt it again")
        };
        if self.ending {
            return Err(gone("the host ends"));
        }
        let found = params.found.clone().unwrap_or_default();
        let process = Process { pid: found.pid, start: found.start };
        if !process.is_alive() {
            return Err(gone("its program has just ended"));
        }
        let folder = self.options.paths.agent_dir(spawn.agent.0);
        make_folder(&folder)?;
        let tty = match &params.terminal {
            Foreign::Nvim { tty, .. } | Foreign::Tmux { tty, .. } => PathBuf::from(tty),
        };
        let profile = spawn.profile.clone();
        let subject =
            adopted::Subject { agent: spawn.agent, process, profile: profile.clone(), tty, folder };
        let events = self.term_events.clone();
        let (handle, buffer) = match &params.terminal {
            Foreign::Nvim { buffer, .. } => {
                let asks = self.asks(found.client).ok_or_else(|| gone("its editor is gone"))?;
                let (handle, said) = nvim::start(subject, *buffer, asks, events);
                (handle, Some((found.client, *buffer, said)))
            }
            Foreign::Tmux { socket, pane, .. } => {
                (tmux::start(subject, socket.clone(), pane.clone(), events), None)
            }
        };
        let subject = records::Subject {
            // Nothing of its events is known: mado did not start it.
            live: records::opencode::Live::default(),
            dialect: profile.records.dialect,
            root: process.pid,
            names: profile.program.process.clone(),
            env: process.environ().unwrap_or_default(),
            cwd: PathBuf::from(&spawn.cwd),
            path: adopted::transcript(&profile, process),
        };
        let known = !subject.path.as_os_str().is_empty();
        let record = AgentRecord {
            id: spawn.agent.0,
            name: spawn.name.clone(),
            project: spawn.project.clone(),
            pid: process.pid,
            start: Some(process.start),
            // Nothing of it is ever ended.
            mark: String::new(),
            dialect: subject.dialect,
            session: None,
            transcript: known.then(|| subject.path.clone()),
        };
        let nudge = Arc::new(Notify::new());
        let agent = Agent {
            id: spawn.agent,
            name: spawn.name.clone(),
            project: spawn.project.clone(),
            profile,
            watcher: self.watch(spawn.agent, process.pid, &subject, &nudge),
            subject,
            nudge,
            handle: Some(handle),
            place: Some(found.place),
            buffer,
            record,
            exit: None,
            ending: false,
            exit_untold: false,
            again: None,
            forget: false,
        };
        self.agents.insert(spawn.agent, agent);
        self.save();
        Ok(process.pid)
    }

    /// An editor tells of a buffer of its own.
    pub(super) async fn adopted(&mut self, client: ClientId, said: AdoptedParams) {
        let of = |a: &&Agent| {
            a.handle.is_some()
                && a.buffer.as_ref().is_some_and(|(c, b, _)| (*c, *b) == (client, said.buffer))
        };
        // The newest: an agent of the same buffer that has ended may still be listed.
        let told = self.agents.values().rev().find(of).and_then(|a| a.buffer.as_ref());
        if let Some((_, _, sender)) = told.cloned() {
            let _ = sender.send(said).await;
        }
    }
}
