//! The routing that a model writes, between real agents: one refactors, the model is told every file that it
//! changed and no other, and the other agent gets the prompt that the model wrote.

#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/claudes.rs"]
mod claudes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/llm.rs"]
mod service;
#[path = "common/world.rs"]
mod world;

use claudes::Claudes;
use common::claude;
use common::mock::Reply;
use serde_json::{Value, json};
use service::{Say, Service, anthropic};
use std::fs;
use std::path::Path;
use std::process::Command;

fn tool(name: &str, input: Value) -> Reply {
    Reply::Tool { name: name.into(), input }
}

fn git(work: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
    let done = git.current_dir(work).env("HOME", work).output().unwrap();
    assert!(done.status.success(), "{args:?}: {done:?}");
}

async fn a_refactoring_is_reviewed(binary: &Path) {
    let c = Claudes::new(binary, &[]).await;
    let w = &c.world;
    let work = w.site.work();
    fs::create_dir_all(work.join("src/auth")).unwrap();
    for name in ["src/auth/login.rs", "src/auth/token.rs", "src/auth/kept.rs", "src/other.rs"] {
        fs::write(work.join(name), "fn old() {}\n// end\n").unwrap();
    }
    git(&work, &["init", "-q"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "before"]);
    let (a, b) = (c.open("a", &["--permission-mode", "acceptEdits"]), c.open("b", &[]));
    let service = Service::start();
    let review = "Review the refactoring of src/auth/login.rs, src/auth/token.rs and src/auth/new.rs: \
        are expired tokens refused?";
    service.otherwise(Say::Stream(anthropic(review, "end_turn")));
    let options = json!({"trigger": "on-turn", "transform": "ai-routing", "cooldown_ms": 1000});
    let providers = json!({"router": {"kind": "anthropic", "base_url": service.url, "model": "r"}});
    let params = json!({"source": "a", "target": "b", "options": options, "providers": providers});
    let route = w.ask("connect", params)[0]["id"].as_u64().unwrap();

    let path = |name: &str| work.join(name).display().to_string();
    let edit = |name: &str, old: &str| {
        tool(
            "Edit",
            json!({"file_path": path(name), "old_string": old, "new_string": "fn new() {}"}),
        )
    };
    let read = |name: &str| tool("Read", json!({"file_path": path(name)}));
    a.script(vec![
        read("src/auth/login.rs"),
        edit("src/auth/login.rs", "fn old() {}"),
        read("src/auth/token.rs"),
        edit("src/auth/token.rs", "fn old() {}"),
        tool("Write", json!({"file_path": path("src/auth/new.rs"), "content": "fn added() {}\n"})),
        read("src/auth/kept.rs"),
        // There is no such text: this edit changes nothing.
        edit("src/auth/kept.rs", "fn never() {}"),
        "I have refactored src/auth/ into smaller functions.".into(),
    ]);
    // Somebody else at work in the same directory.
    fs::write(work.join("src/other.rs"), "fn by_another() {}\n").unwrap();
    let sent = w.send("a", "refactor src/auth/");
    w.wait_state(sent, "answered");
    assert_eq!(a.script_left(), 0, "{}", c.mock.describe());
    assert!(fs::read_to_string(work.join("src/auth/token.rs")).unwrap().contains("fn new"));
    let hop = w.wait_route_hop(route, 1, "answered");
    assert_eq!(b.prompts(), [review]);
    assert_eq!(hop["usage"]["cached"], 90);

    let asked = service.seen().remove(0);
    let body = asked.json();
    let given = body["messages"][0]["content"][0]["text"].as_str().unwrap();
    let (_, files) = given.split_once("<files_changed_by_the_sender>\n").expect(given);
    let (files, _) = files.split_once("\n</files_changed_by_the_sender>").unwrap();
    let numbers = "(+1 -1 lines since the last commit)";
    let expected = [
        format!("src/auth/login.rs {numbers}"),
        format!("src/auth/token.rs {numbers}"),
        "src/auth/new.rs".to_owned(),
    ];
    assert_eq!(files.lines().collect::<Vec<_>>(), expected);
    assert!(!given.contains("src/other.rs"), "another's change is attributed: {given}");
    assert!(!given.contains("kept.rs"), "an edit that failed is attributed: {given}");
    assert!(given.contains("I have refactored src/auth/ into smaller functions."), "{given}");
    assert!(given.contains("<what_the_person_asked_for>\nrefactor src/auth/\n"), "{given}");

    // The next call begins with the same bytes.
    a.script(vec!["nothing more to do".into()]);
    w.send("a", "is there more?");
    w.wait_route_hop(route, 2, "answered");
    let (one, two) = (asked.text(), service.wait_seen(2).text());
    let stable = one.find("\"messages\"").unwrap();
    assert_eq!(one.as_bytes()[..stable], two.as_bytes()[..stable]);
    assert!(one[..stable].contains("cache_control"));
    assert!(!two.contains("files_changed_by_the_sender"), "the turn before changed them");
    w.stop_and_replay();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_claude_a_model_is_told_every_file_that_was_changed_and_writes_the_review() {
    a_refactoring_is_reviewed(&claude::binary()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_claude_of_the_older_version_names_its_changed_files_as_well() {
    a_refactoring_is_reviewed(&claude::old_binary()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_claude_its_own_program_can_be_the_model() {
    let binary = claude::binary();
    let c = Claudes::new(&binary, &[]).await;
    let w = &c.world;
    let (a, b) = (c.open("a", &[]), c.open("b", &[]));
    // It is run in the environment of the agent `a`, so it asks the same service.
    let providers = json!({"cli": {"kind": "command", "command": [binary, "-p"]}});
    let options = json!({"trigger": "on-turn", "transform": "ai-routing"});
    let params = json!({"source": "a", "target": "b", "options": options, "providers": providers});
    let route = w.ask("connect", params)[0]["id"].as_u64().unwrap();
    a.script(vec!["the answer of a".into(), "Please check what a has answered.".into()]);
    w.send("a", "a question");
    let hop = w.wait_route_hop(route, 1, "answered");
    assert_eq!(b.prompts(), ["Please check what a has answered."]);
    let given = a.prompts().pop().unwrap();
    assert!(given.contains("<answer>\nthe answer of a\n</answer>"), "{given}");
    assert_eq!(given.trim_end(), hop["input"].as_str().unwrap().trim_end());
    // It has left no record where the agent's own is looked for.
    a.script(vec!["another answer".into(), "Check that as well.".into()]);
    let sent = w.send("a", "another question");
    w.wait_state(sent, "answered");
    let second = w.wait_route_hop(route, 2, "answered");
    assert_eq!(second["answer"], "another answer");
    w.stop_and_replay();
}
