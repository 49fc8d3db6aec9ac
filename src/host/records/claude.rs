//! Finds Claude Code's files: the agent's process, its status file, its session's transcript.
//!
//! The way that is certain goes process → `sessions/PID.json` → session id → `projects/*/ID.jsonl`.
//! Without a status file (an older version, a person's own settings) the working directory's
//! folder is looked in; there only a single transcript that this agent can have written counts.

use super::{Subject, one, unreadable};
use crate::core::dialect::NoAnswer;
use crate::core::dialect::claude::{StatusFile, cwd_to_project_dir, parse_status};
use crate::host::procs::Process;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// How often a status file that is caught half written is read again, and the pause between.
const RETRIES: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Where an agent's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The agent.
    pub process: Process,
    /// The folder that holds `sessions` and `projects`.
    pub config: PathBuf,
    /// What the status file says, where there is one.
    pub status: Option<StatusFile>,
    /// The transcript, once it is there.
    pub transcript: Option<PathBuf>,
}

/// Finds the agent and its files.
pub fn locate(subject: &Subject) -> Result<Place, NoAnswer> {
    let process = subject.agent().ok_or_else(|| subject.no_agent())?;
    let config = config_dir(subject, process)?;
    let status = read_status(&config, process)?;
    let transcript = if let Some(status) = &status {
        let cwd = status.cwd.as_deref().map_or(subject.cwd.as_path(), Path::new);
        transcript_of(&config, &status.session, cwd)?
    } else {
        let others = sessions_of_others(&config, process);
        transcript_by_cwd(&config, &subject.cwd, process.started_at(), &others)?
    };
    Ok(Place { process, config, status, transcript })
}

/// `CLAUDE_CONFIG_DIR` of the agent's own environment, else `.claude` in its home.
pub fn config_dir(subject: &Subject, process: Process) -> Result<PathBuf, NoAnswer> {
    subject.folder(process, "CLAUDE_CONFIG_DIR", ".claude")
}

/// The path of a process's status file.
#[must_use]
pub fn status_path(config: &Path, pid: u32) -> PathBuf {
    config.join("sessions").join(format!("{pid}.json"))
}

/// Reads the status file of this very process. `None`: there is none, or one that a killed process
/// with the same pid has left.
pub fn read_status(config: &Path, process: Process) -> Result<Option<StatusFile>, NoAnswer> {
    let path = status_path(config, process.pid);
    for attempt in 0..RETRIES {
        if attempt > 0 {
            std::thread::sleep(RETRY_PAUSE);
        }
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Cut within a character, as any half written file may be.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => continue,
            Err(e) => return Err(unreadable(&path, &e)),
        };
        match parse_status(&text) {
            Ok(Some(status)) => return Ok(Some(status).filter(|s| is_of(s, process))),
            Ok(None) => {}
            Err(e) => return Err(NoAnswer::Malformed(e.to_string())),
        }
    }
    let what = format!("{} stays empty or half written", path.display());
    Err(NoAnswer::NoRecord(what))
}

fn is_of(status: &StatusFile, process: Process) -> bool {
    // Elsewhere than on Linux the two clocks are not the same.
    let same_start =
        !cfg!(target_os = "linux") || status.proc_start.is_none_or(|s| s == process.start);
    status.pid == process.pid && same_start
}

/// The transcript of a session: where the working directory says, else wherever it is.
pub fn transcript_of(
    config: &Path,
    session: &str,
    cwd: &Path,
) -> Result<Option<PathBuf>, NoAnswer> {
    if session.is_empty() || session.contains(['/', '\\']) || session.starts_with('.') {
        return Err(NoAnswer::Malformed(format!("the session id {session:?} is no file name")));
    }
    let file = format!("{session}.jsonl");
    let projects = config.join("projects");
    let expected = projects.join(project_dir(cwd)).join(&file);
    if expected.is_file() {
        return Ok(Some(expected));
    }
    let mut found = Vec::new();
    for dir in folders(&projects)? {
        let path = dir.join(&file);
        if path.is_file() {
            found.push(path);
        }
    }
    one(found)
}

/// The folder's name for a working directory.
#[must_use]
pub fn project_dir(cwd: &Path) -> String {
    cwd_to_project_dir(&cwd.to_string_lossy())
}

/// Sessions that other processes say are theirs.
fn sessions_of_others(config: &Path, process: Process) -> Vec<String> {
    let own = status_path(config, process.pid);
    let Ok(entries) = fs::read_dir(config.join("sessions")) else { return Vec::new() };
    let others = entries.flatten().map(|e| e.path()).filter(|p| *p != own);
    others
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .filter_map(|p| parse_status(&fs::read_to_string(p).ok()?).ok()?)
        .map(|status| status.session)
        .collect()
}

/// Without a session id: the only transcript that was written since the agent started (seconds
/// since the epoch) and is not of `others`, in the folder of its working directory, else in one
/// whose name contains that name.
pub fn transcript_by_cwd(
    config: &Path,
    cwd: &Path,
    started_at: Option<u64>,
    others: &[String],
) -> Result<Option<PathBuf>, NoAnswer> {
    let projects = config.join("projects");
    let name = project_dir(cwd);
    let exact = projects.join(&name);
    let dirs = if exact.is_dir() { vec![exact] } else { folders(&projects)? };
    let mut found = Vec::new();
    for dir in dirs {
        if dir.file_name().is_some_and(|n| n.to_string_lossy().contains(&name)) {
            found.extend(transcripts(&dir, started_at)?);
        }
    }
    found.retain(|path| {
        path.file_stem().is_some_and(|id| !others.iter().any(|other| id == other.as_str()))
    });
    one(found)
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, NoAnswer> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(unreadable(dir, &e)),
    }
}

fn transcripts(dir: &Path, started_at: Option<u64>) -> Result<Vec<PathBuf>, NoAnswer> {
    let entries = fs::read_dir(dir).map_err(|e| unreadable(dir, &e))?;
    let since = UNIX_EPOCH + Duration::from_secs(started_at.unwrap_or(0));
    let fits = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "jsonl")
            && fs::metadata(path).and_then(|m| m.modified()).is_ok_and(|modified| modified >= since)
    };
    Ok(entries.flatten().map(|e| e.path()).filter(fits).collect())
}
