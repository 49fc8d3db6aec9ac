//! A simulated world around the core: fake agents that render, take keys and keep records, and a
//! clock that jumps from deadline to deadline. No real time passes.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod fake;

pub use fake::{ALL, Fake, Shell, profile};

use mado::core::dialect::{Answer, HookEvent, NoAnswer, RecordEvent, StatusState};
use mado::core::profile::Profile;
use mado::core::question::{NotTold, Question, Told};
use mado::core::{Effect, Hub, Input, Now, Timing};
use mado::proto::*;
use std::collections::BTreeMap;

pub const PROJECT: &str = "/p";
const WALL: u64 = 1_800_000_000_000;

/// The world.
pub struct Sim {
    pub hub: Hub,
    pub now: u64,
    pub agents: BTreeMap<AgentId, Fake>,
    pub names: BTreeMap<String, AgentId>,
    pub replies: Vec<(u64, RequestResult)>,
    pub events: Vec<Event>,
    pub records: Vec<(HopInfo, Option<bool>)>,
    pub trace: Vec<(Now, Input, Vec<Effect>)>,
    /// Times at which agents' evidence or keys happen by themselves.
    later: Vec<(u64, Later)>,
    seq: u64,
    pub store_fails: bool,
    /// Providers that routes are connected with.
    pub providers: BTreeMap<String, Provider>,
    /// Calls of models that were made, and called off, in order.
    pub asks: Vec<(HopId, u64, Question)>,
    pub cancelled: Vec<HopId>,
    /// Calls that are under way.
    pub calls: BTreeMap<HopId, u64>,
    /// Calls end by themselves after this many milliseconds, every third with an error.
    pub ask_ms: Option<u64>,
    /// A person has paused everything.
    pub paused: bool,
    /// What was done that must never be.
    pub wrong: Vec<String>,
}

pub enum Later {
    /// The turn of this number ends.
    Finish(AgentId, u64),
    Do(Box<dyn FnOnce(&mut Sim)>),
}

pub const EDITOR: ClientId = ClientId(1);
pub const SHELL: ClientId = ClientId(2);

impl Sim {
    pub fn new() -> Sim {
        Sim::with(Timing::default())
    }

    pub fn with(timing: Timing) -> Sim {
        let mut sim = Sim {
            hub: Hub::new(timing),
            now: 1_000,
            agents: BTreeMap::new(),
            names: BTreeMap::new(),
            replies: Vec::new(),
            events: Vec::new(),
            records: Vec::new(),
            trace: Vec::new(),
            later: Vec::new(),
            seq: 0,
            store_fails: false,
            providers: BTreeMap::new(),
            asks: Vec::new(),
            cancelled: Vec::new(),
            calls: BTreeMap::new(),
            ask_ms: None,
            paused: false,
            wrong: Vec::new(),
        };
        sim.feed(Input::ClientHere {
            client: EDITOR,
            kind: ClientKind::Editor,
            project: PROJECT.into(),
        });
        sim.feed(Input::ClientHere {
            client: SHELL,
            kind: ClientKind::Shell,
            project: PROJECT.into(),
        });
        sim
    }

    pub fn clock(&self) -> Now {
        Now { mono: self.now, wall: WALL + self.now }
    }

    pub fn feed(&mut self, input: Input) {
        let now = self.clock();
        let effects = self.hub.step(now, input.clone());
        self.trace.push((now, input, effects.clone()));
        let mut skip_writes = false;
        for effect in effects {
            match effect {
                Effect::Write { agent, token, .. } if skip_writes => {
                    self.feed(Input::WriteDropped { agent, token, written: 0 });
                }
                Effect::Record { hop, enter } => {
                    if self.store_fails {
                        skip_writes = true;
                        self.feed(Input::StoreFailed { error: "No space left on device".into() });
                    } else {
                        self.records.push((*hop, enter));
                    }
                }
                other => self.perform(other),
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Reply { seq, result, .. } => self.replies.push((seq, result)),
            Effect::Publish(event) => self.events.push(event),
            Effect::Spawn(spawn) => {
                self.names.insert(spawn.name.clone(), spawn.agent);
                self.agents.entry(spawn.agent).or_insert(Fake {
                    hooks: true,
                    status: true,
                    records: true,
                    ..Fake::default()
                });
                self.feed(Input::Spawned { agent: spawn.agent, pid: 1_000 + spawn.agent.0 as u32 });
            }
            Effect::Write { agent, token, text } => {
                let now = self.now;
                let Some(fake) = self.agents.get_mut(&agent) else { return };
                if fake.refuse_enter > 0 && text == "\r" {
                    fake.refuse_enter -= 1;
                    self.feed(Input::WriteDropped { agent, token, written: 0 });
                    return;
                }
                // The end of a paste that was cut off is no text.
                let owed = text.len() < 12 && text.ends_with('~');
                if (fake.dialog || self.paused) && !owed {
                    let why = if self.paused { "paused" } else { "dialog" };
                    self.wrong.push(format!("{now}: {text:?} while {why}"));
                }
                if fake.clogged {
                    fake.pending.push((token, text));
                    return;
                }
                fake.writes.push((now, text.clone()));
                self.wrote(agent, token, &text);
            }
            Effect::DropWrites { agent } => {
                let Some(fake) = self.agents.get_mut(&agent) else { return };
                let (pending, takes) = (std::mem::take(&mut fake.pending), fake.takes);
                for (token, text) in pending {
                    let written = takes.min(text.len());
                    let fake = self.agents.get_mut(&agent).unwrap();
                    fake.takes = 0;
                    fake.read(&String::from_utf8_lossy(&text.as_bytes()[..written]));
                    self.feed(Input::WriteDropped { agent, token, written });
                }
            }
            Effect::Check { agent, token } => {
                let Some(fake) = self.agents.get_mut(&agent) else { return };
                if fake.deaf > 0 {
                    fake.deaf -= 1;
                    return;
                }
                let view = Box::new(fake.view());
                self.feed(Input::Checked { agent, token, view });
            }
            Effect::Extract { agent, token } => {
                let fake = &self.agents[&agent];
                if fake.mute {
                    return;
                }
                let result = match fake.record.last() {
                    _ if fake.extract.is_some() => fake.extract.clone().unwrap(),
                    Some((turn, prompt, Some(text))) => Ok(Answer {
                        text: text.clone(),
                        turn: Some(turn.clone()),
                        prompt: Some(prompt.clone()),
                        message: format!("m-{turn}"),
                        ended: true,
                        changed: fake.changed.clone(),
                    }),
                    _ => Err(NoAnswer::NotYet),
                };
                self.feed(Input::Extracted { agent, token, result });
            }
            Effect::Ask { hop, token, question } => {
                if self.paused {
                    self.wrong.push(format!("{}: a model is asked while paused", self.now));
                }
                if self.calls.insert(hop, token).is_some() {
                    self.wrong.push(format!("{}: hop {hop} is asked for twice", self.now));
                }
                self.asks.push((hop, token, *question));
                if let Some(ms) = self.ask_ms {
                    // One that was called off may end all the same.
                    self.after(ms, move |s| s.call_ends(hop, token));
                }
            }
            Effect::CancelAsk { hop } => {
                if self.calls.remove(&hop).is_none() {
                    self.wrong.push(format!("{}: no call of hop {hop} to end", self.now));
                }
                self.cancelled.push(hop);
            }
            Effect::Kill { agent } => {
                self.feed(Input::Exited { agent, code: None, signal: Some(15) });
            }
            _ => {}
        }
    }

    /// A model's call ends by itself.
    pub fn call_ends(&mut self, hop: HopId, token: u64) {
        if self.calls.get(&hop) == Some(&token) {
            self.calls.remove(&hop);
        }
        let text = format!("the model's text {token} for hop {hop}");
        let result = match token % 3 {
            0 => Err(NotTold { code: "server_error".into(), text, ..NotTold::default() }),
            _ => Ok(Told { text, ..Told::default() }),
        };
        self.feed(Input::Asked { hop, token, result });
    }

    /// A write reaches the agent's terminal, and the agent takes it.
    fn wrote(&mut self, agent: AgentId, token: u64, text: &str) {
        let Some(fake) = self.agents.get_mut(&agent) else { return };
        let submitted = fake.read(text);
        self.feed(Input::Written { agent, token });
        self.show(agent);
        if let Some(prompt) = submitted {
            self.begin(agent, &prompt);
        }
    }

    /// The terminal takes writes again.
    pub fn unclog(&mut self, agent: AgentId) {
        let fake = self.fake(agent);
        fake.clogged = false;
        for (token, text) in std::mem::take(&mut fake.pending) {
            let now = self.now;
            self.fake(agent).writes.push((now, text.clone()));
            self.wrote(agent, token, &text);
        }
    }

    /// A frozen agent goes on: it takes what was written meanwhile and renders.
    pub fn thaw(&mut self, agent: AgentId) {
        let fake = self.fake(agent);
        fake.frozen = false;
        let unread = std::mem::take(&mut fake.unread);
        let submitted = fake.read(&unread);
        self.show(agent);
        if let Some(prompt) = submitted {
            self.begin(agent, &prompt);
        }
    }

    /// An editor of the project is attached.
    pub fn editor_here(&mut self) {
        self.feed(Input::ClientHere {
            client: EDITOR,
            kind: ClientKind::Editor,
            project: PROJECT.into(),
        });
    }

    /// Opens a shell at its prompt.
    pub fn open_shell(&mut self, name: &str) -> AgentId {
        self.open_shell_with(name, true)
    }

    /// A shell whose prompt does or does not turn bracketed paste on.
    pub fn open_shell_with(&mut self, name: &str, brackets: bool) -> AgentId {
        self.open_shell_at(name, brackets, "$ ")
    }

    /// The same with a prompt.
    pub fn open_shell_at(&mut self, name: &str, brackets: bool, prompt: &str) -> AgentId {
        let p = OpenParams {
            profile: "shell".into(),
            name: Some(name.into()),
            project: PROJECT.into(),
            cwd: "/p".into(),
            ..OpenParams::default()
        };
        let text = include_str!("../../profiles/shell.toml");
        let profile: Profile = toml::from_str(&format!("name = \"shell\"\n{text}")).unwrap();
        self.request_with(EDITOR, None, Some(profile), Request::Open(p)).unwrap();
        let id = self.names[name];
        let shell = Shell { prompt: prompt.into(), running: false, told: true };
        let fake = self.fake(id);
        (fake.shell, fake.manual, fake.unbracketed) = (Some(shell), true, !brackets);
        self.show(id);
        self.run(500);
        id
    }

    /// The agent renders.
    pub fn show(&mut self, agent: AgentId) {
        let Some(fake) = self.agents.get_mut(&agent) else { return };
        if fake.frozen {
            return;
        }
        fake.bytes += 1;
        let view = Box::new(fake.view());
        self.feed(Input::Screen { agent, view });
    }

    /// A prompt was submitted: hook after 20 ms, busy after 80, as seen on the real program.
    pub fn begin(&mut self, agent: AgentId, prompt: &str) {
        let fake = self.agents.get_mut(&agent).unwrap();
        fake.submits.push(prompt.to_owned());
        fake.turn += 1;
        let turn = format!("t{}", fake.turn);
        if let Some(shell) = &fake.shell {
            let shown = format!("{}{prompt}", shell.prompt);
            fake.rows.extend(shown.split('\n').map(str::to_owned));
            self.show(agent);
            return;
        }
        let prompt = prompt.trim().to_owned();
        for (i, line) in prompt.split('\n').enumerate() {
            fake.rows.push(if i == 0 { format!("❯ {line}") } else { format!("  {line}") });
        }
        if fake.manual {
            return;
        }
        let (hooks, status) = (fake.hooks, fake.status);
        let lag = (fake.hook_ms, fake.status_ms, fake.record_ms);
        let p = prompt.clone();
        let t = turn.clone();
        self.after(20 + lag.0, move |s| {
            if hooks {
                s.hook(agent, HookEvent::Prompt { session: "s".into(), turn: Some(t), text: p });
            }
        });
        self.after(80, move |s| {
            if let Some(f) = s.agents.get_mut(&agent) {
                f.busy = true;
                f.title = "⠂ x".into();
            }
            s.show(agent);
            s.after(lag.1, move |s| {
                if status {
                    s.feed(Input::Status { agent, state: StatusState::Busy });
                }
            });
        });
        let p = prompt.clone();
        self.after(110 + lag.2, move |s| {
            let fake = s.agents.get_mut(&agent).unwrap();
            if fake.records {
                fake.record.push((turn.clone(), p.clone(), None));
                s.feed(Input::Record {
                    agent,
                    event: RecordEvent::Prompt { turn, text: p, human: true },
                });
            }
        });
        let turn = self.agents[&agent].turn;
        self.later.push((self.now + 1_000, Later::Finish(agent, turn)));
    }

    /// The turn ends: Stop, then idle, then the record, in the order of the real program.
    pub fn finish(&mut self, agent: AgentId) {
        let fake = self.agents.get_mut(&agent).unwrap();
        if fake.dialog {
            let turn = fake.turn;
            self.later.push((self.now + 100, Later::Finish(agent, turn)));
            return;
        }
        fake.over = fake.turn;
        let background = usize::from(std::mem::take(&mut fake.background));
        let turn = format!("t{}", fake.turn);
        let prompt = fake.submits.last().cloned().unwrap_or_default();
        let answer = fake.answer.clone().unwrap_or_else(|| format!("ECHO {}", prompt.trim()));
        let (hooks, status) = (fake.hooks, fake.status);
        let lag = (fake.hook_ms, fake.status_ms, fake.record_ms);
        let (a, t) = (answer.clone(), turn.clone());
        self.after(10 + lag.0, move |s| {
            if hooks {
                s.hook(
                    agent,
                    HookEvent::Stop {
                        session: "s".into(),
                        turn: Some(t),
                        answer: Some(a),
                        background,
                    },
                );
            }
        });
        let a = answer.clone();
        self.after(65, move |s| {
            let fake = s.agents.get_mut(&agent).unwrap();
            fake.busy = false;
            fake.title = "✳ x".into();
            for (i, line) in a.split('\n').enumerate() {
                fake.rows.push(if i == 0 { format!("● {line}") } else { format!("  {line}") });
            }
            fake.rows.push("✻ Baked for 1s".into());
            if let Some(next) = fake.queued.take() {
                // The next prompt follows without a pause.
                fake.busy = true;
                fake.title = "⠂ x".into();
                s.begin(agent, &next);
                return;
            }
            s.show(agent);
            s.after(lag.1, move |s| {
                if status && !s.agents[&agent].busy {
                    let state =
                        if background > 0 { StatusState::Background } else { StatusState::Idle };
                    s.feed(Input::Status { agent, state });
                }
            });
            if background > 0 {
                s.after(700, move |s| {
                    let fake = s.fake(agent);
                    if !fake.busy {
                        fake.notices.push(format!("<task-notification> {}", fake.turn));
                        let text = fake.notices.last().unwrap().clone();
                        s.begin(agent, &text);
                    }
                });
            }
        });
        self.after(150 + lag.2, move |s| {
            let fake = s.agents.get_mut(&agent).unwrap();
            if !fake.records {
                return;
            }
            if let Some(last) = fake.record.iter_mut().find(|r| r.0 == turn) {
                last.2 = Some(answer.clone());
            }
            let message = format!("m-{turn}");
            s.feed(Input::Record {
                agent,
                event: RecordEvent::Answer { turn: Some(turn.clone()), message, text: answer },
            });
            s.feed(Input::Record { agent, event: RecordEvent::TurnEnd { turn: Some(turn) } });
        });
    }

    /// Ends the open turn, if there is one, with this row instead of an answer. Returns the turn.
    fn cut_short(&mut self, agent: AgentId, row: &str) -> Option<String> {
        let fake = self.fake(agent);
        if !fake.busy || fake.over == fake.turn {
            return None;
        }
        fake.over = fake.turn;
        (fake.busy, fake.title) = (false, "✳ x".into());
        fake.rows.push(row.into());
        Some(format!("t{}", fake.turn))
    }

    /// A person interrupts the open turn: no Stop, the status goes idle, the record says so later.
    pub fn interrupt(&mut self, agent: AgentId) {
        let row = "  ⎿  Interrupted · What should Claude do instead?";
        let Some(turn) = self.cut_short(agent, row) else { return };
        let fake = self.fake(agent);
        let (status, records) = (fake.status, fake.records);
        let lag = (fake.status_ms, fake.record_ms);
        self.show(agent);
        self.after(30 + lag.0, move |s| {
            if status && !s.agents[&agent].busy {
                s.feed(Input::Status { agent, state: StatusState::Idle });
            }
        });
        self.after(120 + lag.1, move |s| {
            if records {
                s.fake(agent).record.retain(|r| r.0 != turn);
                let event = RecordEvent::Interrupted { turn: Some(turn) };
                s.feed(Input::Record { agent, event });
            }
        });
    }

    /// The open turn fails with an error of the model's service.
    pub fn fail(&mut self, agent: AgentId) {
        let Some(turn) = self.cut_short(agent, "● API Error: 529 Overloaded") else { return };
        let fake = self.fake(agent);
        let (hooks, status, records) = (fake.hooks, fake.status, fake.records);
        let lag = (fake.hook_ms, fake.status_ms, fake.record_ms);
        self.show(agent);
        let t = turn.clone();
        self.after(10 + lag.0, move |s| {
            if hooks {
                s.hook(agent, HookEvent::StopFailure { turn: Some(t), error: "overloaded".into() });
            }
        });
        self.after(60 + lag.1, move |s| {
            if status && !s.agents[&agent].busy {
                s.feed(Input::Status { agent, state: StatusState::Idle });
            }
        });
        self.after(150 + lag.2, move |s| {
            if records {
                s.fake(agent).record.retain(|r| r.0 != turn);
                let event = RecordEvent::ApiError { code: Some(529), text: "Overloaded".into() };
                s.feed(Input::Record { agent, event });
            }
        });
    }

    pub fn after(&mut self, ms: u64, f: impl FnOnce(&mut Sim) + 'static) {
        self.later.push((self.now + ms, Later::Do(Box::new(f))));
    }

    pub fn hook(&mut self, agent: AgentId, event: HookEvent) {
        self.feed(Input::Hook { agent, event });
    }

    /// Runs until a time, from deadline to deadline.
    pub fn run_to(&mut self, until: u64) {
        let mut last = (0, 0);
        loop {
            let hub = self.hub.deadline();
            let own = self.later.iter().map(|(t, _)| *t).min();
            let next = [hub, own].into_iter().flatten().min();
            let Some(next) = next.filter(|t| *t <= until) else { break };
            self.now = next.max(self.now);
            last = if last.0 == self.now { (self.now, last.1 + 1) } else { (self.now, 0) };
            assert!(
                last.1 < 10_000,
                "time stands still at {}: hub {hub:?}, world {own:?}",
                self.now
            );
            if let Some(i) = self.later.iter().position(|(t, _)| *t <= self.now) {
                match self.later.remove(i).1 {
                    Later::Finish(agent, turn) => {
                        if self.agents[&agent].turn == turn && self.agents[&agent].over < turn {
                            self.finish(agent);
                        }
                    }
                    Later::Do(f) => f(self),
                }
            } else {
                self.feed(Input::Tick);
            }
        }
        self.now = until;
    }

    pub fn run(&mut self, ms: u64) {
        self.run_to(self.now + ms);
    }

    pub fn request(&mut self, client: ClientId, request: Request) -> RequestResult {
        self.request_with(client, None, None, request)
    }

    pub fn request_with(
        &mut self,
        client: ClientId,
        inside: Option<AgentId>,
        profile: Option<Profile>,
        request: Request,
    ) -> RequestResult {
        self.seq += 1;
        let seq = self.seq;
        let profile = profile.map(Box::new);
        self.feed(Input::Request { client, seq, inside, profile, request });
        let at = self.replies.iter().rposition(|(s, _)| *s == seq);
        self.replies.remove(at.expect("every request is answered")).1
    }

    /// Opens an agent and shows its composer.
    pub fn open(&mut self, name: &str, rungs: &str) -> AgentId {
        let id = self.open_blank(name, rungs);
        self.show(id);
        self.run(500);
        id
    }

    /// Opens an agent that has rendered nothing yet.
    pub fn open_blank(&mut self, name: &str, rungs: &str) -> AgentId {
        let p = OpenParams {
            profile: "x".into(),
            name: Some(name.into()),
            project: PROJECT.into(),
            cwd: "/p".into(),
            ..OpenParams::default()
        };
        self.request_with(EDITOR, None, Some(profile("x", rungs)), Request::Open(p)).unwrap();
        self.names[name]
    }

    pub fn connect(&mut self, a: &str, b: &str, options: RouteOptions) -> RouteId {
        let p = ConnectParams {
            project: PROJECT.into(),
            source: a.into(),
            target: b.into(),
            both: false,
            options,
            providers: self.providers.clone(),
        };
        match self.request(EDITOR, Request::Connect(p)).unwrap() {
            Reply::Routes(r) => r[0].id,
            other => panic!("{other:?}"),
        }
    }

    pub fn send(&mut self, to: &str, text: &str) -> HopId {
        let p = SendParams {
            project: PROJECT.into(),
            target: to.into(),
            text: text.into(),
            deliver: None,
        };
        match self.request(SHELL, Request::Send(p)).unwrap() {
            Reply::Hop(h) => h.id,
            other => panic!("{other:?}"),
        }
    }

    /// A person types a prompt and presses Enter.
    pub fn human_prompt(&mut self, agent: AgentId, text: &str) {
        self.feed(Input::Human { agent, submits: false, rest: true });
        text.clone_into(&mut self.agents.get_mut(&agent).unwrap().composer);
        self.show(agent);
        self.run(50);
        self.feed(Input::Human { agent, submits: true, rest: false });
        let fake = self.agents.get_mut(&agent).unwrap();
        let prompt = std::mem::take(&mut fake.composer);
        self.show(agent);
        self.begin(agent, &prompt);
    }

    pub fn hop(&mut self, id: HopId) -> HopInfo {
        let p = HopsParams { hop: Some(id), all: true, ..HopsParams::default() };
        match self.request(SHELL, Request::Hops(p)).unwrap() {
            Reply::Hops(h) => h[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn hops(&mut self) -> Vec<HopInfo> {
        match self.request(SHELL, Request::Hops(HopsParams { all: true, ..HopsParams::default() }))
        {
            Ok(Reply::Hops(h)) => h,
            other => panic!("{other:?}"),
        }
    }

    pub fn route(&mut self, id: RouteId) -> RouteInfo {
        match self
            .request(SHELL, Request::Routes(ListParams { all: true, ..ListParams::default() }))
        {
            Ok(Reply::Routes(r)) => r.into_iter().find(|r| r.id == id).expect("the route"),
            other => panic!("{other:?}"),
        }
    }

    pub fn route_count(&mut self) -> usize {
        match self
            .request(SHELL, Request::Routes(ListParams { all: true, ..ListParams::default() }))
        {
            Ok(Reply::Routes(r)) => r.len(),
            other => panic!("{other:?}"),
        }
    }

    pub fn info(&mut self, name: &str) -> AgentInfo {
        match self
            .request(SHELL, Request::Agents(ListParams { all: true, ..ListParams::default() }))
        {
            Ok(Reply::Agents(a)) => a.into_iter().find(|a| a.name == name).expect("the agent"),
            other => panic!("{other:?}"),
        }
    }

    pub fn pause(&mut self) {
        let p = PauseParams { project: PROJECT.into(), ..PauseParams::default() };
        self.request(EDITOR, Request::Pause(p)).unwrap();
    }

    pub fn resume(&mut self) {
        let p = PauseParams { project: PROJECT.into(), ..PauseParams::default() };
        self.request(EDITOR, Request::Resume(p)).unwrap();
    }

    pub fn fake(&mut self, id: AgentId) -> &mut Fake {
        self.agents.get_mut(&id).unwrap()
    }

    pub fn notices(&self, code: &str) -> Vec<Notice> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::Notice(n) if n.code == code => Some(n.clone()),
                _ => None,
            })
            .collect()
    }
}

/// Options with the trigger set.
pub fn on(trigger: Trigger) -> RouteOptions {
    RouteOptions { trigger: Some(trigger), ..RouteOptions::default() }
}
