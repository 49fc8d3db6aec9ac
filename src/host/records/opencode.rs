//! OpenCode: its server's events, and its database.
//!
//! The way that is certain goes from the server that mado gave a port to: whose prompt it tells of is
//! the agent's session. Without it, only a single session that was prompted in the agent's directory
//! since it started counts.

mod db;
mod events;
mod sse;
mod watch;

pub(super) use watch::watch;

use super::Subject;
use crate::core::dialect::opencode::{Message, last_answer};
use crate::core::dialect::{Answer, NoAnswer};
use crate::host::procs::{Process, find_agent};
use db::Db;
use secrecy::SecretString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How many of a session's newest messages are looked at for an answer.
const NEWEST: usize = 400;

/// Where an agent's own server listens, always on 127.0.0.1, and what it wants to be told.
#[derive(Debug, Clone)]
pub struct Server {
    /// The port.
    pub port: u16,
    /// The user of its basic authentication.
    pub user: String,
    /// Its password, where it has one.
    pub password: Option<SecretString>,
}

/// What is known of a running OpenCode and shared between those who read from it.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Its server, where mado knows of one.
    pub server: Option<Server>,
    session: Arc<Mutex<Option<String>>>,
}

impl Live {
    /// One that resumes a session, or not.
    #[must_use]
    pub fn new(server: Option<Server>, session: Option<String>) -> Live {
        Live { server, session: Arc::new(Mutex::new(session)) }
    }

    /// The session that it works in, as far as is known.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_session(&self, session: String) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }
}

/// The path of an agent's database: `OPENCODE_DB`, else `opencode/opencode.db` in `XDG_DATA_HOME` or
/// `~/.local/share`, by the environment of its own process.
pub(super) fn database(subject: &Subject, process: Process) -> Result<PathBuf, NoAnswer> {
    let environ = process.environ().filter(|e| !e.is_empty());
    let env = environ.as_ref().unwrap_or(&subject.env);
    let get = |name: &str| env.get(name).filter(|v| !v.is_empty());
    let data = match (get("XDG_DATA_HOME"), get("HOME")) {
        (Some(data), _) => subject.cwd.join(data),
        (None, Some(home)) => Path::new(home).join(".local/share"),
        (None, None) => {
            let what = "its environment has neither HOME nor XDG_DATA_HOME".to_owned();
            return Err(NoAnswer::NoRecord(what));
        }
    };
    let name = get("OPENCODE_DB").map_or("opencode.db", String::as_str);
    if name == ":memory:" {
        return Err(NoAnswer::NoRecord("OPENCODE_DB keeps its database in memory".to_owned()));
    }
    Ok(data.join("opencode").join(name))
}

fn process(subject: &Subject) -> Result<Process, NoAnswer> {
    find_agent(subject.root, &subject.names).ok_or_else(|| {
        let names = subject.names.join(", ");
        NoAnswer::NoRecord(format!("no process named {names} runs in its terminal"))
    })
}

/// The session of an agent: the one that is known, else the only one that was prompted in its
/// directory at `since` (milliseconds since the epoch) or later.
fn session(subject: &Subject, process: Process, db: &Db, since: u64) -> Result<String, NoAnswer> {
    if let Some(session) = subject.live.session() {
        return Ok(session);
    }
    let cwd = process.cwd().unwrap_or_else(|| subject.cwd.clone());
    let mut found = db.prompted(&cwd.to_string_lossy(), since)?;
    match (found.pop(), found.len()) {
        (Some(session), 0) => Ok(session),
        (Some(_), more) => Err(NoAnswer::Ambiguous(more + 1)),
        (None, _) => {
            Err(NoAnswer::NoRecord("it has not been prompted in any session yet".to_owned()))
        }
    }
}

/// Reads the last answer. Blocks for milliseconds, or for the short time that a lock is waited for.
pub(super) fn extract(subject: &Subject) -> Result<Answer, NoAnswer> {
    let process = process(subject)?;
    let db = Db::open(&database(subject, process)?)?;
    let since = process.started_at().unwrap_or(0) * 1000;
    let session = session(subject, process, &db, since)?;
    let (messages, whole) = db.messages(&session, NEWEST)?;
    last_answer(&messages, whole)
}

/// Whether a session holds a prompt that fits, written at `since` (milliseconds since the epoch) or
/// later.
pub(super) fn holds_prompt(
    path: &Path,
    session: &str,
    since: u64,
    fits: impl Fn(&str) -> bool,
) -> Result<bool, NoAnswer> {
    let (messages, _) = Db::open(path)?.messages(session, NEWEST)?;
    let ours = |m: &Message| m.prompt_since(since).is_some_and(|text| fits(&text));
    Ok(messages.iter().any(ours))
}

#[cfg(test)]
mod tests;
