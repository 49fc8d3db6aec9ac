//! Dialogs: nothing is typed into one, and what was held back is delivered after it.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::world::World;
use std::time::Duration;

#[test]
fn a_hop_due_during_a_dialog_waits_says_why_and_is_delivered_after_it() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    assert_eq!(b.control("ask"), "ok");
    w.wait_phase("b", "asking");
    let before = b.bytes().len();
    let hop = w.send("b", "deploy now\ntry it");
    let waiting = w.wait_reason(hop, "asks");
    assert_eq!(waiting["state"], "queued");
    assert!(waiting["reason_text"].as_str().unwrap().contains("b asks"), "{waiting}");
    w.never("a byte in the dialog", Duration::from_millis(1500), || b.bytes().len() > before);
    let person = w.viewer("b");
    person.write("2");
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), ["deploy now\ntry it"]);
    assert!(b.all("approve").is_empty() && b.all("ignored_paste").is_empty());
    w.stop_and_replay();
}

#[test]
fn a_dialog_between_the_text_and_the_enter_withholds_it_and_the_text_is_typed_anew_after() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let hop = w.send("b", "half of it\nis not enough");
    // All of it stands in the composer; Enter follows half a second later.
    w.wait("the whole text", || (b.draft() == "half of it\nis not enough").then_some(()));
    assert_eq!(b.control("ask"), "ok");
    let waiting = w.wait_reason(hop, "asks");
    assert_eq!(waiting["state"], "queued");
    assert!(b.submits().is_empty() && b.all("approve").is_empty());
    let person = w.viewer("b");
    person.write("\x1b");
    let done = w.wait_state(hop, "answered");
    assert_eq!(b.submits(), ["half of it\nis not enough"]);
    assert!(b.all("approve").is_empty());
    let notes = done["notes"].to_string();
    assert!(notes.contains("interrupted") && notes.contains("cleared"), "{notes}");
}

#[test]
fn a_dialog_between_two_lines_stops_the_typing() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let text: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let text = text.join("\n");
    let hop = w.send("b", &text);
    w.wait("some lines", || b.draft().contains("line 3").then_some(()));
    assert_eq!(b.control("ask"), "ok");
    w.wait_reason(hop, "asks");
    let before = b.bytes().len();
    w.never("a byte in the dialog", Duration::from_millis(800), || b.bytes().len() > before);
    let person = w.viewer("b");
    person.write("\x1b");
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), [text]);
    assert!(b.all("approve").is_empty());
}

#[test]
fn a_dialog_at_any_moment_around_the_enter_is_never_approved() {
    let w = World::new(&[]);
    let b = w.demo("b", &["--think", "0"]);
    let person = w.viewer("b");
    // Relative to the moment at which the text stands in the composer; the Enter is due 500 ms later.
    for (n, after) in (380..=560).step_by(15).enumerate() {
        let text = format!("text {n}");
        let hop = w.send("b", &text);
        w.wait("the text", || (b.draft() == text).then_some(()));
        std::thread::sleep(Duration::from_millis(after));
        let asked = b.control("ask") == "ok";
        assert!(asked, "the test needs its dialog");
        w.wait_phase("b", "asking");
        person.write("\x1b");
        w.wait_state(hop, "answered");
        w.wait_phase("b", "idle");
        assert!(b.all("approve").is_empty(), "approved {after} ms after the text");
        assert_eq!(b.submits().len(), n + 1);
        assert_eq!(b.submits()[n], text);
    }
}
