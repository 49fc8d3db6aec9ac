//! Triggers, transforms and guards, with simulated time.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::core::dialect::{HookEvent, RecordEvent, StatusState};
use mado::core::{Hub, Input, Timing};
use mado::proto::*;
use sim::{ALL, EDITOR, PROJECT, SHELL, Sim, on};

fn pair() -> (Sim, AgentId, AgentId) {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    (sim, a, b)
}

fn wrap(template: &str, trigger: Trigger) -> RouteOptions {
    RouteOptions { template: Some(template.into()), ..on(trigger) }
}

#[test]
fn on_turn_sends_the_answer_of_the_turn_that_fired_and_never_the_one_before() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("<{output}>", Trigger::OnTurn));
    for n in 1..4 {
        sim.human_prompt(a, &format!("prompt {n}"));
        sim.run(8_000);
    }
    assert_eq!(sim.fake(b).submits, ["<ECHO prompt 1>", "<ECHO prompt 2>", "<ECHO prompt 3>"]);
    let hops = sim.hops();
    assert!(hops.iter().all(|h| h.state == HopState::Answered && h.rung == Rung::Hook), "{hops:?}");
    assert_eq!(hops[0].turn.as_deref(), Some("t1"));
}

#[test]
fn on_idle_waits_for_eight_seconds_of_silence_and_a_repaint_starts_them_again() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnIdle));
    sim.human_prompt(a, "p");
    sim.run(6_000);
    sim.fake(a).rows.push("● late words".into());
    sim.show(a);
    sim.run(7_900);
    assert!(sim.fake(b).submits.is_empty());
    sim.run(1_500);
    assert_eq!(sim.fake(b).submits, ["ECHO p"]);
}

#[test]
fn on_complete_is_on_idle() {
    let trigger: Trigger = serde_json::from_str("\"on-complete\"").unwrap();
    assert_eq!(trigger, Trigger::OnIdle);
}

#[test]
fn eight_seconds_of_silence_inside_a_dialog_fire_nothing() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnIdle));
    sim.human_prompt(a, "p");
    sim.run(500);
    sim.fake(a).dialog = true;
    sim.fake(a).title = "✳ x".into();
    sim.show(a);
    sim.run(60_000);
    assert!(sim.fake(b).writes.is_empty());
    assert_eq!(sim.info("a").phase, Phase::Asking);
    sim.fake(a).dialog = false;
    sim.show(a);
    sim.run(20_000);
    assert_eq!(sim.fake(b).submits, ["ECHO p"]);
}

#[test]
fn a_new_turn_supersedes_a_waiting_firing_and_says_so() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnIdle));
    sim.human_prompt(a, "one");
    sim.run(4_000);
    sim.human_prompt(a, "two");
    sim.run(20_000);
    assert_eq!(sim.fake(b).submits, ["ECHO two"]);
    assert_eq!(sim.notices("superseded").len(), 1);
}

#[test]
fn the_record_may_come_before_or_after_the_hook() {
    for late in [false, true] {
        let (mut sim, a, b) = pair();
        sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
        sim.human_prompt(a, "one");
        sim.run(6_000);
        sim.fake(a).hooks = !late;
        sim.human_prompt(a, "two");
        if late {
            // The hooks of this turn are held up until after the record.
            sim.after(40, move |s| {
                s.hook(
                    a,
                    HookEvent::Prompt {
                        session: "s".into(),
                        turn: Some("t2".into()),
                        text: "two".into(),
                    },
                );
            });
            sim.after(1_400, move |s| {
                s.hook(
                    a,
                    HookEvent::Stop {
                        session: "s".into(),
                        turn: Some("t2".into()),
                        answer: None,
                        background: 0,
                    },
                );
            });
        }
        sim.run(8_000);
        assert_eq!(sim.fake(b).submits, ["ECHO one", "ECHO two"], "late {late}");
    }
}

#[test]
fn each_rung_alone_ends_a_turn() {
    for (rungs, hooks, records, status, rung) in [
        (r#""hook""#, true, false, false, Rung::Hook),
        (r#""record""#, false, true, false, Rung::Record),
        (r#""status""#, false, false, true, Rung::Status),
        (r#""title""#, false, false, false, Rung::Title),
        (r#""screen""#, false, false, false, Rung::Screen),
    ] {
        let mut sim = Sim::new();
        let a = sim.open("a", rungs);
        let b = sim.open("b", ALL);
        let f = sim.fake(a);
        (f.hooks, f.records, f.status) = (hooks, records, status);
        sim.connect(
            "a",
            "b",
            RouteOptions { idle_ms: Some(500), ..wrap("{output}", Trigger::OnIdle) },
        );
        sim.human_prompt(a, "p");
        sim.run(10_000);
        assert_eq!(sim.fake(b).submits.len(), 1, "{rungs}");
        assert!(sim.fake(b).submits[0].contains("ECHO p"), "{rungs}: {:?}", sim.fake(b).submits);
        assert_eq!(sim.hops()[0].rung, rung, "{rungs}");
    }
}

#[test]
fn an_error_an_interrupt_and_a_crash_stop_the_hop_with_the_reason() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.human_prompt(a, "p");
    sim.after(500, move |s| {
        s.feed(Input::Record {
            agent: a,
            event: RecordEvent::ApiError { code: Some(529), text: "Overloaded".into() },
        });
    });
    sim.run(5_000);
    let h = sim.hops().pop().unwrap();
    assert_eq!(h.state, HopState::Failed);
    assert!(h.reason_text.contains("529"), "{}", h.reason_text);

    sim.human_prompt(a, "p");
    sim.after(500, move |s| {
        s.feed(Input::Record {
            agent: a,
            event: RecordEvent::Interrupted { turn: Some("t2".into()) },
        });
    });
    sim.run(5_000);
    let h = sim.hops().pop().unwrap();
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Stopped, "interrupted"));

    sim.human_prompt(a, "p");
    sim.run(500);
    sim.feed(Input::Exited { agent: a, code: Some(1), signal: None });
    let h = sim.hops().pop().unwrap();
    assert_eq!(h.state, HopState::Failed);
    assert!(h.reason_text.contains("ended in the turn"), "{}", h.reason_text);
    assert!(sim.fake(b).writes.is_empty());
}

#[test]
fn the_prompts_own_words_are_no_stop_keyword_and_no_keyword_match() {
    let (mut sim, a, b) = pair();
    let c = sim.open("c", ALL);
    let options =
        RouteOptions { stop_keyword: Some("LGTM".into()), ..wrap("{output}", Trigger::OnTurn) };
    let route = sim.connect("a", "b", options);
    let keyword =
        RouteOptions { pattern: Some("LGTM".into()), ..wrap("{output}", Trigger::OnKeyword) };
    sim.connect("a", "c", keyword);
    sim.fake(a).answer = Some("not yet".into());
    sim.human_prompt(a, "say LGTM when done. ✻ Baked for 1s");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits, ["not yet"]);
    assert!(sim.fake(c).submits.is_empty());
    sim.fake(a).answer = Some("all good: LGTM".into());
    sim.human_prompt(a, "again");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    assert_eq!(sim.fake(c).submits, ["all good: LGTM"]);
    let r = sim.route(route);
    assert_eq!((r.state, r.reason_code.as_str()), (RouteState::Stopped, "stop_keyword"));
    assert!(r.reason_text.contains(":Mado resume"), "{}", r.reason_text);
}

#[test]
fn a_keyword_on_the_screen_is_found_once_although_wrapped_and_repainted() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""screen", "title""#);
    let b = sim.open("b", ALL);
    let f = sim.fake(a);
    (f.hooks, f.records, f.status, f.cols) = (false, false, false, 40);
    let options = RouteOptions {
        pattern: Some("ready to deploy".into()),
        ..wrap("{output}", Trigger::OnKeyword)
    };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "go (ready to deploy?)");
    sim.run(300);
    // Written in two pieces, broken at the edge by the program itself.
    sim.fake(a).rows.push("● the change is now finished and ready".into());
    sim.show(a);
    sim.run(50);
    sim.fake(a).rows.push("  to deploy".into());
    for _ in 0..5 {
        sim.show(a);
        sim.run(20);
    }
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits.len(), 1, "{:?}", sim.fake(b).submits);
    assert!(sim.fake(b).submits[0].ends_with("ready to deploy"), "{:?}", sim.fake(b).submits);
}

#[test]
fn always_streams_all_new_output_in_order_and_once() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""screen", "title""#);
    let b = sim.open("b", ALL);
    let f = sim.fake(a);
    (f.hooks, f.records, f.status) = (false, false, false);
    sim.connect("a", "b", wrap("{output}", Trigger::Always));
    sim.human_prompt(a, "go");
    sim.run(100);
    for n in 0..8 {
        sim.fake(a).rows.push(format!("● line {n}"));
        sim.show(a);
        sim.run(100);
    }
    sim.run(30_000);
    let all = sim.fake(b).submits.join("\n");
    let lines: Vec<&str> = all.lines().filter(|l| l.contains("line")).collect();
    let want: Vec<String> = (0..8).map(|n| format!("● line {n}")).collect();
    assert_eq!(lines, want);
    assert!(sim.hops().iter().all(|h| h.round == 1), "all batches of a turn are one round");
}

#[test]
fn two_agents_that_answer_each_other_stop_visibly_at_max_rounds_and_a_human_rearms() {
    let (mut sim, a, _b) = pair();
    let ab = sim.connect(
        "a",
        "b",
        RouteOptions { max_rounds: Some(3), ..wrap("to b {round}: {output}", Trigger::OnTurn) },
    );
    sim.connect("b", "a", wrap("to a {round}: {output}", Trigger::OnTurn));
    sim.human_prompt(a, "start");
    sim.run(120_000);
    let r = sim.route(ab);
    assert_eq!((r.state, r.round, r.reason_code.as_str()), (RouteState::Stopped, 3, "max_rounds"));
    assert_eq!(sim.notices("max_rounds").len(), 1);
    let stopped: Vec<HopInfo> =
        sim.hops().into_iter().filter(|h| h.state == HopState::Stopped).collect();
    assert_eq!(stopped.len(), 1);
    assert_eq!(stopped[0].reason_code, "max_rounds");
    sim.human_prompt(a, "start again");
    sim.run(3_000);
    assert_eq!(sim.route(ab).state, RouteState::Active);
    assert_eq!(sim.route(ab).round, 1);
}

#[test]
fn a_ring_of_three_stops_at_the_chains_limit_with_one_message() {
    let mut sim = Sim::with(Timing { chain_limit: 7, ..Timing::default() });
    let a = sim.open("a", ALL);
    sim.open("b", ALL);
    sim.open("c", ALL);
    for (x, y) in [("a", "b"), ("b", "c"), ("c", "a")] {
        sim.connect(
            x,
            y,
            RouteOptions { max_rounds: Some(20), ..wrap("{source}: {output}", Trigger::OnTurn) },
        );
    }
    sim.human_prompt(a, "start");
    sim.run(200_000);
    let delivered = sim.hops().iter().filter(|h| h.state == HopState::Answered).count();
    assert_eq!(delivered, 7);
    assert_eq!(sim.notices("chain_limit").len(), 1);
    let depths: Vec<u32> = sim.hops().iter().map(|h| h.depth).collect();
    assert_eq!(depths, (0..8).collect::<Vec<u32>>());
}

#[test]
fn thanks_that_repeat_stop_the_route() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.connect("b", "a", wrap("{output}", Trigger::OnTurn));
    sim.fake(a).answer = Some("Thank you!".into());
    sim.fake(b).answer = Some("No, thank YOU!".into());
    sim.human_prompt(a, "start");
    sim.run(120_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    assert_eq!(sim.notices("repeated").len(), 1);
}

#[test]
fn within_the_cooldown_a_firing_waits_and_a_newer_answer_takes_its_place() {
    let (mut sim, a, b) = pair();
    sim.connect(
        "a",
        "b",
        RouteOptions { cooldown_ms: Some(30_000), ..wrap("{output}", Trigger::OnTurn) },
    );
    for n in 1..4 {
        sim.human_prompt(a, &format!("p{n}"));
        sim.run(5_000);
    }
    assert_eq!(sim.fake(b).submits, ["ECHO p1"]);
    sim.run(40_000);
    assert_eq!(sim.fake(b).submits, ["ECHO p1", "ECHO p3"]);
    let hops = sim.hops();
    assert_eq!(hops[1].reason_code, "replaced");
    assert_eq!(hops[2].state, HopState::Answered);
}

#[test]
fn a_paused_route_keeps_its_newest_answer_until_it_is_resumed() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.pause();
    sim.human_prompt(a, "p1");
    sim.run(5_000);
    sim.human_prompt(a, "p2");
    sim.run(20_000);
    assert!(sim.fake(b).writes.is_empty());
    sim.resume();
    sim.run(5_000);
    assert_eq!(sim.fake(b).submits, ["ECHO p2"]);
}

#[test]
fn routes_of_an_editor_are_held_while_none_is_attached() {
    let (mut sim, a, b) = pair();
    let route = sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.feed(Input::ClientGone { client: EDITOR });
    assert_eq!(sim.route(route).state, RouteState::Held);
    sim.human_prompt(a, "p");
    sim.run(10_000);
    assert!(sim.fake(b).writes.is_empty());
    sim.feed(Input::ClientHere {
        client: EDITOR,
        kind: ClientKind::Editor,
        project: PROJECT.into(),
    });
    sim.run(5_000);
    assert_eq!(sim.fake(b).submits, ["ECHO p"]);
}

#[test]
fn raw_and_full_output_are_the_last_10_and_30_lines() {
    for (transform, n) in [(Transform::Raw, 10), (Transform::FullOutput, 30)] {
        let (mut sim, a, b) = pair();
        let lines: Vec<String> = (1..=40).map(|n| format!("line {n}")).collect();
        sim.fake(a).answer = Some(lines.join("\n") + "\n\n");
        sim.connect(
            "a",
            "b",
            RouteOptions {
                transform: Some(transform),
                deliver: Some("lines".into()),
                ..on(Trigger::OnTurn)
            },
        );
        sim.human_prompt(a, "p");
        sim.run(10_000);
        assert_eq!(sim.fake(b).submits, [lines[40 - n..].join("\n")]);
    }
}

#[test]
fn a_placeholder_inside_the_answer_stays() {
    let (mut sim, a, b) = pair();
    sim.fake(a).answer = Some("use {round} and {output}".into());
    sim.connect("a", "b", wrap("{{{round}}}: {output}", Trigger::OnTurn));
    sim.human_prompt(a, "p");
    sim.run(5_000);
    assert_eq!(sim.fake(b).submits, ["{1}: use {round} and {output}"]);
}

#[test]
fn a_send_from_inside_an_agent_stays_in_its_chain() {
    let (mut sim, a, _b) = pair();
    sim.human_prompt(a, "p");
    sim.run(3_000);
    let p = SendParams {
        project: PROJECT.into(),
        target: "b".into(),
        text: "hi".into(),
        deliver: None,
    };
    let reply = sim.request_with(SHELL, Some(a), None, Request::Send(p)).unwrap();
    let Reply::Hop(hop) = reply else { panic!() };
    assert_eq!((hop.chain, hop.source.as_str()), (ChainId(1), "a"));
    let own = sim.send("b", "mine");
    assert_ne!(sim.hop(own).chain, ChainId(1));
}

#[test]
fn a_turn_that_the_program_starts_itself_stays_in_the_chain() {
    let (mut sim, a, _b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.human_prompt(a, "p");
    sim.run(5_000);
    sim.begin(a, "<task-notification>");
    sim.run(10_000);
    let chains: Vec<ChainId> = sim.hops().iter().map(|h| h.chain).collect();
    assert_eq!(chains, [ChainId(1), ChainId(1)]);
}

#[test]
fn fire_and_handoff_use_the_last_answer() {
    let (mut sim, a, b) = pair();
    let route = sim.connect("a", "b", wrap("[{output}]", Trigger::OnIdle));
    let fire =
        || Request::Fire(FireParams { project: PROJECT.into(), route: "1".into(), confirm: false });
    let e = sim.request(EDITOR, fire()).unwrap_err();
    assert_eq!(e.code, "no_answer");
    sim.human_prompt(a, "p");
    sim.run(3_000);
    sim.request(EDITOR, fire()).unwrap();
    sim.run(3_000);
    assert_eq!(sim.fake(b).submits, ["[ECHO p]"]);
    let p = HandoffParams {
        project: PROJECT.into(),
        source: "a".into(),
        target: "b".into(),
        text: Some("Look:".into()),
    };
    sim.request(EDITOR, Request::Handoff(p)).unwrap();
    sim.run(4_000);
    assert_eq!(sim.fake(b).submits[1], "Look:\n\nECHO p");
    assert_eq!(sim.route(route).round, 1);
}

#[test]
fn bad_requests_name_the_thing_and_the_remedy_and_change_nothing() {
    let (mut sim, _a, _b) = pair();
    let connect = |s: &str, t: &str, options: RouteOptions| {
        Request::Connect(ConnectParams {
            project: PROJECT.into(),
            source: s.into(),
            target: t.into(),
            options,
            ..ConnectParams::default()
        })
    };
    for (request, code, says) in [
        (connect("nobody", "b", RouteOptions::default()), "unknown_agent", "nobody"),
        (connect("a", "a", RouteOptions::default()), "self_route", "itself"),
        (
            connect("a", "b", RouteOptions { max_rounds: Some(21), ..RouteOptions::default() }),
            "bad_value",
            "max_rounds is 21",
        ),
        (
            connect("a", "b", RouteOptions { cooldown_ms: Some(10), ..RouteOptions::default() }),
            "bad_value",
            "cooldown_ms is 10",
        ),
        (connect("a", "b", wrap("{nope}", Trigger::OnIdle)), "bad_value", "{nope} at position 1"),
        (connect("a", "b", on(Trigger::OnKeyword)), "bad_value", "needs a pattern"),
        (
            connect(
                "a",
                "b",
                RouteOptions { pattern: Some("a(b".into()), ..on(Trigger::OnKeyword) },
            ),
            "bad_pattern",
            "a → b: invalid pattern \"a(b\": unclosed group at position 2",
        ),
        (
            connect(
                "a",
                "b",
                RouteOptions { pattern: Some("x*".into()), ..on(Trigger::OnKeyword) },
            ),
            "bad_pattern",
            "empty text",
        ),
        (
            Request::Disconnect(RouteParams { project: PROJECT.into(), route: "9".into() }),
            "unknown_route",
            "\"9\"",
        ),
        (
            Request::Rename(RenameParams {
                project: PROJECT.into(),
                agent: "a".into(),
                name: "b".into(),
            }),
            "name_taken",
            "\"b\"",
        ),
    ] {
        let e = sim.request(EDITOR, request).unwrap_err();
        assert_eq!(e.code, code, "{e}");
        assert!(e.message.contains(says), "{e}");
        assert!(!e.remedy.is_empty(), "{e}");
    }
    let Ok(Reply::Routes(routes)) =
        sim.request(EDITOR, Request::Routes(ListParams { all: true, ..ListParams::default() }))
    else {
        panic!()
    };
    assert!(routes.is_empty());
    sim.connect("a", "b", RouteOptions::default());
    let e = sim.request(EDITOR, connect("a", "b", RouteOptions::default())).unwrap_err();
    assert_eq!(e.code, "route_exists");
}

#[test]
fn hops_of_a_host_that_died_are_held_accepted_or_in_doubt_and_never_resent() {
    let mut sim = Sim::new();
    let hop = |id: u64, state| HopInfo {
        id: HopId(id),
        target: "a".into(),
        project: PROJECT.into(),
        prompt: Some(format!("text {id}")),
        state,
        ..HopInfo::default()
    };
    sim.feed(Input::Restored {
        hops: vec![
            mado::core::RestoredHop {
                hop: hop(5, HopState::Typing),
                enter: false,
                in_record: false,
                hidden: false,
            },
            mado::core::RestoredHop {
                hop: hop(6, HopState::Submitted),
                enter: true,
                in_record: true,
                hidden: false,
            },
            mado::core::RestoredHop {
                hop: hop(7, HopState::Submitted),
                enter: true,
                in_record: false,
                hidden: false,
            },
        ],
        next_hop: 8,
    });
    let a = sim.open("a", ALL);
    sim.run(60_000);
    assert!(sim.fake(a).writes.is_empty());
    assert_eq!(sim.hop(HopId(5)).state, HopState::Held);
    assert_eq!(sim.hop(HopId(6)).state, HopState::Accepted);
    let doubt = sim.hop(HopId(7));
    assert_eq!((doubt.state, doubt.reason_code.as_str()), (HopState::Failed, "in_doubt"));
    let p = PauseParams { project: PROJECT.into(), route: None, hop: Some(HopId(5)) };
    sim.request(EDITOR, Request::Resume(p)).unwrap();
    sim.run(5_000);
    assert_eq!(sim.fake(a).submits, ["text 5"]);
    assert!(sim.send("a", "new").0 >= 8);
}

#[test]
fn a_trace_replays_to_the_same_effects() {
    let (mut sim, a, _b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.human_prompt(a, "p");
    sim.run(20_000);
    let mut hub = Hub::new(Timing::default());
    for (now, input, effects) in &sim.trace {
        let line = serde_json::to_string(input).unwrap();
        let input: Input = serde_json::from_str(&line).unwrap();
        assert_eq!(&hub.step(*now, input), effects);
    }
    assert!(sim.trace.len() > 50);
}

#[test]
fn an_interrupted_turn_without_a_stop_hook_is_over_when_the_status_says_idle() {
    let (mut sim, a, b) = pair();
    sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    let f = sim.fake(a);
    (f.hooks, f.records) = (true, true);
    sim.human_prompt(a, "p");
    sim.run(600);
    assert_eq!(sim.info("a").phase, Phase::Busy);
    // Esc: no Stop, the status goes idle, the record says interrupted a little later.
    sim.fake(a).hooks = false;
    sim.fake(a).records = false;
    sim.fake(a).busy = false;
    sim.fake(a).title = "✳ x".into();
    sim.show(a);
    sim.feed(Input::Status { agent: a, state: StatusState::Idle });
    sim.after(100, move |s| {
        s.feed(Input::Record {
            agent: a,
            event: RecordEvent::Interrupted { turn: Some("t1".into()) },
        });
    });
    sim.run(200);
    assert_eq!(sim.info("a").phase, Phase::Idle);
    sim.run(20_000);
    assert!(sim.fake(b).writes.is_empty());
    assert!(sim.hops().iter().all(|h| h.state != HopState::Answered));
}

#[test]
fn a_stream_goes_on_after_a_gap_without_waiting_for_more_output() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""screen", "title""#);
    let b = sim.open("b", ALL);
    let f = sim.fake(a);
    (f.hooks, f.records, f.status, f.manual) = (false, false, false, true);
    sim.connect("a", "b", wrap("{output}", Trigger::Always));
    sim.human_prompt(a, "go");
    sim.fake(a).busy = true;
    sim.show(a);
    sim.fake(a).rows.extend(["● first".into(), "● second".into()]);
    sim.show(a);
    sim.run(2_000);
    assert_eq!(sim.fake(b).submits, ["● first"], "the last line may still be written");
}

#[test]
fn a_stop_word_in_a_batch_that_joins_another_is_seen() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""screen", "title""#);
    let b = sim.open("b", ALL);
    let f = sim.fake(a);
    (f.hooks, f.records, f.status, f.manual) = (false, false, false, true);
    let options =
        RouteOptions { stop_keyword: Some("LGTM".into()), ..wrap("{output}", Trigger::Always) };
    let route = sim.connect("a", "b", options);
    sim.fake(b).dialog = true;
    sim.show(b);
    sim.human_prompt(a, "go");
    sim.fake(a).busy = true;
    sim.show(a);
    for line in ["● first", "● second", "● LGTM", "● more"] {
        sim.fake(a).rows.push(line.into());
        sim.show(a);
        sim.run(1_000);
    }
    assert_eq!(sim.route(route).state, RouteState::Stopped);
    sim.fake(b).dialog = false;
    sim.show(b);
    sim.run(5_000);
    assert_eq!(sim.fake(b).submits, ["● first\n● second"]);
}

#[test]
fn batches_hold_at_most_what_is_allowed() {
    let mut sim = Sim::with(Timing { batch_bytes: 40, ..Timing::default() });
    let a = sim.open("a", r#""screen", "title""#);
    sim.open("b", ALL);
    let f = sim.fake(a);
    (f.hooks, f.records, f.status, f.manual) = (false, false, false, true);
    sim.connect("a", "b", wrap("{output}", Trigger::Always));
    sim.human_prompt(a, "go");
    sim.fake(a).busy = true;
    for n in 0..12 {
        sim.fake(a).rows.push(format!("● line {n:04}"));
    }
    sim.show(a);
    sim.run(60_000);
    let answers: Vec<String> = sim.hops().into_iter().filter_map(|h| h.answer).collect();
    assert!(answers.iter().all(|a| a.len() <= 40), "{answers:?}");
    assert_eq!(answers.join("\n").lines().count(), 11);
}

#[test]
fn two_chains_on_one_route_keep_their_own_rounds() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.open("b", ALL);
    let c = sim.open("c", ALL);
    let d = sim.open("d", ALL);
    let options = RouteOptions {
        max_rounds: Some(2),
        cooldown_ms: Some(1_000),
        ..wrap("{source} {round}: {output}", Trigger::OnTurn)
    };
    let route = sim.connect("a", "b", options);
    // Two agents take turns in asking the source, each within its own chain.
    sim.human_prompt(c, "one");
    sim.human_prompt(d, "two");
    sim.run(3_000);
    for n in 0..3 {
        for from in [c, d] {
            let p = SendParams {
                project: PROJECT.into(),
                target: "a".into(),
                text: format!("question {n} of {from}"),
                deliver: None,
            };
            sim.request_with(SHELL, Some(from), None, Request::Send(p)).unwrap();
            sim.run(6_000);
        }
    }
    let _ = a;
    assert_eq!(sim.route(route).state, RouteState::Stopped);
    assert_eq!(sim.notices("max_rounds").len(), 1);
    let rounds: Vec<u32> = sim
        .hops()
        .iter()
        .filter(|h| h.route.is_some() && h.state == HopState::Answered)
        .map(|h| h.round)
        .collect();
    assert_eq!(rounds, [1, 1, 2, 2]);
}

#[test]
fn an_answer_that_was_replaced_while_it_waited_has_not_gone_this_way() {
    let (mut sim, a, b) = pair();
    let options = RouteOptions { cooldown_ms: Some(20_000), ..wrap("{output}", Trigger::OnTurn) };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "start");
    sim.run(3_000);
    // The program goes on by itself, in the same chain.
    for answer in ["same", "other", "same"] {
        sim.fake(a).answer = Some(answer.into());
        sim.begin(a, "<task-notification>");
        sim.run(4_000);
    }
    sim.run(30_000);
    assert_eq!(sim.fake(b).submits, ["ECHO start", "same"]);
    assert!(sim.notices("repeated").is_empty());
}

#[test]
fn an_agent_that_hands_off_by_itself_is_held_to_its_chains_limit() {
    let mut sim = Sim::with(Timing { chain_limit: 3, ..Timing::default() });
    let a = sim.open("a", ALL);
    sim.open("b", ALL);
    sim.human_prompt(a, "p");
    sim.run(3_000);
    let handoff = || {
        Request::Handoff(HandoffParams {
            project: PROJECT.into(),
            source: "a".into(),
            target: "b".into(),
            text: None,
        })
    };
    for _ in 0..3 {
        sim.request_with(SHELL, Some(a), None, handoff()).unwrap();
    }
    let e = sim.request_with(SHELL, Some(a), None, handoff()).unwrap_err();
    assert_eq!(e.code, "chain_limit");
    sim.request(EDITOR, handoff()).expect("a person is not limited");
}

#[test]
fn a_chain_keeps_its_count_however_many_others_pass() {
    let mut sim = Sim::with(Timing { chain_limit: 3, ..Timing::default() });
    let a = sim.open("a", ALL);
    sim.open("b", ALL);
    let dead = sim.open("dead", ALL);
    sim.feed(Input::Exited { agent: dead, code: Some(0), signal: None });
    sim.human_prompt(a, "p");
    sim.run(3_000);
    let send = |to: &str| {
        Request::Send(SendParams {
            project: PROJECT.into(),
            target: to.into(),
            text: "x".into(),
            deliver: None,
        })
    };
    for _ in 0..3 {
        sim.request_with(SHELL, Some(a), None, send("b")).unwrap();
    }
    for _ in 0..1_200 {
        sim.request(SHELL, send("dead")).unwrap();
    }
    let e = sim.request_with(SHELL, Some(a), None, send("b")).unwrap_err();
    assert_eq!(e.code, "chain_limit");
}

#[test]
fn a_text_that_no_composer_can_show_is_refused_before_a_byte_of_it() {
    // A variation selector, a joiner, a zero-width space: nothing would be seen before the Enter.
    for text in ["\u{fe00}", "\u{200d}\u{200b}", " \u{fe0f}\n", "\u{301}"] {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        let hop = sim.send("a", text);
        sim.run(60_000);
        let h = sim.hop(hop);
        assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "empty"), "{text:?}");
        assert!(sim.fake(a).writes.is_empty(), "{text:?}");
    }
}

#[test]
fn a_turn_without_output_hands_nothing_on() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""hook", "screen""#);
    let b = sim.open("b", ALL);
    sim.fake(a).manual = true;
    sim.connect("a", "b", on(Trigger::OnTurn));
    sim.hook(
        a,
        HookEvent::Prompt { session: "s".into(), turn: Some("t1".into()), text: "p".into() },
    );
    sim.run(100);
    let stop = HookEvent::Stop {
        session: "s".into(),
        turn: Some("t1".into()),
        answer: None,
        background: 0,
    };
    sim.hook(a, stop);
    sim.run(5_000);
    assert!(sim.fake(b).writes.is_empty());
    let h = sim.hops().pop().unwrap();
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "empty"));
}

#[test]
fn a_persons_prompt_does_not_rearm_a_route_whose_target_is_gone() {
    let (mut sim, a, b) = pair();
    let route = sim.connect("a", "b", wrap("{output}", Trigger::OnTurn));
    sim.feed(Input::Exited { agent: b, code: Some(0), signal: None });
    sim.human_prompt(a, "p");
    sim.run(5_000);
    let r = sim.route(route);
    assert_eq!((r.state, r.reason_code.as_str()), (RouteState::Stopped, "agent_exited"));
    sim.resume();
    assert_eq!(sim.route(route).reason_code, "agent_exited", "it needs a restart first");
}
