//! What the server tells (`GET /event`): from its events to what an agent's hooks and status
//! would say.
//!
//! Decides which user message began a turn and how a turn ended. A prompt that waits in the
//! program's queue is told when the program takes it up, not when it was typed. Refuses to tell
//! what is older than the agent: resuming a session touches its old messages.

use super::{Finish, failure, finish, is_own_text, service_error, text};
use crate::core::dialect::{HookEvent, StatusState};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something to be told of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The session that the program works in now.
    Session(String),
    /// As a hook would.
    Hook(HookEvent),
    /// As a status file would.
    Status(StatusState),
}

/// Messages whose ids are remembered, so that each is told once.
const REMEMBERED: usize = 256;

/// Follows the events of one server.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// Milliseconds since the epoch: user messages before it are not news.
    since: u64,
    /// The session of the newest prompt.
    session: Option<String>,
    /// Sessions of subagents.
    children: BTreeSet<String>,
    busy: BTreeSet<String>,
    /// What waits for a person, by the request's id.
    asked: BTreeMap<String, String>,
    /// A user message whose parts are still being told.
    coming: Option<Prompt>,
    /// Prompts that the program has not taken up, oldest first.
    queued: VecDeque<Prompt>,
    /// Ids of user messages that were told or queued, newest last.
    known: VecDeque<String>,
    /// Open turns, by their session: one that a person left works on.
    turns: BTreeMap<String, Turn>,
}

/// Whether a session is a subagent's.
fn is_child(session: &Value) -> bool {
    text(session, "/parentID").is_some()
}

#[derive(Debug, Clone)]
struct Prompt {
    id: String,
    session: String,
    texts: Vec<String>,
}

/// The open turn.
#[derive(Debug, Clone)]
struct Turn {
    /// Its user message.
    id: String,
    /// Its newest assistant message.
    message: Option<String>,
    finish: Finish,
    /// Text parts of that message, in their order.
    parts: Vec<(String, String)>,
    /// `session.error` named an error; it comes before the message that has it.
    error: Option<Finish>,
}

impl Turn {
    fn answer(&self) -> String {
        let texts = self.parts.iter().map(|(_, t)| t.as_str()).filter(|t| !t.is_empty());
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Events {
    /// For an agent that started at `since` (milliseconds since the epoch) in this session, where
    /// that is known.
    #[must_use]
    pub fn new(since: u64, session: Option<String>) -> Self {
        Events { since, session, ..Events::default() }
    }

    /// The session that the program works in, as far as is known.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The connection is new: what was known of the server's state may have changed meanwhile.
    /// `sessions` is the answer of `/session`, `states` that of `/session/status`, `asked` that of
    /// `/permission`, `messages` that of `/session/{id}/message` for the session known so far (null
    /// where there is none).
    pub fn resume(
        &mut self,
        sessions: &Value,
        states: &Value,
        asked: &Value,
        messages: &Value,
    ) -> Vec<Said> {
        let mut said = Vec::new();
        let children = sessions.as_array().into_iter().flatten().filter(|s| is_child(s));
        self.children.extend(children.filter_map(|s| text(s, "/id")).map(str::to_owned));
        for message in messages.as_array().into_iter().flatten() {
            self.message(&message["info"], &mut said);
            for part in message["parts"].as_array().into_iter().flatten() {
                self.part(part, &mut said);
            }
        }
        self.take_coming(&mut said);
        self.busy.clear();
        for (session, state) in states.as_object().into_iter().flatten() {
            if text(state, "/type") != Some("idle") {
                self.busy.insert(session.clone());
            }
        }
        let gone = std::mem::take(&mut self.asked).into_values().next_back();
        for request in asked.as_array().into_iter().flatten() {
            self.ask(request, "/permission", &mut said);
        }
        if let Some(tool) = gone.filter(|_| self.asked.is_empty()) {
            said.push(Said::Hook(HookEvent::ToolDone { tool }));
        }
        let over: Vec<String> =
            self.turns.keys().filter(|s| !self.busy.contains(*s)).cloned().collect();
        for session in over {
            self.end_turn(&session, &mut said);
        }
        said.push(self.state());
        said
    }

    /// Takes an event: the JSON of one `data:` line.
    pub fn event(&mut self, event: &Value) -> Vec<Said> {
        let mut said = Vec::new();
        let Some(kind) = text(event, "/type") else { return said };
        let about = &event["properties"];
        if kind != "message.part.updated" {
            // A user message's parts follow it at once.
            self.take_coming(&mut said);
        }
        let session = text(about, "/sessionID").or_else(|| text(about, "/info/sessionID"));
        match kind {
            "session.created" | "session.updated" => {
                if let Some(id) = text(about, "/info/id").filter(|_| is_child(&about["info"])) {
                    self.children.insert(id.to_owned());
                }
            }
            "message.updated" => self.message(&about["info"], &mut said),
            "message.part.updated" => self.part(&about["part"], &mut said),
            "session.status" => {
                let Some(session) = session else { return said };
                match text(about, "/status/type") {
                    Some("idle") => self.idle(session, &mut said),
                    Some(_) => {
                        let before = self.busy.is_empty();
                        self.busy.insert(session.to_owned());
                        if before {
                            said.push(self.state());
                        }
                    }
                    None => {}
                }
            }
            "session.idle" => {
                if let Some(session) = session {
                    self.idle(session, &mut said);
                }
            }
            "session.error" => {
                let turns = self.turns.iter_mut();
                for (_, turn) in turns.filter(|(s, _)| session.is_none_or(|of| of == *s)) {
                    turn.error = Some(failure(&about["error"]));
                }
            }
            "permission.asked" => self.ask(about, "/permission", &mut said),
            "question.asked" => self.ask(about, "/question", &mut said),
            "permission.replied" | "question.replied" | "question.rejected" => {
                let id = text(about, "/requestID").or_else(|| text(about, "/id"));
                if let Some(tool) = id.and_then(|id| self.asked.remove(id))
                    && self.asked.is_empty()
                {
                    said.push(Said::Hook(HookEvent::ToolDone { tool }));
                }
            }
            _ => {}
        }
        said
    }

    fn state(&self) -> Said {
        Said::Status(if self.busy.is_empty() { StatusState::Idle } else { StatusState::Busy })
    }

    /// Subagents' requests show the same dialog, so they count.
    fn ask(&mut self, about: &Value, name: &str, said: &mut Vec<Said>) {
        let Some(id) = text(about, "/id") else { return };
        let tool = text(about, name).unwrap_or("a question").to_owned();
        self.asked.insert(id.to_owned(), tool.clone());
        said.push(Said::Hook(HookEvent::PermissionAsked { tool }));
    }

    fn message(&mut self, info: &Value, said: &mut Vec<Said>) {
        let (Some(id), Some(session)) = (text(info, "/id"), text(info, "/sessionID")) else {
            return;
        };
        if self.children.contains(session) {
            return;
        }
        if text(info, "/role") == Some("user") {
            let created = info.pointer("/time/created").and_then(Value::as_u64).unwrap_or(0);
            if created < self.since || self.known.iter().any(|k| k == id) {
                return;
            }
            self.take_coming(said);
            self.known.push_back(id.to_owned());
            if self.known.len() > REMEMBERED {
                self.known.pop_front();
            }
            let (id, session) = (id.to_owned(), session.to_owned());
            self.coming = Some(Prompt { id, session, texts: Vec::new() });
            return;
        }
        let Some(parent) = text(info, "/parentID") else { return };
        if self.turns.get(session).is_none_or(|t| t.id != parent) {
            let Some(at) = self.queued.iter().position(|p| p.id == parent) else { return };
            let Some(prompt) = self.queued.remove(at) else { return };
            // What was queued before it went into the same turn.
            let mut before = 0..at;
            self.queued.retain(|p| before.next().is_none() || p.session != session);
            self.end_turn(session, said);
            self.begin(prompt, said);
        }
        let Some(turn) = self.turns.get_mut(session) else { return };
        if turn.message.as_deref() != Some(id) {
            turn.message = Some(id.to_owned());
            turn.parts.clear();
        }
        turn.finish = finish(info);
    }

    fn part(&mut self, part: &Value, said: &mut Vec<Said>) {
        let of = text(part, "/messageID");
        if let Some(prompt) = self.coming.as_mut()
            && of == Some(prompt.id.as_str())
        {
            if is_own_text(part) {
                prompt.texts.push(text(part, "/text").unwrap_or_default().to_owned());
            }
            return;
        }
        self.take_coming(said);
        let Some(turn) =
            self.turns.values_mut().find(|t| of.is_some() && t.message.as_deref() == of)
        else {
            return;
        };
        if !is_own_text(part) {
            return;
        }
        let (id, now) = (text(part, "/id").unwrap_or_default(), text(part, "/text"));
        let now = now.unwrap_or_default().to_owned();
        match turn.parts.iter_mut().find(|(known, _)| known == id) {
            Some((_, text)) => *text = now,
            None => turn.parts.push((id.to_owned(), now)),
        }
    }

    /// All of a user message has been told.
    fn take_coming(&mut self, said: &mut Vec<Said>) {
        let Some(prompt) = self.coming.take() else { return };
        if self.turns.contains_key(&prompt.session) {
            self.queued.push_back(prompt);
            if self.queued.len() > REMEMBERED {
                self.queued.pop_front();
            }
        } else {
            self.begin(prompt, said);
        }
    }

    fn begin(&mut self, prompt: Prompt, said: &mut Vec<Said>) {
        let Prompt { id, session, texts } = prompt;
        if self.session.as_ref() != Some(&session) {
            self.session = Some(session.clone());
            said.push(Said::Session(session.clone()));
        }
        let (turn, text) = (Some(id.clone()), texts.join("\n"));
        said.push(Said::Hook(HookEvent::Prompt { session: session.clone(), turn, text }));
        let turn = Turn { id, message: None, finish: Finish::Open, parts: Vec::new(), error: None };
        self.turns.insert(session, turn);
    }

    /// A session is idle, which is told twice.
    fn idle(&mut self, session: &str, said: &mut Vec<Said>) {
        let was = self.busy.remove(session);
        self.end_turn(session, said);
        // After a refusal or an interruption nothing takes up what still waits.
        while let Some(at) = self.queued.iter().position(|p| p.session == session) {
            let Some(prompt) = self.queued.remove(at) else { break };
            self.begin(prompt, said);
            self.end_turn(session, said);
        }
        if was && self.busy.is_empty() {
            said.push(self.state());
        }
    }

    fn end_turn(&mut self, session: &str, said: &mut Vec<Said>) {
        let Some(turn) = self.turns.remove(session) else { return };
        let id = Some(turn.id.clone());
        let how = turn.error.clone().unwrap_or_else(|| turn.finish.clone());
        said.push(Said::Hook(match how {
            Finish::Whole => {
                let (session, answer) = (session.to_owned(), Some(turn.answer()));
                HookEvent::Stop { session, turn: id, answer, background: 0 }
            }
            Finish::Failed(code, why) => {
                HookEvent::StopFailure { turn: id, error: service_error(code, why) }
            }
            // Nothing follows a tool's call: the call was refused.
            Finish::Open | Finish::Tools | Finish::Aborted => HookEvent::Interrupted { turn: id },
        }));
    }
}
