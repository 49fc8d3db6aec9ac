//! Properties that hold for any schedule: random graphs of routes, prompts, dialogs, lags, freezes,
//! pauses, keys and exits, in simulated time.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::core::dialect::StatusState;
use mado::core::text::{self, Holds};
use mado::core::{Hub, Input, Timing};
use mado::proto::*;
use proptest::prelude::*;
use sim::{ALL, EDITOR, PROJECT, SHELL, Sim, on};
use std::collections::BTreeMap;

/// `PROPTEST_CASES` overrides the number of cases, for a longer hunt.
fn config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(cases),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// How an agent speaks.
#[derive(Debug, Clone)]
struct Kind {
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

fn kind() -> impl Strategy<Value = Kind> {
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
struct Link {
    from: usize,
    to: usize,
    trigger: Trigger,
    max_rounds: u32,
    stop: bool,
    /// A model writes the prompt; what a failure does.
    model: Option<OnError>,
}

fn link() -> impl Strategy<Value = Link> {
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
        })
}

#[derive(Debug, Clone)]
enum Op {
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
}

fn op() -> impl Strategy<Value = Op> {
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

struct World {
    sim: Sim,
    names: [&'static str; 3],
    routes: Vec<RouteId>,
    human: Vec<String>,
    tag: u32,
    /// Until when pauses hold: only the last one resumes.
    resume_at: u64,
}

impl World {
    fn new(kinds: &[Kind], links: &[Link]) -> World {
        let mut sim = Sim::new();
        sim.ask_ms = Some(900);
        let names = ["a", "b", "c"];
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

    fn id(&self, agent: usize) -> AgentId {
        self.sim.names[self.names[agent]]
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

    fn apply(&mut self, op: &Op) {
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
                self.sim.send(self.names[*n], &payload(*text, &tag));
            }
            Op::Inside(from, to) => {
                let tag = self.tag();
                let p = SendParams {
                    project: PROJECT.into(),
                    target: self.names[*to].into(),
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
                self.sim.request(EDITOR, Request::Pause(p.clone())).unwrap();
                self.sim.after(*ms, move |s| {
                    s.request(EDITOR, Request::Resume(p)).unwrap();
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
                    let p = AgentParams { project: PROJECT.into(), agent: self.names[*n].into() };
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
            Op::Deaf(n, times) => {
                let a = self.id(*n);
                self.sim.fake(a).deaf = *times;
            }
        }
    }

    /// Everything that holds anything back ends; then the world runs until it has come to rest.
    fn calm(&mut self) {
        self.sim.run(20_000);
        for n in 0..3 {
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
            for n in 0..3 {
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

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn whatever_happens_the_promise_holds(
        kinds in prop::collection::vec(kind(), 3),
        links in prop::collection::vec(link(), 0..4),
        ops in prop::collection::vec((op(), prop_oneof![1 => Just(0_u64), 2 => 0..200_u64, 2 => 200..3_000_u64]), 1..14),
    ) {
        let mut w = World::new(&kinds, &links);
        for (op, wait) in &ops {
            w.apply(op);
            w.sim.run(*wait);
        }
        w.calm();
        check(&mut w)?;
    }
}

fn check(w: &mut World) -> Result<(), TestCaseError> {
    prop_assert!(w.sim.wrong.is_empty(), "{:?}", w.sim.wrong);
    prop_assert!(w.sim.calls.is_empty(), "calls nobody waits for: {:?}", w.sim.calls);
    let hops = w.sim.hops();
    let limit = Timing::default().chain_limit;

    // Exactly one final state for each hop, and every hop has one in the end.
    let mut finals: BTreeMap<HopId, u32> = BTreeMap::new();
    for event in &w.sim.events {
        if let Event::Hop(h) = event {
            let seen = finals.entry(h.id).or_default();
            if h.state.is_final() {
                *seen += 1;
            } else {
                prop_assert_eq!(*seen, 0, "hop {} left its final state", h.id);
            }
        }
    }
    for h in &hops {
        let info = w.sim.info(&h.target);
        prop_assert!(h.state.is_final(), "hop {:?}\ntarget {:?}", h, info);
        prop_assert_eq!(finals.get(&h.id).copied(), Some(1), "hop {}", h.id);
    }

    // Every chain ends within its limit.
    let mut chains: BTreeMap<ChainId, u32> = BTreeMap::new();
    for h in hops.iter().filter(|h| h.times.submitted.is_some()) {
        *chains.entry(h.chain).or_default() += 1;
    }
    // A resume lets a chain go on as if it were new.
    let resumes = w
        .sim
        .trace
        .iter()
        .filter(|(_, i, _)| matches!(i, Input::Request { request: Request::Resume(_), .. }));
    let bound = limit * (1 + u32::try_from(resumes.count()).unwrap());
    for (chain, n) in &chains {
        prop_assert!(*n <= bound, "chain {chain} had {n} hops");
    }

    for n in 0..3 {
        let a = w.id(n);
        let fake = w.sim.fake(a);
        prop_assert_eq!(fake.approvals, 0);
        let submits = fake.submits.clone();
        let notices = fake.notices.clone();
        // What arrives is what was to be typed, whole, and once.
        let mut sends = Vec::new();
        for text in &submits {
            let mine: Vec<&HopInfo> = hops
                .iter()
                .filter(|h| h.target == w.names[n] && h.prompt.as_deref() == Some(text))
                .collect();
            let own = w.human.contains(text) || notices.contains(text);
            prop_assert!(!mine.is_empty() || own, "{text:?} came from nowhere");
            if let [h] = mine.as_slice() {
                let times = submits.iter().filter(|t| *t == text).count();
                prop_assert_eq!(times, 1, "hop {:?} arrived {} times", h, times);
                if h.how == "send" {
                    sends.push(h.id);
                }
            }
        }
        prop_assert!(sends.is_sorted(), "order at {}: {sends:?}", w.names[n]);
        // Nothing is claimed that did not happen.
        for h in hops.iter().filter(|h| h.target == w.names[n]) {
            let text = h.prompt.clone().unwrap_or_default();
            if h.times.accepted.is_some() {
                prop_assert!(submits.contains(&text), "accepted, but never submitted: {h:?}");
            }
            let alone = hops.iter().filter(|o| o.prompt == h.prompt).count() == 1;
            if alone && submits.contains(&text) && h.state == HopState::Stopped {
                let broken = ["interrupted", "superseded"].contains(&h.reason_code.as_str());
                prop_assert!(broken, "submitted, but called stopped: {h:?}");
            }
        }
    }

    // A trace replays to the same effects.
    let mut hub = Hub::new(Timing::default());
    for (now, input, effects) in &w.sim.trace {
        prop_assert_eq!(&hub.step(*now, input.clone()), effects);
    }
    Ok(())
}

/// What a terminal's paste parser makes of bytes: whether it ever leaves the paste before the end.
fn leaves_paste(text: &str) -> bool {
    let bytes = format!("\u{1b}[200~{text}\u{1b}[201~");
    let inner = &bytes["\u{1b}[200~".len()..bytes.len() - "\u{1b}[201~".len()];
    inner.contains("\u{1b}[201~") || inner.contains('\u{1b}') || inner.contains('\u{9b}')
}

/// Text made of what is dangerous.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<char>().prop_map(String::from),
        3 => "[a-z0-9 ~\\[\\]/!@{}]{0,6}",
        2 => prop::sample::select(vec![
            "\u{1b}[201~", "\u{1b}[200~", "\u{1b}", "[201~", "201~", "\u{9b}201~", "\r", "\n", "\r\n", "\t",
            "\u{1b}]52;c;aGk=\u{7}", "\u{1b}]0;x\u{1b}\\", "\u{1b}P", "\u{9d}", "\u{9c}", "\u{1b}(", "\u{202e}",
            "\u{2066}", "\0", "\u{7f}", "\u{85}", "{output}", "{{", "}}", "{", "}", "\u{1b}[", "\u{1b}[20",
        ]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn no_text_leaves_its_paste_once_it_is_literal(text in nasty()) {
        let (out, removed) = text::sanitise(&text);
        prop_assert!(!leaves_paste(&out), "{out:?}");
        prop_assert!(out.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{out:?}");
        // Its own result is literal, and a literal text is left as it is.
        let (again, nothing) = text::sanitise(&out);
        prop_assert_eq!(&again, &out);
        prop_assert_eq!(nothing, text::Removed::default());
        prop_assert_eq!(removed.note().is_some(), text.replace("\r\n", "\n") != out);
    }

    #[test]
    fn a_literal_text_without_control_bytes_is_kept(text in "[^\\p{C}]{0,60}") {
        prop_assert_eq!(text::sanitise(&text).0, text);
    }

    #[test]
    fn what_a_template_puts_in_is_never_looked_at_again(output in nasty(), source in nasty()) {
        let values = BTreeMap::from([
            ("output", output.clone()),
            ("source", source.clone()),
            ("round", "2".to_owned()),
            ("maxRounds", "5".to_owned()),
        ]);
        let out = text::render("{{{source}}} {round}/{maxRounds}\n{output}|", &values).unwrap();
        prop_assert_eq!(out, format!("{{{source}}} 2/5\n{output}|"));
    }

    #[test]
    fn no_template_panics(template in nasty()) {
        let _ = text::check_template(&template);
    }

    #[test]
    fn a_composer_with_one_more_visible_character_is_not_ours(
        pieces in prop::collection::vec("[a-z日é\n ]{1,12}", 1..5),
        at in any::<prop::sample::Index>(),
        extra in "[a-zA-Z0-9日!]",
        hidden in 0..3_usize,
    ) {
        let typed = pieces.concat();
        let whole = text::holds_pieces(&typed, 0, &pieces, None);
        if typed.trim().is_empty() {
            prop_assert_eq!(whole, Holds::Empty);
            return Ok(());
        }
        prop_assert_eq!(whole, Holds::Ours);
        let chars: Vec<char> = typed.chars().collect();
        let at = at.index(chars.len() + 1);
        let mut shown: String = chars[..at].iter().collect();
        shown.push_str(&extra);
        shown.extend(&chars[at..]);
        prop_assert_eq!(text::holds_pieces(&shown, 0, &pieces, None), Holds::Other);
        prop_assert_eq!(text::holds_pieces(&shown, hidden, &pieces, None), Holds::Other);
        // One character less is not it either.
        let cut: String = chars[..chars.len() - 1].iter().collect();
        if text::fold(&cut) != text::fold(&typed) {
            prop_assert_ne!(text::holds_pieces(&cut, 0, &pieces, None), Holds::Ours);
        }
    }

    #[test]
    fn a_stand_in_is_ours_only_alone_and_for_a_long_piece(
        lines in 4..40_usize,
        extra in "[a-z]{1,3}",
        before in any::<bool>(),
    ) {
        let profile = sim::profile("x", ALL);
        let mark = profile.composer.placeholder.as_ref();
        let pieces = ["line\n".repeat(lines)];
        let shown = format!("[Pasted text #3 +{lines} lines]");
        prop_assert_eq!(text::holds_pieces(&shown, 0, &pieces, mark), Holds::Ours);
        let more = if before { format!("{extra}{shown}") } else { format!("{shown}{extra}") };
        prop_assert_eq!(text::holds_pieces(&more, 0, &pieces, mark), Holds::Other);
        let other = format!("[Pasted text #3 +{} lines]", lines + 5);
        prop_assert_eq!(text::holds_pieces(&other, 0, &pieces, mark), Holds::Other);
        prop_assert_eq!(text::holds_pieces(&shown, 0, &["short"], mark), Holds::Other);
    }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn what_is_written_is_the_literal_text_between_paste_marks(text in nasty(), paste in any::<bool>()) {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        let p = SendParams {
            project: PROJECT.into(),
            target: "a".into(),
            text,
            deliver: Some(if paste { "paste" } else { "lines" }.into()),
        };
        let Ok(Reply::Hop(hop)) = sim.request(SHELL, Request::Send(p)) else { panic!() };
        sim.run(60_000);
        let h = sim.hop(hop.id);
        let Some(prompt) = h.prompt.clone() else {
            prop_assert_eq!(h.reason_code.as_str(), "empty");
            return Ok(());
        };
        let mut typed = String::new();
        for (_, write) in &sim.fake(a).writes {
            if write != "\r" {
                let inner = write.strip_prefix("\u{1b}[200~").and_then(|w| w.strip_suffix("\u{1b}[201~"));
                typed.push_str(inner.expect("always between paste marks"));
            }
        }
        prop_assert_eq!(&typed, &prompt);
        prop_assert_eq!(sim.fake(a).submits.clone(), vec![prompt]);
        prop_assert_eq!(h.state, HopState::Answered);
    }
}
