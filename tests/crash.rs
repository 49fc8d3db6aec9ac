//! A host that dies in the middle of a delivery, and what the next one says of the hop.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/world.rs"]
mod world;

use std::time::Duration;

use serde_json::Value;
use world::{World, lines};

/// Kills the host `after` the send of a text of three lines to a demo agent, and gives the ledger of
/// that agent and the hop as the next host has it.
fn killed(after: Duration) -> (Vec<Value>, Value) {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "0", "--record-delay", "0"]);
    let ledger = a.dir.join("ledger.jsonl");
    let pid = w.pid("a");
    let hop = w.send("a", "first line\nsecond line\nthird line");
    std::thread::sleep(after);
    w.host(host::Host::kill);
    w.serve();
    let seen = w.hop(hop);
    // The agent went with its host, and the new one has ended what was left.
    assert!(!host::lives(pid), "the agent of a host that died lives");
    let entries = lines(&ledger);
    // Whatever the next host does, it sends nothing by itself, not even to an agent of that name.
    let pasted = |lines: &[Value]| lines.iter().filter(|e| e.get("paste").is_some()).count();
    let before = pasted(&entries);
    let again = w.demo("a", &["--think", "0"]);
    w.never("a byte of the old hop", Duration::from_millis(500), || {
        again.all("paste").len() > before
    });
    assert_eq!(w.hop(hop)["state"], seen["state"]);
    assert_eq!(w.hop(hop)["state"], seen["state"]);
    w.site.ok(&["stop"]);
    (entries, seen)
}

/// What product.md promises, from what the agent itself saw.
fn check(after: Duration, entries: &[Value], hop: &Value) -> String {
    let said = |key: &str| entries.iter().any(|e| e.get(key).is_some());
    let state = hop["state"].as_str().unwrap();
    let code = hop["reason_code"].as_str().unwrap();
    let context = format!("{after:?} after the send: {hop}");
    match state {
        // The Enter was not sent.
        "held" => assert!(!said("submit"), "{context}"),
        // The agent's own record holds the prompt.
        "accepted" | "answered" => assert!(said("submit"), "{context}"),
        // The intent of the Enter is there, the record says nothing.
        "failed" => assert_eq!(code, "in_doubt", "{context}"),
        _ => panic!("{context}"),
    }
    assert!(!hop["reason_text"].as_str().unwrap().is_empty(), "{context}");
    format!("{state}/{code}")
}

fn sweep(moments: impl Iterator<Item = u64>) {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for ms in moments {
        let after = Duration::from_millis(ms);
        let (entries, hop) = killed(after);
        *seen.entry(check(after, &entries, &hop)).or_default() += 1;
    }
    println!("killed at {} moments: {seen:?}", seen.values().sum::<usize>());
    assert!(seen.keys().any(|k| k.starts_with("held")), "never before the Enter: {seen:?}");
    assert!(seen.keys().any(|k| !k.starts_with("held")), "never after the Enter: {seen:?}");
}

#[test]
fn a_host_killed_at_any_moment_of_a_delivery_keeps_what_it_promised() {
    // The Enter is due about 750 ms after the send.
    sweep([0, 60, 150, 400, 650, 720, 760, 800, 1100].into_iter());
}

#[test]
#[ignore = "long: a hundred hosts are killed"]
fn a_host_killed_at_a_hundred_moments_keeps_what_it_promised() {
    sweep((0..700).step_by(35).chain((700..1020).step_by(4)));
}

#[test]
fn a_held_hop_is_delivered_once_when_a_person_resumes_it() {
    let w = World::new(&[]);
    let _a = w.demo("a", &["--think", "0"]);
    let hop = w.send("a", "typed\nbut not sent");
    w.wait_state(hop, "typing");
    w.host(host::Host::kill);
    w.serve();
    assert_eq!(w.hop(hop)["state"], "held");
    let again = w.demo("a", &["--think", "0"]);
    w.ask("resume", serde_json::json!({"hop": hop}));
    w.wait_state(hop, "answered");
    assert_eq!(again.submits().last().unwrap(), "typed\nbut not sent");
}
