//! The scripted model server does what its tests-to-be rely on, without any agent.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
// Outside of `#[test]` functions the lint does not know that this is a test.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::mock::{Kind, Matcher, Mock, Outcome, Reply, echo_of};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(10);

/// A request as an agent sends it. Returns status and body; the body of an event stream is its
/// text deltas put together.
async fn ask(url: &str, messages: Value, more: Value) -> (u16, String) {
    let mut body = json!({ "model": "m", "messages": messages, "tools": [{ "name": "Bash" }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = body.to_string();
    let (host, prefix) =
        url.trim_start_matches("http://").split_once('/').unwrap_or((&url[7..], ""));
    let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
    let mut stream = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST {prefix}/v1/messages HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    if !head.contains("text/event-stream") {
        return (status, body.to_owned());
    }
    let data = body.lines().filter_map(|l| l.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|d| serde_json::from_str(d).unwrap()).collect();
    assert_eq!(events.first().unwrap()["type"], "message_start");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    (status, events.iter().filter_map(|e| e["delta"]["text"].as_str()).collect())
}

/// A prompt to a streaming model.
async fn prompt(url: &str, text: &str) -> (u16, String) {
    ask(url, json!([{ "role": "user", "content": text }]), json!({ "stream": true })).await
}

#[tokio::test]
async fn an_unscripted_prompt_is_echoed_and_recorded_exactly() {
    let mock = Mock::start().await;
    let text = "tabs\tand \"quotes\"\n  日本語 🙂 ";
    assert_eq!(prompt(&mock.url(), text).await, (200, echo_of(text)));
    assert_eq!(mock.prompts(), [text]);
    let request = mock.wait_answered(1, SOON).await;
    let (first, last) = (request.first_byte.unwrap(), request.last_byte.unwrap());
    assert!(request.received <= first && first <= last);
    assert!((common::epoch_ms() - last).abs() < 60_000.0, "times are milliseconds since the epoch");
}

#[tokio::test]
async fn without_streaming_the_answer_comes_in_one_piece() {
    let mock = Mock::start().await;
    let (status, body) =
        ask(&mock.url(), json!([{ "role": "user", "content": "x" }]), json!({})).await;
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, message["content"][0]["text"].as_str()), (200, Some(&*echo_of("x"))));
    assert_eq!(message["stop_reason"], "end_turn");
}

#[tokio::test]
async fn the_script_comes_before_rules_and_rules_before_directives() {
    let mock = Mock::start().await;
    mock.on("two", "by rule");
    mock.on(Matcher::Equals("three MOCK:say no".into()), "by exact rule");
    mock.script(vec!["by script".into()]);
    assert_eq!(prompt(&mock.url(), "two").await.1, "by script");
    assert_eq!(prompt(&mock.url(), "two").await.1, "by rule");
    assert_eq!(prompt(&mock.url(), "three MOCK:say no").await.1, "by exact rule");
    assert_eq!(prompt(&mock.url(), "MOCK:say yes indeed\nmore").await.1, "yes indeed");
}

#[tokio::test]
async fn agents_are_kept_apart_by_their_url() {
    let mock = Mock::start().await;
    mock.agent("a").script(vec!["for a".into()]);
    assert_eq!(prompt(&mock.url_for("b"), "1").await.1, echo_of("1"));
    assert_eq!(prompt(&mock.url_for("a"), "2").await.1, "for a");
    assert_eq!(mock.agent("a").prompts(), ["2"]);
    assert_eq!(mock.agent("b").prompts(), ["1"]);
    assert_eq!(mock.prompts(), ["1", "2"]);
}

#[tokio::test]
async fn a_gate_holds_the_answer_until_it_is_opened() {
    let mock = Mock::start().await;
    mock.script(vec![Reply::gated("g", "late")]);
    let url = mock.url();
    let answer = tokio::spawn(async move { prompt(&url, "x").await });
    mock.wait_gate("g", SOON).await;
    let held = &mock.requests()[0];
    assert_eq!((held.outcome, held.first_byte), (Outcome::Pending, None));
    assert!(!answer.is_finished());
    mock.open("g");
    assert_eq!(answer.await.unwrap(), (200, "late".into()));
}

#[tokio::test]
async fn errors_end_after_their_count_and_retries_are_no_new_prompts() {
    let mock = Mock::start().await;
    mock.script(vec![Reply::Error { status: 529, times: 2 }, "at last".into()]);
    assert_eq!(prompt(&mock.url(), "x").await.0, 529);
    assert_eq!(prompt(&mock.url(), "x").await.0, 529);
    assert_eq!(prompt(&mock.url(), "x").await, (200, "at last".into()));
    assert_eq!(mock.prompts(), ["x"]);
    assert_eq!(prompt(&mock.url(), "x").await, (200, echo_of("x")));
    assert_eq!(mock.prompts(), ["x", "x"], "the same text after an answer is a new prompt");
    assert_eq!(prompt(&mock.url(), "MOCK:err 500 1").await.0, 500);
    assert_eq!(prompt(&mock.url(), "MOCK:err 500 1").await, (200, "recovered after 500".into()));
}

#[tokio::test]
async fn reminders_tool_results_and_side_requests_are_no_prompts() {
    let mock = Mock::start().await;
    let url = mock.url();
    let stream = || json!({ "stream": true });
    let text = |t: &str| json!({ "type": "text", "text": t });
    let reminder = text("<system-reminder>\nbe good\n</system-reminder>");
    let user = json!([{ "role": "user", "content": [reminder, text("asked"), reminder] }]);
    ask(&url, user, stream()).await;
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": "42" });
    let meanwhile = "The user sent a new message while you were working:\nhurry\n\nThis is how \
                     Claude Code surfaces messages the user sends mid-turn";
    let user = json!([{ "role": "user", "content": [result, text(meanwhile)] }]);
    let (_, answer) = ask(&url, user, stream()).await;
    assert_eq!(answer, "FINAL after tool. Result was: 42");
    let side = json!([{ "role": "user", "content": "Write a title" }]);
    ask(&url, side, json!({ "stream": true, "tools": [] })).await;

    assert_eq!(mock.prompts(), ["asked"]);
    assert_eq!(mock.steering(), ["hurry"]);
    let kinds: Vec<Kind> = mock.requests().iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [Kind::Prompt, Kind::ToolResult, Kind::Side]);
}

#[tokio::test]
async fn an_agent_that_hangs_up_is_seen() {
    let mock = Mock::start().await;
    mock.script(vec![Reply::Gate("never".into())]);
    let url = mock.url();
    let asking = tokio::spawn(async move { prompt(&url, "x").await });
    mock.wait_gate("never", SOON).await;
    asking.abort();
    let dropped = || mock.requests()[0].outcome == Outcome::Dropped;
    common::wait_until("the hang-up", SOON, dropped).await;
}
