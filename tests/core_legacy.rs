//! `dispatch=legacy` and `dispatch=shadow`: the simple way, and both ways side by side.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::proto::*;
use sim::{ALL, EDITOR, PROJECT, Sim, on};

fn by(dispatch: Dispatch) -> RouteOptions {
    RouteOptions {
        dispatch: Some(dispatch),
        template: Some("[{output}]".into()),
        idle_ms: Some(3_000),
        ..on(Trigger::OnIdle)
    }
}

fn pair(dispatch: Dispatch) -> (Sim, AgentId, AgentId) {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    sim.connect("a", "b", by(dispatch));
    (sim, a, b)
}

#[test]
fn legacy_hands_on_what_the_screen_shows_after_its_silence() {
    let (mut sim, a, b) = pair(Dispatch::Legacy);
    sim.human_prompt(a, "p");
    sim.run(4_000);
    assert!(sim.fake(b).submits.is_empty(), "the silence is not over");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits, ["[● ECHO p]"]);
    let hop = sim.hops().pop().unwrap();
    assert_eq!((hop.state, hop.rung), (HopState::Answered, Rung::Screen));
    assert_eq!(hop.shadow, None);
    sim.run(60_000);
    assert_eq!(sim.fake(b).submits.len(), 1, "a turn fires once");
}

#[test]
fn legacy_takes_no_turn_that_was_over_before_it_was_connected() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    sim.human_prompt(a, "old");
    sim.run(10_000);
    sim.connect("a", "b", by(Dispatch::Legacy));
    sim.run(30_000);
    assert!(sim.fake(b).submits.is_empty());
    sim.human_prompt(a, "new");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["[● ECHO new]"]);
}

#[test]
fn legacy_types_no_less_carefully() {
    let (mut sim, a, b) = pair(Dispatch::Legacy);
    sim.fake(b).dialog = true;
    sim.show(b);
    sim.fake(a).answer = Some("one\u{1b}[201~two".into());
    sim.human_prompt(a, "p");
    sim.run(20_000);
    assert!(sim.fake(b).writes.is_empty() && sim.fake(b).approvals == 0);
    let hop = sim.hops().pop().unwrap();
    assert_eq!((hop.state, hop.reason_code.as_str()), (HopState::Queued, "asks"));
    sim.fake(b).dialog = false;
    sim.show(b);
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    assert!(!sim.fake(b).submits[0].contains('\u{1b}'));
}

#[test]
fn legacy_never_fires_while_the_source_asks() {
    let (mut sim, a, b) = pair(Dispatch::Legacy);
    sim.human_prompt(a, "p");
    sim.run(300);
    sim.fake(a).rows.push("✻ Baked for 1s".into());
    sim.fake(a).dialog = true;
    sim.show(a);
    sim.run(60_000);
    assert!(sim.hops().is_empty());
    assert!(sim.fake(b).writes.is_empty());
}

#[test]
fn legacy_goes_with_on_idle_alone_and_says_so() {
    let mut sim = Sim::new();
    sim.open("a", ALL);
    sim.open("b", ALL);
    for (trigger, why) in [(Trigger::OnTurn, "records"), (Trigger::Always, "reads the screen")] {
        let p = ConnectParams {
            project: PROJECT.into(),
            source: "a".into(),
            target: "b".into(),
            options: RouteOptions { dispatch: Some(Dispatch::Shadow), ..on(trigger) },
            ..ConnectParams::default()
        };
        let e = sim.request(EDITOR, Request::Connect(p)).unwrap_err();
        assert!(e.message.contains("dispatch=shadow") && e.message.contains(why), "{e}");
        assert!(e.remedy.contains("on-idle"), "{e}");
    }
    // Nor can it be changed into one.
    sim.connect("a", "b", by(Dispatch::Legacy));
    let p = TriggerParams {
        project: PROJECT.into(),
        route: "1".into(),
        trigger: Trigger::OnTurn,
        pattern: None,
    };
    assert_eq!(sim.request(EDITOR, Request::Trigger(p)).unwrap_err().code, "bad_value");
    assert_eq!(sim.route(RouteId(1)).trigger, Trigger::OnIdle);
}

#[test]
fn shadow_delivers_the_simple_text_and_keeps_the_other_beside_it() {
    let (mut sim, a, b) = pair(Dispatch::Shadow);
    sim.human_prompt(a, "p");
    // The screen shows less than the record: a long answer that has been folded, say.
    sim.run(1_500);
    for row in &mut sim.fake(a).rows {
        if row.starts_with("● ECHO") {
            *row = "● ECHO (folded)".into();
        }
    }
    sim.show(a);
    sim.run(12_000);
    assert_eq!(sim.fake(b).submits, ["[● ECHO (folded)]"], "legacy delivers");
    let hop = sim.hops().pop().unwrap();
    let shadow = hop.shadow.expect("what madoagent decided");
    assert_eq!(shadow.prompt, "[ECHO p]");
    assert_eq!(shadow.answer, "ECHO p");
    assert_eq!(shadow.rung, Rung::Hook);
    assert_eq!(shadow.turn.as_deref(), Some("t1"));
    assert_eq!(sim.hops().len(), 1, "a turn makes one hop");
    let ids: Vec<u64> = sim.hops().iter().map(|h| h.id.0).collect();
    assert_eq!(ids, [1]);
}

#[test]
fn shadow_says_what_legacy_missed() {
    let (mut sim, a, b) = pair(Dispatch::Shadow);
    sim.human_prompt(a, "p");
    // No completion pattern comes to the screen.
    sim.run(1_090);
    sim.fake(a).rows.retain(|r| !r.starts_with("✻"));
    sim.show(a);
    sim.run(10_000);
    assert!(sim.fake(b).submits.is_empty());
    sim.human_prompt(a, "q");
    sim.run(12_000);
    let hops = sim.hops();
    let missed =
        hops.iter().find(|h| h.reason_code == "legacy_missed").expect("a hop that says so");
    assert_eq!(missed.state, HopState::Stopped);
    assert_eq!(missed.shadow.as_ref().unwrap().prompt, "[ECHO p]");
    assert_eq!(sim.fake(b).submits, ["[● ECHO q]"]);
}

#[test]
fn the_guards_hold_for_legacy_too() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    let options = RouteOptions { stop_keyword: Some("LGTM".into()), ..by(Dispatch::Legacy) };
    let route = sim.connect("a", "b", options);
    sim.fake(a).answer = Some("fine, LGTM".into());
    sim.human_prompt(a, "p");
    sim.run(20_000);
    assert!(sim.fake(b).submits.is_empty());
    assert_eq!(sim.route(route).reason_code, "stop_keyword");
}
