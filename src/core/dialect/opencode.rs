//! OpenCode's server events and its database's messages.
//!
//! Facts seen by running opencode 1.18.33. A turn has the id of its user message; every assistant
//! message of it names that as its `parentID`, in the events and in the database alike. Subagents
//! work in sessions of their own, which have a parent. What a known message needs and lacks is an
//! error that names the field; unknown events and fields are passed over.

mod events;
mod rows;

pub use events::{Events, Said};
pub use rows::{Follow, Message, last_answer};

use super::NoAnswer;
use serde_json::Value;

/// A string field of an object, by its path.
fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str)
}

/// Whether a part is text that a person or the model wrote: the program adds parts of its own.
fn is_own_text(part: &Value) -> bool {
    let flag = |name: &str| part.get(name).and_then(Value::as_bool).unwrap_or(false);
    text(part, "/type") == Some("text") && !flag("synthetic") && !flag("ignored")
}

/// How an assistant message ended, by its own fields.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finish {
    /// It is still being written.
    Open,
    /// It called tools; another message follows, unless one of them was refused.
    Tools,
    /// The model said all it had to say.
    Whole,
    /// A person interrupted it. One that had not begun has neither a reason nor an error.
    Aborted,
    /// The service failed: HTTP status and message.
    Failed(Option<u16>, String),
}

fn finish(info: &Value) -> Finish {
    if let Some(error) = info.get("error").filter(|e| !e.is_null()) {
        return failure(error);
    }
    let completed = info.pointer("/time/completed").is_some_and(|t| !t.is_null());
    match text(info, "/finish") {
        _ if !completed => Finish::Open,
        Some("tool-calls") => Finish::Tools,
        Some(_) => Finish::Whole,
        None => Finish::Aborted,
    }
}

/// An error of a message or of `session.error`.
fn failure(error: &Value) -> Finish {
    let name = text(error, "/name").unwrap_or("error");
    if name == "MessageAbortedError" {
        return Finish::Aborted;
    }
    let code = error.pointer("/data/statusCode").and_then(Value::as_u64);
    let said = text(error, "/data/message").filter(|m| !m.is_empty()).unwrap_or(name);
    Finish::Failed(code.and_then(|c| u16::try_from(c).ok()), said.to_owned())
}

/// The error of a service in words.
fn service_error(code: Option<u16>, text: String) -> String {
    NoAnswer::ApiError { code, text }.to_string().trim_start_matches("no answer: ").to_owned()
}

#[cfg(test)]
mod tests;
