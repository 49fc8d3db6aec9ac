//! The real Codex in the whole host: the right turn's answer, wrapped, once; its texts as they were; and
//! nothing typed where it must not be.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/claudes.rs"]
mod claudes;
#[path = "common/codexes.rs"]
mod codexes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/world.rs"]
mod world;

use claudes::Claudes;
use codexes::{Codexes, Kit};
use common::claude;
use common::mock::{Kind, Matcher, Reply};
use serde_json::json;
use std::time::Duration;
use world::PATIENCE;

/// Answers that a careless hand would cut, wrap or run.
fn answer(n: usize) -> String {
    match n % 3 {
        0 => format!("answer {n}"),
        1 => format!("answer {n}\n\n    indented 日本語 🙂\n- a list\n- its end"),
        _ => format!("/new is no command here, {{round}} stays, ask $skill, see @file{n}"),
    }
}

#[tokio::test]
async fn real_codex_each_answer_arrives_wrapped_once_and_its_session_is_resumed() {
    let c = Codexes::new(&[]).await;
    let (a, b) = (c.open("a"), c.open("b"));
    let w = &c.world;
    let options = json!({
        "trigger": "on-turn", "transform": "prompt-wrap", "cooldown_ms": 1000,
        "template": "{source} said ({round}/{maxRounds}):\n{output}",
    });
    let route = w.connect("a", "b", options);
    let turn = |i: usize| {
        a.script(vec![Reply::text(answer(i))]);
        let sent = w.send("a", &format!("question {i}"));
        let sent = w.wait_state(sent, "answered");
        let hop = w.wait_route_hop(route, i + 1, "answered");
        assert_eq!(hop["answer"], answer(i), "the answer of turn {i}");
        assert!(hop["turn"].is_string(), "{hop}");
        assert_eq!(sent["answered_by"], hop["turn"], "of the very turn that was asked for");
        let arrived = b.prompts();
        assert_eq!(arrived.len(), i + 1, "{}", c.mock.describe());
        assert_eq!(arrived[i], format!("a said (1/5):\n{}", answer(i)));
        hop
    };
    for i in 0..3 {
        let hop = turn(i);
        let events = w.ask("hops", json!({"hop": hop["id"]}))[0].clone();
        assert!(events["times"]["accepted"].is_u64(), "{events}");
    }
    assert_eq!(w.agent("a")["rung"], "record", "{}", w.agent("a"));
    let session = w.agent("a")["session"].clone();
    assert!(session.is_string());
    w.restart("a");
    if w.route(route)["state"] == "stopped" {
        w.ask("resume", json!({"route": route.to_string()}));
    }
    turn(3);
    assert_eq!(w.agent("a")["session"], session, "its own session was resumed");
    assert_eq!(a.prompts().len(), 4, "{}", c.mock.describe());
    w.never("one more", Duration::from_millis(500), || b.prompts().len() > 4);
    w.stop_and_replay();
}

#[tokio::test]
async fn real_claude_and_real_codex_are_routed_both_ways() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    let kit = Kit::new(w);
    let a = c.open("a", &[]);
    let b = kit.open(w, &c.mock, "b");
    let options = |template: &str| json!({"trigger": "on-turn", "template": template, "cooldown_ms": 1000, "max_rounds": 1});
    let forth = w.connect("a", "b", options("Review:\n{output}"));
    let back = w.connect("b", "a", options("Reviewed: {output}"));
    a.script(vec![Reply::text(answer(1)), "done".into()]);
    b.script(vec!["fine\n    by me".into()]);
    let sent = w.send("a", "write it");
    w.wait_state(sent, "answered");
    assert_eq!(w.wait_route_hop(forth, 1, "answered")["answer"], answer(1));
    assert_eq!(w.wait_route_hop(back, 1, "answered")["answer"], "fine\n    by me");
    assert_eq!(b.prompts(), [format!("Review:\n{}", answer(1))]);
    assert_eq!(a.prompts(), ["write it", "Reviewed: fine\n    by me"]);
    w.stop_and_replay();
}

#[tokio::test]
async fn real_codex_dialogs_and_drafts_are_left_alone_and_texts_keep_their_order() {
    let c = Codexes::new(&[]).await;
    let w = &c.world;
    // Sent before there is a composer.
    c.begin("a", None);
    let early = w.send("a", "sent right after the start");
    w.wait_state(early, "answered");
    let a = c.mock.agent("a");
    assert_eq!(a.prompts(), ["sent right after the start"]);

    // Due during a dialog, where `y` and `p` alone would be answers.
    a.script(vec![Reply::bash("touch hit")]);
    w.send("a", "use a tool");
    w.wait_phase("a", "asking");
    let hops = ["deploy now", "try it\ny", "p"].map(|text| w.send("a", text));
    assert_eq!(w.wait_reason(hops[0], "asks")["state"], "queued");
    let person = w.viewer("a");
    person.wait_text("Would you like to run", PATIENCE).await;
    let stands = |t: &str| t.contains("Would you like to run") && t.contains("› 1. Yes");
    w.never("a key in the dialog", Duration::from_millis(1500), || !stands(&person.text()));
    person.write("\x1b");
    for hop in hops {
        w.wait_state(hop, "answered");
    }
    assert_eq!(a.prompts()[2..], ["deploy now", "try it\ny", "p"]);
    assert!(!w.site.work().join("hit").exists(), "the tool was allowed");

    // Due while a person has half a line there.
    person.write("half a line");
    w.wait("the draft", || (w.agent("a")["draft"] == true).then_some(()));
    let hop = w.send("a", "from mado");
    assert_eq!(w.wait_reason(hop, "draft")["state"], "queued");
    let draft = |t: &str| t.lines().any(|l| l.trim_end() == "› half a line");
    w.never("a change of the draft", Duration::from_secs(2), || !draft(&person.text()));
    person.write(", now whole");
    person.wait_text("half a line, now whole", PATIENCE).await;
    // Typed letters and an Enter at once would be a paste to Codex.
    tokio::time::sleep(Duration::from_millis(300)).await;
    person.write("\r");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts()[5..], ["half a line, now whole", "from mado"]);

    // A composer that takes shell commands is none, and neither is one with blanks in it.
    for keys in ["!", " "] {
        person.write(keys);
        w.wait("it to show", || {
            let agent = w.agent("a");
            (agent["phase"] == "unknown" || agent["draft"] == true).then_some(())
        });
        let hop = w.send("a", "ls");
        w.never("a change", Duration::from_millis(1500), || w.hop(hop)["state"] != "queued");
        person.write("\x15\x7f");
        w.wait_state(hop, "answered");
    }
    assert_eq!(a.prompts()[7..], ["ls", "ls"]);

    // Browsing the transcript leaves the composer on the screen, and Enter would rewind.
    person.write("\x1b");
    person.wait_text("esc again", PATIENCE).await;
    person.write("\x1b");
    person.wait_text("Browsing transcript", PATIENCE).await;
    let hop = w.send("a", "after browsing");
    w.wait_hop(hop, "waits", |h| h["reason_code"] == "asks");
    w.never("a change", Duration::from_millis(1500), || w.hop(hop)["state"] != "queued");
    person.write("\x1b");
    w.wait_state(hop, "answered");

    // Several at once, while it works: each has a turn of its own, none steers another's.
    let texts = ["one\nof two lines MOCK:slow 3", "two", "three"];
    let hops = texts.map(|t| w.send("a", t));
    let turns: Vec<_> =
        hops.iter().map(|h| w.wait_state(*h, "answered")["answered_by"].clone()).collect();
    assert_eq!(a.prompts()[10..], texts);
    assert!(turns[0] != turns[1] && turns[1] != turns[2], "{turns:?}");
    w.stop_and_replay();
}

#[tokio::test]
async fn real_codex_a_failed_and_an_interrupted_turn_stop_their_hops_with_the_reason() {
    let c = Codexes::new(&[]).await;
    let w = &c.world;
    let (a, b) = (c.open("a"), c.open("b"));
    let options = json!({"trigger": "on-turn", "template": "{output}", "cooldown_ms": 1000});
    let route = w.connect("a", "b", options);
    a.on(Matcher::Equals("fail".into()), Reply::Error { status: 400, times: u32::MAX });
    w.broken_turns_stop_their_hops("a", route, "mock 400");
    assert_eq!(b.prompts(), ["well again"]);
    w.stop_and_replay();
}

#[tokio::test]
async fn real_codex_texts_arrive_as_they_were_whatever_they_begin_and_end_with() {
    let c = Codexes::new(&[]).await;
    let w = &c.world;
    let a = c.open("a");
    std::fs::write(w.site.work().join("file.rs"), "x").unwrap();
    let long: Vec<String> =
        (1..=70).map(|n| format!("{n:02} of a longer text, 日本語 🙂")).collect();
    let mut texts = vec![
        "fn main() {\n    let 窓 = \"日本語 👩‍💻\";\n\n        deeper\nto the end".to_owned(),
        long.join("\n"),
        long[..30].join("\n"),
        format!("one line of {}", "many words ".repeat(120).trim_end()),
    ];
    texts.extend(
        [
            "/status",
            "/new x",
            "!touch hit",
            "$HOME",
            "ask $skill",
            "see @file.rs",
            "@",
            "exit",
            "?",
            "line\n/new",
            "y",
            "1",
        ]
        .map(str::to_owned),
    );
    for (i, text) in texts.iter().enumerate() {
        let hop = w.send("a", text);
        let hop = w.wait_state(hop, "answered");
        assert_eq!(a.prompts().len(), i + 1, "{hop}\n{}", c.mock.describe());
        // Codex trims blanks at both ends, mado's cures among them.
        assert_eq!(a.prompts()[i], *text);
    }
    assert!(!w.site.work().join("hit").exists(), "a text ran as a command");
}

#[tokio::test]
async fn real_codex_its_present_thread_is_followed_beside_a_subagents_and_an_older_one() {
    let c = Codexes::new(&[]).await;
    let w = &c.world;
    let a = c.open("a");
    let spawn = Reply::Tool {
        name: "multi_agent_v1.spawn_agent".into(),
        input: json!({"message": "SUBAGENT"}),
    };
    a.on(Matcher::Contains("SUBAGENT".into()), Reply::gated("sub", "the subagent's answer"));
    a.script(vec![spawn, "the parent's answer".into()]);
    let sent = w.send("a", "delegate");
    let first = w.wait_state(sent, "answered");
    assert_eq!(w.ask("answer", json!({"agent": "a"}))["text"], "the parent's answer");
    c.mock.wait_gate("sub", PATIENCE).await;
    // The subagent's record is the newer one.
    let sent = w.send("a", "MOCK:say while it works");
    w.wait_state(sent, "answered");
    assert_eq!(w.ask("answer", json!({"agent": "a"}))["text"], "while it works");
    c.mock.open("sub");

    // A new thread has a turn's record only once it has had one; the old one's stays open.
    let session = w.agent("a")["session"].clone();
    let person = w.viewer("a");
    person.paste("/new");
    person.wait_text("› /new", PATIENCE).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    person.write("\r");
    w.wait_screen("a", "an empty thread", |s| !s.contains("while it works"));
    let sent = w.send("a", "MOCK:say in the new thread");
    let last = w.wait_state(sent, "answered");
    assert_eq!(w.ask("answer", json!({"agent": "a"}))["text"], "in the new thread");
    assert_ne!(w.agent("a")["session"], session);
    assert_ne!(first["answered_by"], last["answered_by"]);
    assert!(c.mock.requests().iter().filter(|r| r.kind == Kind::Prompt).count() >= 4);
    w.stop_and_replay();
}
