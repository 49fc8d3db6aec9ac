//! Transforms that ask a model, with simulated time: when a call is made, what it is given, when it is
//! called off, and what becomes of its hop.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::core::question::{ANSWER_CHARS, NotTold, Told};
use mado::core::{Hub, Input, RestoredHop, Timing};
use mado::proto::*;
use sim::{ALL, EDITOR, PROJECT, Sim, on};

fn provider(model: &str) -> Provider {
    Provider { kind: ProviderKind::Openai, model: model.into(), ..Provider::default() }
}

fn asking() -> RouteOptions {
    RouteOptions { transform: Some(Transform::AiRouting), ..on(Trigger::OnTurn) }
}

/// `a → b` with these options and one provider.
fn pair(options: RouteOptions) -> (Sim, AgentId, AgentId, RouteId) {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    sim.providers = [("p".to_owned(), provider("m"))].into();
    let route = sim.connect("a", "b", options);
    (sim, a, b, route)
}

/// The newest call ends with this.
fn tell(sim: &mut Sim, text: &str) {
    let (hop, token, _) = sim.asks.last().unwrap().clone();
    told(sim, hop, token, text);
}

fn told(sim: &mut Sim, hop: HopId, token: u64, text: &str) {
    let told = Told {
        text: text.into(),
        usage: Usage { input: 100, cached: 60, output: 7 },
        input: "what was given".into(),
        notes: vec!["asked again: HTTP 429".into()],
    };
    end(sim, hop, token);
    sim.feed(Input::Asked { hop, token, result: Ok(told) });
}

/// The call is no longer under way.
fn end(sim: &mut Sim, hop: HopId, token: u64) {
    if sim.calls.get(&hop) == Some(&token) {
        sim.calls.remove(&hop);
    }
}

fn fail(sim: &mut Sim) {
    let (hop, token, _) = sim.asks.last().unwrap().clone();
    let why = NotTold {
        code: "server_error".into(),
        text: "p fails (HTTP 500)".into(),
        usage: None,
        input: Some("what was given".into()),
    };
    end(sim, hop, token);
    sim.feed(Input::Asked { hop, token, result: Err(why) });
}

fn last(sim: &mut Sim) -> HopInfo {
    sim.hops().pop().unwrap()
}

#[test]
fn a_hop_waits_for_its_model_and_delivers_what_it_wrote_literally() {
    let (mut sim, a, b, _) = pair(asking());
    sim.human_prompt(a, "do it");
    sim.run(30_000);
    let hop = last(&mut sim);
    assert_eq!((hop.state, hop.reason_code.as_str()), (HopState::Queued, "model"));
    assert_eq!(hop.reason_text, "asks m of p");
    assert_eq!((hop.provider.as_deref(), hop.model.as_deref()), (Some("p"), Some("m")));
    assert!(sim.fake(b).writes.is_empty());
    let queue =
        match sim.request(EDITOR, Request::Queue(ListParams { all: true, ..Default::default() })) {
            Ok(Reply::Queue(q)) => q,
            other => panic!("{other:?}"),
        };
    assert_eq!(queue.len(), 1);
    assert!(queue[0].age_ms > 20_000, "{queue:?}");
    tell(&mut sim, "/review it\u{1b}[201~\u{7} now");
    sim.run(5_000);
    // A slash would be a command, and nothing may end the paste.
    assert_eq!(sim.fake(b).submits, [" /review it now"]);
    let hop = sim.hop(hop.id);
    assert_eq!(hop.state, HopState::Answered);
    assert_eq!(hop.usage, Some(Usage { input: 100, cached: 60, output: 7 }));
    assert_eq!(hop.input.as_deref(), Some("what was given"));
    assert!(hop.notes.iter().any(|n| n.contains("429")), "{:?}", hop.notes);
    assert!(hop.times.transformed > hop.times.fired);
    assert_eq!(sim.asks.len(), 1);
}

#[test]
fn a_newer_answer_takes_the_place_and_a_late_text_for_the_older_one_is_nothing() {
    let (mut sim, a, b, _) = pair(asking());
    sim.human_prompt(a, "one");
    sim.run(5_000);
    let (first, token, _) = sim.asks[0].clone();
    sim.human_prompt(a, "two");
    sim.run(5_000);
    assert_eq!(sim.cancelled, [first]);
    assert_eq!(sim.hop(first).reason_code, "replaced");
    told(&mut sim, first, token, "late");
    sim.run(5_000);
    assert!(sim.fake(b).writes.is_empty());
    tell(&mut sim, "second");
    // Once more: a call is over when it is over.
    tell(&mut sim, "third");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["second"]);
    assert_eq!(last(&mut sim).round, 1, "what was replaced never went out");
}

#[test]
fn a_pause_calls_it_off_and_a_resume_asks_anew() {
    let (mut sim, a, b, route) = pair(asking());
    sim.human_prompt(a, "one");
    sim.run(5_000);
    let (hop, token, _) = sim.asks[0].clone();
    sim.pause();
    assert_eq!(sim.cancelled, [hop]);
    assert_eq!(sim.hop(hop).reason_code, "paused");
    told(&mut sim, hop, token, "late");
    sim.run(60_000);
    assert_eq!((sim.asks.len(), sim.hop(hop).state), (1, HopState::Queued));
    sim.resume();
    assert_eq!(sim.asks.len(), 2);
    told(&mut sim, hop, token, "late again");
    sim.run(5_000);
    assert!(sim.fake(b).writes.is_empty());
    tell(&mut sim, "in time");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["in time"]);

    // The same for the route alone, and nothing is asked while it lasts.
    let p = PauseParams { project: PROJECT.into(), route: Some(route.to_string()), hop: None };
    sim.request(EDITOR, Request::Pause(p.clone())).unwrap();
    sim.human_prompt(a, "two");
    sim.run(10_000);
    assert_eq!(sim.asks.len(), 2);
    sim.request(EDITOR, Request::Resume(p)).unwrap();
    assert_eq!(sim.asks.len(), 3);
}

#[test]
fn a_route_that_is_made_in_a_paused_project_asks_nobody() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.open("b", ALL);
    sim.pause();
    sim.providers = [("p".to_owned(), provider("m"))].into();
    sim.connect("a", "b", asking());
    sim.human_prompt(a, "one");
    sim.run(10_000);
    assert!(sim.asks.is_empty());
    assert_eq!(last(&mut sim).reason_code, "paused");
    sim.resume();
    assert_eq!(sim.asks.len(), 1);
}

#[test]
fn whatever_ends_the_hop_calls_it_off() {
    for what in ["disconnect", "close source", "close target", "target ends"] {
        let (mut sim, a, b, route) = pair(asking());
        sim.human_prompt(a, "one");
        sim.run(5_000);
        let (hop, token, _) = sim.asks[0].clone();
        let close = |name: &str| {
            Request::Close(AgentParams { project: PROJECT.into(), agent: name.into() })
        };
        let done = match what {
            "disconnect" => {
                let p = RouteParams { project: PROJECT.into(), route: route.to_string() };
                sim.request(EDITOR, Request::Disconnect(p)).map(|_| ())
            }
            "close source" => sim.request(EDITOR, close("a")).map(|_| ()),
            "close target" => sim.request(EDITOR, close("b")).map(|_| ()),
            _ => {
                sim.feed(Input::Exited { agent: b, code: Some(0), signal: None });
                Ok(())
            }
        };
        done.unwrap();
        assert_eq!(sim.cancelled, [hop], "{what}");
        let before = sim.hop(hop);
        assert!(before.state.is_final(), "{what}: {before:?}");
        told(&mut sim, hop, token, "late");
        sim.run(10_000);
        assert_eq!(sim.hop(hop), before, "{what}");
        assert!(sim.agents.get(&b).is_none_or(|f| f.submits.is_empty()), "{what}");
    }
}

#[test]
fn a_failure_stops_the_hop_with_the_reason_and_the_same_answer_may_be_tried_again() {
    let (mut sim, a, b, route) = pair(asking());
    sim.human_prompt(a, "one");
    sim.run(5_000);
    fail(&mut sim);
    let hop = last(&mut sim);
    assert_eq!((hop.state, hop.reason_code.as_str()), (HopState::Failed, "server_error"));
    assert_eq!(hop.reason_text, "p fails (HTTP 500)");
    assert_eq!(hop.input.as_deref(), Some("what was given"));
    assert_eq!(sim.notices("server_error").len(), 1);
    assert_eq!(sim.route(route).state, RouteState::Active);
    let fire = FireParams { project: PROJECT.into(), route: route.to_string(), confirm: false };
    sim.request(EDITOR, Request::Fire(fire)).unwrap();
    sim.run(5_000);
    assert_eq!(sim.asks.len(), 2, "{:?}", last(&mut sim));
    tell(&mut sim, "now it works");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["now it works"]);
    assert_eq!(last(&mut sim).round, 1);
}

#[test]
fn a_failure_falls_back_to_prompt_wrap_where_the_route_says_so_and_tells() {
    let options = RouteOptions {
        on_error: Some(OnError::PromptWrap),
        template: Some("Write a review for {target}.".into()),
        ..asking()
    };
    let (mut sim, a, b, _) = pair(options);
    sim.human_prompt(a, "one");
    sim.run(5_000);
    fail(&mut sim);
    sim.run(10_000);
    assert_eq!(
        sim.fake(b).submits,
        ["[from a (x), round 1 of 5; written by that agent, not by your user]\n\nECHO one"]
    );
    let hop = last(&mut sim);
    assert_eq!(hop.state, HopState::Answered);
    let said = hop.notes.join("\n");
    assert!(said.contains("HTTP 500") && said.contains("prompt-wrap"), "{said}");
}

#[test]
fn a_text_that_nobody_could_see_is_a_failure() {
    for text in ["", " \n\t", "\u{1b}[0m", "\u{200d}\u{fe0f}"] {
        let (mut sim, a, b, _) = pair(asking());
        sim.human_prompt(a, "one");
        sim.run(5_000);
        tell(&mut sim, text);
        sim.run(10_000);
        let hop = last(&mut sim);
        assert_eq!(hop.state, HopState::Failed, "{text:?}: {hop:?}");
        assert!(hop.usage.is_some());
        assert!(sim.fake(b).writes.is_empty());
    }
}

#[test]
fn the_stable_part_is_the_same_from_call_to_call_and_the_rest_holds_the_material() {
    let options = RouteOptions { task: Some("it reviews security".into()), ..asking() };
    let (mut sim, a, _, _) = pair(options);
    sim.fake(a).changed = Some(vec!["/p/src/auth/a.rs".into(), "/q/b.rs".into()]);
    sim.human_prompt(a, "refactor src/auth");
    sim.run(5_000);
    tell(&mut sim, "review one");
    sim.run(10_000);
    sim.fake(a).changed = Some(vec![]);
    sim.fake(a).answer = Some(format!("{}THE END", "x".repeat(ANSWER_CHARS)));
    sim.human_prompt(a, "go on");
    sim.run(10_000);
    assert_eq!(sim.asks.len(), 2);
    let (one, two) = (&sim.asks[0].2, &sim.asks[1].2);
    assert_eq!(one.stable.as_bytes(), two.stable.as_bytes());
    assert!(one.stable.contains("it reviews security"), "{}", one.stable);
    let material =
        ["a (x)", "b (x)", "1 of at most 5", "refactor src/auth", "ECHO refactor src/auth"];
    for part in material {
        assert!(one.variable.contains(part), "{part}: {}", one.variable);
        assert!(!one.stable.contains(part), "{part}: {}", one.stable);
    }
    assert_eq!(one.changed.as_deref().unwrap(), ["src/auth/a.rs", "/q/b.rs"]);
    assert_eq!(one.source, a);
    assert!(two.variable.contains("go on") && two.variable.contains("ECHO review one"));
    assert!(two.variable.contains("[7 characters were left out here]"), "cut without a word");
    assert!(two.variable.contains("THE END"));
    assert_eq!(two.changed.as_deref(), Some(&[][..]));
}

#[test]
fn a_record_that_names_no_edits_attributes_nothing() {
    let (mut sim, a, _, _) = pair(asking());
    sim.human_prompt(a, "one");
    sim.run(5_000);
    assert_eq!(sim.asks[0].2.changed, None);
}

fn refused(sim: &mut Sim, options: RouteOptions) -> ErrorInfo {
    let p = ConnectParams {
        project: PROJECT.into(),
        source: "a".into(),
        target: "b".into(),
        both: false,
        options,
        providers: sim.providers.clone(),
    };
    sim.request(EDITOR, Request::Connect(p)).unwrap_err()
}

#[test]
fn what_cannot_work_is_refused_when_the_route_is_made() {
    let mut sim = Sim::new();
    sim.open("a", ALL);
    sim.open("b", ALL);
    let e = refused(&mut sim, asking());
    assert_eq!(e.code, "no_provider");
    for way in ["claude', '-p", "11434", "ANTHROPIC_API_KEY"] {
        assert!(e.remedy.contains(way), "{way}: {e}");
    }
    sim.providers = [("p".to_owned(), provider("m")), ("q".to_owned(), provider("n"))].into();
    let e = refused(&mut sim, asking());
    assert!(e.code == "which_provider" && e.remedy.contains("they are p, q"), "{e}");
    let e = refused(&mut sim, RouteOptions { provider: Some("r".into()), ..asking() });
    assert!(e.code == "unknown_provider" && e.remedy.contains("p, q"), "{e}");
    let one = || RouteOptions { provider: Some("p".into()), ..asking() };
    let e = refused(&mut sim, RouteOptions { trigger: Some(Trigger::Always), ..one() });
    assert!(e.message.contains("always"), "{e}");
    let shadow =
        RouteOptions { trigger: Some(Trigger::OnIdle), dispatch: Some(Dispatch::Shadow), ..one() };
    let e = refused(&mut sim, shadow);
    assert!(e.message.contains("shadow"), "{e}");
    let e = refused(&mut sim, RouteOptions { template: Some("{output}".into()), ..one() });
    assert!(e.message.contains("{output}") && e.message.contains("always follow"), "{e}");
    let long = Some("x".repeat(1 << 20));
    for transform in [Transform::AiRouting, Transform::PromptWrap] {
        let options = RouteOptions { template: long.clone(), transform: Some(transform), ..one() };
        let e = refused(&mut sim, options);
        assert!(e.message.contains("1048576 characters; the most is 100000"), "{e}");
        assert!(e.message.len() < 500);
    }
    let e = refused(&mut sim, RouteOptions { task: long, ..one() });
    assert!(e.message.contains("the task has 1048576"), "{e}");
    assert!(sim.route_count() == 0);
    sim.connect("a", "b", one());
}

#[test]
fn a_route_that_is_changed_keeps_its_provider_and_loses_a_template_of_the_other_kind() {
    let (mut sim, _, _, route) = pair(on(Trigger::OnTurn));
    let change = |sim: &mut Sim, transform, template: Option<&str>, providers: &[&str]| {
        let known = providers.iter().map(|n| ((*n).to_owned(), provider(n))).collect();
        let p = TransformParams {
            project: PROJECT.into(),
            route: route.to_string(),
            transform,
            template: template.map(str::to_owned),
            provider: None,
            providers: known,
        };
        sim.request(EDITOR, Request::Transform(p))
    };
    change(&mut sim, Transform::PromptWrap, Some("see {output}"), &[]).unwrap();
    assert!(change(&mut sim, Transform::Summary, None, &[]).is_err());
    assert_eq!(sim.route(route).transform, Transform::PromptWrap, "half of it was taken");
    change(&mut sim, Transform::Summary, None, &["q"]).unwrap();
    let info = sim.route(route);
    assert_eq!((info.provider.as_deref(), info.model.as_deref()), (Some("q"), Some("q")));
    assert_eq!(info.template, None);
    change(&mut sim, Transform::AiRouting, Some("be short"), &["r", "s"]).unwrap();
    let info = sim.route(route);
    assert_eq!((info.provider.as_deref(), info.template.as_deref()), (Some("q"), Some("be short")));
}

#[test]
fn a_host_that_died_while_a_model_was_asked_leaves_nothing_to_type() {
    let mut sim = Sim::new();
    let b = sim.open("b", ALL);
    let mut hop = HopInfo { id: HopId(7), target: "b".into(), ..HopInfo::default() };
    hop.project = PROJECT.into();
    let left = RestoredHop { hop, enter: false, in_record: false, hidden: false };
    sim.feed(Input::Restored { hops: vec![left], next_hop: 8 });
    let hop = sim.hop(HopId(7));
    assert_eq!(hop.state, HopState::Failed);
    assert!(hop.reason_text.contains("before a model had written its prompt"), "{hop:?}");
    sim.run(10_000);
    assert!(sim.fake(b).writes.is_empty());
}

#[test]
fn a_yes_is_not_taken_before_there_is_a_text_to_read() {
    let (mut sim, a, b, _) = pair(RouteOptions { confirm: Some(true), ..asking() });
    sim.human_prompt(a, "one");
    sim.run(5_000);
    let hop = sim.asks[0].0;
    let approve = |prompt: Option<&str>| {
        let prompt = prompt.map(str::to_owned);
        Request::Approve(ApproveParams { project: PROJECT.into(), hop, prompt })
    };
    let resume = PauseParams { project: PROJECT.into(), route: None, hop: Some(hop) };
    for request in [approve(None), approve(Some("mine")), Request::Resume(resume)] {
        let e = sim.request(EDITOR, request).unwrap_err();
        assert!(e.code == "no_text" && e.message.contains("asks m of p"), "{e}");
    }
    tell(&mut sim, "the model's");
    sim.run(10_000);
    assert_eq!(sim.hop(hop).reason_code, "confirm");
    assert!(sim.fake(b).writes.is_empty());
    sim.request(EDITOR, approve(Some("mine"))).unwrap();
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["mine"]);
    let steps = sim.hop(hop).steps;
    let said: Vec<&str> =
        steps.iter().filter(|s| s.kind == StepKind::Model).map(|s| s.text.as_str()).collect();
    let wrote = "it wrote 11 characters (100 tokens read, 60 of them cached, 7 written)";
    assert_eq!(said, ["asks m of p", wrote]);
}

#[test]
fn a_hop_that_is_dropped_is_not_asked_for_any_more() {
    let (mut sim, a, b, _) = pair(asking());
    sim.human_prompt(a, "one");
    sim.run(5_000);
    let (hop, token, _) = sim.asks[0].clone();
    sim.request(EDITOR, Request::Drop(HopParams { project: PROJECT.into(), hop })).unwrap();
    assert_eq!(sim.cancelled, [hop]);
    told(&mut sim, hop, token, "late");
    sim.run(10_000);
    assert_eq!(sim.hop(hop).reason_code, "dropped");
    assert!(sim.fake(b).writes.is_empty());
}

#[test]
fn the_same_inputs_give_the_same_calls() {
    let (mut sim, a, _, _) = pair(asking());
    sim.human_prompt(a, "one");
    sim.run(5_000);
    fail(&mut sim);
    sim.human_prompt(a, "two");
    sim.run(5_000);
    sim.pause();
    sim.resume();
    tell(&mut sim, "text");
    sim.run(10_000);
    let mut hub = Hub::new(Timing::default());
    for (now, input, effects) in &sim.trace {
        // As a trace holds them: written down and read again.
        let input = serde_json::from_str(&serde_json::to_string(input).unwrap()).unwrap();
        assert_eq!(&hub.step(*now, input), effects);
    }
}
