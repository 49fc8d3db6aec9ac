//! The last answer of a transcript that is read from its end.

use super::{Line, LineKind, Unreadable, parse_line};
pub use crate::core::dialect::Found;
use crate::core::dialect::{Answer, NoAnswer};

/// Is given lines, newest first, until it knows the last answer or why there is none.
///
/// The answer is the text of the last message after the last prompt, whoever wrote the prompt: a
/// background task that ends begins a turn of its own, and the answer to that is not the answer
/// to what was asked before. An error or an interruption after the last message hides it.
///
/// *After* is a matter of the lines' times where a prompt is the newest line: 2.1.197 under load
/// writes a session's first prompt after the answer to it.
#[derive(Debug, Clone, Default)]
pub struct AnswerFinder {
    ended: bool,
    message: Option<Collected>,
    turn: Option<String>,
    /// The last prompt, when nothing was written after it.
    prompt: Option<Asked>,
    damaged: usize,
    /// Tools that have done their work.
    done: Vec<String>,
    /// Files of edits that were carried out, the last one first.
    changed: Vec<String>,
}

#[derive(Debug, Clone)]
struct Collected {
    id: String,
    /// Text blocks, the last one first.
    texts: Vec<String>,
    stop: Option<String>,
}

#[derive(Debug, Clone)]
struct Asked {
    turn: String,
    text: String,
    at: String,
}

impl AnswerFinder {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        AnswerFinder::default()
    }

    /// Takes the next older line.
    pub fn line(&mut self, line: &str) -> Found {
        let Line { kind, at } = match parse_line(line) {
            Ok(line) => line,
            // A line that a crash cut off stays in the file for ever.
            Err(Unreadable::NotJson(_)) => {
                self.damaged += 1;
                return Found::More;
            }
            Err(e) => return Found::Done(Err(NoAnswer::Malformed(e.to_string()))),
        };
        if matches!(kind, LineKind::Other) {
            return Found::More;
        }
        // Of what stands before the last prompt, only what was written later counts.
        if let Some(prompt) = &self.prompt
            && at.as_ref().is_none_or(|at| *at < prompt.at)
        {
            return Found::Done(self.end());
        }
        match kind {
            LineKind::Message { id, texts, stop, edits } => {
                let done = edits.into_iter().rev().filter(|e| self.done.contains(&e.id));
                self.changed.extend(done.map(|e| e.path));
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
            LineKind::Prompt { turn, text, .. } => match at {
                Some(at) if self.message.is_none() && self.prompt.is_none() => {
                    self.prompt = Some(Asked { turn, text, at });
                    Found::More
                }
                _ if self.prompt.is_some() => Found::Done(self.end()),
                _ => Found::Done(self.answer(Some(turn), Some(text))),
            },
            // Without a message after it, it was a local command, which began no turn.
            LineKind::Command { turn, text } if self.message.is_some() => {
                Found::Done(self.answer(turn, Some(text)))
            }
            LineKind::Within { turn, done } => {
                self.done.extend(done);
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

    /// There are no older lines that matter.
    pub fn end(&mut self) -> Result<Answer, NoAnswer> {
        if let Some(Asked { turn, text, .. }) = self.prompt.take() {
            return self.answer(Some(turn), Some(text));
        }
        if self.message.is_none() && self.damaged > 0 {
            let n = self.damaged;
            return Err(NoAnswer::Malformed(format!("{n} damaged lines and no prompt")));
        }
        self.answer(None, None)
    }

    /// Older lines are too far away. A tool result on the way may have named the turn.
    pub fn too_far(&mut self, mib: u64) -> Result<Answer, NoAnswer> {
        if self.prompt.is_some() || (self.message.is_some() && self.turn.is_some()) {
            self.end()
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
        let mut changed = Vec::new();
        for path in std::mem::take(&mut self.changed).into_iter().rev() {
            if !changed.contains(&path) {
                changed.push(path);
            }
        }
        let changed = Some(changed);
        Ok(Answer { text, turn, prompt, message: id, ended: self.ended, changed })
    }
}
