//! A random world: agents that speak in their ways, routes between them, and what happens to them.

use super::*;

/// How an agent speaks.
#[derive(Debug, Clone)]
pub struct Kind {
    rungs: usize,
    hook_ms: u64,
    status_ms: u64,
    record_ms: u64,
    /// The status file is never written although the profile names it.
    mute_status: bool,
    answer: usize,
}

const RUNGS: [&str; 5] = [
    ALL,
    r#""hook", "status", "screen""#,
    r#""record", "status", "title", "screen""#,
    r#""hook", "screen""#,
    r#""title", "screen""#,
];

pub fn kind() -> impl Strategy<Value = Kind> {
    (
        prop_oneof![4 => Just(0), 1 => 1..RUNGS.len()],
        prop_oneof![3 => Just(0_u64), 1 => 0..400_u64],
        prop_oneof![3 => Just(0_u64), 1 => 0..200_u64],
        prop_oneof![3 => Just(0_u64), 1 => 0..1_500_u64],
        prop::bool::weighted(0.15),
        0..4_usize,
    )
        .prop_map(|(rungs, hook_ms, status_ms, record_ms, mute_status, answer)| Kind {
            rungs,
            hook_ms,
            status_ms,
            record_ms,
            mute_status,
            answer,
        })
}

#[derive(Debug, Clone)]
pub struct Link {
    pub from: usize,
    pub to: usize,
    pub trigger: Trigger,
    pub max_rounds: u32,
    pub stop: bool,
    /// A model writes the prompt; what a failure does.
    pub model: Option<OnError>,
    pub join: bool,
    /// Which of `WHENS` it has.
    pub when: usize,
}

/// Conditions: none, one that most answers meet, one that few do.
const WHENS: [Option<&str>; 3] = [None, Some("ECHO|LGTM"), Some("Thank|#[0-9]*[02468]#")];

pub fn link() -> impl Strategy<Value = Link> {
    (
        0..3_usize,
        0..3_usize,
        prop_oneof![
            4 => Just(Trigger::OnTurn),
            3 => Just(Trigger::OnIdle),
            1 => Just(Trigger::OnKeyword),
            1 => Just(Trigger::Always),
        ],
        1..=6_u32,
        prop::bool::weighted(0.2),
        prop_oneof![
            3 => Just(None),
            1 => Just(Some(OnError::Stop)),
            1 => Just(Some(OnError::PromptWrap)),
        ],
    )
        .prop_map(|(from, to, trigger, max_rounds, stop, model)| Link {
            from,
            to,
            trigger,
            max_rounds,
            stop,
            model,
            join: false,
            when: 0,
        })
}

/// The same in a graph of so many agents, with joins and conditions.
pub fn edge(agents: usize) -> impl Strategy<Value = Link> {
    (link(), 0..agents, 0..agents, prop::bool::weighted(0.5), 0..WHENS.len()).prop_map(
        |(link, from, to, join, when)| {
            let always = link.trigger == Trigger::Always;
            let (join, when) = if always { (false, 0) } else { (join, when) };
            Link { from, to, join, when, ..link }
        },
    )
}

#[derive(Debug, Clone)]
pub enum Op {
    /// A person prompts an agent that shows its composer.
    Prompt(usize),
    /// A dialog stands there for a while; a person answers it.
    Dialog(usize, u64, bool),
    /// A person has half a line in the composer for a while.
    Draft(usize, u64),
    /// A person's key, nothing more.
    Key(usize, bool),
    /// The program does not read or draw for a while.
    Freeze(usize, u64),
    /// Its terminal takes no bytes for a while; of what is given up so many get through.
    Clog(usize, u64, usize),
    Send(usize, u8),
    /// An agent sends to another.
    Inside(usize, usize),
    Pause(u64),
    PauseRoute(usize, u64),
    Resume,
    EditorGone(u64),
    StoreFails(u64),
    Restart(usize),
    /// The terminal refuses Enters, or a menu eats them.
    Refuse(usize, u32, u32),
    /// The program goes on by itself.
    Notify(usize),
    Fire(usize),
    Deaf(usize, u32),
    /// A person presses Esc in the turn, or the service fails.
    Interrupt(usize),
    Fail(usize),
    /// A person prompts an agent that works: the program queues it.
    Queue(usize),
    /// The open turn leaves a background task.
    Background(usize),
    /// A dialog that only a look shows, for a while.
    Hidden(usize, u64),
    /// The program ends.
    Exit(usize),
    /// A route is taken away.
    Disconnect(usize),
}

pub fn op() -> impl Strategy<Value = Op> {
    let agent = || 0..3_usize;
    let time = || 1..6_000_u64;
    prop_oneof![
        5 => agent().prop_map(Op::Prompt),
        4 => (agent(), time(), any::<bool>()).prop_map(|(a, t, k)| Op::Dialog(a, t, k)),
        2 => (agent(), time()).prop_map(|(a, t)| Op::Draft(a, t)),
        2 => (agent(), any::<bool>()).prop_map(|(a, s)| Op::Key(a, s)),
        2 => (agent(), time()).prop_map(|(a, t)| Op::Freeze(a, t)),
        2 => (agent(), 1..15_000_u64, 0..40_usize).prop_map(|(a, t, n)| Op::Clog(a, t, n)),
        5 => (agent(), any::<u8>()).prop_map(|(a, n)| Op::Send(a, n)),
        1 => (agent(), agent()).prop_map(|(a, b)| Op::Inside(a, b)),
        3 => time().prop_map(Op::Pause),
        1 => (0..3_usize, time()).prop_map(|(r, t)| Op::PauseRoute(r, t)),
        1 => Just(Op::Resume),
        1 => time().prop_map(Op::EditorGone),
        1 => time().prop_map(Op::StoreFails),
        1 => agent().prop_map(Op::Restart),
        2 => (agent(), 0..3_u32, 0..3_u32).prop_map(|(a, r, e)| Op::Refuse(a, r, e)),
        1 => agent().prop_map(Op::Notify),
        1 => (0..3_usize).prop_map(Op::Fire),
        1 => (agent(), 1..3_u32).prop_map(|(a, n)| Op::Deaf(a, n)),
        2 => agent().prop_map(Op::Interrupt),
        1 => agent().prop_map(Op::Fail),
        2 => agent().prop_map(Op::Queue),
        1 => agent().prop_map(Op::Background),
        3 => (agent(), time()).prop_map(|(a, t)| Op::Hidden(a, t)),
    ]
}

/// Texts that are hard to type.
fn payload(n: u8, tag: &str) -> String {
    match n % 7 {
        0 => format!("{tag} one line"),
        1 => format!("{tag} first\n\n    indented\nlast"),
        2 => format!("/{tag} @file"),
        3 => format!("{tag} 日本語 👩‍👩‍👧 é\nsecond"),
        4 => format!("{tag} \u{1b}[201~\rrm -rf x\u{7f} \u{9b}31m"),
        5 => format!("!{tag}\n") + &"many lines\n".repeat(30),
        _ => format!("{tag} y\np\n1"),
    }
}

pub struct World {
    pub sim: Sim,
    pub names: Vec<&'static str>,
    pub routes: Vec<RouteId>,
    pub human: Vec<String>,
    tag: u32,
    /// Until when pauses hold: only the last one resumes.
    resume_at: u64,
}

impl World {
    pub fn new(kinds: &[Kind], links: &[Link]) -> World {
        let mut sim = Sim::new();
        sim.ask_ms = Some(900);
        let names = ["a", "b", "c", "d", "e"][..kinds.len()].to_vec();
        for (name, kind) in names.iter().zip(kinds) {
            let id = sim.open(name, RUNGS[kind.rungs]);
            let uses = |rung: &str| RUNGS[kind.rungs].contains(rung);
            let fake = sim.fake(id);
            fake.hooks = uses("hook");
            fake.status = uses("status") && !kind.mute_status;
            fake.records = uses("record");
            (fake.hook_ms, fake.status_ms, fake.record_ms) =
                (kind.hook_ms, kind.status_ms, kind.record_ms);
            fake.answer = match kind.answer {
                0 => Some("Thank you!".into()),
                1 => Some("well,\n  LGTM {output} {round}\nyes".into()),
                _ => None,
            };
        }
        let mut routes = Vec::new();
        for l in links {
            let model = l.model.filter(|_| l.trigger != Trigger::Always);
            let options = RouteOptions {
                transform: model.map(|_| Transform::AiRouting),
                on_error: model,
                template: model.is_none().then(|| "{source} {round}: {output}".into()),
                pattern: Some("LGTM|ECHO".into()),
                max_rounds: Some(l.max_rounds),
                cooldown_ms: Some(1_000),
                idle_ms: Some(700),
                stop_keyword: l.stop.then(|| "LGTM".into()),
                join: l.join.then(|| "all".into()),
                join_timeout_ms: l.join.then_some(20_000),
                when: WHENS[l.when].map(str::to_owned),
                ..on(l.trigger)
            };
            let p = ConnectParams {
                project: PROJECT.into(),
                source: names[l.from].into(),
                target: names[l.to].into(),
                options,
                providers: [("p".to_owned(), Provider::default())].into(),
                ..ConnectParams::default()
            };
            if let Ok(Reply::Routes(made)) = sim.request(EDITOR, Request::Connect(p)) {
                routes.push(made[0].id);
            }
        }
        World { sim, names, routes, human: Vec::new(), tag: 0, resume_at: 0 }
    }

    pub fn id(&self, agent: usize) -> AgentId {
        self.sim.names[self.name(agent)]
    }

    pub fn name(&self, agent: usize) -> &'static str {
        self.names[agent % self.names.len()]
    }

    fn tag(&mut self) -> String {
        self.tag += 1;
        format!("#{}#", self.tag)
    }

    /// What the person at the keyboard can do now: the program is there and takes keys.
    fn at_hand(&mut self, agent: AgentId) -> bool {
        let fake = self.sim.fake(agent);
        !fake.dialog && !fake.frozen && !fake.clogged && !fake.pasting
    }

    pub fn apply(&mut self, op: &Op) {
        let route = |w: &World, n: usize| w.routes.get(n).map(RouteId::to_string);
        match op {
            Op::Prompt(n) => {
                let a = self.id(*n);
                if self.at_hand(a) && !self.sim.fake(a).busy {
                    let text = self.tag();
                    self.human.push(text.clone());
                    self.sim.human_prompt(a, &text);
                }
            }
            Op::Dialog(n, ms, keys) => {
                let (a, keys) = (self.id(*n), *keys);
                if !self.at_hand(a) || !self.sim.fake(a).held.is_empty() {
                    return;
                }
                self.sim.fake(a).dialog = true;
                self.sim.show(a);
                if self.sim.fake(a).status {
                    self.sim.feed(Input::Status { agent: a, state: StatusState::Waiting });
                }
                self.sim.after(*ms, move |s| {
                    if keys {
                        s.feed(Input::Human { agent: a, submits: true, rest: false });
                    }
                    let fake = s.fake(a);
                    fake.dialog = false;
                    let (status, busy) = (fake.status, fake.busy);
                    s.show(a);
                    if status {
                        let state = if busy { StatusState::Busy } else { StatusState::Idle };
                        s.feed(Input::Status { agent: a, state });
                    }
                });
            }
            Op::Draft(n, ms) => {
                let a = self.id(*n);
                if !self.at_hand(a) {
                    return;
                }
                self.sim.feed(Input::Human { agent: a, submits: false, rest: true });
                self.sim.fake(a).composer.push_str("half a");
                self.sim.show(a);
                self.sim.after(*ms, move |s| {
                    if s.fake(a).composer.ends_with("half a") {
                        s.feed(Input::Human { agent: a, submits: false, rest: true });
                        s.fake(a).composer.clear();
                        s.show(a);
                    }
                });
            }
            Op::Key(n, submits) => {
                // Something that types nothing: an arrow, or Enter on nothing.
                let a = self.id(*n);
                if self.at_hand(a) && self.sim.fake(a).composer.is_empty() {
                    self.sim.feed(Input::Human { agent: a, submits: *submits, rest: !*submits });
                }
            }
            Op::Freeze(n, ms) => {
                let a = self.id(*n);
                if self.at_hand(a) {
                    self.sim.fake(a).frozen = true;
                    self.sim.after(*ms, move |s| s.thaw(a));
                }
            }
            Op::Clog(n, ms, takes) => {
                let a = self.id(*n);
                if self.at_hand(a) {
                    let fake = self.sim.fake(a);
                    (fake.clogged, fake.takes) = (true, *takes);
                    self.sim.after(*ms, move |s| {
                        s.unclog(a);
                        s.show(a);
                    });
                }
            }
            Op::Send(n, text) => {
                let tag = self.tag();
                self.sim.send(self.name(*n), &payload(*text, &tag));
            }
            Op::Inside(from, to) => {
                let tag = self.tag();
                let p = SendParams {
                    project: PROJECT.into(),
                    target: self.name(*to).into(),
                    text: payload(0, &tag),
                    deliver: None,
                };
                let from = self.id(*from);
                let _ = self.sim.request_with(SHELL, Some(from), None, Request::Send(p));
            }
            Op::Pause(ms) => {
                self.sim.pause();
                self.sim.paused = true;
                let at = self.sim.now + ms;
                self.resume_at = at;
                self.sim.after(*ms, move |s| {
                    s.paused = false;
                    s.resume();
                });
            }
            Op::PauseRoute(n, ms) => {
                let Some(r) = route(self, *n) else { return };
                let p = PauseParams { project: PROJECT.into(), route: Some(r), hop: None };
                let _ = self.sim.request(EDITOR, Request::Pause(p.clone()));
                self.sim.after(*ms, move |s| {
                    let _ = s.request(EDITOR, Request::Resume(p));
                });
            }
            Op::Resume => {
                self.sim.paused = false;
                self.sim.resume();
            }
            Op::EditorGone(ms) => {
                self.sim.feed(Input::ClientGone { client: EDITOR });
                self.sim.after(*ms, |s| s.editor_here());
            }
            Op::StoreFails(ms) => {
                self.sim.store_fails = true;
                self.sim.after(*ms, |s| {
                    s.store_fails = false;
                    if !s.paused {
                        s.resume();
                    }
                });
            }
            Op::Restart(n) => {
                let a = self.id(*n);
                if self.at_hand(a) && !self.sim.fake(a).busy {
                    let p = AgentParams { project: PROJECT.into(), agent: self.name(*n).into() };
                    self.sim.fake(a).composer.clear();
                    let _ = self.sim.request(EDITOR, Request::Restart(p));
                    self.sim.fake(a).composer.clear();
                    self.sim.show(a);
                }
            }
            Op::Refuse(n, refuse, eat) => {
                let a = self.id(*n);
                let fake = self.sim.fake(a);
                (fake.refuse_enter, fake.eats_enter) = (*refuse, *eat);
            }
            Op::Notify(n) => {
                let a = self.id(*n);
                if self.at_hand(a) && !self.sim.fake(a).busy {
                    let text = format!("<task-notification> {}", self.tag());
                    self.human.push(text.clone());
                    self.sim.begin(a, &text);
                }
            }
            Op::Fire(n) => {
                let Some(route) = route(self, *n) else { return };
                let p = FireParams { project: PROJECT.into(), route, confirm: false };
                let _ = self.sim.request(EDITOR, Request::Fire(p));
            }
            Op::Interrupt(n) => {
                let a = self.id(*n);
                if self.at_hand(a) && self.sim.fake(a).busy {
                    self.sim.feed(Input::Human { agent: a, submits: false, rest: true });
                    self.sim.interrupt(a);
                }
            }
            Op::Fail(n) => {
                let a = self.id(*n);
                self.sim.fail(a);
            }
            Op::Queue(n) => {
                let a = self.id(*n);
                let fake = self.sim.fake(a);
                if fake.busy && fake.over < fake.turn && fake.queued.is_none() && self.at_hand(a) {
                    let text = self.tag();
                    self.human.push(text.clone());
                    self.sim.feed(Input::Human { agent: a, submits: true, rest: false });
                    self.sim.fake(a).queued = Some(text);
                }
            }
            Op::Background(n) => {
                let a = self.id(*n);
                self.sim.fake(a).background = true;
            }
            Op::Hidden(n, ms) => {
                let a = self.id(*n);
                if self.at_hand(a) && self.sim.fake(a).held.is_empty() {
                    self.sim.fake(a).dialog = true;
                    self.sim.after(*ms, move |s| {
                        s.fake(a).dialog = false;
                        s.show(a);
                    });
                }
            }
            Op::Exit(n) => {
                let a = self.id(*n);
                if self.at_hand(a) {
                    let fake = self.sim.fake(a);
                    (fake.frozen, fake.busy, fake.over) = (true, false, fake.turn);
                    fake.composer.clear();
                    self.sim.feed(Input::Exited { agent: a, code: Some(1), signal: None });
                }
            }
            Op::Disconnect(n) => {
                let Some(route) = route(self, *n) else { return };
                let p = RouteParams { project: PROJECT.into(), route };
                let _ = self.sim.request(EDITOR, Request::Disconnect(p));
            }
            Op::Deaf(n, times) => {
                let a = self.id(*n);
                self.sim.fake(a).deaf = *times;
            }
        }
    }

    /// Everything that holds anything back ends; then the world runs until it has come to rest.
    pub fn calm(&mut self) {
        self.sim.run(20_000);
        for n in 0..self.names.len() {
            let a = self.id(n);
            let fake = self.sim.fake(a);
            (fake.deaf, fake.eats_enter, fake.refuse_enter) = (0, 0, 0);
            if fake.dialog {
                fake.dialog = false;
                self.sim.show(a);
            }
        }
        self.sim.store_fails = false;
        self.sim.paused = false;
        self.sim.editor_here();
        for n in 0..self.routes.len() {
            let p = PauseParams {
                project: PROJECT.into(),
                route: Some(self.routes[n].to_string()),
                hop: None,
            };
            let _ = self.sim.request(EDITOR, Request::Resume(p));
        }
        self.sim.resume();
        for _ in 0..40 {
            // A person tidies up what stopped hops left in the composers.
            for n in 0..self.names.len() {
                let a = self.id(n);
                let left = !self.sim.fake(a).composer.is_empty();
                if left && self.at_hand(a) && !self.sim.fake(a).busy {
                    self.sim.feed(Input::Human { agent: a, submits: false, rest: true });
                    self.sim.fake(a).composer.clear();
                    self.sim.show(a);
                }
            }
            let before = self.sim.trace.len();
            self.sim.run(30_000);
            if self.sim.trace.len() == before {
                break;
            }
        }
    }
}
