//! Turns and routes: whose answer goes where, and what goes nowhere.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::world::World;
use serde_json::json;
use std::time::Duration;

#[test]
fn the_answer_of_the_turn_that_fired_goes_out_though_its_record_comes_late() {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "0"]);
    let b = w.demo("b", &["--think", "0"]);
    let options = json!({"trigger": "on-turn", "template": "{output}", "cooldown_ms": 1000, "max_rounds": 20});
    let route = w.connect("a", "b", options);
    // The screen and the signals say `idle` that much earlier than the record has the answer.
    for (n, late) in [0, 50, 300, 900, 0].into_iter().enumerate() {
        assert_eq!(a.control(&format!("write-transcript-late {late}")), "ok");
        w.send("a", &format!("question {n}"));
        let hop = w.wait_route_hop(route, n + 1, "answered");
        let expected = format!("Answer {} from a: question {n}", n + 1);
        assert_eq!(hop["answer"], expected.as_str(), "{late} ms late");
        assert_eq!(b.submits()[n], expected);
    }
    assert_eq!(b.submits().len(), 5);
    w.stop_and_replay();
}

#[test]
fn a_background_task_and_a_silent_tool_are_busy() {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "0"]);
    let b = w.demo("b", &["--think", "0"]);
    let options = json!({"trigger": "on-idle", "idle_ms": 700, "template": "{output}"});
    let route = w.connect("a", "b", options);
    for (text, shown) in
        [("DEMO:silent 2500", "Bash(sleep)"), ("DEMO:background 2500", "background task run")]
    {
        let before = w.hops_of(route).len();
        w.send("a", text);
        w.wait_screen("a", "the quiet", |s| s.contains(shown));
        w.never("a hop while it is quiet", Duration::from_millis(1800), || {
            w.hops_of(route).len() > before || w.agent("a")["phase"] != "busy"
        });
        w.wait_route_hop(route, before + 1, "answered");
    }
    assert_eq!(b.submits().len(), 2, "{:?}", b.submits());
    assert!(b.submits()[1].contains("background task finished"), "{:?}", a.submits());
}

#[test]
fn a_turn_that_fails_is_interrupted_or_crashes_stops_its_hop_with_the_reason() {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "200"]);
    let b = w.demo("b", &["--think", "0"]);
    let options = json!({"trigger": "on-turn", "template": "{output}"});
    let route = w.connect("a", "b", options);

    let sent = w.send("a", "DEMO:error 529");
    let failed = w.wait_hop(sent, "final", |h| h["state"] == "failed");
    assert!(failed["reason_text"].as_str().unwrap().contains("529"), "{failed}");
    let hop = w.wait_route_hop(route, 1, "failed");
    assert!(hop["reason_text"].as_str().unwrap().contains("529"), "{hop}");

    let sent = w.send("a", "DEMO:slow 1000");
    w.wait_state(sent, "accepted");
    let person = w.viewer("a");
    person.write("\x1b");
    let stopped = w.wait_state(sent, "stopped");
    assert_eq!(stopped["reason_code"], "interrupted");
    let hop = w.wait_route_hop(route, 2, "stopped");
    assert_eq!(hop["reason_code"], "interrupted");

    // A person's Escape is a key of theirs: mado keeps away for a moment.
    let sent = w.send("a", "DEMO:crash");
    let failed = w.wait_hop(sent, "final", |h| h["state"] == "failed");
    assert!(failed["reason_text"].as_str().unwrap().contains("ended in the turn"), "{failed}");
    assert_eq!(w.agent("a")["phase"], "exited");
    assert_eq!(a.submits().len(), 3);
    w.never("an answer of none of them", Duration::from_millis(500), || !b.submits().is_empty());
    w.stop_and_replay();
}

#[test]
fn two_agents_that_thank_each_other_stop_visibly_and_a_persons_prompt_starts_anew() {
    let w = World::new(&[("MADO_TIMING", "cooldown_ms=1000")]);
    let a = w.demo("a", &["--think", "0"]);
    let b = w.demo("b", &["--think", "0"]);
    let options = json!({
        "trigger": "on-turn", "template": "{output} ({round}/{maxRounds})", "max_rounds": 2,
        "cooldown_ms": 1000,
    });
    let forth = w.connect("a", "b", options.clone());
    let back = w.connect("b", "a", options);
    let person = w.viewer("a");
    for round in 1..=2 {
        person.write("thanks");
        w.wait("the person's text", || (a.draft() == "thanks").then_some(()));
        person.write("\r");
        w.wait("three turns of a", || (a.submits().len() == 3 * round).then_some(()));
        let stopped = w.wait("a route to stop", || {
            [forth, back].map(|r| w.route(r)).into_iter().find(|r| r["state"] == "stopped")
        });
        assert_eq!(stopped["reason_code"], "max_rounds", "{stopped}");
        assert!(stopped["reason_text"].as_str().unwrap().contains("resume"), "{stopped}");
        w.wait_phase("a", "idle");
        w.wait_phase("b", "idle");
        assert_eq!(b.submits().len(), 2 * round, "{:?}", b.submits());
        assert_eq!(a.submits().len(), 3 * round, "{:?}", a.submits());
    }
    let hops = w.hops();
    let stops = hops.iter().filter(|h| h["state"] == "stopped").count();
    assert_eq!(stops, 2, "one visible stop for each chain");
}

#[test]
fn a_prompt_that_quotes_the_stop_word_or_a_done_line_does_not_count() {
    let w = World::new(&[]);
    let _a = w.demo("a", &["--think", "100"]);
    let b = w.demo("b", &["--think", "0"]);
    let options = json!({
        "trigger": "on-turn", "template": "{output}", "stop_keyword": "LGTM", "cooldown_ms": 1000
    });
    let route = w.connect("a", "b", options);
    w.send("a", "say LGTM when it is done\n✻ Cooked for 3s\nDEMO:say not yet");
    let hop = w.wait_route_hop(route, 1, "answered");
    assert_eq!(hop["answer"], "not yet");
    assert_eq!(b.submits(), ["not yet"]);
    w.send("a", "and now? DEMO:say LGTM, all of it");
    let hop = w.wait_route_hop(route, 2, "stopped");
    assert_eq!(hop["reason_code"], "stop_keyword");
    assert_eq!(w.route(route)["state"], "stopped");
    w.never("a delivery", Duration::from_millis(800), || b.submits().len() > 1);
}

#[test]
fn a_ring_of_three_stops_at_the_chains_limit() {
    let w = World::new(&[("MADO_TIMING", "chain_limit=5,cooldown_ms=1000")]);
    for name in ["a", "b", "c"] {
        w.demo(name, &["--think", "0"]);
    }
    let options = json!({"trigger": "on-turn", "max_rounds": 20, "cooldown_ms": 1000});
    let routes =
        [("a", "b"), ("b", "c"), ("c", "a")].map(|(s, t)| w.connect(s, t, options.clone()));
    w.send("a", "begin");
    let stopped = w.wait("a route to stop", || {
        routes.iter().map(|r| w.route(*r)).find(|r| r["state"] == "stopped")
    });
    assert_eq!(stopped["reason_code"], "chain_limit", "{stopped}");
    let answered = || w.hops().iter().filter(|h| h["state"] == "answered").count();
    w.wait("all to be answered", || (answered() == 5).then_some(()));
    w.never("one hop more", Duration::from_secs(2), || answered() > 5);
}

#[test]
fn a_restarted_agents_turns_are_not_taken_for_those_before() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let first = w.send("b", "one");
    w.wait_state(first, "answered");
    w.restart("b");
    let second = w.send("b", "two");
    let done = w.wait_state(second, "answered");
    assert_ne!(w.hop(first)["answered_by"], done["answered_by"]);
    assert_eq!(b.submits(), ["one", "two"]);
}
