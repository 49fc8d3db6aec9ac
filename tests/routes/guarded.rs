//! Where nothing may be typed into a real agent, nothing is; and what waited is delivered after.

use crate::claudes::Claudes;
use crate::common::claude;
use crate::common::mock::{Kind, Reply};
use std::path::Path;
use std::time::Duration;

fn modes(binary: &Path) -> &'static str {
    if binary == claude::old_binary() { "default" } else { "manual" }
}

async fn dialog_draft_and_order(binary: &Path) {
    let c = Claudes::new(binary, &[]).await;
    let w = &c.world;
    // Sent before there is a composer.
    c.begin("a", &["--permission-mode", modes(binary)], None);
    let early = w.send("a", "sent right after the start");
    w.wait_state(early, "answered");
    let a = c.mock.agent("a");
    assert_eq!(a.prompts(), ["sent right after the start"]);

    // Due during a dialog.
    a.script(vec![Reply::bash("touch hit")]);
    w.send("a", "use a tool");
    w.wait_phase("a", "asking");
    let hop = w.send("a", "deploy now\n1");
    assert_eq!(w.wait_reason(hop, "asks")["state"], "queued");
    let person = w.viewer("a");
    person.wait_text("Do you want to", crate::world::PATIENCE).await;
    let stands = |t: &str| t.contains("Do you want to") && t.contains("❯ 1. Yes");
    w.never("a key in the dialog", Duration::from_millis(1500), || !stands(&person.text()));
    person.write("\x1b");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts().last().unwrap(), "deploy now\n1");
    assert!(!w.site.work().join("hit").exists(), "the tool was allowed");
    assert!(a.requests().iter().all(|r| r.kind != Kind::ToolResult));

    // Due while a person has half a line there.
    person.write("half a line");
    w.wait("the draft", || (w.agent("a")["draft"] == true).then_some(()));
    let hop = w.send("a", "from mado");
    assert_eq!(w.wait_reason(hop, "draft")["state"], "queued");
    let draft = |t: &str| t.lines().any(|l| l.trim_end() == "❯\u{a0}half a line");
    w.never("a change of the draft", Duration::from_secs(2), || !draft(&person.text()));
    person.write(", now whole");
    person.wait_text("half a line, now whole", crate::world::PATIENCE).await;
    person.write("\r");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts()[3..], ["half a line, now whole", "from mado"]);

    // Three at once.
    let texts = ["one\nof two lines", "two", "three"];
    let hops = texts.map(|t| w.send("a", t));
    for hop in hops {
        w.wait_state(hop, "answered");
    }
    assert_eq!(a.prompts()[5..], texts);
    assert!(c.mock.steering().is_empty(), "each had a turn of its own");
    w.stop_and_replay();
}

#[tokio::test]
async fn real_claude_dialogs_and_drafts_are_left_alone_and_texts_keep_their_order() {
    dialog_draft_and_order(&claude::binary()).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_is_left_alone_as_well() {
    dialog_draft_and_order(&claude::old_binary()).await;
}

#[tokio::test]
async fn real_claude_is_not_typed_into_before_its_folder_is_trusted() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    // As on the first start in a folder.
    let path = c.home.path().join(".claude.json");
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["projects"] = serde_json::json!({});
    std::fs::write(&path, config.to_string()).unwrap();
    c.begin("a", &[], None);
    let hop = w.send("a", "1\nyes");
    let screen = w.wait_screen("a", "the question", |s| s.contains("trust this folder"));
    w.wait_phase("a", "asking");
    w.never("a key", Duration::from_secs(2), || w.screen("a") != screen);
    assert_eq!(w.hop(hop)["state"], "queued");
    assert!(c.mock.prompts().is_empty());
    let person = w.viewer("a");
    person.write("\x1b[B");
    w.wait_screen("a", "the other answer", |s| s.contains("❯ Yes, I trust"));
    person.write("\r");
    w.wait_state(hop, "answered");
    assert_eq!(c.mock.prompts(), ["1\nyes"]);
}
