//! The demo agent's transcript: one JSON object a line, each with its turn.

use super::{Answer, NoAnswer, RecordEvent};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line {
    Prompt {
        turn: String,
        text: String,
        #[serde(default)]
        human: bool,
    },
    Answer {
        turn: String,
        text: String,
    },
    End {
        turn: String,
    },
    Interrupted {
        turn: String,
    },
    Error {
        code: Option<u16>,
        #[serde(default)]
        text: String,
    },
    #[serde(other)]
    Other,
}

/// Reads one line.
pub fn parse_line(line: &str) -> Result<Option<RecordEvent>, String> {
    let line = serde_json::from_str(line).map_err(|e| format!("a line of the transcript: {e}"))?;
    Ok(match line {
        Line::Prompt { turn, text, human } => Some(RecordEvent::Prompt { turn, text, human }),
        Line::Answer { turn, text } => {
            Some(RecordEvent::Answer { message: turn.clone(), turn: Some(turn), text })
        }
        Line::End { turn } => Some(RecordEvent::TurnEnd { turn: Some(turn) }),
        Line::Interrupted { turn } => Some(RecordEvent::Interrupted { turn: Some(turn) }),
        Line::Error { code, text } => Some(RecordEvent::ApiError { code, text }),
        Line::Other => None,
    })
}

/// Is given lines, newest first, until it knows the last answer or why there is none.
#[derive(Debug, Clone, Default)]
pub struct AnswerFinder {
    ended: bool,
    answer: Option<(String, String)>,
}

impl AnswerFinder {
    /// Takes the next older line; `None`: it needs more.
    pub fn line(&mut self, line: &str) -> Option<Result<Answer, NoAnswer>> {
        let event = match parse_line(line) {
            Ok(event) => event?,
            Err(e) => return Some(Err(NoAnswer::Malformed(e))),
        };
        let nothing_yet = self.answer.is_none();
        match event {
            RecordEvent::Prompt { turn, text, .. } => Some(self.end(Some(turn), Some(text))),
            RecordEvent::Answer { message, text, .. } => {
                self.answer.get_or_insert((message, text));
                None
            }
            RecordEvent::TurnEnd { .. } => {
                self.ended |= nothing_yet;
                None
            }
            RecordEvent::Interrupted { .. } if nothing_yet => Some(Err(NoAnswer::Interrupted)),
            RecordEvent::ApiError { code, text } if nothing_yet => {
                Some(Err(NoAnswer::ApiError { code, text }))
            }
            RecordEvent::Interrupted { .. }
            | RecordEvent::ApiError { .. }
            | RecordEvent::Changed { .. } => None,
        }
    }

    /// There are no older lines, or the prompt was found.
    pub fn end(
        &mut self,
        turn: Option<String>,
        prompt: Option<String>,
    ) -> Result<Answer, NoAnswer> {
        let (message, text) = self.answer.take().ok_or(NoAnswer::NotYet)?;
        let turn = turn.or_else(|| Some(message.clone()));
        Ok(Answer { text, turn, prompt, message, ended: self.ended, changed: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(lines: &[&str]) -> Result<Answer, NoAnswer> {
        let mut finder = AnswerFinder::default();
        let found = lines.iter().rev().find_map(|l| finder.line(l));
        found.unwrap_or_else(|| finder.end(None, None))
    }

    const PROMPT: &str = r#"{"type":"prompt","turn":"t2","text":"q","human":true,"at":1}"#;
    const ANSWER: &str = r#"{"type":"answer","turn":"t2","text":"a"}"#;
    const END: &str = r#"{"type":"end","turn":"t2"}"#;
    const ERROR: &str = r#"{"type":"error","turn":"t2","code":529,"text":"overloaded"}"#;

    #[test]
    fn the_last_turns_answer_is_found() {
        let answer = find(&[ERROR, PROMPT, ANSWER, END]).unwrap();
        assert_eq!((answer.text.as_str(), answer.ended), ("a", true));
        assert_eq!((answer.turn.as_deref(), answer.prompt.as_deref()), (Some("t2"), Some("q")));
        assert!(!find(&[PROMPT, ANSWER]).unwrap().ended);
    }

    #[test]
    fn an_open_turn_an_error_and_an_interruption_give_none() {
        assert_eq!(find(&[PROMPT, ANSWER, END, PROMPT]), Err(NoAnswer::NotYet));
        assert!(matches!(find(&[PROMPT, ERROR]), Err(NoAnswer::ApiError { code: Some(529), .. })));
        let stop = r#"{"type":"interrupted","turn":"t2"}"#;
        assert_eq!(find(&[PROMPT, stop]), Err(NoAnswer::Interrupted));
        assert_eq!(find(&[]), Err(NoAnswer::NotYet));
    }

    #[test]
    fn unknown_lines_are_passed_over_and_broken_ones_named() {
        assert_eq!(parse_line(r#"{"type":"new thing"}"#), Ok(None));
        assert!(parse_line(r#"{"type":"answer","turn":"t"}"#).unwrap_err().contains("text"));
    }
}
