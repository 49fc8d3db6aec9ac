//! `when`, and one source with several targets.

use super::*;

fn when(pattern: &str) -> RouteOptions {
    RouteOptions { when: Some(pattern.into()), ..plain() }
}

#[test]
fn a_condition_hands_on_only_the_answers_that_it_matches_and_shows_why_not() {
    let (mut sim, [a, b]) = world(["a", "b"]);
    let route = sim.connect("a", "b", when("ERROR|FAIL"));
    sim.fake(a).answer = Some("all is well".into());
    sim.human_prompt(a, "run the tests");
    sim.run(8_000);
    assert!(sim.hops().is_empty(), "{:?}", sim.hops());
    let shown = sim.route(route);
    assert_eq!((shown.state, shown.reason_code.as_str()), (RouteState::Active, "when"));
    assert_eq!(shown.reason_text, "its last answer did not match when=ERROR|FAIL");
    assert_eq!(shown.when.as_deref(), Some("ERROR|FAIL"));
    let error = fire(&mut sim, route).unwrap_err();
    assert!(error.message.contains("did not match when=ERROR|FAIL"), "{error}");

    sim.fake(a).answer = Some("2 tests: FAIL".into());
    sim.human_prompt(a, "again");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits, ["2 tests: FAIL"]);
    assert_eq!(sim.route(route).reason_text, "");
}

#[test]
fn a_condition_works_with_silence_and_with_a_keyword() {
    for trigger in [Trigger::OnIdle, Trigger::OnKeyword] {
        let (mut sim, [a, b]) = world(["a", "b"]);
        let options = RouteOptions {
            trigger: Some(trigger),
            pattern: Some("done".into()),
            idle_ms: Some(500),
            ..when("ERROR")
        };
        let route = sim.connect("a", "b", options);
        sim.fake(a).answer = Some("done".into());
        sim.human_prompt(a, "one");
        sim.run(8_000);
        assert!(sim.fake(b).submits.is_empty(), "{trigger:?}");
        assert_eq!(sim.route(route).reason_code, "when", "{trigger:?}");
        sim.fake(a).answer = Some("ERROR, done".into());
        sim.human_prompt(a, "two");
        sim.run(8_000);
        assert_eq!(sim.fake(b).submits, ["ERROR, done"], "{trigger:?}");
    }
}

#[test]
fn a_stop_keyword_stops_the_route_although_its_condition_does_not_match() {
    let (mut sim, [a, _]) = world(["a", "b"]);
    let options = RouteOptions { stop_keyword: Some("LGTM".into()), ..when("ERROR") };
    let route = sim.connect("a", "b", options);
    sim.fake(a).answer = Some("LGTM".into());
    sim.human_prompt(a, "p");
    sim.run(8_000);
    assert_eq!(sim.route(route).reason_code, "stop_keyword");
}

#[test]
fn wrong_options_are_refused_with_the_name_of_the_key() {
    let (mut sim, _) = world(["a", "b"]);
    sim.open_shell("sh");
    let base = RouteOptions::default;
    let always = || on(Trigger::Always);
    for (to, options, code, message) in [
        ("b", when(""), "bad_pattern", "invalid when \"\": it is empty"),
        ("b", when("x*"), "bad_pattern", "invalid when \"x*\": it matches the empty text"),
        ("b", when("a("), "bad_pattern", "invalid when \"a(\": unclosed group at position 2"),
        (
            "b",
            RouteOptions { when: Some("x".into()), ..always() },
            "bad_value",
            "for when= to look",
        ),
        (
            "b",
            RouteOptions { join: Some("all".into()), ..always() },
            "bad_value",
            "for join= to look",
        ),
        (
            "b",
            RouteOptions { join: Some("some".into()), ..base() },
            "bad_value",
            "join is \"some\"",
        ),
        (
            "b",
            RouteOptions { join_timeout_ms: Some(9), ..joined() },
            "bad_value",
            "join_timeout_ms is 9",
        ),
        (
            "b",
            RouteOptions { join_timeout_ms: Some(5_000), ..base() },
            "bad_value",
            "wait for others",
        ),
        ("b", RouteOptions { chain_tokens: Some(0), ..base() }, "bad_value", "chain_tokens is 0"),
        ("b", RouteOptions { day_tokens: Some(0), ..base() }, "bad_value", "day_tokens is 0"),
        ("sh", RouteOptions { header: Some(true), ..base() }, "bad_value", "a shell would run"),
    ] {
        let error = try_connect(&mut sim, "a", to, options).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(message), "{error}");
        assert!(!error.remedy.is_empty(), "{error}");
    }
    // Nor can a route be changed into one that could not have been made.
    let route = sim.connect("a", "b", when("x"));
    let p = TriggerParams {
        project: PROJECT.into(),
        route: route.to_string(),
        trigger: Trigger::Always,
        pattern: None,
    };
    let error = sim.request(EDITOR, Request::Trigger(p)).unwrap_err();
    assert!(error.message.contains("when="), "{error}");
}

#[test]
fn one_answer_goes_to_every_target_and_is_no_repetition_there() {
    let (mut sim, [a, b, c, d]) = world(["a", "b", "c", "d"]);
    for to in ["b", "c", "d"] {
        sim.connect("a", to, plain());
    }
    sim.fake(a).answer = Some("the plan".into());
    sim.human_prompt(a, "plan it");
    sim.run(10_000);
    for id in [b, c, d] {
        assert_eq!(sim.fake(id).submits, ["the plan"]);
    }
    let hops = sim.hops();
    assert_eq!(hops.len(), 3);
    assert!(hops.iter().all(|h| h.state == HopState::Answered && h.depth == 0), "{hops:?}");
    assert!(hops.iter().all(|h| h.chain == hops[0].chain));
}
