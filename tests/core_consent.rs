//! What a person may say of a hop on its way, and what a hop's audit holds.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::proto::*;
use sim::{ALL, EDITOR, PROJECT, Sim, on};

/// Goes on in small steps until something is so.
fn until(sim: &mut Sim, mut so: impl FnMut(&mut Sim) -> bool) {
    for _ in 0..1_000 {
        if so(sim) {
            return;
        }
        sim.run(5);
    }
    panic!("it never became so");
}

fn drop_it(sim: &mut Sim, hop: HopId) -> RequestResult {
    sim.request(EDITOR, Request::Drop(HopParams { project: PROJECT.into(), hop }))
}

fn approve(sim: &mut Sim, hop: HopId, prompt: Option<&str>) -> RequestResult {
    let prompt = prompt.map(str::to_owned);
    sim.request(EDITOR, Request::Approve(ApproveParams { project: PROJECT.into(), hop, prompt }))
}

/// Two agents, a route that asks, and the hop that waits for a yes.
fn asking() -> (Sim, AgentId, HopId) {
    let mut sim = Sim::new();
    sim.editor_here();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    let options = RouteOptions {
        confirm: Some(true),
        template: Some("[{output}]".into()),
        ..on(Trigger::OnTurn)
    };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "p");
    sim.run(10_000);
    let hop = sim.hops().pop().unwrap();
    assert_eq!((hop.state, hop.reason_code.as_str()), (HopState::Queued, "confirm"));
    (sim, b, hop.id)
}

#[test]
fn a_yes_types_the_prompt_as_it_is() {
    let (mut sim, b, hop) = asking();
    assert!(sim.fake(b).writes.is_empty());
    approve(&mut sim, hop, None).unwrap();
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["[ECHO p]"]);
    let hop = sim.hop(hop);
    assert_eq!(hop.state, HopState::Answered);
    assert!(hop.steps.iter().any(|s| s.kind == StepKind::Person && s.text.contains("yes")));
}

#[test]
fn a_yes_with_another_text_types_that_and_says_whose_it_is() {
    let (mut sim, b, hop) = asking();
    approve(&mut sim, hop, Some("/mine\u{1b}[201~\n")).unwrap();
    sim.run(10_000);
    // A person's text is made literal as any other.
    let typed = sim.fake(b).submits.clone();
    assert_eq!(typed.len(), 1);
    assert!(typed[0].ends_with("/mine"), "{typed:?}");
    let hop = sim.hop(hop);
    assert_eq!(hop.prompt.as_deref(), Some(typed[0].as_str()));
    assert!(hop.notes.iter().any(|n| n.contains("a person changed the prompt")), "{:?}", hop.notes);
    assert!(hop.notes.iter().any(|n| n.contains("removed from the text")), "{:?}", hop.notes);
    assert_eq!(hop.state, HopState::Answered);
}

#[test]
fn an_empty_text_is_no_yes_and_leaves_the_hop_waiting() {
    let (mut sim, b, hop) = asking();
    let e = approve(&mut sim, hop, Some(" \n")).unwrap_err();
    assert_eq!(e.code, "empty");
    assert!(e.remedy.contains(&format!(":Mado drop {hop}")), "{e}");
    sim.run(10_000);
    assert!(sim.fake(b).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "confirm");
    assert_eq!(sim.hop(hop).prompt.as_deref(), Some("[ECHO p]"));
}

#[test]
fn a_second_yes_is_refused_and_changes_nothing() {
    let (mut sim, b, hop) = asking();
    approve(&mut sim, hop, None).unwrap();
    sim.run(10_000);
    let e = approve(&mut sim, hop, Some("other")).unwrap_err();
    assert_eq!(e.code, "not_waiting");
    assert!(e.message.contains("answered"), "{e}");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
}

#[test]
fn a_yes_while_everything_is_paused_types_nothing_and_says_why() {
    let (mut sim, b, hop) = asking();
    sim.pause();
    let Ok(Reply::Said(said)) = approve(&mut sim, hop, None) else { panic!() };
    assert!(said.contains("not yet") && said.contains(":Mado resume"), "{said}");
    sim.run(10_000);
    assert!(sim.fake(b).writes.is_empty());
    sim.resume();
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["[ECHO p]"]);
}

#[test]
fn a_firing_with_confirm_asks_once_and_leaves_the_route_as_it_was() {
    let mut sim = Sim::new();
    sim.editor_here();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    let options = RouteOptions { template: Some("[{output}]".into()), ..on(Trigger::OnTurn) };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "p");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
    let p = FireParams { project: PROJECT.into(), route: "1".into(), confirm: true };
    sim.human_prompt(a, "q");
    sim.run(10_000);
    let Ok(Reply::Hop(hop)) = sim.request(EDITOR, Request::Fire(p)) else { panic!() };
    sim.run(10_000);
    let waits = sim.hop(hop.id);
    // The same answer has gone this way before, or it waits for a yes: it is never typed by itself.
    assert!(
        waits.reason_code == "confirm" || waits.reason_code == "repeated",
        "{}",
        waits.reason_code
    );
    assert_eq!(sim.fake(b).submits.len(), 2);
}

#[test]
fn a_dropped_hop_is_never_typed_and_says_who_dropped_it() {
    let (mut sim, b, hop) = asking();
    drop_it(&mut sim, hop).unwrap();
    sim.run(20_000);
    let hop = sim.hop(hop);
    assert_eq!((hop.state, hop.reason_code.as_str()), (HopState::Stopped, "dropped"));
    assert!(sim.fake(b).writes.is_empty());
    let e = drop_it(&mut sim, hop.id).unwrap_err();
    assert_eq!(e.code, "final");
    assert!(e.message.contains("stopped"), "{e}");
}

#[test]
fn a_send_behind_a_busy_agent_can_be_dropped_and_the_next_one_goes() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.human_prompt(a, "work");
    until(&mut sim, |s| s.fake(a).busy);
    let one = sim.send("a", "one");
    let two = sim.send("a", "two");
    assert_eq!(sim.hop(one).state, HopState::Queued);
    drop_it(&mut sim, one).unwrap();
    sim.run(20_000);
    assert_eq!(sim.fake(a).submits, ["work", "two"]);
    assert_eq!(sim.hop(two).state, HopState::Answered);
}

#[test]
fn a_hop_dropped_while_it_is_typed_stops_at_once_and_says_what_is_left() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "one\ntwo\nthree\nfour");
    until(&mut sim, |s| s.fake(a).writes.len() >= 2);
    let before = sim.fake(a).writes.len();
    let Ok(Reply::Said(said)) = drop_it(&mut sim, hop) else { panic!() };
    assert!(said.contains("left in a's composer"), "{said}");
    sim.run(20_000);
    let written: Vec<String> =
        sim.fake(a).writes[before..].iter().map(|(_, w)| w.clone()).collect();
    // Nothing but the end of a paste that had begun.
    assert!(written.iter().all(|w| w == "\u{1b}[201~"), "{written:?}");
    assert!(sim.fake(a).submits.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "dropped");
    // What is left is nobody's prompt: what comes next does not mix with it.
    let next = sim.send("a", "next");
    sim.run(20_000);
    assert_eq!(sim.hop(next).state, HopState::Queued);
    assert!(sim.fake(a).submits.is_empty());
}

#[test]
fn a_submitted_hop_cannot_be_dropped() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    for state in [HopState::Submitted, HopState::Accepted] {
        let hop = sim.send("a", "one");
        until(&mut sim, |s| s.hop(hop).state == state);
        let e = drop_it(&mut sim, hop).unwrap_err();
        assert_eq!(e.code, "submitted");
        assert!(e.message.contains("cannot be taken back"), "{e}");
        sim.run(20_000);
        assert_eq!(sim.hop(hop).state, HopState::Answered);
    }
    assert_eq!(sim.fake(a).submits, ["one", "one"]);
}

#[test]
fn only_a_hop_of_the_project_can_be_dropped() {
    let (mut sim, _, hop) = asking();
    let p = HopParams { project: "/elsewhere".into(), hop };
    let e = sim.request(EDITOR, Request::Drop(p)).unwrap_err();
    assert_eq!(e.code, "other_project");
    let e = drop_it(&mut sim, HopId(99)).unwrap_err();
    assert_eq!(e.code, "unknown_hop");
    assert_eq!(sim.hop(hop).state, HopState::Queued);
}

#[test]
fn an_audit_tells_evidence_looks_writes_enter_and_receipt_in_their_order() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    let options = RouteOptions { template: Some("x\ny\n{output}".into()), ..on(Trigger::OnTurn) };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "p");
    sim.run(20_000);
    let hop = sim.hops().pop().unwrap();
    assert_eq!(hop.state, HopState::Answered);
    let kinds: Vec<StepKind> = hop.steps.iter().map(|s| s.kind).collect();
    use StepKind::*;
    let at = |kind: StepKind| kinds.iter().position(|k| *k == kind).unwrap();
    let last = |kind: StepKind| kinds.iter().rposition(|k| *k == kind).unwrap();
    assert_eq!(at(Evidence), 0);
    assert_eq!(kinds.iter().filter(|k| **k == Write).count(), 3, "a write for each line");
    assert_eq!(kinds.iter().filter(|k| **k == Enter).count(), 1);
    assert!(at(Look) < at(Write), "a look before the first byte");
    assert_eq!(kinds[at(Enter) - 1], Look, "a look just before Enter: {:?}", hop.steps);
    assert!(hop.steps[at(Enter) - 1].text.contains("shows exactly the text"));
    assert!(at(Receipt) > at(Enter));
    assert!(hop.steps[at(Receipt)].text.contains(hop.accepted_as.as_deref().unwrap()));
    assert!(hop.steps[last(Receipt)].text.contains(hop.answered_by.as_deref().unwrap()));
    assert!(hop.steps.windows(2).all(|w| w[0].at <= w[1].at), "{:?}", hop.steps);
    // The first write is not before its look, and Enter waits for what the recipe says.
    let enter = hop.steps[at(Enter)].at;
    assert!(enter >= hop.steps[last(Write)].at + 100, "{:?}", hop.steps);
    assert!(sim.fake(b).submits.len() == 1);
}

#[test]
fn a_withheld_enter_is_in_the_audit_with_what_was_seen() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "go on");
    until(&mut sim, |s| !s.fake(a).writes.is_empty());
    sim.fake(a).dialog = true;
    sim.show(a);
    sim.run(3_000);
    assert!(sim.fake(a).submits.is_empty() && sim.fake(a).approvals == 0);
    let h = sim.hop(hop);
    assert!(!h.steps.iter().any(|s| s.kind == StepKind::Enter), "{:?}", h.steps);
    assert!(h.notes.iter().any(|n| n.contains("interrupted")), "{:?}", h.notes);
}

#[test]
fn a_long_text_does_not_make_an_audit_without_an_end() {
    let mut sim = Sim::new();
    sim.open("a", ALL);
    let text: Vec<String> = (0..400).map(|i| format!("line {i}")).collect();
    let p = SendParams {
        project: PROJECT.into(),
        target: "a".into(),
        text: text.join("\n"),
        deliver: Some("lines".into()),
    };
    let Ok(Reply::Hop(hop)) = sim.request(EDITOR, Request::Send(p)) else { panic!() };
    sim.run(120_000);
    let h = sim.hop(hop.id);
    assert_eq!(h.state, HopState::Answered);
    assert!(h.steps.len() <= 160);
    let all = h.steps.len() + h.steps_lost as usize;
    assert!(all >= 400, "{all}");
    assert!(h.steps.iter().any(|s| s.text.starts_with("piece 1 of 400")));
    assert!(h.steps.iter().any(|s| s.kind == StepKind::Enter));
}
