//! The agents' own records: where they are, reading the last answer, and following them.
//!
//! What the records mean is the core's business (`core::dialect`); here files are found, read in
//! bounded pieces and watched. Nothing is guessed: two candidates are an error that says so.

pub mod claude;
pub mod codex;
pub mod opencode;
pub mod tail;
pub mod watch;

use crate::core::dialect::{
    Answer, Found, NoAnswer, RecordEvent, claude as claude_dialect, codex as codex_dialect, demo,
};
use crate::core::profile::Dialect;
use crate::host::procs::{Process, find_agent};
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
    /// For OpenCode: its server, and the session that it told.
    pub live: opencode::Live,
}

impl Subject {
    /// Reads the last answer. Blocks for milliseconds: at most 8 MiB are read.
    pub fn extract(&self) -> Result<Answer, NoAnswer> {
        match self.dialect {
            Dialect::None => Err(NoAnswer::NoRecord("its profile names no records".to_owned())),
            Dialect::Opencode => opencode::extract(self),
            Dialect::Demo => last_answer(&self.path, Finder::Demo(demo::AnswerFinder::default())),
            Dialect::Claude => {
                let place = claude::locate(self)?;
                let transcript = place.transcript.ok_or_else(|| {
                    NoAnswer::NoRecord("its session has no transcript yet".to_owned())
                })?;
                last_answer(&transcript, Finder::Claude(claude_dialect::AnswerFinder::new()))
            }
            Dialect::Codex => {
                let rollout = codex::locate(self)?.ok_or_else(|| {
                    NoAnswer::NoRecord("its thread has no rollout yet".to_owned())
                })?;
                let finder = Finder::Codex(codex_dialect::AnswerFinder::default());
                last_answer(&rollout.path, finder)
            }
        }
    }

    /// The agent's process. A terminal's first process that has no name on the list is none.
    #[must_use]
    pub fn agent(&self) -> Option<Process> {
        find_agent(self.root, &self.names)
    }

    fn no_agent(&self) -> NoAnswer {
        let names = self.names.join(", ");
        NoAnswer::NoRecord(format!("no process named {names} runs in its terminal"))
    }

    /// The program's own folder: what `variable` of the agent's environment says, else `name` in its home.
    fn folder(&self, process: Process, variable: &str, name: &str) -> Result<PathBuf, NoAnswer> {
        let environ = process.environ().filter(|e| !e.is_empty());
        let env = environ.as_ref().unwrap_or(&self.env);
        let get = |name: &str| env.get(name).filter(|v| !v.is_empty());
        match (get(variable), get("HOME")) {
            // A relative path counts from where the agent was started.
            (Some(dir), _) => Ok(self.cwd.join(dir)),
            (None, Some(home)) => Ok(Path::new(home).join(name)),
            (None, None) => {
                Err(NoAnswer::NoRecord(format!("its environment has neither HOME nor {variable}")))
            }
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> NoAnswer {
    NoAnswer::NoRecord(format!("{} cannot be read: {error}", path.display()))
}

/// The only one there is; several are an error.
fn one<T>(mut found: Vec<T>) -> Result<Option<T>, NoAnswer> {
    match found.len() {
        0 | 1 => Ok(found.pop()),
        n => Err(NoAnswer::Ambiguous(n)),
    }
}

/// Reads a transcript from its end.
enum Finder {
    Claude(claude_dialect::AnswerFinder),
    Codex(codex_dialect::AnswerFinder),
    Demo(demo::AnswerFinder),
}

impl Finder {
    fn line(&mut self, line: &str) -> Option<Result<Answer, NoAnswer>> {
        let found = match self {
            Finder::Claude(finder) => finder.line(line),
            Finder::Codex(finder) => finder.line(line),
            Finder::Demo(finder) => return finder.line(line),
        };
        match found {
            Found::More => None,
            Found::Done(result) => Some(result),
        }
    }

    fn end(&mut self) -> Result<Answer, NoAnswer> {
        match self {
            Finder::Claude(finder) => finder.end(),
            Finder::Codex(finder) => finder.end(),
            Finder::Demo(finder) => finder.end(None, None),
        }
    }

    fn too_far(&mut self) -> Result<Answer, NoAnswer> {
        match self {
            Finder::Claude(finder) => finder.too_far(MAX_BACK >> 20),
            Finder::Codex(finder) => finder.too_far(MAX_BACK >> 20),
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
    Claude(claude_dialect::Transcript),
    Codex(codex_dialect::Transcript),
    Demo,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<Vec<RecordEvent>, String> {
        match self {
            Reader::Claude(transcript) => transcript.line(line).map_err(|e| e.to_string()),
            Reader::Codex(transcript) => transcript.line(line).map_err(|e| e.to_string()),
            Reader::Demo => demo::parse_line(line).map(|event| event.into_iter().collect()),
        }
    }

    fn restart(&mut self) {
        match self {
            Reader::Claude(transcript) => transcript.restart(),
            Reader::Codex(transcript) => transcript.restart(),
            Reader::Demo => {}
        }
    }
}

/// Whether a transcript holds a prompt that fits, written at `since` (milliseconds since the epoch)
/// or later. Used after a host died: what it had submitted is in the record or it is in doubt.
/// At most 8 MiB are read. `session` tells whose part of a common database is meant.
pub fn holds_prompt(
    dialect: Dialect,
    path: &Path,
    session: Option<&str>,
    since: u64,
    fits: impl Fn(&str) -> bool,
) -> io::Result<bool> {
    let mut reader = match dialect {
        Dialect::Claude => Reader::Claude(claude_dialect::Transcript::since(since)),
        Dialect::Codex => Reader::Codex(codex_dialect::Transcript::since(since)),
        Dialect::Demo => Reader::Demo,
        Dialect::Opencode => {
            let Some(session) = session else { return Ok(false) };
            return opencode::holds_prompt(path, session, since, fits).map_err(io::Error::other);
        }
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
