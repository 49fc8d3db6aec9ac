//! The harness itself, on the real agent: it starts without a question, takes a paste, asks the mock,
//! and shows the answer; and the mock tells prompts from everything else.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
// Outside of `#[test]` functions the lint does not know that this is a test.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::time::Duration;

use common::claude;
use common::mock::{Kind, Mock, Outcome, Reply};

const TURN: Duration = Duration::from_secs(30);

async fn takes_a_paste_and_shows_the_answer(binary: &Path) {
    let mock = Mock::start().await;
    let cwd = tempfile::tempdir().unwrap();
    let home = claude::home(&[cwd.path()]);
    let url = mock.url_for("left");
    let term = claude::start(binary, &[], home.path(), cwd.path(), &url).await;

    let prompt = "say \"quotes\" and 日本語 🙂\n    with an indent\nto the end";
    term.paste(prompt);
    term.wait_text("to the end", TURN).await;
    assert!(mock.prompts().is_empty(), "a paste alone submits nothing");
    term.write("\r");
    assert_eq!(mock.wait_prompt(1, TURN).await, prompt);
    term.wait_text("ENDECHO", TURN).await;
    assert_eq!(mock.wait_answered(1, TURN).await.agent, "left");

    // A longer paste is shown as a placeholder.
    mock.script(vec!["the second answer".into()]);
    let prompt = "1\n2\n3\n4";
    term.paste(prompt);
    term.wait_text("[Pasted text #1 +3 lines]", TURN).await;
    term.write("\r");
    assert_eq!(claude::unwrap_pasted(&mock.wait_prompt(2, TURN).await), prompt);
    term.wait_text("the second answer", TURN).await;
    assert_eq!(mock.prompts().len(), 2, "{}", mock.describe());
}

#[tokio::test]
async fn real_claude_takes_a_paste_and_shows_the_answer() {
    takes_a_paste_and_shows_the_answer(&claude::binary()).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_takes_a_paste_and_shows_the_answer() {
    takes_a_paste_and_shows_the_answer(&claude::old_binary()).await;
}

async fn mock_tells_prompts_from_the_rest(binary: &Path, mode: &str) {
    let mock = Mock::start().await;
    let cwd = tempfile::tempdir().unwrap();
    let home = claude::home(&[cwd.path()]);
    let arguments = ["--permission-mode", mode];
    let term = claude::start(binary, &arguments, home.path(), cwd.path(), &mock.url()).await;
    let say = async |text: &str| {
        term.paste(text);
        term.wait_text(text, TURN).await;
        term.write("\r");
    };

    // A dialog opens for the tool, a person approves and speaks while the tool runs.
    mock.script(vec![Reply::bash("touch started; while [ ! -e go ]; do sleep 0.1; done")]);
    say("use a tool").await;
    claude::approve(&term, TURN).await;
    let started = cwd.path().join("started");
    term.wait_until("the tool's start", TURN, || started.exists()).await;
    say("said meanwhile").await;
    term.wait_for("the composer to be empty", TURN, |t| !t.contains("❯\u{a0}said")).await;
    std::fs::write(cwd.path().join("go"), "").unwrap();
    let steered = || mock.steering() == ["said meanwhile"];
    term.wait_until("the words said meanwhile", TURN, steered).await;
    term.wait_text("FINAL after tool", TURN).await;
    assert_eq!(mock.prompts(), ["use a tool"]);
    assert_eq!(mock.requests().iter().filter(|r| r.kind == Kind::ToolResult).count(), 1);

    // The agent repeats what failed; that is one prompt.
    mock.script(vec![Reply::Error { status: 529, times: 2 }, Reply::gated("g", "after all")]);
    say("fails twice").await;
    mock.wait_gate("g", TURN).await;
    say("queued").await;
    mock.open("g");
    assert_eq!(mock.wait_prompt(3, TURN).await, "queued");
    mock.wait_answered(3, TURN).await;
    assert_eq!(mock.prompts(), ["use a tool", "fails twice", "queued"]);
    let failed = mock.requests().iter().filter(|r| r.outcome == Outcome::Failed(529)).count();
    assert_eq!(failed, 2, "{}", mock.describe());

    // An interrupted answer is seen as such.
    say("MOCK:slow 100").await;
    term.wait_text("word2", TURN).await;
    term.write("\x1b");
    let dropped = || mock.requests().last().is_some_and(|r| r.outcome == Outcome::Dropped);
    term.wait_until("the interruption", TURN, dropped).await;
}

#[tokio::test]
async fn real_claude_prompts_are_told_from_other_requests() {
    mock_tells_prompts_from_the_rest(&claude::binary(), "manual").await;
}

#[tokio::test]
async fn real_claude_prompts_of_the_older_version_are_told_from_other_requests() {
    mock_tells_prompts_from_the_rest(&claude::old_binary(), "default").await;
}
