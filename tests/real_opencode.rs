//! The real OpenCode through the whole host.

#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/opencodes.rs"]
mod opencodes;
#[path = "common/world.rs"]
mod world;

use common::mock::{Kind, Matcher, Reply};
use common::term::Term;
use opencodes::{Opencodes, START};
use serde_json::json;
use std::time::{Duration, Instant};

/// Texts that a careless hand would cut, run, complete or lose, and what arrives of each: one blank
/// after a stand-in is the program's own, and a mark of mado's before a command.
fn texts() -> Vec<(String, String)> {
    let same = |text: &str| (text.to_owned(), text.to_owned());
    let stood = |text: &str| (text.to_owned(), format!("{} ", text.trim()));
    let long_line = format!("first {}\nsecond", "word ".repeat(60).trim_end());
    let many: Vec<String> = (1..=30).map(|n| format!("    line {n} of many, 行")).collect();
    let many = many.join("\n");
    vec![
        same("plain"),
        same("two\n    lines 日本語"),
        stood("fn main() {\n    let 窓 = \"日本語 👩‍💻 🙂\";\n\n        deeper\nto the end"),
        stood(&long_line),
        stood(&many),
        ("/models".into(), "\\/models".into()),
        ("/review\nof\nthree lines".into(), "\\/review\nof\nthree lines ".into()),
        ("exit".into(), "\\exit".into()),
        ("!touch ran".into(), " !touch ran".into()),
        ("look at @file".into(), "look at @file ".into()),
    ]
}

/// Presses a key until the screen shows something: a dialog that has just opened may not take it yet.
fn press(c: &Opencodes, name: &str, person: &Term, key: &str, what: &str) {
    let mut pressed = Instant::now() - Duration::from_secs(9);
    c.world.wait(what, || {
        let screen = c.world.screen(name);
        if screen.contains(what) {
            return Some(());
        }
        if pressed.elapsed() > Duration::from_secs(5) {
            pressed = Instant::now();
            person.write(key);
        }
        None
    });
}

#[tokio::test]
async fn real_opencode_takes_texts_as_they_are_in_order_and_names_the_turn() {
    let c = Opencodes::new(&[]).await;
    let w = &c.world;
    // Sent before there is a composer.
    c.begin("a", &[], None);
    let early = w.send("a", "sent right after the start");
    c.ready("a");
    w.wait_state(early, "answered");
    let a = c.mock.agent("a");
    assert_eq!(a.prompts(), ["sent right after the start"]);
    for (n, (text, arrives)) in texts().into_iter().enumerate() {
        let hop = w.send("a", &text);
        let hop = w.wait_state(hop, "answered");
        assert!(hop["answered_by"].as_str().unwrap().starts_with("msg_"), "{hop}");
        assert_eq!(a.prompts().len(), n + 2, "{text:?} was submitted once");
        assert_eq!(a.prompts()[n + 1], arrives);
    }
    assert_eq!(w.agent("a")["rung"], "hook", "{}", w.agent("a"));
    assert!(!w.site.work().join("ran").exists());
    // Three at once keep their order, each with a turn of its own.
    let before = a.prompts().len();
    let three = ["one\nof two lines", "two", "three"];
    let hops = three.map(|t| w.send("a", t));
    for hop in hops {
        w.wait_state(hop, "answered");
    }
    assert_eq!(a.prompts()[before..], three);
    w.stop_and_replay();
}

#[tokio::test]
async fn real_opencode_dialogs_and_drafts_are_left_alone_and_broken_turns_say_why() {
    let c = Opencodes::new(&[]).await;
    let w = &c.world;
    let a = c.open("a");
    let person = w.viewer("a");
    w.wait_state(w.send("a", "MOCK:say well"), "answered");

    // Due during a permission dialog.
    a.script(vec![Reply::bash("touch hit")]);
    let asked = w.send("a", "use a tool");
    w.wait_phase("a", "asking");
    let hop = w.send("a", "deploy now\n1");
    assert_eq!(w.wait_reason(hop, "asks")["state"], "queued");
    person.wait_text("Permission required", START).await;
    let stands = |t: &str| t.contains("△ Permission required") && t.contains("Allow once");
    w.never("a key in the dialog", Duration::from_millis(1500), || !stands(&person.text()));
    person.write("\x1b");
    assert_eq!(w.wait_state(asked, "stopped")["reason_code"], "interrupted");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts().last().unwrap(), "deploy now\n1");
    assert!(!w.site.work().join("hit").exists(), "the tool was allowed");
    assert!(a.requests().iter().all(|r| r.kind != Kind::ToolResult));

    // A person's menu lies over the screen.
    person.write("\x10");
    person.wait_text("Switch session", START).await;
    let hop = w.send("a", "after the menu");
    w.wait("the menu to be seen", || (w.agent("a")["phase"] != "idle").then_some(()));
    w.never("a key in the menu", Duration::from_secs(1), || {
        !person.text().contains("Switch session")
    });
    assert_eq!(w.hop(hop)["state"], "queued");
    person.write("\x1b");
    w.wait_state(hop, "answered");

    // The shell's mode, whose composer is as empty as the other one's.
    person.write("!");
    person.wait_text("exit shell mode", START).await;
    let hop = w.send("a", "touch ran-in-the-shell");
    w.never("a letter for the shell", Duration::from_secs(2), || {
        w.screen("a").contains("ran-in") || w.hop(hop)["state"] != "queued"
    });
    person.write("\x7f");
    w.wait_state(hop, "answered");
    assert!(!w.site.work().join("ran-in-the-shell").exists());

    // Due while a person has half a line there.
    let before = a.prompts().len();
    person.write("half a line");
    w.wait("the draft", || (w.agent("a")["draft"] == true).then_some(()));
    let hop = w.send("a", "from mado");
    assert_eq!(w.wait_reason(hop, "draft")["state"], "queued");
    let draft = |t: &str| t.contains("┃  half a line");
    w.never("a change of the draft", Duration::from_secs(2), || !draft(&person.text()));
    person.write(", now whole");
    person.wait_text("half a line, now whole", START).await;
    person.write("\r");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts()[before..], ["half a line, now whole", "from mado"]);

    // Esc.
    let hop = w.send("a", "MOCK:slow 200");
    w.wait_screen("a", "some words", |s| s.contains("word3"));
    assert_eq!(w.agent("a")["phase"], "busy");
    press(&c, "a", &person, "\x1b", "again to interrupt");
    person.write("\x1b");
    assert_eq!(w.wait_state(hop, "stopped")["reason_code"], "interrupted");

    // An error of the service.
    a.on(Matcher::Equals("fail".into()), Reply::Error { status: 400, times: u32::MAX });
    let failed = w.wait_state(w.send("a", "fail"), "failed");
    assert!(failed["reason_text"].as_str().unwrap().contains("mock 400"), "{failed}");

    // And then it goes on as if nothing had been.
    let hop = w.wait_state(w.send("a", "MOCK:say well again"), "answered");
    assert_eq!(w.ask("answer", json!({"agent": "a"}))["text"], "well again", "{hop}");
    w.stop_and_replay();
}

#[tokio::test]
async fn real_opencode_answers_go_round_with_the_demo_agent_and_its_session_is_resumed() {
    let c = Opencodes::new(&[]).await;
    let w = &c.world;
    let a = c.open("a");
    let first = w.demo("first", &["--think", "0"]);
    let last = w.demo("last", &["--think", "0"]);
    let options = || {
        json!({
            "trigger": "on-turn", "transform": "prompt-wrap", "cooldown_ms": 1000,
            "template": "{source} said ({round}/{maxRounds}):\n{output}",
        })
    };
    let into = w.connect("first", "a", options());
    let out = w.connect("a", "last", options());
    let answer = "an answer\n\n    indented 日本語 🙂\n- its end";
    a.script(vec![Reply::text(answer)]);
    w.wait_state(w.send("first", "begin"), "answered");
    let hop = w.wait_route_hop(into, 1, "answered");
    assert!(a.prompts()[0].starts_with("first said (1/5):\n"), "{:?}", a.prompts());
    assert_eq!(hop["prompt"].as_str().unwrap(), a.prompts()[0]);
    let hop = w.wait_route_hop(out, 1, "answered");
    assert_eq!(hop["answer"], answer);
    assert_eq!(last.wait_submits(1)[0], format!("a said (1/5):\n{answer}"));
    assert_eq!(first.submits(), ["begin"]);
    let session = w.agent("a")["session"].as_str().expect("a session").to_owned();
    assert!(session.starts_with("ses_"), "{session}");

    // Its own session again, and a new one.
    let pid = w.pid("a");
    w.ask("restart", json!({"agent": "a"}));
    w.wait("another process", || (w.pid("a") != pid && w.pid("a") != 0).then_some(()));
    c.ready("a");
    for route in [into, out] {
        if w.route(route)["state"] == "stopped" {
            w.ask("resume", json!({"route": route.to_string()}));
        }
    }
    a.script(vec![Reply::text("after the restart")]);
    w.wait_state(w.send("a", "go on"), "answered");
    assert_eq!(w.wait_route_hop(out, 2, "answered")["answer"], "after the restart");
    assert_eq!(w.agent("a")["session"], session, "its own session was resumed");
    let person = w.viewer("a");
    person.write("\x18");
    std::thread::sleep(Duration::from_millis(300));
    person.write("n");
    person.wait_text("Ask anything", START).await;
    a.script(vec![Reply::text("in a new session")]);
    w.wait_state(w.send("a", "anew"), "answered");
    assert_eq!(w.wait_route_hop(out, 3, "answered")["answer"], "in a new session");
    assert_ne!(w.agent("a")["session"], session);
    w.stop_and_replay();
}

#[tokio::test]
async fn real_opencode_each_rung_alone_is_enough() {
    let c = Opencodes::new(&[]).await;
    let w = &c.world;
    let rungs = [
        ("hook", json!(["hook", "status"])),
        ("record", json!(["record"])),
        ("screen", json!(["screen"])),
    ];
    let last = w.demo("last", &["--think", "0"]);
    for (n, (rung, rungs)) in rungs.into_iter().enumerate() {
        let name = format!("a-{rung}");
        // A port of the user's that names none: there is nothing to listen to.
        let args: &[&str] = if rung == "hook" { &[] } else { &["--port", "0"] };
        let a = c.open_with(&name, args, Some(json!({"evidence": {"rungs": rungs}})));
        let answer = format!("answer by {rung}");
        a.script(vec![Reply::text(answer.as_str())]);
        if rung == "screen" {
            // Before a first turn has begun to work, and before an answer and the row that says that the turn
            // is done are drawn, it looks like an idle one. So what the screen alone shows may not be enough
            // to say that the turn was completed, and then its hop does not say so.
            let sent = w.send(&name, "a question");
            let end = w.wait_hop(sent, "its end", |h| {
                ["answered", "unconfirmed"].contains(&h["state"].as_str().unwrap())
            });
            assert!(
                ["answered", "superseded"].contains(&end["reason_code"].as_str().unwrap()),
                "{end}"
            );
            w.wait("its arrival", || (a.prompts() == ["a question"]).then_some(()));
            w.ask("close", json!({"agent": name}));
            continue;
        }
        let options = json!({"trigger": "on-turn", "template": "<{output}>"});
        let route = w.connect(&name, "last", options);
        w.wait_state(w.send(&name, "a question"), "answered");
        let hop = w.wait_route_hop(route, 1, "answered");
        assert_eq!(hop["rung"], rung, "{hop}");
        assert_eq!(hop["answer"], answer, "{hop}");
        assert_eq!(last.wait_submits(n + 1)[n], format!("<{answer}>"));
        w.ask("close", json!({"agent": name}));
    }
}
