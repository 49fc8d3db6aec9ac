//! Claude Code's transcript, hook payloads and status file.
//!
//! Facts seen by running claude 2.1.197 and 2.1.332. A transcript holds one JSON object a line. Many
//! kinds of lines are none of mado's business and new ones appear with every version
//! (`api-request-blob` of 2.1.332 even holds messages with the role `user`), so a line is
//! judged by its `type` first, and unknown types and fields are passed over. What a known line needs
//! and lacks is an error that names the field: an older answer must never stand in for one that
//! could not be read.

mod answer;
mod hook;
mod status;

pub use answer::{AnswerFinder, Found};
pub use hook::parse_hook;
pub use status::{StatusFile, parse_status};

pub use super::Unreadable;
use super::{Fresh, RecordEvent, read};
use serde::Deserialize;
use serde_json::Value;

/// A transcript line, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is.
    pub kind: LineKind,
    /// When it was written, `2026-11-30T08:47:08.579Z`; such times compare as text.
    pub at: Option<String>,
}

/// What a transcript line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineKind {
    /// A prompt: the turn begins, or goes on with one more queued prompt.
    Prompt {
        /// `promptId`, or the line's own id where a version has none.
        turn: String,
        /// The text.
        text: String,
        /// It came through the composer.
        human: bool,
    },
    /// A slash command. Local ones (`/model`) begin no turn, others (`/init`) do; only what follows
    /// tells.
    Command {
        /// `promptId`.
        turn: Option<String>,
        /// The command with its arguments.
        text: String,
    },
    /// One or more blocks of an assistant message.
    Message {
        /// `message.id`, shared by all blocks of the message.
        id: String,
        /// The text blocks.
        texts: Vec<String>,
        /// `message.stop_reason`, on every line the message's final one.
        stop: Option<String>,
        /// Edits that it asks for.
        edits: Vec<Edit>,
    },
    /// A tool result or a remark of the program within a turn.
    Within {
        /// `promptId`.
        turn: Option<String>,
        /// `tool_use_id` of the tools that it says have done their work.
        done: Vec<String>,
    },
    /// A person interrupted the turn, or refused its tool.
    Interrupted {
        /// `promptId`.
        turn: Option<String>,
    },
    /// The service answered with an error.
    ApiError {
        /// HTTP status.
        code: Option<u16>,
        /// The message without its `API Error: 529 ` prefix.
        text: String,
    },
    /// `system/turn_duration`: the turn ended by itself. 2.1.197 also writes it after an error.
    TurnEnd,
    /// Nothing to mado.
    Other,
}

/// A call of a tool that changes a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The call's id, which its result names.
    pub id: String,
    /// The file, absolute.
    pub path: String,
}

/// The tools that change files, and the argument that names the file (2.1.197 and 2.1.332;
/// `MultiEdit` is of versions before).
const EDITORS: [(&str, &str); 4] = [
    ("Edit", "file_path"),
    ("Write", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
];

#[derive(Deserialize)]
struct Head {
    r#type: Option<String>,
    subtype: Option<String>,
    #[serde(rename = "isSidechain")]
    sidechain: Option<bool>,
    timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserLine {
    uuid: Option<String>,
    prompt_id: Option<String>,
    is_meta: Option<bool>,
    is_compact_summary: Option<bool>,
    is_visible_in_transcript_only: Option<bool>,
    origin: Option<Origin>,
    message: Option<UserMessage>,
}

#[derive(Deserialize)]
struct Origin {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct UserMessage {
    content: Option<Value>,
}

#[derive(Deserialize)]
struct AssistantLine {
    #[serde(rename = "isApiErrorMessage")]
    api_error: Option<bool>,
    #[serde(rename = "apiErrorStatus")]
    status: Option<u16>,
    message: Option<AssistantMessage>,
}

#[derive(Deserialize)]
struct AssistantMessage {
    id: Option<String>,
    model: Option<String>,
    stop_reason: Option<String>,
    content: Option<Value>,
}

/// Reads one line of a transcript.
pub fn parse_line(line: &str) -> Result<Line, Unreadable> {
    let head: Head = read("a transcript line", line)?;
    let at = head.timestamp;
    let main = !head.sidechain.unwrap_or(false);
    let kind = match (head.r#type.as_deref(), head.subtype.as_deref()) {
        (Some("user"), _) if main => user(read("a user line", line)?)?,
        (Some("assistant"), _) if main => assistant(read("an assistant line", line)?)?,
        (Some("system"), Some("turn_duration")) if main => LineKind::TurnEnd,
        _ => LineKind::Other,
    };
    Ok(Line { kind, at })
}

fn user(line: UserLine) -> Result<LineKind, Unreadable> {
    let turn = line.prompt_id;
    let content = line
        .message
        .and_then(|m| m.content)
        .ok_or_else(|| Unreadable::field("a user line", "message.content"))?;
    if has_tool_result(&content) {
        return Ok(LineKind::Within { turn, done: done(&content) });
    }
    let text = texts(&content).join("\n");
    if text.starts_with("[Request interrupted by user") {
        return Ok(LineKind::Interrupted { turn });
    }
    let origin = line.origin.and_then(|o| o.kind);
    let human = origin.as_deref() == Some("human");
    let program = origin.is_some() && !human;
    if line.is_compact_summary.unwrap_or(false)
        || line.is_visible_in_transcript_only.unwrap_or(false)
        // A peer's message is meta, and yet begins a turn (2.1.332).
        || (line.is_meta.unwrap_or(false) && !program)
    {
        return Ok(LineKind::Within { turn, done: Vec::new() });
    }
    if origin.is_none() {
        if let Some(text) = command(&text) {
            return Ok(LineKind::Command { turn, text });
        }
        if text.starts_with("<local-command-") || text.starts_with("<bash-") {
            return Ok(LineKind::Other);
        }
    }
    let turn =
        turn.or(line.uuid).ok_or_else(|| Unreadable::field("a user line", "promptId or uuid"))?;
    // Versions before `origin` mark what they write themselves only by its form.
    let human = human || (!program && !text.starts_with("<task-notification>"));
    Ok(LineKind::Prompt { turn, text, human })
}

fn assistant(line: AssistantLine) -> Result<LineKind, Unreadable> {
    let message = line.message.ok_or_else(|| Unreadable::field("an assistant line", "message"))?;
    let content =
        message.content.ok_or_else(|| Unreadable::field("an assistant line", "message.content"))?;
    let texts = texts(&content);
    if line.api_error.unwrap_or(false) {
        let (code, text) = api_error(&texts.join("\n"));
        return Ok(LineKind::ApiError { code: line.status.or(code), text });
    }
    if message.model.as_deref() == Some("<synthetic>") {
        // What 2.1.197 keeps of an interrupted answer, and remarks such as "No response requested."
        return Ok(LineKind::Other);
    }
    let id = message.id.ok_or_else(|| Unreadable::field("an assistant line", "message.id"))?;
    let edits = edits(&content);
    Ok(LineKind::Message { id, texts, stop: message.stop_reason, edits })
}

/// `API Error: 400 mock 400` → 400 and `mock 400`.
fn api_error(text: &str) -> (Option<u16>, String) {
    let rest = text.strip_prefix("API Error: ").unwrap_or(text);
    let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
    match first.parse() {
        Ok(code) => (Some(code), after.to_owned()),
        Err(_) => (None, rest.to_owned()),
    }
}

fn has_tool_result(content: &Value) -> bool {
    content
        .as_array()
        .is_some_and(|blocks| blocks.iter().any(|b| block_type(b) == Some("tool_result")))
}

fn block_type(block: &Value) -> Option<&str> {
    block.get("type").and_then(Value::as_str)
}

/// The tools whose results a line brings, but for those that failed or that a person refused.
fn done(content: &Value) -> Vec<String> {
    let failed = |b: &&Value| b.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let results = content.as_array().into_iter().flatten();
    let results = results.filter(|b| block_type(b) == Some("tool_result"));
    let id = |b: &Value| b.get("tool_use_id").and_then(Value::as_str).map(str::to_owned);
    results.filter(|b| !failed(b)).filter_map(id).collect()
}

/// The edits that a message asks for. What has not the form of one is none: an unknown tool is no
/// reason to lose an answer.
fn edits(content: &Value) -> Vec<Edit> {
    let calls = content.as_array().into_iter().flatten();
    let calls = calls.filter(|b| block_type(b) == Some("tool_use"));
    let edit = |b: &Value| {
        let name = b.get("name")?.as_str()?;
        let (_, argument) = EDITORS.iter().find(|(tool, _)| *tool == name)?;
        let path = b.get("input")?.get(argument)?.as_str()?.to_owned();
        Some(Edit { id: b.get("id")?.as_str()?.to_owned(), path })
    };
    calls.filter_map(edit).collect()
}

/// The text blocks of a message's content.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks
            .iter()
            .filter(|b| block_type(b) == Some("text"))
            .filter_map(|b| b.get("text").and_then(Value::as_str))
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// The command of a `<command-name>` line, with its arguments.
fn command(text: &str) -> Option<String> {
    if !text.starts_with("<command-name>") && !text.starts_with("<command-message>") {
        return None;
    }
    let name = between(text, "<command-name>", "</command-name>")?;
    let args = between(text, "<command-args>", "</command-args>").unwrap_or("");
    Some(format!("{name} {args}").trim().to_owned())
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let start = text.find(from)? + from.len();
    let len = text[start..].find(to)?;
    Some(&text[start..start + len])
}

/// Follows a transcript forward and says what happens, each event with its turn.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    turn: Option<String>,
    fresh: Fresh,
    /// What came before any prompt, with its time. 2.1.197 under load writes a session's first
    /// prompt after the answer to it.
    early: Vec<(Option<String>, RecordEvent)>,
    /// Edits whose results have not come yet.
    edits: Vec<Edit>,
}

impl Transcript {
    /// The most events that are kept until their prompt comes.
    const EARLY: usize = 256;
    /// The most edits that may wait for their results.
    const EDITS: usize = 256;

    /// A reader that passes over lines older than `since` (milliseconds since the epoch): a resumed
    /// session's transcript begins with turns that are long over.
    #[must_use]
    pub fn since(since: u64) -> Self {
        Transcript { fresh: Fresh::since(since), ..Transcript::default() }
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
            LineKind::Prompt { turn, text, human } => {
                let first = self.turn.replace(turn.clone()).is_none();
                let mut events = vec![RecordEvent::Prompt { turn: turn.clone(), text, human }];
                if first {
                    let early = std::mem::take(&mut self.early);
                    let after = early.into_iter().filter(|(when, _)| *when >= at);
                    events.extend(after.map(|(_, event)| in_turn(event, &turn)));
                }
                return Ok(events);
            }
            LineKind::Command { turn, .. } => {
                self.turn = turn.or(self.turn.take());
                return Ok(Vec::new());
            }
            LineKind::Within { turn, done } => {
                self.turn = turn.or(self.turn.take());
                let paths = self.carried_out(&done);
                if paths.is_empty() {
                    return Ok(Vec::new());
                }
                RecordEvent::Changed { turn: self.turn.clone(), paths }
            }
            LineKind::Message { id, texts, edits, .. } => {
                let room = Self::EDITS.saturating_sub(self.edits.len());
                self.edits.extend(edits.into_iter().take(room));
                if texts.is_empty() {
                    return Ok(Vec::new());
                }
                let text = texts.join("\n");
                RecordEvent::Answer { turn: self.turn.clone(), message: id, text }
            }
            LineKind::Interrupted { turn } => {
                RecordEvent::Interrupted { turn: turn.or(self.turn.clone()) }
            }
            LineKind::ApiError { code, text } => RecordEvent::ApiError { code, text },
            LineKind::TurnEnd => RecordEvent::TurnEnd { turn: self.turn.clone() },
            LineKind::Other => return Ok(Vec::new()),
        };
        if self.turn.is_some() {
            return Ok(vec![event]);
        }
        if self.early.len() < Self::EARLY {
            self.early.push((at, event));
        }
        Ok(Vec::new())
    }

    /// The files of the edits that these results end. Those of other results than edits are not kept.
    fn carried_out(&mut self, done: &[String]) -> Vec<String> {
        let (ended, open) =
            std::mem::take(&mut self.edits).into_iter().partition(|e| done.contains(&e.id));
        self.edits = open;
        let ended: Vec<Edit> = ended;
        ended.into_iter().map(|e| e.path).collect()
    }
}

/// The same event with its turn.
fn in_turn(event: RecordEvent, name: &str) -> RecordEvent {
    let named = Some(name.to_owned());
    match event {
        RecordEvent::Answer { message, text, .. } => {
            RecordEvent::Answer { turn: named, message, text }
        }
        RecordEvent::Changed { paths, .. } => RecordEvent::Changed { turn: named, paths },
        RecordEvent::TurnEnd { .. } => RecordEvent::TurnEnd { turn: named },
        RecordEvent::Interrupted { .. } => RecordEvent::Interrupted { turn: named },
        other => other,
    }
}

/// The name of a working directory's folder below `projects/`.
///
/// Every UTF-16 unit outside `[A-Za-z0-9]` becomes `-`. A name over 200 units is cut there and gets
/// `-` and a base-36 hash of the directory (`h * 31 + unit`, 32 bits, absolute); seen with 2.1.197
/// and 2.1.332.
#[must_use]
pub fn cwd_to_project_dir(cwd: &str) -> String {
    const LONGEST: usize = 200;
    let name: String = cwd
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect();
    if name.len() <= LONGEST {
        return name;
    }
    let hash = cwd.encode_utf16().fold(0_i32, |h, u| h.wrapping_mul(31).wrapping_add(i32::from(u)));
    format!("{}-{}", &name[..LONGEST], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % 36, 36));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests;
