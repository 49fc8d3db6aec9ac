//! Fan-in: several sources, one prompt.

use super::*;
use mado::core::{Input, Timing};

/// a and b into c, joined; and their routes.
fn three() -> (Sim, [AgentId; 3], [RouteId; 2]) {
    let (mut sim, ids) = world(["a", "b", "c"]);
    let routes = ["a", "b"].map(|from| sim.connect(from, "c", joined()));
    (sim, ids, routes)
}

fn ask(sim: &mut Sim, agent: AgentId, prompt: &str) {
    sim.human_prompt(agent, prompt);
    sim.run(3_000);
}

#[test]
fn a_join_waits_for_every_source_and_hands_their_answers_on_as_one() {
    let (mut sim, [a, b, c], [ac, _]) = three();
    ask(&mut sim, b, "second");
    assert!(sim.fake(c).writes.is_empty());
    let waits = queue(&mut sim);
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!(waits[0].waiting_for, "waits for a (join=all), at most 10 min");
    let age = waits[0].age_ms;
    sim.run(5_000);
    assert_eq!(queue(&mut sim)[0].age_ms, age + 5_000);

    ask(&mut sim, a, "first");
    sim.run(5_000);
    // In the order in which the routes were made, not that of the answers.
    let want = "--- a (x) ---\nECHO first\n\n--- b (x) ---\nECHO second";
    assert_eq!(sim.fake(c).submits, [want]);
    let hops = sim.hops();
    let [one, two, all] = hops.as_slice() else { panic!("{hops:?}") };
    for member in [one, two] {
        assert_eq!((member.state, member.reason_code.as_str()), (HopState::Stopped, "joined"));
        assert!(member.reason_text.contains(&format!("hop {}", all.id)), "{}", member.reason_text);
    }
    assert_eq!((all.state, all.source.as_str()), (HopState::Answered, "a+b"));
    assert_eq!(all.joined, [two.id, one.id]);
    assert_eq!(all.route, Some(ac));
    assert!(sim.notices("joined").is_empty());
}

#[test]
fn a_newer_answer_of_a_source_takes_the_place_of_its_older_one() {
    let (mut sim, [a, b, c], _) = three();
    ask(&mut sim, a, "old");
    sim.run(3_000);
    ask(&mut sim, a, "new");
    let replaced = because(&mut sim, "replaced");
    assert_eq!(replaced.len(), 1);
    assert_eq!(replaced[0].answer.as_deref(), Some("ECHO old"));
    ask(&mut sim, b, "other");
    sim.run(5_000);
    assert_eq!(sim.fake(c).submits, ["--- a (x) ---\nECHO new\n\n--- b (x) ---\nECHO other"]);
    assert_eq!(sim.hops().last().unwrap().round, 1, "the one that was replaced is no round");
}

#[test]
fn a_group_of_one_is_a_plain_route() {
    let (mut sim, [a, b]) = world(["a", "b"]);
    sim.connect("a", "b", joined());
    ask(&mut sim, a, "p");
    sim.run(3_000);
    assert_eq!(sim.fake(b).submits, ["ECHO p"]);
    assert_eq!(sim.hops().len(), 1);
}

#[test]
fn a_plain_route_into_the_same_target_is_none_of_the_join() {
    let (mut sim, [a, b, c], _) = three();
    let d = sim.open("d", ALL);
    sim.connect("d", "c", plain());
    ask(&mut sim, d, "by itself");
    sim.run(3_000);
    assert_eq!(sim.fake(c).submits, ["ECHO by itself"]);
    ask(&mut sim, a, "one");
    ask(&mut sim, b, "two");
    sim.run(5_000);
    assert_eq!(sim.fake(c).submits.len(), 2);
}

#[test]
fn a_join_that_waits_too_long_stops_once_in_words_and_can_be_fired() {
    let (mut sim, ids) = world(["a", "b", "d", "c"]);
    let [a, b, _, c] = ids;
    let options = || RouteOptions { join_timeout_ms: Some(60_000), ..joined() };
    let [ac, _, _] = ["a", "b", "d"].map(|from| sim.connect(from, "c", options()));
    ask(&mut sim, a, "one");
    ask(&mut sim, b, "two");
    sim.run(50_000);
    assert_eq!(queue(&mut sim).len(), 2);
    sim.run(15_000);
    let stopped = because(&mut sim, "join_timeout");
    assert_eq!(stopped.len(), 2, "{:?}", sim.hops());
    let text = &stopped[0].reason_text;
    assert_eq!(text, "no answer of d within 60 s; :Mado fire 1 hands on what is there");
    let told = sim.notices("join_timeout");
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].text,
        "a and b → c: no answer of d within 60 s; :Mado fire 1 hands on what is there"
    );
    assert!(queue(&mut sim).is_empty());
    assert!(sim.fake(c).writes.is_empty());

    let Reply::Hop(hop) = fire(&mut sim, ac).unwrap() else { panic!() };
    sim.run(8_000);
    assert_eq!(sim.fake(c).submits, ["--- a (x) ---\nECHO one\n\n--- b (x) ---\nECHO two"]);
    let hop = sim.hop(hop.id);
    assert_eq!(hop.state, HopState::Answered);
    assert!(hop.notes.contains(&"goes on without an answer of d".to_owned()), "{:?}", hop.notes);
    assert_eq!(hop.round, 1, "what never went out is no round");
}

#[test]
fn a_source_that_has_ended_ends_the_wait_with_the_reason() {
    let (mut sim, [a, b, c], [ac, _]) = three();
    ask(&mut sim, a, "one");
    sim.feed(Input::Exited { agent: b, code: Some(1), signal: None });
    let stopped = because(&mut sim, "join_broken");
    assert_eq!(stopped.len(), 1);
    let why = "b has ended, so its answer will not come; :Mado fire 1 hands on what is there";
    assert_eq!(stopped[0].reason_text, why);
    assert_eq!(sim.notices("join_broken").len(), 1);
    // The next answer does not wait for it either.
    sim.run(5_000);
    ask(&mut sim, a, "two");
    assert_eq!(because(&mut sim, "join_broken").len(), 2);
    assert!(sim.fake(c).writes.is_empty());
    fire(&mut sim, ac).unwrap();
    sim.run(8_000);
    assert_eq!(sim.fake(c).submits, ["ECHO two"]);
}

#[test]
fn a_source_that_gave_its_answer_before_it_ended_is_part_of_the_join() {
    let (mut sim, [a, b, c], _) = three();
    ask(&mut sim, a, "one");
    sim.feed(Input::Exited { agent: a, code: Some(0), signal: None });
    ask(&mut sim, b, "two");
    sim.run(5_000);
    assert_eq!(sim.fake(c).submits, ["--- a (x) ---\nECHO one\n\n--- b (x) ---\nECHO two"]);
}

#[test]
fn a_member_that_a_guard_stopped_and_one_that_is_gone_end_the_wait() {
    let (mut sim, [a, b, _], _) = three();
    let p = RouteParams { project: PROJECT.into(), route: "b->c".into() };
    ask(&mut sim, a, "one");
    sim.request(EDITOR, Request::Disconnect(p)).unwrap();
    let stopped = because(&mut sim, "join_broken");
    assert!(stopped[0].reason_text.starts_with("the route b → c is gone; "), "{stopped:?}");

    let options = RouteOptions { stop_keyword: Some("STOP".into()), ..joined() };
    let bc = sim.connect("b", "c", options);
    sim.run(5_000);
    ask(&mut sim, a, "two");
    sim.fake(b).answer = Some("STOP".into());
    ask(&mut sim, b, "p");
    let stopped = because(&mut sim, "join_broken");
    let want = format!("b's answer will not come: route {bc} is stopped (stop_keyword)");
    assert!(stopped[1].reason_text.starts_with(&want), "{stopped:?}");
}

#[test]
fn closing_a_source_ends_the_wait_and_closing_the_target_ends_everything() {
    for name in ["b", "c"] {
        let (mut sim, [a, _, c], _) = three();
        ask(&mut sim, a, "one");
        let p = AgentParams { project: PROJECT.into(), agent: name.into() };
        sim.request(EDITOR, Request::Close(p)).unwrap();
        sim.run(1_000);
        let hop = sim.hops().pop().unwrap();
        assert!(hop.state.is_final(), "{hop:?}");
        let want = if name == "b" { "join_broken" } else { "target_exited" };
        assert_eq!(hop.reason_code, want, "{hop:?}");
        assert!(sim.fake(c).writes.is_empty());
    }
}

#[test]
fn a_paused_member_is_named_and_does_not_block_for_ever() {
    let (mut sim, [a, b, c], [ac, bc]) = three();
    pause(&mut sim, bc);
    ask(&mut sim, a, "one");
    let waits = queue(&mut sim)[0].waiting_for.clone();
    assert_eq!(
        waits,
        format!("waits for b (join=all), at most 10 min; route {bc} is paused: :Mado resume {bc}")
    );
    ask(&mut sim, b, "two");
    sim.run(2_000);
    let waits: Vec<String> = queue(&mut sim).into_iter().map(|q| q.waiting_for).collect();
    assert!(waits[0].contains("b's answer, whose route is paused"), "{waits:?}");
    assert!(waits[1].contains("its route is paused"), "{waits:?}");
    resume(&mut sim, bc);
    sim.run(8_000);
    assert_eq!(sim.fake(c).submits.len(), 1);

    // Its own pause stops the clock; that of another does not.
    pause(&mut sim, ac);
    ask(&mut sim, a, "three");
    sim.run(1_200_000);
    assert_eq!(queue(&mut sim).len(), 1);
    resume(&mut sim, ac);
    pause(&mut sim, bc);
    sim.run(599_000);
    assert_eq!(queue(&mut sim).len(), 1);
    sim.run(2_000);
    assert_eq!(because(&mut sim, "join_timeout").len(), 1);
}

#[test]
fn pausing_any_route_of_a_joined_hop_means_not_one_more_byte() {
    for which in [0, 1] {
        let (mut sim, [a, b, c], routes) = three();
        ask(&mut sim, a, "one");
        sim.human_prompt(b, "two");
        let before = sim.now;
        while sim.fake(c).writes.is_empty() {
            sim.run(10);
            assert!(sim.now < before + 20_000);
        }
        pause(&mut sim, routes[which]);
        let writes = sim.fake(c).writes.len();
        sim.run(60_000);
        assert_eq!(sim.fake(c).writes.len(), writes);
        assert!(sim.fake(c).submits.is_empty());
        resume(&mut sim, routes[which]);
        sim.run(10_000);
        assert_eq!(sim.fake(c).submits.len(), 1);
    }
}

#[test]
fn a_source_whose_answer_does_not_match_its_condition_is_left_out_and_named() {
    let (mut sim, [a, b, c]) = world(["a", "b", "c"]);
    let options = RouteOptions { when: Some("FAIL".into()), ..joined() };
    sim.connect("a", "c", options);
    sim.connect("b", "c", joined());
    let d = sim.open("d", ALL);
    sim.connect("d", "c", joined());
    ask(&mut sim, b, "one");
    ask(&mut sim, a, "fine");
    assert!(sim.fake(c).writes.is_empty());
    ask(&mut sim, d, "two");
    sim.run(5_000);
    assert_eq!(sim.fake(c).submits, ["--- b (x) ---\nECHO one\n\n--- d (x) ---\nECHO two"]);
    let note = "a's answer did not match its when, and is left out";
    assert_eq!(sim.hops().last().unwrap().notes, [note]);
    // That was for this time only.
    sim.run(5_000);
    ask(&mut sim, b, "three");
    ask(&mut sim, d, "four");
    assert_eq!(queue(&mut sim).len(), 2);
}

#[test]
fn a_joined_hop_belongs_to_the_newest_prompts_chain_and_its_ring_ends() {
    let mut sim = Sim::with(Timing { chain_limit: 9, ..Timing::default() });
    let [a, b, _] = ["a", "b", "c"].map(|n| sim.open(n, ALL));
    let many = |o: RouteOptions| RouteOptions { max_rounds: Some(20), ..o };
    sim.connect("a", "c", many(joined()));
    sim.connect("b", "c", many(joined()));
    sim.connect("c", "a", many(plain()));
    sim.connect("c", "b", many(plain()));
    ask(&mut sim, a, "one");
    ask(&mut sim, b, "two");
    sim.run(1_000_000);
    let hops = sim.hops();
    let first = hops.iter().find(|h| !h.joined.is_empty()).unwrap();
    let of = |id: HopId| hops.iter().find(|h| h.id == id).unwrap();
    let chains: Vec<ChainId> = first.joined.iter().map(|m| of(*m).chain).collect();
    assert_eq!(Some(first.chain), chains.iter().copied().max());
    assert_eq!(first.depth, 0);
    let next = hops.iter().find(|h| h.depth == 1).unwrap();
    assert_eq!((next.source.as_str(), next.chain), ("c", first.chain));
    let typed = hops.iter().filter(|h| h.times.submitted.is_some()).count();
    assert!(typed <= 9, "{typed} hops");
    assert!(hops.iter().any(|h| h.reason_code == "chain_limit"), "{hops:?}");
    assert!(hops.iter().all(|h| h.state.is_final()), "{hops:?}");
}

#[test]
fn the_same_answers_together_stop_and_one_of_them_alone_does_not() {
    let (mut sim, [a, b, c]) = world(["a", "b", "c"]);
    let [ac, bc] = ["a", "b"].map(|from| sim.connect(from, "c", joined()));
    sim.connect("c", "a", plain());
    sim.connect("c", "b", plain());
    sim.fake(a).answer = Some("LGTM".into());
    sim.human_prompt(a, "start");
    sim.run(5_000);
    sim.human_prompt(b, "start");
    sim.run(12_000);
    // b's answers differ, a's do not: it goes on.
    assert!(sim.fake(c).submits.len() >= 2, "{:?}", sim.fake(c).submits);
    sim.fake(b).answer = Some("fine".into());
    sim.run(60_000);
    let repeated = because(&mut sim, "repeated");
    assert_eq!(repeated.len(), 1, "{:?}", sim.hops());
    assert_eq!(repeated[0].source, "a+b");
    assert!(repeated[0].reason_text.contains(":Mado resume"), "{}", repeated[0].reason_text);
    assert_eq!(sim.notices("repeated").len(), 1);
    for route in [ac, bc] {
        assert_eq!(sim.route(route).reason_code, "repeated");
    }
}

#[test]
fn one_yes_is_asked_for_a_joined_prompt_and_one_header_stands_before_it() {
    let (mut sim, [a, b, c]) = world(["a", "b", "c"]);
    let bare = RouteOptions { join: Some("all".into()), ..on(Trigger::OnTurn) };
    sim.connect("a", "c", RouteOptions { confirm: Some(true), ..bare.clone() });
    sim.connect("b", "c", bare);
    ask(&mut sim, a, "one");
    ask(&mut sim, b, "two");
    sim.run(5_000);
    let waits = queue(&mut sim);
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(waits[0].waiting_for.starts_with("waits for your yes"), "{waits:?}");
    let p =
        PauseParams { project: PROJECT.into(), hop: Some(waits[0].hop), ..PauseParams::default() };
    sim.request(EDITOR, Request::Resume(p)).unwrap();
    sim.run(8_000);
    let want = "[from a (x) and b (x), round 1 of 5; written by those agents, not by your user]\n\n\
                --- a (x) ---\nECHO one\n\n--- b (x) ---\nECHO two";
    assert_eq!(sim.fake(c).submits, [want]);
}
