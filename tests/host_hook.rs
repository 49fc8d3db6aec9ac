//! `mado hook`: whose it is follows from its ancestors, and it never stands in an agent's way.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{Ran, Site, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

const STOP: &str = r#"{"hook_event_name": "Stop", "session_id": "s", "prompt_id": "t"}"#;

fn silent(ran: &Ran) {
    assert!(ran.ok && ran.out.is_empty() && ran.err.is_empty(), "{ran:?}");
}

#[test]
fn a_hook_fails_open_without_a_host_and_with_nonsense() {
    let site = Site::new();
    silent(&site.run_with(&["hook", "Stop"], STOP));
    silent(&site.run_with(&["hook"], "no JSON"));
    let _host = site.serve();
    silent(&site.run_with(&["hook", "Stop"], "no JSON"));
    silent(&site.run_with(&["hook", "Stop"], ""));
    let long = format!(r#"{{"prompt": "{}"}}"#, "x".repeat(8 << 20));
    silent(&site.run_with(&["hook", "Stop"], &long));
    site.ok(&["ls"]);
}

#[test]
fn a_hook_does_not_wait_for_a_host_that_does_not_run() {
    let site = Site::new();
    let host = site.serve();
    let pid = Pid::from_raw(host.pid() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let start = Instant::now();
    silent(&site.run_with(&["hook", "Stop"], STOP));
    let took = start.elapsed();
    kill_process(pid, Signal::CONT).unwrap();
    // 200 ms to connect and 200 ms for the answer; the rest is for a loaded machine.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_hook_is_believed_to_be_of_the_agent_that_it_descends_from_and_of_no_other() {
    let mut site = Site::new();
    let trace = site.path().join("trace");
    site.set("MADO_TRACE", trace.to_str().unwrap());
    let _host = site.serve();
    site.open_shell("a");
    site.open_shell("b");
    // From outside, with the mark of an agent in its environment.
    let mut command = site.command(&["hook", "Stop"]);
    command.env("MADO_AGENT_ID", "1").env("MADO_AGENT", "a").stdin(std::process::Stdio::null());
    assert!(command.status().unwrap().success());
    // From inside `b`, three processes deep, in a session of its own as Claude does it.
    let script = site.path().join("hook.sh");
    let mado = env!("CARGO_BIN_EXE_mado");
    std::fs::write(&script, format!("echo '{STOP}' | '{mado}' hook Stop\n")).unwrap();
    site.ok(&["send", "b", &format!("bash -c 'setsid -w bash {}; true'", script.display())]);
    let text = wait_for("a hook in the trace", || {
        let text = std::fs::read_to_string(&trace).unwrap();
        text.contains(r#""input":{"hook""#).then_some(text)
    });
    assert!(text.contains(r#""input":{"hook":{"agent":2,"event":{"stop""#));
    assert_eq!(text.matches(r#""input":{"hook""#).count(), 1, "a stranger's hook was believed");
}
