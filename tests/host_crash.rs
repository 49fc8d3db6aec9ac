//! What a host that dies leaves, and what the next one makes of it.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{LONG, Site, lives, wait_for};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;

#[test]
fn leftovers_of_a_host_that_died_are_ended_and_nobody_else() {
    let site = Site::new();
    let other = Site::new();
    let mut host = site.serve();
    site.open_shell("a");
    other.open_shell("a");
    let agent = site.json(&["ls", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    let stranger = other.json(&["ls", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    // It survives the terminal: no hang-up reaches it, and it is in a session of its own.
    let mark = site.path().join("child");
    let line = format!("setsid -f nohup bash -c 'echo $$ > {}; sleep 1000'", mark.display());
    site.ok(&["send", "a", &line]);
    let child: u32 = wait_for("the child's pid", || {
        std::fs::read_to_string(&mark).ok().and_then(|t| t.trim().parse().ok())
    });
    host.kill();
    assert!(lives(child), "the test needs a leftover");
    assert_eq!(site.run(&["ls", "--json"]).error()["code"], "no_host");
    let _second = site.serve();
    assert!(!lives(child) && !lives(agent));
    assert!(lives(stranger), "an agent of another host was ended");
    assert_eq!(site.ok(&["ls"]), "no agents\n");
}

/// A host that dies at this point of the delivery of `text` to a demo agent.
fn crash(at: &str, text: &str) -> (Site, Value, Vec<Value>) {
    let mut site = Site::new();
    site.set("MADO_CRASH_AT", at);
    let mut host = site.serve();
    let ledger = site.path().join("ledger");
    site.ok(&["open", "demo", "--name", "d", "--", "--ledger", ledger.to_str().unwrap()]);
    site.ok(&["wait", "agent=d", "phase=idle", "--timeout", "30s"]);
    site.ok(&["send", "d", text]);
    let status = host.ends_within(LONG).expect("the host dies");
    assert_eq!(status.signal(), Some(9));
    site.unset("MADO_CRASH_AT");
    let _second = site.serve();
    let hop = site.json(&["log", "--hop", "1", "--json"])[0].clone();
    // The agent may be told nothing more, whatever the next host does.
    site.ok(&["open", "demo", "--name", "e"]);
    site.ok(&["wait", "agent=e", "phase=idle", "--timeout", "30s"]);
    let again = site.json(&["log", "--hop", "1", "--json"])[0].clone();
    assert_eq!(hop["state"], again["state"]);
    let entries = std::fs::read_to_string(&ledger).unwrap();
    (site, hop, entries.lines().map(|l| serde_json::from_str(l).unwrap()).collect())
}

fn submits(ledger: &[Value]) -> usize {
    ledger.iter().filter(|e| e.get("submit").is_some()).count()
}

#[test]
fn a_hop_before_its_enter_is_held_and_never_sent_by_itself() {
    let (_site, hop, ledger) = crash("before_enter", "before the enter");
    assert_eq!(hop["state"], "held", "{hop}");
    assert_eq!(hop["reason_code"], "host_died");
    assert!(hop["reason_text"].as_str().unwrap().contains("resume"), "{hop}");
    assert_eq!(hop["prompt"], "before the enter");
    assert_eq!(submits(&ledger), 0, "{ledger:?}");
}

#[test]
fn a_hop_after_its_enter_is_accepted_only_if_the_record_holds_it_and_is_never_resent() {
    let (_site, hop, ledger) = crash("after_enter", "after the enter");
    match submits(&ledger) {
        // The hang-up came before the agent read its terminal.
        0 => {
            assert_eq!((&hop["state"], &hop["reason_code"]), (&"failed".into(), &"in_doubt".into()))
        }
        1 => assert_eq!(hop["state"], "accepted", "{hop}"),
        n => panic!("submitted {n} times: {ledger:?}"),
    }
}

#[test]
fn hops_and_their_numbers_outlive_the_host() {
    let site = Site::new();
    let mut host = site.serve();
    site.open_shell("a");
    let first = site.json(&["send", "a", "sleep 0.2", "--json"])[0]["id"].as_u64().unwrap();
    site.ok(&["stop"]);
    assert!(host.ends_within(LONG).is_some());
    let _second = site.serve();
    let hops = site.json(&["log", "--json"]);
    assert_eq!(hops[0]["id"], first);
    assert_eq!(hops[0]["prompt"], "sleep 0.2");
    site.open_shell("a");
    let next = site.json(&["send", "a", "true", "--json"])[0]["id"].as_u64().unwrap();
    assert!(next > first);
    let ids: Vec<u64> =
        site.json(&["log", "--json"]).iter().map(|h| h["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [first, next]);
}
