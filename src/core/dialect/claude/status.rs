//! `sessions/{PID}.json`: what Claude Code says of itself while it runs.

use super::super::read;
use super::Unreadable;
use crate::core::dialect::StatusState;
use serde::Deserialize;

/// The status file (claude 2.1.197 and 2.1.332).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusFile {
    /// The agent's process, in its own pid namespace.
    pub pid: u32,
    /// The session's id; `/clear` and `/branch` change it in place.
    pub session: String,
    /// The working directory at start.
    pub cwd: Option<String>,
    /// What it does. `None` while it starts, and for a word that is not known.
    pub state: Option<StatusState>,
    /// The word the file holds for it.
    pub status: Option<String>,
    /// What it waits for: `permission prompt`, `input needed`, `dialog open`.
    pub waiting_for: Option<String>,
    /// When it started, milliseconds since the epoch.
    pub started_at: Option<u64>,
    /// When the file was last changed, milliseconds since the epoch.
    pub updated_at: Option<u64>,
    /// The process's start time in clock ticks since boot, as in `/proc/PID/stat`: tells a file
    /// that a killed process left behind from that of a new one with its pid.
    pub proc_start: Option<u64>,
    /// Claude's version.
    pub version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    pid: Option<u32>,
    session_id: Option<String>,
    cwd: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    started_at: Option<u64>,
    updated_at: Option<u64>,
    proc_start: Option<String>,
    version: Option<String>,
}

/// Reads a status file. `None`: it was caught empty or half written, read it again.
pub fn parse_status(text: &str) -> Result<Option<StatusFile>, Unreadable> {
    let raw: Raw = match read("the status file", text) {
        Ok(raw) => raw,
        Err(Unreadable::NotJson(_)) => return Ok(None),
        Err(e) => return Err(e),
    };
    let need = |name: &str| Unreadable::field("the status file", name);
    let state = match raw.status.as_deref() {
        Some("idle") => Some(StatusState::Idle),
        Some("busy") => Some(StatusState::Busy),
        Some("waiting") => Some(StatusState::Waiting),
        Some("shell") => Some(StatusState::Background),
        _ => None,
    };
    Ok(Some(StatusFile {
        pid: raw.pid.ok_or_else(|| need("pid"))?,
        session: raw.session_id.ok_or_else(|| need("sessionId"))?,
        cwd: raw.cwd,
        state,
        status: raw.status,
        waiting_for: raw.waiting_for,
        started_at: raw.started_at,
        updated_at: raw.updated_at,
        proc_start: raw.proc_start.and_then(|s| s.parse().ok()),
        version: raw.version,
    }))
}
