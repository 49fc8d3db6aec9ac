//! A person at the same agent: drafts, keys, and what starts before a composer exists.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::world::World;
use std::time::Duration;

#[test]
fn a_draft_is_left_untouched_and_the_hop_waits_for_its_end() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let person = w.viewer("b");
    person.write("half a line");
    w.wait("the draft", || (b.draft() == "half a line").then_some(()));
    let hop = w.send("b", "from mado");
    let waiting = w.wait_reason(hop, "draft");
    assert_eq!(waiting["state"], "queued");
    assert_eq!(w.agent("b")["draft"], true);
    let before = b.bytes().len();
    w.never("a byte into the draft", Duration::from_secs(2), || b.bytes().len() > before);
    person.write(", now whole\r");
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), ["half a line, now whole", "from mado"]);
    w.stop_and_replay();
}

#[test]
fn a_persons_key_while_a_text_is_typed_stops_the_hop_for_good() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let person = w.viewer("b");
    let text: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let hop = w.send("b", &text.join("\n"));
    w.wait("some lines", || b.draft().contains("line 2").then_some(()));
    person.write("x");
    let stopped = w.wait_state(hop, "stopped");
    assert_eq!(stopped["reason_code"], "human_took_over");
    // What is there is the person's to deal with: nothing more is typed, cleared or submitted.
    w.wait("the person's key", || b.draft().ends_with('x').then_some(()));
    let before = b.bytes().len();
    w.never("another byte", Duration::from_millis(1500), || b.bytes().len() > before);
    assert!(b.submits().is_empty());
}

#[test]
fn what_a_terminal_reports_by_itself_is_no_person() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let viewer = w.viewer("b");
    let text: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let hop = w.send("b", &text.join("\n"));
    w.wait("some lines", || b.draft().contains("line 2").then_some(()));
    // Focus in and out, a mouse report, replies to queries.
    viewer.write("\x1b[I\x1b[O\x1b[<0;3;4M\x1b[<0;3;4m\x1b[?62;c\x1b[12;1R\x1b]11;rgb:0/0/0\x1b\\");
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), [text.join("\n")]);
}

#[test]
fn a_pause_stops_the_typing_at_once_and_a_resume_types_it_anew() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let text: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let text = text.join("\n");
    let hop = w.send("b", &text);
    w.wait("some lines", || b.draft().contains("line 3").then_some(()));
    w.ask("pause", serde_json::json!({}));
    let before = b.bytes().len();
    w.wait_reason(hop, "paused");
    w.never("another byte", Duration::from_secs(1), || b.bytes().len() > before + 40);
    assert!(b.submits().is_empty());
    w.ask("resume", serde_json::json!({}));
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), [text]);
}

#[test]
fn a_text_sent_right_after_the_start_is_held_until_the_composer_is_ready() {
    let w = World::new(&[]);
    // Until then the terminal itself would echo what is typed.
    let b = w.starting_demo("b", &["--think", "0", "--startup", "1500"]);
    let hop = w.send("b", "early");
    let waiting = w.hop(hop);
    assert_eq!(waiting["state"], "queued");
    assert_eq!(waiting["reason_code"], "starting", "{waiting}");
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), ["early"]);
    assert!(!w.screen("b").lines().next().unwrap_or_default().contains("early"));
}

#[test]
fn a_receiver_that_is_idle_already_gets_the_text_at_once() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    // Idle for longer than any event could still be on its way.
    w.never("anything", Duration::from_millis(700), || w.agent("b")["phase"] != "idle");
    let sent = std::time::Instant::now();
    w.send("b", "now");
    w.wait("the text", || (b.draft() == "now").then_some(()));
    assert!(sent.elapsed() < Duration::from_millis(600), "{:?}", sent.elapsed());
    b.wait_submits(1);
}

#[test]
fn two_hops_and_a_send_at_once_are_three_turns_in_order() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "100"]);
    let hops: Vec<u64> = ["one\nlines", "two", "three"].iter().map(|t| w.send("b", t)).collect();
    for hop in hops {
        w.wait_state(hop, "answered");
    }
    assert_eq!(b.submits(), ["one\nlines", "two", "three"]);
    let queued = b.all("submit").iter().filter(|s| s["queued"] == true).count();
    assert_eq!(queued, 0, "each waited for the turn before");
}
