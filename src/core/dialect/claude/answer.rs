//! The last answer of a transcript that is read from its end.

use super::{LineKind, Unreadable, parse_line};
use crate::core::dialect::{Answer, NoAnswer};

/// What a [`AnswerFinder`] says after a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It needs older lines.
    More,
    /// This is it.
    Done(Result<Answer, NoAnswer>),
}

/// Is given lines, newest first, until it knows the last answer or why there is none.
///
/// The answer is the text of the last message after the last prompt, whoever wrote the prompt: a
/// background task that ends begins a turn of its own, and the answer to that is not the answer
/// to what was asked before. An error or an interruption after the last message hides it.
#[derive(Debug, Clone, Default)]
pub struct AnswerFinder {
    ended: bool,
    message: Option<Collected>,
    turn: Option<String>,
    damaged: usize,
}

#[derive(Debug, Clone)]
struct Collected {
    id: String,
    /// Text blocks, the last one first.
    texts: Vec<String>,
    stop: Option<String>,
}

impl AnswerFinder {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        AnswerFinder::default()
    }

    /// Takes the next older line.
    pub fn line(&mut self, line: &str) -> Found {
        let line = match parse_line(line) {
            Ok(line) => line,
            // A line that a crash cut off stays in the file for ever.
            Err(Unreadable::NotJson(_)) => {
                self.damaged += 1;
                return Found::More;
            }
            Err(e) => return Found::Done(Err(NoAnswer::Malformed(e.to_string()))),
        };
        match line.kind {
            LineKind::Message { id, texts, stop } => {
                match self.message.as_mut() {
                    None => {
                        let texts = texts.into_iter().rev().collect();
                        self.message = Some(Collected { id, texts, stop });
                    }
                    Some(m) if m.id == id => m.texts.extend(texts.into_iter().rev()),
                    Some(_) => {}
                }
                Found::More
            }
            LineKind::Prompt { turn, text, .. } => Found::Done(self.answer(Some(turn), Some(text))),
            // Without a message after it, it was a local command, which began no turn.
            LineKind::Command { turn, text } if self.message.is_some() => {
                Found::Done(self.answer(turn, Some(text)))
            }
            LineKind::Within { turn } => {
                if self.turn.is_none() {
                    self.turn = turn;
                }
                Found::More
            }
            LineKind::Interrupted { .. } if self.message.is_none() => {
                Found::Done(Err(NoAnswer::Interrupted))
            }
            LineKind::ApiError { code, text } if self.message.is_none() => {
                Found::Done(Err(NoAnswer::ApiError { code, text }))
            }
            LineKind::TurnEnd => {
                self.ended |= self.message.is_none();
                Found::More
            }
            LineKind::Command { .. }
            | LineKind::Interrupted { .. }
            | LineKind::ApiError { .. }
            | LineKind::Other => Found::More,
        }
    }

    /// There are no older lines.
    pub fn end(&mut self) -> Result<Answer, NoAnswer> {
        if self.message.is_none() && self.damaged > 0 {
            let n = self.damaged;
            return Err(NoAnswer::Malformed(format!("{n} damaged lines and no prompt")));
        }
        self.answer(None, None)
    }

    /// Older lines are too far away. A tool result on the way may have named the turn.
    pub fn too_far(&mut self, mib: u64) -> Result<Answer, NoAnswer> {
        if self.message.is_some() && self.turn.is_some() {
            self.answer(None, None)
        } else {
            Err(NoAnswer::TooFar(mib))
        }
    }

    fn answer(&mut self, turn: Option<String>, prompt: Option<String>) -> Result<Answer, NoAnswer> {
        let Collected { id, texts, stop } = self.message.take().ok_or(NoAnswer::NotYet)?;
        // A message that calls a tool is not the turn's last, unless the record says otherwise.
        let goes_on = stop.as_deref() == Some("tool_use") && !self.ended;
        if texts.is_empty() || goes_on {
            return Err(NoAnswer::NotYet);
        }
        let text = texts.iter().rev().map(String::as_str).collect::<Vec<_>>().join("\n");
        let turn = turn.or_else(|| self.turn.take());
        Ok(Answer { text, turn, prompt, message: id, ended: self.ended })
    }
}
