//! Finds Codex's rollout: the file in which the agent's thread is recorded.
//!
//! Seen on codex 0.171.0: a process keeps a lock open for each thread that it writes
//! (`thread-writer-locks/ID.lock`, made when the thread is begun or resumed) and, from the first turn on, its
//! rollout (`sessions/Y/M/D/rollout-TIME-ID.jsonl`). After `/new` the old thread's files may stay open, and a
//! subagent's are open beside its parent's. So: of the open threads that are a person's, the one that was
//! begun, or written to, last. Where open files are not told, only a single rollout of the working directory
//! counts that was written since the agent started.

use super::{Subject, one, unreadable};
use crate::core::dialect::NoAnswer;
use crate::core::dialect::codex::{Meta, parse_meta};
use crate::host::procs::{Process, breadth_first};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest first line that is read; those seen have 20 KB, as they hold the instructions to the model.
const MAX_META: u64 = 4 * 1024 * 1024;

/// A thread's rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// The thread's id.
    pub id: String,
    /// The file.
    pub path: PathBuf,
    /// When this process began or resumed the thread, milliseconds since the epoch, where its lock tells.
    pub opened: Option<u64>,
}

/// `CODEX_HOME` of the agent's own environment, else `.codex` in its home.
pub fn home(subject: &Subject, process: Process) -> Result<PathBuf, NoAnswer> {
    subject.folder(process, "CODEX_HOME", ".codex")
}

/// Finds the agent and the rollout of its present thread. `None`: the thread has had no turn yet.
pub fn locate(subject: &Subject) -> Result<Option<Rollout>, NoAnswer> {
    let process = subject.agent().ok_or_else(|| subject.no_agent())?;
    current(subject, process, &home(subject, process)?)
}

/// The rollout of a process's present thread.
pub fn current(
    subject: &Subject,
    process: Process,
    home: &Path,
) -> Result<Option<Rollout>, NoAnswer> {
    // The program may have been started by one of its own name.
    let named = |p: &Process| p.name().is_some_and(|n| subject.names.contains(&n));
    let family = breadth_first(process.pid).into_iter().filter(|p| *p == process || named(p));
    let told: Option<Vec<Vec<PathBuf>>> = family.map(Process::open_files).collect();
    match told {
        Some(files) => newest(&files.concat()),
        None => by_directory(home, &subject.cwd, process.started_at()),
    }
}

/// A thread that a process has open.
struct Open {
    when: SystemTime,
    rollout: Option<Rollout>,
}

/// Of the threads that these open files belong to, the one that was begun or written to last.
pub fn newest(files: &[PathBuf]) -> Result<Option<Rollout>, NoAnswer> {
    let mut threads: Vec<Open> = Vec::new();
    let locks: Vec<(String, SystemTime)> = files.iter().filter_map(|f| lock(f)).collect();
    let lock_of = |id: &str| locks.iter().find(|(lock, _)| lock == id).map(|(_, at)| *at);
    let mut known = Vec::new();
    for path in files.iter().filter(|f| is_rollout(f)) {
        let Some(meta) = meta(path)? else { continue };
        known.push(meta.id.clone());
        if !meta.main {
            continue;
        }
        let written = modified(path).unwrap_or(UNIX_EPOCH);
        let opened = lock_of(&meta.id);
        threads.push(Open {
            when: opened.map_or(written, |at| at.max(written)),
            rollout: Some(Rollout {
                id: meta.id,
                path: path.clone(),
                opened: opened.and_then(millis),
            }),
        });
    }
    // A thread that has had no turn yet has a lock alone.
    let bare = locks.iter().filter(|(id, _)| !known.contains(id));
    threads.extend(bare.map(|(_, when)| Open { when: *when, rollout: None }));
    Ok(threads.into_iter().max_by_key(|t| t.when).and_then(|t| t.rollout))
}

fn lock(path: &Path) -> Option<(String, SystemTime)> {
    let folder = path.parent()?.file_name()?;
    let id = path.file_name()?.to_str()?.strip_suffix(".lock")?;
    // The other locks there begin with a dot.
    let is = folder == "thread-writer-locks" && !id.starts_with('.');
    is.then(|| Some((id.to_owned(), modified(path)?)))?
}

fn is_rollout(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    name.starts_with("rollout-") && path.extension().is_some_and(|e| e == "jsonl")
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn millis(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok()
}

/// What a rollout's first line says. `None`: the file is gone, or its first line is not whole yet.
fn meta(path: &Path) -> Result<Option<Meta>, NoAnswer> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unreadable(path, &e)),
    };
    let mut line = String::new();
    BufReader::new(file.take(MAX_META)).read_line(&mut line).map_err(|e| unreadable(path, &e))?;
    if !line.ends_with('\n') {
        return Ok(None);
    }
    parse_meta(&line).map(Some).map_err(|e| NoAnswer::Malformed(e.to_string()))
}

/// Without the process's open files: the only rollout of a person's thread that was begun in this directory
/// and written since the agent started (seconds since the epoch).
pub fn by_directory(
    home: &Path,
    cwd: &Path,
    started_at: Option<u64>,
) -> Result<Option<Rollout>, NoAnswer> {
    let since = UNIX_EPOCH + Duration::from_secs(started_at.unwrap_or(0));
    let mut found = Vec::new();
    let mut folders = vec![home.join("sessions")];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(unreadable(&folder, &e)),
        };
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if is_rollout(&path)
                && modified(&path).is_some_and(|at| at >= since)
                && let Some(meta) = meta(&path)?
                && meta.main
                && meta.cwd.as_deref().is_none_or(|c| Path::new(c) == cwd)
            {
                found.push(Rollout { id: meta.id, path, opened: None });
            }
        }
    }
    one(found)
}

#[cfg(test)]
mod tests;
