//! Agents through the command line: started, looked at, named, started again, ended.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{Site, lives, wait_for};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn agent(site: &Site) -> Value {
    site.json(&["ls", "--json"])[0].clone()
}

fn pid(site: &Site) -> u32 {
    agent(site)["pid"].as_u64().unwrap() as u32
}

/// What a command prints inside an agent that is a shell.
fn inside(site: &Site, name: &str, line: &str) -> String {
    let file = site.path().join(format!("out-{}", line.len()));
    let _ = std::fs::remove_file(&file);
    let full = format!("{{ {line}; }} > {0}.part 2>&1; mv {0}.part {0}", file.display());
    site.ok(&["send", name, &full]);
    wait_for(line, || std::fs::read_to_string(&file).ok())
}

#[test]
fn an_agent_gets_the_callers_environment_without_what_goes_stale() {
    let mut site = Site::new();
    site.set("CALLER", "here");
    site.set("NVIM", "/run/old");
    site.set("TMUX", "/tmp/tmux");
    let _host = site.serve();
    site.unset("CALLER");
    site.set("CALLER", "there");
    site.open_shell("a");
    let env = inside(&site, "a", "env");
    let has = |line: &str| env.lines().any(|l| l == line);
    assert!(has("CALLER=there"), "{env}");
    assert!(has("MADO_AGENT=a") && has("TERM=xterm-256color") && has("COLORTERM=truecolor"));
    assert!(!env.contains("NVIM=") && !env.contains("TMUX="), "{env}");
    let cwd = inside(&site, "a", "pwd -P");
    assert_eq!(cwd.trim_end(), site.work().to_str().unwrap());
    // From inside, commands reach the same host and know the agent.
    let listed = inside(&site, "a", &format!("'{}' ls --json", env!("CARGO_BIN_EXE_mado")));
    assert!(listed.contains("\"name\":\"a\""), "{listed}");
}

#[test]
fn listings_have_their_stable_names() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    site.open_shell("b");
    let listed = agent(&site);
    for key in [
        "name",
        "project",
        "profile",
        "pid",
        "cwd",
        "phase",
        "rung",
        "reason_code",
        "reason_text",
        "draft",
        "since",
        "queue",
        "attached",
    ] {
        assert!(listed.get(key).is_some(), "{key} is missing in {listed}");
    }
    let route = site.json(&["connect", "a", "b", "trigger=on-idle", "--json"])[0].clone();
    for key in [
        "id",
        "source",
        "target",
        "trigger",
        "transform",
        "dispatch",
        "state",
        "round",
        "max_rounds",
        "reason_code",
        "reason_text",
    ] {
        assert!(route.get(key).is_some(), "{key} is missing in {route}");
    }
    site.ok(&["send", "a", "true"]);
    let hop = site.json(&["log", "--json"])[0].clone();
    for key in [
        "id",
        "route",
        "chain",
        "depth",
        "source",
        "target",
        "state",
        "reason_code",
        "reason_text",
        "rung",
        "prompt",
        "times",
    ] {
        assert!(hop.get(key).is_some(), "{key} is missing in {hop}");
    }
    assert!(hop["times"]["fired"].is_u64());
    let screen = site.json(&["screen", "a", "--json"])[0].clone();
    for key in ["rows", "cols", "cursor", "modes", "composer", "title"] {
        assert!(screen.get(key).is_some(), "{key} is missing in {screen}");
    }
    let human = site.ok(&["ls"]);
    assert!(human.starts_with("NAME "), "{human}");
    assert_eq!(human.lines().count(), 3);
}

#[test]
fn an_agent_keeps_its_place_when_it_is_renamed_and_started_again() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    let before = agent(&site);
    site.ok(&["rename", "a", "z"]);
    site.ok(&["restart", "z"]);
    site.ok(&["wait", "agent=z", "phase=idle", "--timeout", "30s"]);
    let after = agent(&site);
    assert_eq!((&after["id"], &after["name"]), (&before["id"], &"z".into()));
    assert_ne!(after["pid"], before["pid"]);
    assert!(!lives(before["pid"].as_u64().unwrap() as u32));
    assert_eq!(site.json(&["ls", "--json"]).len(), 1);
    assert!(inside(&site, "z", "env").contains("MADO_AGENT=z"));
}

#[test]
fn an_agent_that_ended_can_be_seen_and_started_again() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    let old = pid(&site);
    site.ok(&["send", "a", "exit 3"]);
    site.ok(&["wait", "agent=a", "phase=exited", "--timeout", "30s"]);
    assert_eq!(agent(&site)["exit"], 3);
    assert!(site.ok(&["screen", "a"]).contains("exit 3"));
    site.ok(&["restart", "a"]);
    site.ok(&["wait", "agent=a", "phase=idle", "--timeout", "30s"]);
    assert!(!lives(old) && lives(pid(&site)));
    assert!(agent(&site).get("exit").is_none());
}

#[test]
fn close_ends_the_children_too() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    let child: u32 =
        inside(&site, "a", "setsid -f nohup sleep 1000 >/dev/null 2>&1; pgrep -n sleep")
            .trim()
            .parse()
            .unwrap();
    let shell = pid(&site);
    let folder = site.state().join("agents/1");
    assert!(folder.exists() && lives(child));
    site.ok(&["close", "a"]);
    wait_for("the agent to be gone", || site.json(&["ls", "--json"]).is_empty().then_some(()));
    wait_for("its folder to be gone", || (!folder.exists()).then_some(()));
    assert!(!lives(shell) && !lives(child));
}

#[test]
fn events_stream_as_they_happen_and_keep_to_the_project() {
    let site = Site::new();
    let _host = site.serve();
    let mut command = site.command(&["events", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It listens once it is a client of its own.
    let other = site.path().join("other");
    std::fs::create_dir(&other).unwrap();
    site.ok(&["open", "shell", "--name", "far", "--cwd", other.to_str().unwrap()]);
    site.open_shell("near");
    let mut seen = Vec::new();
    for line in &mut lines {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_ne!(event["data"]["name"], "far", "{event}");
        seen.push(event["data"]["phase"].clone());
        if event["event"] == "agent" && event["data"]["phase"] == "idle" {
            break;
        }
    }
    assert_eq!(seen[0], "starting");
    site.ok(&["stop"]);
    // The stream ends with the host, and that is no failure.
    for line in lines {
        line.unwrap();
    }
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_wait_that_takes_too_long_says_what_was_seen_last() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    let e = site.run(&["wait", "agent=a", "phase=asking", "--timeout", "200ms", "--json"]).error();
    assert_eq!(e["code"], "timeout");
    assert!(e["message"].as_str().unwrap().contains("last seen: idle"), "{e}");
}

#[test]
fn a_send_from_inside_an_agent_belongs_to_its_chain() {
    let site = Site::new();
    let _host = site.serve();
    site.open_shell("a");
    site.open_shell("b");
    let mado = env!("CARGO_BIN_EXE_mado");
    inside(&site, "a", &format!("'{mado}' send b true"));
    let hops = site.json(&["log", "--json"]);
    let [outer, inner] = hops.as_slice() else { panic!("{hops:?}") };
    assert_eq!(inner["source"], "a", "{inner}");
    assert_eq!(inner["chain"], outer["chain"], "{outer} {inner}");
}
