//! What agents say of themselves, in one vocabulary.
//!
//! Each dialect is a pure parser from what a program wrote (transcript lines, hook payloads,
//! status files) to these types. Reading bytes is the host's work.

pub mod claude;
pub mod codex;
pub mod demo;
pub mod opencode;

use serde::{Deserialize, Serialize};

/// Something an agent's record (its transcript) says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordEvent {
    /// A prompt was taken: a turn began.
    Prompt {
        /// The turn's id in the record.
        turn: String,
        /// The prompt's text.
        text: String,
        /// Whether the record says that it came through the composer (typed or pasted), not from
        /// the program itself (a background task's end, a peer's message).
        human: bool,
    },
    /// A piece of an answer.
    Answer {
        /// The turn, where the line names it.
        turn: Option<String>,
        /// The message it belongs to.
        message: String,
        /// The text.
        text: String,
    },
    /// The turn has changed files: an edit was carried out, not only asked for.
    Changed {
        /// The turn, where the line names it.
        turn: Option<String>,
        /// Their paths as the record names them, absolute or from the working directory.
        paths: Vec<String>,
    },
    /// The turn ended by itself.
    TurnEnd {
        /// The turn, where the line names it.
        turn: Option<String>,
    },
    /// A person interrupted the turn.
    Interrupted {
        /// The turn, where the line names it.
        turn: Option<String>,
    },
    /// The model's service answered with an error instead of an answer.
    ApiError {
        /// HTTP status where the line names it.
        code: Option<u16>,
        /// The message.
        text: String,
    },
}

/// Something an agent's hook said. A claim of the agent: it grants nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A session began or was replaced (`/clear`).
    SessionStart {
        /// The session's id.
        session: String,
        /// Path of its transcript.
        transcript: Option<String>,
    },
    /// A prompt was submitted.
    Prompt {
        /// The session's id.
        session: String,
        /// The turn's id (`prompt_id`).
        turn: Option<String>,
        /// The prompt's text.
        text: String,
    },
    /// A permission dialog is about to be shown.
    PermissionAsked {
        /// The tool's name.
        tool: String,
    },
    /// A tool ran or was refused: no permission is pending.
    ToolDone {
        /// The tool's name.
        tool: String,
    },
    /// The turn may have ended (another hook can still continue it).
    Stop {
        /// The session's id.
        session: String,
        /// The turn's id.
        turn: Option<String>,
        /// The last assistant message.
        answer: Option<String>,
        /// Background tasks that still run: the turn will go on by itself.
        background: usize,
    },
    /// The turn ended with an error.
    StopFailure {
        /// The turn's id.
        turn: Option<String>,
        /// What went wrong.
        error: String,
    },
    /// A person interrupted the turn, or refused what it asked for.
    Interrupted {
        /// The turn's id.
        turn: Option<String>,
    },
    /// The session ended.
    SessionEnd,
    /// Anything else; it shows that the agent lives.
    Other {
        /// The event's name.
        name: String,
    },
}

/// What an agent's status file says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusState {
    /// Waits for a prompt.
    Idle,
    /// Works.
    Busy,
    /// A dialog waits for a person.
    Waiting,
    /// The turn is over but background tasks run, whose end starts a turn by itself
    /// (`status: "shell"`, seen: claude 2.1.332).
    Background,
    /// What told this, and the hooks with it, is gone: its claims are void.
    Lost,
}

/// An OSC 133 mark of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandMark {
    /// A prompt begins or ends (`A`, `B`).
    Prompt,
    /// A command begins to run (`C`).
    Runs,
    /// It is done (`D`).
    Done,
}

/// The state of an OSC 7501 report (seen: codex 0.171.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OscState {
    /// Waits for a prompt.
    Idle,
    /// Works.
    Working,
    /// A dialog waits for a person.
    Blocked,
    /// A turn ended.
    Done,
    /// A turn ended with an error.
    Error,
}

/// An answer read from a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The text blocks of the last assistant message.
    pub text: String,
    /// The turn it belongs to.
    pub turn: Option<String>,
    /// The prompt of that turn.
    pub prompt: Option<String>,
    /// The assistant message's id.
    pub message: String,
    /// Whether the record holds the turn's end.
    pub ended: bool,
    /// The files that the turn changed, as the record names them, oldest first. `None`: this kind
    /// of record does not tell.
    #[serde(default)]
    pub changed: Option<Vec<String>>,
}

/// Why a record gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NoAnswer {
    /// The last turn ended with an error of the model's service.
    #[error("no answer: API error{}{text}", .code.map_or_else(|| ": ".to_owned(), |c| format!(" {c}: ")))]
    ApiError {
        /// HTTP status where known.
        code: Option<u16>,
        /// The message.
        text: String,
    },
    /// A person interrupted the last turn.
    #[error("no answer: the turn was interrupted")]
    Interrupted,
    /// No assistant message follows the last prompt (yet).
    #[error("no answer: no assistant message after the last prompt")]
    NotYet,
    /// The record could not be found.
    #[error("no answer: {0}")]
    NoRecord(String),
    /// More than one record may be the agent's.
    #[error("no answer: ambiguous, {0} transcripts may be this agent's")]
    Ambiguous(usize),
    /// The answer is further from the end than what is read.
    #[error("no answer within the last {0} MiB of the transcript")]
    TooFar(u64),
    /// The record is not of the form this version of mado knows.
    #[error("no answer: {0}")]
    Malformed(String),
}

/// Why something that an agent wrote could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON: cut off, or not the agent's.
    #[error("{0} is not JSON")]
    NotJson(&'static str),
    /// A field that is needed is missing or has another type.
    #[error("{what} has no usable field `{field}`; this form of it is not known")]
    Field {
        /// What was read.
        what: String,
        /// The field's path.
        field: String,
    },
}

impl Unreadable {
    fn field(what: &str, field: &str) -> Self {
        Unreadable::Field { what: what.to_owned(), field: field.to_owned() }
    }
}

/// Deserialises, and names the field that does not fit.
fn read<'a, T: Deserialize<'a>>(what: &'static str, text: &'a str) -> Result<T, Unreadable> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        if e.inner().is_data() {
            Unreadable::field(what, &e.path().to_string())
        } else {
            Unreadable::NotJson(what)
        }
    })
}

/// What a finder that reads a record backwards says after a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It needs older lines.
    More,
    /// This is it.
    Done(Result<Answer, NoAnswer>),
}

/// Tells new lines of a record from those that were over, or read, before, by their times.
#[derive(Debug, Clone, Default)]
struct Fresh {
    since: Option<String>,
    /// Time of the newest line so far.
    newest: Option<String>,
    /// Lines up to this time were read before the file was replaced.
    known: Option<String>,
}

impl Fresh {
    /// Lines before this time (milliseconds since the epoch) are old.
    fn since(since: u64) -> Self {
        Fresh { since: Some(iso_time(since)), ..Fresh::default() }
    }

    /// The file comes again from its start.
    fn restart(&mut self) {
        self.known = self.newest.clone();
    }

    /// Whether a line of this time is new. One without a time is.
    fn is_new(&mut self, at: Option<&str>) -> bool {
        let Some(at) = at else { return true };
        let old = self.since.as_ref().is_some_and(|since| at < since.as_str())
            || self.known.as_ref().is_some_and(|known| at <= known.as_str());
        if !old && self.newest.as_ref().is_none_or(|newest| newest.as_str() < at) {
            self.newest = Some(at.to_owned());
        }
        !old
    }
}

/// Milliseconds since the epoch as `2026-11-30T08:47:08.579Z`.
fn iso_time(ms: u64) -> String {
    let (secs, ms) = (ms / 1000, ms % 1000);
    let (days, secs) = (secs / 86_400, secs % 86_400);
    let (hour, min, sec) = (secs / 3600, secs / 60 % 60, secs % 60);
    // Days to a date in the proleptic Gregorian calendar, counted in years that begin in March.
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{min:02}:{sec:02}.{ms:03}Z")
}
