//! Events recorded from opencode 1.18.33, and rows as its database holds them.

use super::*;
use crate::core::dialect::{HookEvent, RecordEvent, StatusState};
use serde_json::json;

const TURNS: &str = include_str!("../../../../tests/fixtures/opencode/events-turns-1.18.33.jsonl");
const SESSIONS: &str =
    include_str!("../../../../tests/fixtures/opencode/events-sessions-1.18.33.jsonl");

fn told(recording: &str, since: u64) -> Vec<Said> {
    let mut events = Events::new(since, None);
    recording.lines().flat_map(|l| events.event(&serde_json::from_str(l).unwrap())).collect()
}

/// What is told, in one word each and with what tells it apart.
fn words(said: &[Said]) -> Vec<String> {
    let word = |said: &Said| match said {
        Said::Session(_) => "session".to_owned(),
        Said::Status(state) => format!("{state:?}").to_lowercase(),
        Said::Hook(HookEvent::Prompt { text, .. }) => {
            format!("prompt {}", text.chars().skip(5).take(4).collect::<String>())
        }
        Said::Hook(HookEvent::Stop { answer, .. }) => {
            format!("stop {}", answer.as_deref().unwrap_or("-"))
        }
        Said::Hook(HookEvent::StopFailure { error, .. }) => format!("failed {error}"),
        Said::Hook(HookEvent::Interrupted { .. }) => "interrupted".to_owned(),
        Said::Hook(HookEvent::PermissionAsked { tool }) => format!("asks {tool}"),
        Said::Hook(HookEvent::ToolDone { tool }) => format!("asked {tool}"),
        Said::Hook(other) => format!("{other:?}"),
    };
    said.iter().map(word).collect()
}

#[test]
fn turns_begin_and_end_as_they_did() {
    let said = told(TURNS, 0);
    let expected = [
        "session",
        "prompt say ",
        "busy",
        "stop hello world",
        "idle",
        // Refused: nothing follows the call.
        "prompt bash",
        "busy",
        "asks bash",
        "asked bash",
        "interrupted",
        "idle",
        "prompt slow",
        "busy",
        "interrupted",
        "idle",
        // Tried again and again until a person ended it; what waited behind it is not taken up.
        "prompt err ",
        "busy",
        "interrupted",
        "prompt err ",
        "interrupted",
        "idle",
    ];
    assert_eq!(words(&said), expected);
    let turns: Vec<&str> = said
        .iter()
        .filter_map(|s| match s {
            Said::Hook(HookEvent::Prompt { turn, .. } | HookEvent::Stop { turn, .. }) => {
                turn.as_deref()
            }
            _ => None,
        })
        .collect();
    assert_eq!(turns[0], turns[1], "the end names the prompt's turn");
}

#[test]
fn subagents_are_no_turns_and_a_session_that_was_left_ends_its_own() {
    let said = told(SESSIONS, 0);
    let words = words(&said);
    assert!(!words.contains(&"prompt i".to_owned()), "{words:?}");
    // Of five prompts that waited the last was taken up, with the others in its turn.
    let prompts: Vec<&String> = words.iter().filter(|w| w.starts_with("prompt")).collect();
    assert_eq!(
        prompts,
        ["prompt tool", "prompt bash", "prompt say ", "prompt bash", "prompt bash"],
        "{words:?}"
    );
    assert_eq!(words.iter().filter(|w| *w == "session").count(), 2);
    assert!(words.contains(&"stop in new".to_owned()), "{words:?}");
    // The session that was left still waits for its permission, so nothing is idle.
    assert!(!words.contains(&"idle".to_owned()), "{words:?}");
}

#[test]
fn what_is_older_than_the_agent_is_no_news() {
    // What waits for a person is told whatever its turn.
    let expected =
        ["busy", "idle", "busy", "asks bash", "asked bash", "idle", "busy", "idle", "busy", "idle"];
    assert_eq!(words(&told(TURNS, u64::MAX)), expected);
}

#[test]
fn a_new_connection_learns_what_it_missed() {
    let mut events = Events::new(0, None);
    let lines: Vec<Value> = TURNS.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for line in &lines[..5] {
        events.event(line);
    }
    let session = events.session().unwrap().to_owned();
    let message = &lines[4]["properties"]["info"];
    let (id, turn) = (message["id"].clone(), message["parentID"].clone());
    assert!(turn.is_string(), "{message}");
    let done = json!({"id": id, "parentID": turn, "role": "assistant", "sessionID": session,
        "time": {"created": 1, "completed": 2}, "finish": "stop"});
    let part = json!({"id": "p", "messageID": id, "type": "text", "text": "missed"});
    let messages = json!([{"info": done, "parts": [part]}]);
    let asked = json!([{"id": "per", "sessionID": session, "permission": "edit"}]);
    let said = events.resume(&json!([]), &json!({}), &json!([]), &messages);
    assert_eq!(words(&said), ["stop missed", "idle"]);
    let busy = json!({session: {"type": "retry"}});
    assert_eq!(
        words(&events.resume(&Value::Null, &busy, &asked, &Value::Null)),
        ["asks edit", "busy"]
    );
    assert_eq!(
        words(&events.resume(&Value::Null, &json!({}), &json!([]), &Value::Null)),
        ["asked edit", "idle"]
    );
}

#[test]
fn an_error_ends_the_turn_with_its_text() {
    let mut events = Events::new(0, None);
    let about = |kind: &str, about: Value| json!({"type": kind, "properties": about});
    let user = json!({"id": "u", "role": "user", "sessionID": "s", "time": {"created": 5}});
    events.event(&about("message.updated", json!({"sessionID": "s", "info": user})));
    events.event(&about("session.status", json!({"sessionID": "s", "status": {"type": "busy"}})));
    let error = json!({"name": "APIError", "data": {"message": "no credit", "statusCode": 402}});
    events.event(&about("session.error", json!({"sessionID": "s", "error": error})));
    let said = events.event(&about("session.idle", json!({"sessionID": "s"})));
    assert_eq!(words(&said), ["failed API error 402: no credit", "idle"]);
}

fn user(id: &str, at: u64, text: &str) -> Message {
    let data = json!({"role": "user", "time": {"created": at}}).to_string();
    let part = json!({"type": "text", "text": text}).to_string();
    let own = json!({"type": "text", "text": "a reminder", "synthetic": true}).to_string();
    let parts = [(format!("{id}-1"), part), (format!("{id}-2"), own)];
    Message::new(id.to_owned(), &data, &parts).unwrap()
}

fn model(id: &str, of: &str, at: u64, rest: Value, texts: &[&str]) -> Message {
    let mut data = json!({"role": "assistant", "parentID": of, "time": {"created": at}});
    for (key, value) in rest.as_object().unwrap() {
        data[key] = value.clone();
    }
    if data["finish"].is_string() || data["error"].is_object() {
        data["time"]["completed"] = json!(at + 1);
    }
    let part = |(n, text): (usize, &&str)| {
        (format!("{id}-{n}"), json!({"type": "text", "text": text}).to_string())
    };
    let parts: Vec<_> = texts.iter().enumerate().map(part).collect();
    Message::new(id.to_owned(), &data.to_string(), &parts).unwrap()
}

#[test]
fn the_last_answer_is_that_of_the_newest_turn_or_none() {
    let stop = json!({"finish": "stop"});
    let tools = json!({"finish": "tool-calls"});
    let mut rows = vec![
        user("u1", 1, "first"),
        model("a1", "u1", 2, tools.clone(), &["I will look."]),
        model("a2", "u1", 3, stop.clone(), &["one", "two"]),
    ];
    let answer = last_answer(&rows, true).unwrap();
    assert_eq!((answer.text.as_str(), answer.message.as_str()), ("one\ntwo", "a2"));
    assert_eq!(answer.turn.as_deref(), Some("u1"));
    assert_eq!(answer.prompt.as_deref(), Some("first"));
    rows.push(user("u2", 4, "second"));
    assert_eq!(last_answer(&rows, true), Err(NoAnswer::NotYet), "the answer before is no answer");
    rows.push(model("a3", "u2", 5, tools, &["Looking."]));
    assert_eq!(last_answer(&rows, true), Err(NoAnswer::NotYet));
    let error = json!({"error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}});
    rows.push(model("a4", "u2", 6, error, &["half"]));
    assert_eq!(last_answer(&rows, true), Err(NoAnswer::Interrupted));
    let error = json!({"error": {"name": "APIError", "data": {"message": "m", "statusCode": 500}}});
    rows.push(model("a5", "u2", 7, error, &[]));
    let failed = NoAnswer::ApiError { code: Some(500), text: "m".to_owned() };
    assert_eq!(last_answer(&rows, true), Err(failed));
    // Cut off before the prompt: whose answer it is cannot be said.
    rows.push(model("a6", "u2", 8, stop, &["whole"]));
    assert!(last_answer(&rows[4..], false).is_err());
    assert_eq!(last_answer(&rows, true).unwrap().text, "whole");
}

#[test]
fn rows_are_told_once_and_a_waiting_prompt_when_it_is_taken_up() {
    let mut follow = Follow::since(10);
    let mut rows = vec![user("u0", 9, "long ago"), user("u1", 11, "first")];
    let prompt = |turn: &str, text: &str| RecordEvent::Prompt {
        turn: turn.to_owned(),
        text: text.to_owned(),
        human: true,
    };
    let bare = Message { parts: Vec::new(), ..rows[1].clone() };
    assert_eq!(follow.take(&[rows[0].clone(), bare]), [], "its text is still to come");
    assert_eq!(follow.take(&rows), [prompt("u1", "first")]);
    assert_eq!(follow.take(&rows), []);
    rows.push(model("a1", "u1", 12, json!({}), &["half an ans"]));
    rows.push(user("u2", 13, "waits"));
    rows.push(user("u3", 14, "waits too"));
    assert_eq!(follow.take(&rows), []);
    rows[2] = model("a1", "u1", 12, json!({"finish": "stop"}), &["an answer"]);
    rows.push(model("a2", "u3", 15, json!({"finish": "stop"}), &["to both"]));
    let answer = |turn: &str, message: &str, text: &str| RecordEvent::Answer {
        turn: Some(turn.to_owned()),
        message: message.to_owned(),
        text: text.to_owned(),
    };
    let end = |turn: &str| RecordEvent::TurnEnd { turn: Some(turn.to_owned()) };
    let expected = [
        answer("u1", "a1", "an answer"),
        end("u1"),
        prompt("u3", "waits too"),
        answer("u3", "a2", "to both"),
        end("u3"),
    ];
    assert_eq!(follow.take(&rows), expected);
    assert_eq!(follow.take(&rows), []);
}

#[test]
fn an_unknown_form_of_a_row_is_named() {
    let error = Message::new("m".into(), "{}", &[]).unwrap_err().to_string();
    assert!(error.contains("message.data has no field role"), "{error}");
    let error = Message::new("m".into(), "{", &[]).unwrap_err().to_string();
    assert!(error.contains("message.data of m is not JSON"), "{error}");
    let error = Message::new("m".into(), r#"{"role":"assistant"}"#, &[]).unwrap_err().to_string();
    assert!(error.contains("no field parentID"), "{error}");
    let lost = Said::Status(StatusState::Lost);
    assert_eq!(words(&[lost]), ["lost"]);
}
