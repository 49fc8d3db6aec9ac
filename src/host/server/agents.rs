//! Agents as the host holds them: a terminal, a process, and what is known of both.

use super::{Event, Next, Server};
use crate::core::dialect::{CommandMark, HookEvent, NoAnswer, OscState, claude};
use crate::core::profile::{Dialect, Profile};
use crate::core::screen::Facts;
use crate::core::{Input, Spawn};
use crate::host::hook::HookMessage;
use crate::host::launch::{self, LaunchSite};
use crate::host::reap::Leader;
use crate::host::records::Subject;
use crate::host::records::watch::{RecordUpdate, watch};
use crate::host::store::{AgentRecord, save_agents};
use crate::host::terminal::{self, Command, Event as Said, TerminalHandle, TerminalSpec};
use crate::proto::screen::ScreenView;
use crate::proto::{
    AdoptedParams, AgentId, ClientId, ErrorInfo, Event as Published, Level, Notice, Rung,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Between the signals that end an agent.
const GRACE: Duration = Duration::from_secs(1);

/// One agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub id: AgentId,
    pub name: String,
    pub project: String,
    pub profile: Profile,
    /// Where its records are.
    pub subject: Subject,
    /// Wakes the watcher of its records. Dropping the guard ends it.
    pub(super) nudge: Arc<Notify>,
    pub(super) watcher: Option<DropGuard>,
    pub handle: Option<TerminalHandle>,
    /// Where its terminal is, when that is not mado's own.
    pub place: Option<String>,
    /// The editor's buffer that it is in, and who is told what that editor says of it.
    pub buffer: Option<(ClientId, u64, mpsc::Sender<AdoptedParams>)>,
    pub(super) record: AgentRecord,
    /// How the program ended, once it has.
    pub(super) exit: Option<(Option<i32>, Option<i32>)>,
    /// The end has been asked for; [`Said::Gone`] is to come.
    pub(super) ending: bool,
    /// The exit is told to the core only after [`Said::Gone`].
    pub(super) exit_untold: bool,
    /// To be started again after [`Said::Gone`].
    pub(super) again: Option<Box<Spawn>>,
    /// To be forgotten after [`Said::Gone`].
    pub(super) forget: bool,
}

impl Agent {
    /// Whether its program runs, as far as is known.
    pub fn runs(&self) -> bool {
        self.handle.is_some() && (self.exit.is_none() || self.ending)
    }

    pub fn pid(&self) -> Option<u32> {
        self.handle.as_ref().map(TerminalHandle::pid)
    }

    /// Sends a command; an agent without a terminal has nothing to be told.
    pub async fn command(&self, command: Command) {
        if let Some(handle) = &self.handle {
            let _ = handle.send(command).await;
        }
    }
}

impl Server {
    pub(super) async fn spawn(&mut self, spawn: Box<Spawn>) {
        if let Some(params) = spawn.adopt.clone() {
            return self.take_over(&spawn, &params);
        }
        if let Some(old) = self.agents.get_mut(&spawn.agent)
            && old.handle.is_some()
        {
            let id = old.id;
            old.again = Some(spawn);
            return self.kill(id).await;
        }
        let agent = spawn.agent;
        match self.start(&spawn) {
            Ok(pid) => self.next.push_back(Next::Input(Input::Spawned { agent, pid })),
            Err(error) => {
                if !self.agents.contains_key(&agent) {
                    self.remove(agent);
                }
                self.next.push_back(Next::Input(Input::SpawnFailed { agent, error }));
            }
        }
    }

    fn start(&mut self, spawn: &Spawn) -> Result<u32, ErrorInfo> {
        if self.ending {
            let message = format!("{} is not started: the host ends", spawn.name);
            return Err(ErrorInfo::new("host_ends", message, "open it again"));
        }
        let mark = format!("{}-{}", self.instance, spawn.agent);
        let site = LaunchSite { paths: &self.options.paths, mado: &self.options.mado, mark: &mark };
        let launch = launch::prepare(spawn, &site)?;
        let profile = launch::effective_profile(&spawn.profile, &launch);
        if let Some(why) = &launch.hooks_left_out {
            self.hooks_left_out(spawn, why);
        }
        let spec = TerminalSpec {
            agent: spawn.agent,
            mark: mark.clone(),
            argv: launch.argv.clone(),
            cwd: launch.cwd.clone(),
            env: launch.env.clone(),
            size: spawn.size,
            watch_foreground: profile.evidence.rungs.contains(&Rung::Foreground),
            colours: self.colours,
        };
        let handle = terminal::start(spec, self.term_events.clone()).map_err(|e| {
            let message = format!("{} cannot be started: {e}", spawn.name);
            ErrorInfo::new(e.code(), message, spawn.profile.program.install.clone())
        })?;
        let pid = handle.pid();
        let subject = Subject {
            dialect: profile.records.dialect,
            root: pid,
            names: profile.program.process.clone(),
            env: launch.env,
            cwd: launch.cwd,
            path: launch.records_path.into(),
            live: launch.live,
        };
        let known = !subject.path.as_os_str().is_empty();
        let record = AgentRecord {
            id: spawn.agent.0,
            name: spawn.name.clone(),
            project: spawn.project.clone(),
            pid,
            start: Leader::of(pid).started,
            mark,
            dialect: subject.dialect,
            session: spawn.resume.clone(),
            transcript: known.then(|| subject.path.clone()),
        };
        let nudge = Arc::new(Notify::new());
        let agent = Agent {
            id: spawn.agent,
            name: spawn.name.clone(),
            project: spawn.project.clone(),
            profile,
            watcher: self.watch(spawn.agent, pid, &subject, &nudge),
            subject,
            nudge,
            handle: Some(handle),
            place: None,
            buffer: None,
            record,
            exit: None,
            ending: false,
            exit_untold: false,
            again: None,
            forget: false,
        };
        self.agents.insert(spawn.agent, agent);
        self.save();
        Ok(pid)
    }

    /// Follows an agent's records.
    pub(super) fn watch(
        &self,
        agent: AgentId,
        pid: u32,
        subject: &Subject,
        nudge: &Arc<Notify>,
    ) -> Option<DropGuard> {
        if subject.dialect == Dialect::None {
            return None;
        }
        let stop = CancellationToken::new();
        let (updates, mut changed) = mpsc::channel(64);
        tokio::spawn(watch(subject.clone(), updates, nudge.clone(), stop.clone()));
        let events = self.events.clone();
        tokio::spawn(async move {
            while let Some(update) = changed.recv().await {
                if events.send(Event::Records { agent, pid, update }).await.is_err() {
                    return;
                }
            }
        });
        Some(stop.drop_guard())
    }

    pub(super) async fn records(&mut self, agent: AgentId, pid: u32, update: RecordUpdate) {
        let Some(known) = self.agents.get_mut(&agent).filter(|a| a.record.pid == pid) else {
            return;
        };
        match update {
            RecordUpdate::Session { id, transcript } => {
                known.record.session = Some(id.clone());
                known.record.transcript = transcript;
                self.save();
                self.step(Input::Session { agent, session: id }).await;
            }
            RecordUpdate::Record(event) => self.step(Input::Record { agent, event }).await,
            RecordUpdate::Status(status) => {
                if let Some(state) = status.state {
                    self.step(Input::Status { agent, state }).await;
                }
            }
            RecordUpdate::Hook(event) => self.step(Input::Hook { agent, event }).await,
            RecordUpdate::State(state) => self.step(Input::Status { agent, state }).await,
            RecordUpdate::Problem(text) => tracing::warn!("{}: {text}", known.name),
        }
    }

    /// Reads the last answer where blocking is allowed.
    pub(super) fn extract(&mut self, agent: AgentId, token: u64) {
        let Some(known) = self.agents.get(&agent) else {
            let result = Err(NoAnswer::NoRecord("the agent has ended".to_owned()));
            self.next.push_back(Next::Input(Input::Extracted { agent, token, result }));
            return;
        };
        let (subject, events) = (known.subject.clone(), self.events.clone());
        tokio::spawn(async move {
            let read = tokio::task::spawn_blocking(move || subject.extract()).await;
            let result = read.unwrap_or_else(|e| Err(NoAnswer::Malformed(e.to_string())));
            let _ = events.send(Event::Input(Input::Extracted { agent, token, result })).await;
        });
    }

    fn hooks_left_out(&mut self, spawn: &Spawn, why: &str) {
        let text = format!("{} runs without {why}", spawn.name);
        tracing::warn!("{text}");
        self.publish(&Published::Notice(Notice {
            project: spawn.project.clone(),
            level: Level::Warn,
            code: "no_hooks".to_owned(),
            key: format!("no_hooks:{}", spawn.agent),
            text,
            agent: Some(spawn.name.clone()),
        }));
    }

    /// Writes down which processes are this host's. A host that dies must be cleaned up after,
    /// but one that cannot write still serves.
    pub(super) fn save(&self) {
        let records: Vec<AgentRecord> =
            self.agents.values().filter(|a| a.runs()).map(|a| a.record.clone()).collect();
        if let Err(e) = save_agents(&self.options.paths, &records) {
            tracing::error!("{e}");
        }
    }

    pub(super) async fn kill(&mut self, agent: AgentId) {
        let Some(agent) = self.agents.get_mut(&agent) else { return };
        if !std::mem::replace(&mut agent.ending, true) {
            agent.command(Command::Kill { grace: GRACE }).await;
        }
    }

    pub(super) async fn forget(&mut self, agent: AgentId) {
        let Some(known) = self.agents.get_mut(&agent) else { return };
        if known.handle.is_some() {
            known.forget = true;
            return self.kill(agent).await;
        }
        self.remove(agent);
    }

    pub(super) fn remove(&mut self, agent: AgentId) {
        self.agents.remove(&agent);
        let folder = self.options.paths.agent_dir(agent.0);
        if let Err(e) = std::fs::remove_dir_all(&folder)
            && e.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("{} cannot be removed: {e}", folder.display());
        }
        self.save();
    }

    pub(super) async fn terminal_event(&mut self, agent: AgentId, event: Said) {
        match event {
            Said::View(view) => self.step(Input::Screen { agent, view }).await,
            Said::Checked { token, view, settled: true } => {
                self.step(Input::Checked { agent, token, view }).await;
            }
            Said::Checked { token, settled: false, .. } => self.look_again(agent, token),
            Said::Written { token, .. } => {
                self.crash_if_due(agent, token);
                self.step(Input::Written { agent, token }).await;
            }
            Said::WriteDropped { token, written, why } => {
                tracing::debug!("agent {agent}: write {token} given up: {why:?}");
                self.step(Input::WriteDropped { agent, token, written }).await;
            }
            Said::Human { seq, submits, rest, .. } => {
                self.step(Input::Human { agent, submits, rest }).await;
                if let Some(handle) = self.agents.get(&agent).and_then(|a| a.handle.as_ref()) {
                    handle.saw_human(seq);
                }
            }
            Said::State(payload) => {
                if let Some(state) = osc_state(&payload) {
                    self.step(Input::Osc { agent, state }).await;
                }
            }
            Said::Mark(payload) => {
                if let Some(mark) = command_mark(&payload) {
                    self.step(Input::Command { agent, mark }).await;
                }
            }
            Said::Viewers(viewers) => self.step(Input::Attached { agent, viewers }).await,
            Said::Lost { why } => self.step(Input::Lost { agent, text: why }).await,
            Said::Exited { code, signal } => self.exited(agent, code, signal).await,
            Said::Gone { left } => self.gone(agent, &left).await,
            // The title is in every view; nobody asks for the others yet.
            Said::Title(_) | Said::Bell | Said::Resized { .. } => {}
        }
    }

    /// A look in the middle of a frame proves nothing: look again when it may be over.
    fn look_again(&self, agent: AgentId, token: u64) {
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(15)).await;
            let _ = events.send(Event::CheckAgain { agent, token }).await;
        });
    }

    async fn exited(&mut self, agent: AgentId, code: Option<i32>, signal: Option<i32>) {
        let Some(known) = self.agents.get_mut(&agent) else { return };
        known.exit = Some((code, signal));
        if known.ending {
            // Its descendants are still being ended; the core hears of it when all are gone.
            known.exit_untold = true;
        } else {
            self.save();
            self.step(Input::Exited { agent, code, signal }).await;
        }
    }

    async fn gone(&mut self, agent: AgentId, left: &[u32]) {
        let Some(known) = self.agents.get_mut(&agent) else { return };
        if !left.is_empty() {
            tracing::error!("{}: processes {left:?} do not end", known.name);
        }
        known.handle = None;
        drop(known.watcher.take());
        known.ending = false;
        let (code, signal) = known.exit.unwrap_or((None, None));
        // What would not die is as good as gone: nothing more will be told of it.
        let untold = std::mem::take(&mut known.exit_untold) || known.exit.is_none();
        let again = known.again.take();
        let forget = known.forget;
        self.save();
        if untold && !forget {
            self.step(Input::Exited { agent, code, signal }).await;
        }
        if let Some(spawn) = again {
            self.spawn(spawn).await;
            self.flush().await;
        } else if forget {
            self.remove(agent);
        }
    }

    /// Runs what effects outside of a step have put down.
    async fn flush(&mut self) {
        while let Some(Next::Input(input)) = self.next.pop_front() {
            self.step(input).await;
        }
    }

    /// Keeps what an event says of an agent, for lookups and for a host that comes after a crash.
    pub(super) fn note(&mut self, event: &Published) {
        let Published::Agent(info) = event else { return };
        let Some(agent) = self.agents.get_mut(&info.id) else { return };
        if agent.name != info.name {
            agent.name.clone_from(&info.name);
            agent.record.name.clone_from(&info.name);
            self.save();
        }
    }

    pub(super) async fn hook(
        &mut self,
        ancestry: &[u32],
        message: HookMessage,
        done: oneshot::Sender<()>,
    ) {
        let agent = self.inside(ancestry);
        // Known or not, the sender has done its part.
        let _ = done.send(());
        if let Some(known) = agent.and_then(|id| self.agents.get(&id)) {
            // What the hook speaks of will show in the records next.
            known.nudge.notify_one();
        }
        let Some(agent) = agent else {
            tracing::warn!("a hook {} of no agent is ignored", message.event);
            return;
        };
        let input = Input::Hook { agent, event: parse_hook(&message) };
        let delay = self.options.timing.hook_delay_ms;
        if delay == 0 {
            return self.step(input).await;
        }
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            let _ = events.send(Event::Input(input)).await;
        });
    }

    /// The composer as the core reads it, for `mado screen`.
    pub(super) fn composer(&self, agent: AgentId, view: &ScreenView) -> serde_json::Value {
        let Some(known) = self.agents.get(&agent) else { return serde_json::Value::Null };
        let facts = Facts::read(view, &known.profile, None);
        facts.composer.map_or(
            serde_json::Value::Null,
            |c| json!({"top": c.top, "last": c.last, "text": c.text, "hidden": c.hidden}),
        )
    }

    /// Ends every agent and waits until they are gone, then tells who asked for it.
    pub(super) async fn end(&mut self, terminals: &mut mpsc::Receiver<terminal::Envelope>) {
        self.ending = true;
        let running: Vec<AgentId> =
            self.agents.values().filter(|a| a.handle.is_some()).map(|a| a.id).collect();
        for agent in &running {
            if let Some(known) = self.agents.get_mut(agent) {
                known.again = None;
            }
            self.kill(*agent).await;
        }
        let all = async {
            while self.agents.values().any(|a| a.handle.is_some()) {
                let Some((agent, event)) = terminals.recv().await else { return };
                self.terminal_event(agent, event).await;
            }
        };
        if tokio::time::timeout(GRACE * 10, all).await.is_err() {
            tracing::error!("some agents did not end");
        }
        self.save();
        self.stop_streams.clear();
        for (client, seq) in std::mem::take(&mut self.stop_askers) {
            self.reply(client, seq, Ok(crate::proto::Reply::Done));
        }
    }
}

/// The state of an OSC 7501 report: `state=idle:app=codex` (seen: codex 0.171.0).
fn osc_state(payload: &str) -> Option<OscState> {
    let state = payload.split([':', ';']).find_map(|p| p.strip_prefix("state="))?;
    Some(match state {
        "idle" => OscState::Idle,
        "working" => OscState::Working,
        "blocked" => OscState::Blocked,
        "done" => OscState::Done,
        "error" => OscState::Error,
        _ => return None,
    })
}

/// An OSC 133 mark: `A` and `B` around the prompt, `C` before a command's output, `D` after it.
fn command_mark(payload: &str) -> Option<CommandMark> {
    let mut parts = payload.split(';');
    match parts.next()? {
        // The prompt of a command's further lines.
        "A" if parts.any(|p| p == "k=s") => None,
        "A" | "B" => Some(CommandMark::Prompt),
        "C" => Some(CommandMark::Runs),
        "D" => Some(CommandMark::Done),
        _ => None,
    }
}

/// Claude Code is the only program whose hooks are injected so far.
fn parse_hook(message: &HookMessage) -> HookEvent {
    claude::parse_hook(&message.payload.to_string()).unwrap_or_else(|e| {
        // That the hook ran shows at least that the agent lives.
        tracing::warn!("the hook {} is not understood: {e}", message.event);
        HookEvent::Other { name: message.event.clone() }
    })
}
