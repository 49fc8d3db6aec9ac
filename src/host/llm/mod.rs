//! Language models: a question goes out, a text or a reason comes back.
//!
//! Each kind of provider has a module that knows its wire; what is common to all is here: the time
//! that a call may take, what is tried again, and that a key never leaves in any text. Dropping the
//! future of [`ask`] ends the call at once: the connection is closed, or the program is killed.

mod anthropic;
pub mod changes;
mod command;
pub mod config;
mod http;
pub mod key;
mod openai;

use crate::core::question::{NotTold, Told};
use crate::core::text;
use crate::proto::{Provider, ProviderKind, Usage};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a call may take with its retries where its provider does not say.
pub const TIMEOUT: Duration = Duration::from_mins(2);
/// How long a service may say nothing where its provider does not say. A program is silent until it
/// has its answer, so for one only the timeout counts.
pub const SILENCE: Duration = Duration::from_secs(30);
/// How often a call is repeated where its provider does not say.
pub const RETRIES: u32 = 2;
/// The longest wait before a repetition. A service that asks for a longer one is not waited for.
pub const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// The first wait before a repetition of a call whose service names none; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest answer, in characters: it becomes a prompt that is typed.
pub const ANSWER_CHARS: usize = 200_000;
/// The most tokens of an answer where its provider does not say.
pub const MAX_TOKENS: u32 = 4_096;
/// The most of what a service or a program said that an error repeats, in characters.
const EXCERPT_CHARS: usize = 240;

/// One call.
#[derive(Debug)]
pub struct Call {
    /// The provider's name.
    pub name: String,
    /// The provider.
    pub spec: Provider,
    /// What is the same for every call of a route.
    pub stable: String,
    /// What is not.
    pub variable: String,
    /// The environment that may hold the key, and that a program is run with.
    pub env: BTreeMap<String, String>,
    /// Where a program is run: an empty folder.
    pub folder: PathBuf,
}

/// Whether a call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    /// It would fail the same way.
    Never,
    /// After a while.
    Soon,
    /// The service says after how long.
    After(Duration),
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: &'static str,
    text: String,
    usage: Option<Usage>,
    again: Again,
}

impl Failure {
    fn new(code: &'static str, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into(), usage: None, again: Again::Never }
    }

    fn again(self, again: Again) -> Failure {
        Failure { again, ..self }
    }
}

/// What was understood of an answer so far.
#[derive(Debug, Default)]
struct Collected {
    text: String,
    usage: Usage,
    stop: Stop,
    /// The service said that it has said everything.
    ended: bool,
}

/// Why an answer ends where it ends.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Stop {
    /// Nothing was said of it.
    #[default]
    Unsaid,
    /// By itself.
    Done,
    /// At the limit of its length.
    Length,
    /// The service did not want to answer; its word for it.
    Refused(String),
}

impl Collected {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The whole answer, or why it is none.
    fn whole(self, call: &Call) -> Result<Collected, Failure> {
        let name = &call.name;
        let spent = (self.usage != Usage::default()).then_some(self.usage);
        let failed = |code, text: String| Failure { usage: spent, ..Failure::new(code, text) };
        match &self.stop {
            Stop::Length => {
                let most = call.spec.max_tokens.unwrap_or(MAX_TOKENS);
                let text = format!("the answer of {name} was cut at max_tokens = {most}; raise it");
                Err(failed("too_long", text))
            }
            Stop::Refused(why) => {
                Err(failed("refused", format!("{name} did not want to answer ({})", one_line(why))))
            }
            _ if !self.ended => {
                let length = self.text.chars().count();
                let text = format!("the answer of {name} broke off after {length} characters");
                Err(failed("cut_off", text))
            }
            _ if self.text.chars().count() > ANSWER_CHARS => {
                let text = format!("the answer of {name} is longer than {ANSWER_CHARS} characters");
                Err(failed("too_long", text))
            }
            _ => Ok(self),
        }
    }
}

/// Makes a call. Ends within its provider's time, whatever the other side does.
pub async fn ask(call: &Call) -> Result<Told, NotTold> {
    let limit = call.spec.timeout_ms.map_or(TIMEOUT, Duration::from_millis);
    let mut before = Vec::new();
    let mut key = None;
    let asked = tokio::time::timeout(limit, attempts(call, &mut key, &mut before)).await;
    let input = format!("{}\n\n{}", call.stable, call.variable);
    let result = asked.unwrap_or_else(|_| {
        let after = before.last().map(|b| format!("; before that: {b}")).unwrap_or_default();
        let secs = limit.as_secs_f32();
        let text = format!("{} has not answered within {secs} s (timeout_ms){after}", call.name);
        Err(Failure::new("timeout", text))
    });
    match result {
        Ok(collected) => {
            let notes = before.iter().map(|b| redact(&format!("asked again: {b}"), key.as_ref()));
            Ok(Told {
                text: redact(without_thoughts(&collected.text), key.as_ref()),
                usage: collected.usage,
                notes: notes.collect(),
                input,
            })
        }
        Err(failure) => Err(NotTold {
            code: failure.code.to_owned(),
            text: redact(&failure.text, key.as_ref()),
            usage: failure.usage,
            input: Some(input),
        }),
    }
}

/// Asks until it works, it is of no use, or it was tried often enough. `before` keeps why it was asked
/// again.
async fn attempts(
    call: &Call,
    key: &mut Option<SecretString>,
    before: &mut Vec<String>,
) -> Result<Collected, Failure> {
    *key = key::find(&call.spec, &call.env)
        .await
        .map_err(|e| Failure::new("no_key", format!("{}: {e}", call.name)))?;
    let most = call.spec.retries.unwrap_or(RETRIES) as usize;
    loop {
        let answer = match call.spec.kind {
            ProviderKind::Anthropic => http::ask(call, anthropic::wire(call, key.as_ref())?).await,
            ProviderKind::Openai => http::ask(call, openai::wire(call, key.as_ref())?).await,
            ProviderKind::Command => command::ask(call).await,
        };
        let mut failure = match answer.and_then(|a| a.whole(call)) {
            Ok(collected) => return Ok(collected),
            Err(failure) => failure,
        };
        let tried = before.len();
        let wait = match failure.again {
            Again::Never => return Err(failure),
            _ if tried >= most => {
                if tried > 0 {
                    failure.text = format!("{} (tried {} times)", failure.text, tried + 1);
                }
                return Err(failure);
            }
            Again::After(wait) if wait > LONGEST_WAIT => {
                failure.text = format!(
                    "{}; it asks to wait for {} s, and mado waits for at most {} s",
                    failure.text,
                    wait.as_secs(),
                    LONGEST_WAIT.as_secs()
                );
                return Err(failure);
            }
            Again::After(wait) => wait,
            Again::Soon => FIRST_WAIT * 2_u32.pow(u32::try_from(tried.min(6)).unwrap_or(6)),
        };
        before.push(std::mem::take(&mut failure.text));
        tokio::time::sleep(wait.min(LONGEST_WAIT)).await;
    }
}

/// Takes a key out of a text, wherever it came from.
fn redact(text: &str, key: Option<&SecretString>) -> String {
    match key.map(ExposeSecret::expose_secret).filter(|k| !k.is_empty()) {
        Some(key) if text.contains(key) => text.replace(key, "…"),
        _ => text.to_owned(),
    }
}

/// What a program or a service said, literal, on one line, and not too long.
fn one_line(said: &str) -> String {
    let (literal, _) = text::sanitise(said);
    let line = literal.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line,
    }
}

/// Some models say what they thought before their answer.
fn without_thoughts(answer: &str) -> &str {
    let trimmed = answer.trim_start();
    let rest = trimmed.strip_prefix("<think>").and_then(|t| t.split_once("</think>"));
    rest.map_or(answer, |(_, rest)| rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_out_and_what_was_said_is_one_literal_line() {
        let key = SecretString::from("sk-secret");
        assert_eq!(redact("bad key sk-secret!", Some(&key)), "bad key …!");
        assert_eq!(redact("fine", Some(&SecretString::from(""))), "fine");
        assert_eq!(one_line("a\u{1b}[31m b\r\n c"), "a b c");
        assert!(one_line(&"x".repeat(1000)).chars().count() < EXCERPT_CHARS + 5);
    }

    #[test]
    fn thoughts_are_no_part_of_an_answer() {
        assert_eq!(without_thoughts("\n<think>hm</think>\n\nyes"), "yes");
        assert_eq!(without_thoughts("I <think> so"), "I <think> so");
    }
}
