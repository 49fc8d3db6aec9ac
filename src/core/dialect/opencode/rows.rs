//! What the database holds: messages of one session, from rows to record events and to the last
//! answer.

use super::{Finish, finish, is_own_text, text};
use crate::core::dialect::{Answer, NoAnswer, RecordEvent};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a refused tool call holds where nothing was said to the model with the refusal; the turn is
/// over then.
const REFUSED: &str = "The user rejected permission to use this specific tool call.";

/// A message with its parts, as the tables `message` and `part` hold them.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// `message.id`.
    pub id: String,
    /// `message.data`.
    pub data: Value,
    /// `part.id` and `part.data` of its parts, in order.
    pub parts: Vec<(String, Value)>,
}

impl Message {
    /// From the columns as they are; the error names the one that cannot be read.
    pub fn new(id: String, data: &str, parts: &[(String, String)]) -> Result<Message, NoAnswer> {
        let json = |column: &str, text: &str| {
            serde_json::from_str::<Value>(text)
                .map_err(|_| unknown(&format!("{column} of {id} is not JSON")))
        };
        let parts = parts
            .iter()
            .map(|(part, data)| Ok((part.clone(), json("part.data", data)?)))
            .collect::<Result<_, NoAnswer>>()?;
        let message = Message { data: json("message.data", data)?, parts, id };
        match message.role() {
            Some("assistant") if message.parent().is_none() => {
                Err(unknown("message.data has no field parentID"))
            }
            Some(_) => Ok(message),
            None => Err(unknown("message.data has no field role")),
        }
    }

    /// Its text, when it is a prompt of `since` (milliseconds since the epoch) or later.
    #[must_use]
    pub fn prompt_since(&self, since: u64) -> Option<String> {
        (self.is_user() && self.created() >= since).then(|| self.text())
    }

    fn role(&self) -> Option<&str> {
        text(&self.data, "/role")
    }

    fn is_user(&self) -> bool {
        self.role() == Some("user")
    }

    fn parent(&self) -> Option<&str> {
        text(&self.data, "/parentID")
    }

    fn created(&self) -> u64 {
        self.data.pointer("/time/created").and_then(Value::as_u64).unwrap_or(0)
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.parts.iter().filter(|(_, data)| is_own_text(data));
        own.filter_map(|(id, data)| Some((id.as_str(), text(data, "/text")?)))
            .filter(|(_, text)| !text.is_empty())
    }

    fn text(&self) -> String {
        self.texts().map(|(_, t)| t).collect::<Vec<_>>().join("\n")
    }

    /// A tool of it was refused, and nothing said with the refusal.
    fn refused(&self) -> bool {
        self.parts.iter().any(|(_, data)| text(data, "/state/error") == Some(REFUSED))
    }

    fn end(&self) -> Finish {
        match finish(&self.data) {
            Finish::Tools if self.refused() => Finish::Aborted,
            end => end,
        }
    }
}

fn unknown(what: &str) -> NoAnswer {
    NoAnswer::Malformed(format!("{what}; this form of OpenCode's database is not known"))
}

fn too_far() -> NoAnswer {
    NoAnswer::NoRecord("its last prompt is too many messages ago".to_owned())
}

/// The last answer of a session: the text of the last assistant message, when it is its turn's
/// last and belongs to the newest turn. `messages` are the newest ones, oldest first; `whole` says
/// that there are no older ones.
pub fn last_answer(messages: &[Message], whole: bool) -> Result<Answer, NoAnswer> {
    let Some(last) = messages.iter().rev().find(|m| !m.is_user()) else {
        let any = whole || messages.iter().any(Message::is_user);
        return Err(if any { NoAnswer::NotYet } else { too_far() });
    };
    let turn = last.parent().unwrap_or_default().to_owned();
    let prompt = messages.iter().find(|m| m.id == turn);
    if prompt.is_none() && !whole {
        return Err(too_far());
    }
    // A prompt that came later has no message yet, so what there is answers another.
    let later = messages.iter().rev().find(|m| m.is_user()).filter(|m| m.id != turn);
    let after = |m: &Message| (m.created(), m.id.as_str()) > (last.created(), last.id.as_str());
    if later.is_some_and(after) {
        return Err(NoAnswer::NotYet);
    }
    match last.end() {
        Finish::Whole => {}
        Finish::Open | Finish::Tools => return Err(NoAnswer::NotYet),
        Finish::Aborted => return Err(NoAnswer::Interrupted),
        Finish::Failed(code, text) => return Err(NoAnswer::ApiError { code, text }),
    }
    Ok(Answer {
        text: last.text(),
        turn: Some(turn),
        prompt: prompt.map(Message::text),
        message: last.id.clone(),
        ended: true,
        changed: None,
    })
}

/// Follows a session's messages and tells what is new.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// Milliseconds since the epoch: turns that began before are not news.
    since: u64,
    /// What has been told: prompts, parts of answers, ends, by their ids.
    told: BTreeSet<String>,
}

impl Follow {
    /// Follows what comes at `since` (milliseconds since the epoch) or later.
    #[must_use]
    pub fn since(since: u64) -> Self {
        Follow { since, told: BTreeSet::new() }
    }

    /// Takes the newest messages of the session, oldest first.
    pub fn take(&mut self, messages: &[Message]) -> Vec<RecordEvent> {
        let mut events = Vec::new();
        let prompts: Vec<&Message> =
            messages.iter().filter(|m| m.is_user() && m.created() >= self.since).collect();
        let answers = |prompt: &Message| {
            let of = |m: &&Message| m.parent() == Some(prompt.id.as_str());
            messages.iter().filter(of).collect::<Vec<_>>()
        };
        let mut open = false;
        for (n, prompt) in prompts.iter().enumerate() {
            let own = answers(prompt);
            let passed = prompts[n + 1..].iter().any(|later| !answers(later).is_empty());
            // Without an answer of its own it waits in the program's queue, or it went from there
            // into the turn of a later one.
            if own.is_empty() && (passed || open) {
                continue;
            }
            // Its row is there before those of its parts.
            if own.is_empty() && prompt.parts.is_empty() {
                open = true;
                continue;
            }
            let turn = prompt.id.clone();
            if self.told.insert(turn.clone()) {
                let text = prompt.text();
                events.push(RecordEvent::Prompt { turn: turn.clone(), text, human: true });
            }
            for answer in own.iter().filter(|a| a.end() != Finish::Open) {
                for (part, text) in answer.texts() {
                    if self.told.insert(part.to_owned()) {
                        let (message, text) = (answer.id.clone(), text.to_owned());
                        let turn = Some(turn.clone());
                        events.push(RecordEvent::Answer { turn, message, text });
                    }
                }
            }
            let named = Some(turn.clone());
            let end = match own.last().map_or(Finish::Open, |a| a.end()) {
                Finish::Open | Finish::Tools if !passed => {
                    open = true;
                    continue;
                }
                Finish::Failed(code, text) => RecordEvent::ApiError { code, text },
                Finish::Aborted => RecordEvent::Interrupted { turn: named },
                Finish::Whole | Finish::Open | Finish::Tools => {
                    RecordEvent::TurnEnd { turn: named }
                }
            };
            if self.told.insert(format!("{turn} end")) {
                events.push(end);
            }
        }
        events
    }
}
