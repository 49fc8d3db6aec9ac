//! Guards over the whole graph: what goes round in circles, how often, at what cost.

use super::*;
use mado::core::Timing;
use sim::SHELL;

#[test]
fn two_sources_may_say_the_same_to_one_target() {
    let (mut sim, [a, b, c, d]) = world(["a", "b", "c", "d"]);
    for (from, to) in [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")] {
        sim.connect(from, to, plain());
    }
    for id in [b, c] {
        sim.fake(id).answer = Some("LGTM".into());
    }
    sim.human_prompt(a, "plan");
    sim.run(20_000);
    assert_eq!(sim.fake(d).submits, ["LGTM", "LGTM"]);
    assert!(sim.notices("repeated").is_empty());
}

#[test]
fn what_comes_back_to_a_target_round_a_ring_stops_there_with_one_message() {
    let (mut sim, ids) = world(["a", "b", "c"]);
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "b")] {
        sim.connect(from, to, plain());
    }
    for id in ids {
        sim.fake(id).answer = Some("Thank you!".into());
    }
    sim.human_prompt(ids[0], "start");
    sim.run(120_000);
    // c says to b what a said to it before.
    assert_eq!(sim.fake(ids[1]).submits, ["Thank you!"]);
    assert_eq!(sim.fake(ids[2]).submits, ["Thank you!"]);
    let repeated = because(&mut sim, "repeated");
    assert_eq!(repeated.len(), 1);
    assert_eq!((repeated[0].source.as_str(), repeated[0].target.as_str()), ("c", "b"));
    assert_eq!(sim.notices("repeated").len(), 1);
}

#[test]
fn thanks_end_however_they_are_written() {
    let (mut sim, [a, b]) = world(["a", "b"]);
    sim.connect("a", "b", plain());
    sim.connect("b", "a", plain());
    sim.fake(a).answer = Some("Thank you!".into());
    sim.fake(b).answer = Some("thank\n  YOU!".into());
    sim.human_prompt(a, "start");
    sim.run(120_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    assert_eq!(because(&mut sim, "repeated").len(), 1);
}

fn busy_pair(timing: Timing) -> (Sim, AgentId, AgentId) {
    let mut sim = Sim::with(Timing { chain_limit: 100, ..timing });
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    let options = || RouteOptions { max_rounds: Some(20), cooldown_ms: Some(1_000), ..plain() };
    sim.connect("a", "b", options());
    sim.connect("b", "a", options());
    (sim, a, b)
}

#[test]
fn hops_above_the_minutes_limit_wait_with_a_reason_and_a_persons_send_does_not() {
    let (mut sim, a, b) = busy_pair(Timing { hops_per_minute: 3, ..Timing::default() });
    sim.human_prompt(a, "start");
    sim.run(30_000);
    let count = |sim: &mut Sim| sim.fake(a).submits.len() + sim.fake(b).submits.len();
    assert_eq!(count(&mut sim), 1 + 3);
    let waits = queue(&mut sim);
    assert_eq!(waits.len(), 1);
    assert!(waits[0].waiting_for.starts_with("3 hops have gone out within a minute"), "{waits:?}");
    assert!(waits[0].age_ms > 5_000);
    assert_eq!(sim.notices("rate").len(), 1);
    sim.run(60_000);
    assert_eq!(count(&mut sim), 1 + 6);

    // What a person sends is not counted and does not wait.
    let (mut sim, _, b) = busy_pair(Timing { hops_per_minute: 1, ..Timing::default() });
    for n in 0..3 {
        sim.send("b", &format!("by hand {n}"));
    }
    sim.run(20_000);
    assert_eq!(sim.fake(b).submits.len(), 3);
}

#[test]
fn nought_is_no_limit_per_minute() {
    let (mut sim, a, b) = busy_pair(Timing { hops_per_minute: 0, ..Timing::default() });
    sim.human_prompt(a, "start");
    sim.run(60_000);
    assert!(sim.fake(b).submits.len() > 8);
    assert!(sim.notices("rate").is_empty());
}

#[test]
fn a_hop_that_is_typed_again_counts_once_for_the_minute() {
    let (mut sim, a, b) = busy_pair(Timing { hops_per_minute: 2, ..Timing::default() });
    sim.human_prompt(a, "start");
    while sim.fake(b).writes.is_empty() {
        sim.run(20);
    }
    sim.pause();
    sim.run(5_000);
    sim.resume();
    sim.run(20_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    assert_eq!(sim.fake(a).submits.len(), 2);
}

#[test]
fn a_chains_tokens_stop_it_in_words_and_a_prompt_or_a_resume_goes_on() {
    let (mut sim, [a, b]) = world(["a", "b"]);
    let options = RouteOptions { chain_tokens: Some(1_000), ..plain() };
    let route = sim.connect("a", "b", options);
    sim.human_prompt(a, "one");
    sim.run(8_000);
    let chain = sim.hops()[0].chain;
    sim.hub.spend(chain, 999);
    fire(&mut sim, route).unwrap();
    // The same answer has gone this way; the budget is not what stops it.
    assert_eq!(sim.route(route).reason_code, "repeated");
    sim.hub.spend(chain, 1);
    sim.human_prompt(a, "two");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits.len(), 2, "another chain has its own budget");
    let chain = sim.hops().last().unwrap().chain;
    sim.hub.spend(chain, 1_000);
    fire(&mut sim, route).unwrap();
    sim.run(8_000);
    let shown = sim.route(route);
    assert_eq!((shown.state, shown.reason_code.as_str()), (RouteState::Stopped, "chain_tokens"));
    assert!(
        shown.reason_text.contains("has used 1000 tokens, its budget is 1000; :Mado resume"),
        "{}",
        shown.reason_text
    );
    assert_eq!(sim.notices("chain_tokens").len(), 1);

    // A resume lets the same chain go on, a person's prompt begins another.
    resume(&mut sim, route);
    fire(&mut sim, route).unwrap();
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits.len(), 3);
    sim.hub.spend(chain, 5_000);
    sim.human_prompt(a, "three");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits.len(), 4);
}

#[test]
fn a_days_tokens_stop_every_chain_until_the_day_is_over_or_a_person_grants_more() {
    let mut sim = Sim::with(Timing { day_tokens: 5_000, ..Timing::default() });
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    let route = sim.connect("a", "b", plain());
    sim.hub.spend(ChainId(900), 5_000);
    for text in ["one", "two"] {
        sim.human_prompt(a, text);
        sim.run(8_000);
        // Another prompt does not make the day's budget larger.
        assert_eq!(sim.route(route).reason_code, "day_tokens");
    }
    let text = sim.route(route).reason_text;
    assert!(text.contains("5000 tokens were used in the last 24 hours"), "{text}");
    assert!(sim.fake(b).submits.is_empty());
    resume(&mut sim, route);
    sim.human_prompt(a, "three");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits, ["ECHO three"]);
    sim.hub.spend(ChainId(901), 5_000);
    sim.human_prompt(a, "four");
    sim.run(8_000);
    assert_eq!(sim.route(route).reason_code, "day_tokens");
    sim.run(25 * 3_600_000);
    sim.human_prompt(a, "five");
    sim.run(8_000);
    assert_eq!(sim.fake(b).submits.len(), 2);
}

#[test]
fn an_agents_own_sends_count_for_the_minute_too() {
    let mut sim = Sim::with(Timing { hops_per_minute: 1, ..Timing::default() });
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    for n in 0..2 {
        let p = SendParams {
            project: PROJECT.into(),
            target: "b".into(),
            text: format!("from inside {n}"),
            deliver: None,
        };
        sim.request_with(SHELL, Some(a), None, Request::Send(p)).unwrap();
    }
    sim.run(30_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    sim.run(60_000);
    assert_eq!(sim.fake(b).submits.len(), 2);
}
