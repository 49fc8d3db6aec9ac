//! Codex's rollout: the record that it keeps of a thread.
//!
//! Facts seen by running codex 0.171.0. A rollout holds one JSON object a line, each with a `type` and a
//! `payload` that has a `type` of its own. What happens in a turn is said by `event_msg` lines, nearly all of
//! which name their `turn_id`; the same texts come again as `response_item` lines for the model, among others
//! that nobody typed, so those are passed over. Unknown lines are too. What a known line needs and lacks is an
//! error that names the field: an older answer must never stand in for one that could not be read.

mod answer;

pub use answer::AnswerFinder;

use super::{Fresh, RecordEvent, Unreadable, read};
use serde::Deserialize;
use serde_json::Value;

/// A rollout's line, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: LineKind,
    /// When it was written, `2026-11-30T09:09:35.104Z`; such times compare as text.
    pub at: Option<String>,
}

/// What a rollout's line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineKind {
    /// A turn begins (`task_started`).
    Started {
        /// `turn_id`.
        turn: String,
        /// It is due to the composer (`turn_trigger: "user"`), not to `codex queue` or the program itself.
        human: bool,
    },
    /// A prompt was taken: the turn's first one, or one that steers it.
    Prompt {
        /// `turn_id`, where the line names it.
        turn: Option<String>,
        /// The text.
        text: String,
    },
    /// A message of the model.
    Message {
        /// `turn_id`, where the line names it.
        turn: Option<String>,
        /// The message's id.
        id: String,
        /// The text.
        text: String,
    },
    /// The turn ended by itself (`task_complete`).
    Ended {
        /// `turn_id`.
        turn: String,
        /// Its last message, if it had one.
        answer: Option<String>,
        /// It ended with this error: HTTP status where known, and the message.
        error: Option<(Option<u16>, String)>,
    },
    /// The turn was given up (`turn_aborted`).
    Aborted {
        /// `turn_id`.
        turn: String,
        /// `interrupted` by a person, or why else.
        reason: String,
    },
    /// Nothing to mado.
    Other,
}

#[derive(Deserialize)]
struct Raw {
    r#type: Option<String>,
    timestamp: Option<String>,
    #[serde(default)]
    payload: Value,
}

const LINE: &str = "a rollout line";

/// Reads one line of a rollout.
pub fn parse_line(line: &str) -> Result<Line, Unreadable> {
    let raw: Raw = read(LINE, line)?;
    let (payload, at) = (&raw.payload, raw.timestamp);
    let event = raw.r#type.as_deref() == Some("event_msg");
    let Some(name) = payload.get("type").and_then(Value::as_str).filter(|_| event) else {
        return Ok(Line { kind: LineKind::Other, at });
    };
    let kind = match name {
        "task_started" | "turn_started" => started(payload)?,
        "item_completed" => item(payload)?,
        // As threads with a history of the older form have it.
        "user_message" => LineKind::Prompt {
            turn: text_of(payload, "turn_id"),
            text: need(payload, name, "message")?,
        },
        "task_complete" | "turn_complete" => ended(payload, name)?,
        "turn_aborted" => {
            let reason = text_of(payload, "reason").unwrap_or_else(|| "interrupted".to_owned());
            LineKind::Aborted { turn: need(payload, name, "turn_id")?, reason }
        }
        _ => LineKind::Other,
    };
    Ok(Line { kind, at })
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn need(payload: &Value, name: &str, field: &str) -> Result<String, Unreadable> {
    text_of(payload, field).ok_or_else(|| missing(name, field))
}

fn missing(name: &str, field: &str) -> Unreadable {
    Unreadable::field(&format!("the rollout's {name}"), &format!("payload.{field}"))
}

fn started(payload: &Value) -> Result<LineKind, Unreadable> {
    let turn = need(payload, "task_started", "turn_id")?;
    let trigger = payload.pointer("/turn_attribution/turn_trigger").and_then(Value::as_str);
    Ok(LineKind::Started { turn, human: trigger.is_none_or(|t| t == "user") })
}

fn item(payload: &Value) -> Result<LineKind, Unreadable> {
    let name = "item_completed";
    let item = payload.get("item").ok_or_else(|| missing(name, "item"))?;
    let kind = item.get("type").and_then(Value::as_str);
    let turn = text_of(payload, "turn_id");
    let text = || {
        let content = item.get("content").and_then(Value::as_array);
        let content = content.ok_or_else(|| missing(name, "item.content"))?;
        let texts = content.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
        Ok(texts.collect::<Vec<_>>().join("\n"))
    };
    Ok(match kind {
        Some("UserMessage") => LineKind::Prompt { turn, text: text()? },
        Some("AgentMessage") => {
            let id = text_of(item, "id").ok_or_else(|| missing(name, "item.id"))?;
            LineKind::Message { turn, id, text: text()? }
        }
        _ => LineKind::Other,
    })
}

fn ended(payload: &Value, name: &str) -> Result<LineKind, Unreadable> {
    let turn = need(payload, name, "turn_id")?;
    let answer = match payload.get("last_agent_message") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Null) => None,
        _ => return Err(missing(name, "last_agent_message")),
    };
    let error = payload.get("error").filter(|e| !e.is_null()).map(|error| {
        let status = error.get("codex_error_info").and_then(status_in);
        (status, message_in(error))
    });
    Ok(LineKind::Ended { turn, answer, error })
}

/// The HTTP status that some kinds of errors hold: `{"response_…": {"http_status_code": 500}}`.
fn status_in(info: &Value) -> Option<u16> {
    let kinds = info.as_object()?.values();
    let mut codes = kinds.filter_map(|kind| kind.get("http_status_code")?.as_u64());
    codes.next().and_then(|code| code.try_into().ok())
}

/// An error's message. Where it is the service's answer as it came, what that says.
fn message_in(error: &Value) -> String {
    let text = text_of(error, "message").unwrap_or_else(|| error.to_string());
    let inner = serde_json::from_str::<Value>(&text).ok();
    let said = inner.as_ref().and_then(|v| v.pointer("/error/message")).and_then(Value::as_str);
    said.map_or(text.clone(), str::to_owned)
}

/// A rollout's first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The thread's id: what `codex resume` takes.
    pub id: String,
    /// The working directory at its start.
    pub cwd: Option<String>,
    /// It is a person's thread, not that of a subagent.
    pub main: bool,
}

/// Reads a rollout's first line.
pub fn parse_meta(line: &str) -> Result<Meta, Unreadable> {
    let raw: Raw = read("a rollout's first line", line)?;
    let meta = raw.payload;
    let name = "session_meta";
    // The source is a word (`cli`, `exec`), or for a subagent an object.
    let child = meta.get("source").is_some_and(Value::is_object)
        || text_of(&meta, "thread_source").as_deref() == Some("subagent")
        || text_of(&meta, "parent_thread_id").is_some();
    Ok(Meta { id: need(&meta, name, "id")?, cwd: text_of(&meta, "cwd"), main: !child })
}

/// Follows a rollout forward and says what happens, each event with its turn.
#[derive(Debug, Clone)]
pub struct Transcript {
    turn: Option<String>,
    human: bool,
    fresh: Fresh,
}

impl Transcript {
    /// A reader that passes over lines older than `since` (milliseconds since the epoch): a resumed
    /// thread's rollout begins with turns that are long over.
    #[must_use]
    pub fn since(since: u64) -> Self {
        Transcript { turn: None, human: true, fresh: Fresh::since(since) }
    }

    /// The file was replaced and comes again from its start: what was read before is passed over.
    pub fn restart(&mut self) {
        self.fresh.restart();
    }

    /// Takes the next line.
    pub fn line(&mut self, line: &str) -> Result<Vec<RecordEvent>, Unreadable> {
        let Line { kind, at } = parse_line(line)?;
        if !self.fresh.is_new(at.as_deref()) {
            return Ok(Vec::new());
        }
        let event = match kind {
            LineKind::Started { turn, human } => {
                self.turn = Some(turn);
                self.human = human;
                return Ok(Vec::new());
            }
            LineKind::Prompt { turn, text } => {
                let turn = turn.or_else(|| self.turn.clone());
                let turn = turn.ok_or_else(|| missing("prompt", "turn_id"))?;
                RecordEvent::Prompt { turn, text, human: self.human }
            }
            LineKind::Message { turn, id, text } if !text.is_empty() => {
                let turn = turn.or_else(|| self.turn.clone());
                RecordEvent::Answer { turn, message: id, text }
            }
            LineKind::Ended { error: Some((code, text)), .. } => {
                RecordEvent::ApiError { code, text }
            }
            LineKind::Ended { turn, .. } => RecordEvent::TurnEnd { turn: Some(turn) },
            LineKind::Aborted { turn, reason } if reason == "interrupted" => {
                RecordEvent::Interrupted { turn: Some(turn) }
            }
            LineKind::Aborted { reason, .. } => {
                RecordEvent::ApiError { code: None, text: gave_up(&reason) }
            }
            LineKind::Message { .. } | LineKind::Other => return Ok(Vec::new()),
        };
        Ok(vec![event])
    }
}

/// A turn that the program itself gave up, in words.
fn gave_up(reason: &str) -> String {
    format!("the turn was given up ({reason})")
}

#[cfg(test)]
mod tests;
