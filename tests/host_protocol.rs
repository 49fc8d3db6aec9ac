//! What is said to the host and what it answers, by hand.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{LONG, Site, lives};
use mado::proto::PROTOCOL;
use mado::proto::attach::{Frame, Stop};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

fn hello(protocol: u32) -> serde_json::Value {
    json!({"seq": 1, "request": {"method": "hello", "params":
        {"protocol": protocol, "client": "shell", "version": "9.9.9", "project": "/p"}}})
}

#[test]
fn another_protocol_is_told_what_runs_what_is_installed_and_what_to_do() {
    let site = Site::new();
    let host = site.serve();
    site.open_shell("a");
    let agent = site.json(&["ls", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    let mut other = site.dial();
    let e = other.ask(&hello(PROTOCOL + 1))["error"].clone();
    assert_eq!(e["code"], "protocol");
    let message = e["message"].as_str().unwrap();
    for part in [env!("CARGO_PKG_VERSION"), "9.9.9", &host.pid().to_string()] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert!(e["remedy"].as_str().unwrap().contains("mado stop"));
    // It may say nothing else, and nothing happened to the agents.
    let e = other.ask(&json!({"seq": 2, "request": {"method": "agents"}}));
    assert!(e["error"]["message"].as_str().unwrap().contains("must be hello"), "{e}");
    assert!(lives(agent));
    assert_eq!(site.json(&["ls", "--json"]).len(), 1);
}

#[test]
fn what_is_not_understood_is_named() {
    let site = Site::new();
    let _host = site.serve();
    let mut shell = site.dial();
    let greeting = shell.ask(&hello(PROTOCOL));
    assert_eq!(greeting["ok"]["kind"], "hello", "{greeting}");
    assert_eq!(greeting["ok"]["value"]["protocol"], PROTOCOL);
    let cases = [
        (json!({"method": "dance"}), "unknown variant `dance`"),
        (json!({"method": "agents", "params": {"al": true}}), "agents.al: unknown field `al`"),
        (
            json!({"method": "trigger", "params": {"route": "1", "trigger": "never"}}),
            "trigger.trigger: unknown variant `never`, expected one of",
        ),
    ];
    for (request, expected) in cases {
        let e = shell.ask(&json!({"seq": 5, "request": request}));
        assert_eq!(e["seq"], 5);
        assert_eq!(e["error"]["code"], "bad_request");
        let message = e["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{expected:?} is not in {message:?}");
    }
    let e = shell.ask(&json!("what?"));
    assert!(e["error"]["message"].as_str().unwrap().contains("seq"), "{e}");
    assert_eq!(shell.ask(&json!({"seq": 6, "request": {"method": "agents"}}))["seq"], 6);
}

#[test]
fn a_host_of_any_version_ends_by_the_frame_that_never_changes() {
    let site = Site::new();
    let mut host = site.serve();
    site.open_shell("a");
    let agent = site.json(&["ls", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    let ask = |force| {
        let mut stream = UnixStream::connect(site.socket("attach.sock")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut bytes = Vec::new();
        Frame::Stop(Stop { force }).encode(&mut bytes);
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let refused = ask(false);
    assert!(refused.contains("agents are running: 1"), "{refused:?}");
    assert!(lives(agent));
    assert_eq!(ask(true), "");
    assert!(!lives(agent));
    assert!(host.ends_within(LONG).is_some());
}

#[test]
fn bad_input_is_one_sentence_with_a_remedy_and_changes_nothing() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    let before = site.ok(&["routes", "--json"]);
    let cases: &[(&[&str], &str, &str)] = &[
        (&["open", "nope", "--json"], "unknown_profile", "\"nope\""),
        (&["open", "shell", "--cwd", "/no/such", "--json"], "no_directory", "/no/such"),
        (&["open", "claude", "--json"], "program_not_found", "claude"),
        (&["send", "b", "x", "--json"], "unknown_agent", "\"b\""),
        (&["close", "b", "--json"], "unknown_agent", "\"b\""),
        (&["screen", "b", "--json"], "unknown_agent", "\"b\""),
        (&["disconnect", "7", "--json"], "unknown_route", "7"),
        (&["fire", "a->b", "--json"], "unknown_route", "a->b"),
        (&["log", "--hop", "99", "--json"], "unknown_hop", "99"),
        (&["connect", "a", "a", "--json"], "self_route", "a"),
        (&["connect", "a", "b", "--json"], "unknown_agent", "\"b\""),
        (&["wait", "hop=99", "--json"], "unknown_hop", "99"),
        (&["wait", "agent=b", "phase=idle", "--json"], "unknown_agent", "\"b\""),
        (&["wait", "agent=a", "phase=asleep", "--json"], "bad_wait", "\"asleep\""),
    ];
    for (args, code, named) in cases {
        let e = site.run(args).error();
        let message = e["message"].as_str().unwrap();
        assert_eq!(e["code"], *code, "{args:?}: {e}");
        assert!(message.contains(named), "{args:?}: {named} is not in {message:?}");
        assert!(!message.contains('\n'), "{args:?}: {message:?}");
        assert!(!e["remedy"].as_str().unwrap().is_empty(), "{args:?}: no remedy");
    }
    assert_eq!(site.ok(&["routes", "--json"]), before);
    assert_eq!(site.json(&["ls", "--json"]).len(), 1);
}
