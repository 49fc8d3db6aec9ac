//! The agents' own records: where they are, reading the last answer, and following them.
//!
//! What the records mean is the core's business (`core::dialect`); here files are found, read in
//! bounded pieces and watched. Nothing is guessed: two candidates are an error that says so.

pub mod claude;
pub mod tail;
pub mod watch;

use crate::core::dialect::claude::{Found, Transcript};
use crate::core::dialect::{Answer, NoAnswer, RecordEvent, claude as claude_dialect, demo};
use crate::core::profile::Dialect;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tail::{Back, BackwardLines, MAX_BACK};

/// Whose records.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Their form.
    pub dialect: Dialect,
    /// Process id of the terminal's first process.
    pub root: u32,
    /// Command names of the process that is the agent, in order.
    pub names: Vec<String>,
    /// The environment it was started with; what the agent's process itself has counts more.
    pub env: BTreeMap<String, String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// The transcript, where the profile names it.
    pub path: PathBuf,
}

impl Subject {
    /// Reads the last answer. Blocks for milliseconds: at most 8 MiB are read.
    pub fn extract(&self) -> Result<Answer, NoAnswer> {
        match self.dialect {
            Dialect::None => Err(NoAnswer::NoRecord("its profile names no records".to_owned())),
            Dialect::Demo => last_answer(&self.path, Finder::Demo(demo::AnswerFinder::default())),
            Dialect::Claude => {
                let place = claude::locate(self)?;
                let transcript = place.transcript.ok_or_else(|| {
                    NoAnswer::NoRecord("its session has no transcript yet".to_owned())
                })?;
                last_answer(&transcript, Finder::Claude(claude_dialect::AnswerFinder::new()))
            }
        }
    }
}

/// Reads a transcript from its end.
enum Finder {
    Claude(claude_dialect::AnswerFinder),
    Demo(demo::AnswerFinder),
}

impl Finder {
    fn line(&mut self, line: &str) -> Option<Result<Answer, NoAnswer>> {
        match self {
            Finder::Claude(finder) => match finder.line(line) {
                Found::More => None,
                Found::Done(result) => Some(result),
            },
            Finder::Demo(finder) => finder.line(line),
        }
    }

    fn end(&mut self) -> Result<Answer, NoAnswer> {
        match self {
            Finder::Claude(finder) => finder.end(),
            Finder::Demo(finder) => finder.end(None, None),
        }
    }

    fn too_far(&mut self) -> Result<Answer, NoAnswer> {
        match self {
            Finder::Claude(finder) => finder.too_far(MAX_BACK >> 20),
            Finder::Demo(_) => Err(NoAnswer::TooFar(MAX_BACK >> 20)),
        }
    }
}

fn last_answer(path: &Path, mut finder: Finder) -> Result<Answer, NoAnswer> {
    let failed = |e: io::Error| {
        let what = if e.kind() == io::ErrorKind::NotFound {
            "there is no transcript yet".to_owned()
        } else {
            format!("{} cannot be read: {e}", path.display())
        };
        NoAnswer::NoRecord(what)
    };
    let file = File::open(path).map_err(failed)?;
    let mut lines = BackwardLines::new(file, MAX_BACK).map_err(failed)?;
    loop {
        match lines.next_line().map_err(failed)? {
            Back::Line(line) => {
                if let Some(result) = finder.line(&line) {
                    return result;
                }
            }
            Back::Garbled => {}
            Back::Start => return finder.end(),
            Back::TooFar => return finder.too_far(),
        }
    }
}

/// Follows a transcript forward.
#[derive(Debug)]
pub(crate) enum Reader {
    Claude(Transcript),
    Demo,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<Vec<RecordEvent>, String> {
        match self {
            Reader::Claude(transcript) => transcript.line(line).map_err(|e| e.to_string()),
            Reader::Demo => demo::parse_line(line).map(|event| event.into_iter().collect()),
        }
    }

    fn restart(&mut self) {
        if let Reader::Claude(transcript) = self {
            transcript.restart();
        }
    }
}

/// Whether a transcript holds a prompt that fits, written at `since` (milliseconds since the epoch)
/// or later. Used after a host died: what it had submitted is in the record or it is in doubt.
/// At most 8 MiB are read.
pub fn holds_prompt(
    dialect: Dialect,
    path: &Path,
    since: u64,
    fits: impl Fn(&str) -> bool,
) -> io::Result<bool> {
    let mut reader = match dialect {
        Dialect::Claude => Reader::Claude(Transcript::since(since)),
        Dialect::Demo => Reader::Demo,
        Dialect::None => return Ok(false),
    };
    let mut lines = BackwardLines::new(File::open(path)?, MAX_BACK)?;
    loop {
        match lines.next_line()? {
            Back::Line(line) => {
                let events = reader.line(&line).unwrap_or_default();
                let is =
                    |e: &RecordEvent| matches!(e, RecordEvent::Prompt { text, .. } if fits(text));
                if events.iter().any(is) {
                    return Ok(true);
                }
            }
            Back::Garbled => {}
            Back::Start | Back::TooFar => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests;
