//! The last answer of a rollout that is read from its end.

use super::{Line, LineKind, Unreadable, gave_up, parse_line};
use crate::core::dialect::{Answer, Found, NoAnswer};

/// Is given lines, newest first, until it knows the last answer or why there is none.
///
/// The answer is what the end of the last turn names as its last message; before that end, the last
/// message after the last prompt. The turn's own beginning tells that all of it has been read: its prompt is
/// its oldest one, as a later one only steered it.
#[derive(Debug, Clone, Default)]
pub struct AnswerFinder {
    /// The last turn's end: its id and its last message.
    end: Option<(String, String)>,
    /// The newest message.
    message: Option<Message>,
    prompt: Option<String>,
    damaged: usize,
}

#[derive(Debug, Clone)]
struct Message {
    turn: Option<String>,
    id: String,
    text: String,
}

impl AnswerFinder {
    /// Takes the next older line.
    pub fn line(&mut self, line: &str) -> Found {
        let kind = match parse_line(line) {
            Ok(Line { kind, .. }) => kind,
            // A line that a crash cut off stays in the file for ever.
            Err(Unreadable::NotJson(_)) => {
                self.damaged += 1;
                return Found::More;
            }
            Err(e) => return Found::Done(Err(NoAnswer::Malformed(e.to_string()))),
        };
        let first = self.end.is_none() && self.message.is_none();
        match kind {
            LineKind::Ended { error: Some((code, text)), .. } if first => {
                return Found::Done(Err(NoAnswer::ApiError { code, text }));
            }
            LineKind::Ended { turn, answer: Some(answer), .. } if first => {
                self.end = Some((turn, answer));
            }
            LineKind::Aborted { reason, .. } if first => {
                let why = match reason.as_str() {
                    "interrupted" => NoAnswer::Interrupted,
                    other => NoAnswer::ApiError { code: None, text: gave_up(other) },
                };
                return Found::Done(Err(why));
            }
            // Of a turn that was over before the one that is looked at began.
            LineKind::Ended { .. } | LineKind::Aborted { .. } => {
                return Found::Done(self.finish(None));
            }
            LineKind::Message { turn, id, text } if self.message.is_none() => {
                self.message = Some(Message { turn, id, text });
            }
            LineKind::Prompt { .. } | LineKind::Started { .. } if first => {
                return Found::Done(Err(NoAnswer::NotYet));
            }
            LineKind::Prompt { text, .. } => self.prompt = Some(text),
            LineKind::Started { turn, .. } => return Found::Done(self.finish(Some(turn))),
            LineKind::Message { .. } | LineKind::Other => {}
        }
        Found::More
    }

    /// There are no older lines.
    pub fn end(&mut self) -> Result<Answer, NoAnswer> {
        if self.end.is_none() && self.message.is_none() && self.damaged > 0 {
            let n = self.damaged;
            return Err(NoAnswer::Malformed(format!("{n} damaged lines and no turn")));
        }
        self.finish(None)
    }

    /// Older lines are too far away.
    pub fn too_far(&mut self, mib: u64) -> Result<Answer, NoAnswer> {
        if self.end.is_some() { self.finish(None) } else { Err(NoAnswer::TooFar(mib)) }
    }

    /// All that there is of the turn has been read; its beginning named it, or did not.
    fn finish(&mut self, began: Option<String>) -> Result<Answer, NoAnswer> {
        let (end, message, prompt) = (self.end.take(), self.message.take(), self.prompt.take());
        if let Some((turn, text)) = end {
            // Without a message of its own, the turn's id is as good a name for its last one.
            let message = message.filter(|m| m.turn.as_ref().is_none_or(|t| *t == turn));
            let message = message.map_or_else(|| turn.clone(), |m| m.id);
            return Ok(Answer {
                text,
                turn: Some(turn),
                prompt,
                message,
                ended: true,
                changed: None,
            });
        }
        let Some(Message { turn, id, text }) = message else { return Err(NoAnswer::NotYet) };
        let turn = turn.or(began);
        Ok(Answer { text, turn, prompt, message: id, ended: false, changed: None })
    }
}
