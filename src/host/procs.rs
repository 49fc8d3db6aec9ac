//! Processes: which one below a terminal is the agent, and who descends from whom. Ending them, and
//! finding what was left behind, is `reap`'s work.
//!
//! Children are looked up from the terminal's own child downwards and known pids are refreshed; the
//! whole process table is not read. The system is asked in `sys`: `/proc` on Linux (41 µs for the
//! children of one process, a full table 8 to 17 ms), the `sysinfo` crate elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[cfg(all(test, target_os = "linux"))]
mod portable;
#[cfg(target_os = "linux")]
#[path = "procs/linux.rs"]
mod sys;
#[cfg(not(target_os = "linux"))]
#[path = "procs/portable.rs"]
mod sys;

/// The most processes that are looked at below one terminal.
const MAX_LOOK: usize = 4096;

/// Deepest ancestry that is followed.
const MAX_DEPTH: usize = 64;

/// A process that a pid cannot be mistaken for: pids are reused, start times are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// When it started: clock ticks since boot on Linux (as in `/proc/PID/stat` and in the
    /// `procStart` of Claude's status file), seconds since the epoch elsewhere.
    pub start: u64,
}

impl Process {
    /// The process that has this id now. `None` when it is gone, or dead and not waited for.
    #[must_use]
    pub fn of(pid: u32) -> Option<Process> {
        sys::stat(pid).filter(|s| s.alive).map(|s| Process { pid, start: s.start })
    }

    /// Whether this very process still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Its command name (15 bytes on Linux).
    #[must_use]
    pub fn name(self) -> Option<String> {
        sys::name(self.pid)
    }

    /// Its environment as it was when it started. `None` when it may not be read.
    #[must_use]
    pub fn environ(self) -> Option<BTreeMap<String, String>> {
        sys::environ(self.pid)
    }

    /// When it started, seconds since the epoch.
    #[must_use]
    pub fn started_at(self) -> Option<u64> {
        let mut system = sysinfo::System::new().ok()?;
        let pid = sysinfo::Pid::from_u32(self.pid);
        let what = sysinfo::ProcessRefreshKind::nothing();
        system.refresh_processes_specifics(sysinfo::ProcessesToUpdate::Some(&[pid]), false, what);
        system.process(pid).map(sysinfo::Process::start_time)
    }

    /// The files that it has open. `None` where the system does not tell.
    #[must_use]
    pub fn open_files(self) -> Option<Vec<std::path::PathBuf>> {
        sys::open_files(self.pid)
    }

    /// Its terminal and who has it. `None` without a terminal, or where the system does not say.
    #[must_use]
    pub fn terminal(self) -> Option<Terminal> {
        sys::terminal(self.pid)
    }

    /// How many bytes it has written so far, to whatever: while that stands still, nothing is on its way
    /// to its terminal. `None` where the system does not say.
    #[must_use]
    pub fn written(self) -> Option<u64> {
        sys::written(self.pid)
    }

    /// Its arguments, the program's name first; empty where they may not be read.
    #[must_use]
    pub fn args(self) -> Vec<String> {
        sys::args(self.pid)
    }

    /// Its working directory now.
    #[must_use]
    pub fn cwd(self) -> Option<std::path::PathBuf> {
        sys::cwd(self.pid)
    }
}

/// The agent: the first process, breadth first from the terminal's child (itself included), whose
/// command name is one of `names`; failing that, one that contains such a name as a word. A name is
/// tried on the whole tree before the next one is.
#[must_use]
pub fn find_agent(root: u32, names: &[String]) -> Option<Process> {
    let tree: Vec<(Process, String)> =
        breadth_first(root).into_iter().filter_map(|p| Some((p, p.name()?))).collect();
    let first = |is: &dyn Fn(&str, &str) -> bool| {
        names.iter().find_map(|name| tree.iter().find(|(_, n)| is(n, name)).map(|(p, _)| *p))
    };
    first(&|n, name| n == name).or_else(|| first(&contains_word))
}

/// `my-claude.exe` contains `claude` as a word, `sample` does not contain `amp`.
fn contains_word(text: &str, word: &str) -> bool {
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
}

/// A process and all that descends from it, nearest first.
#[must_use]
pub fn breadth_first(root: u32) -> Vec<Process> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([root]);
    while let Some(pid) = queue.pop_front() {
        if !seen.insert(pid) || seen.len() > MAX_LOOK {
            continue;
        }
        found.extend(Process::of(pid));
        queue.extend(sys::children(pid));
    }
    found
}

/// A process and its ancestors, nearest first. One whose parents have died belongs to nobody.
#[must_use]
pub fn ancestors(pid: u32) -> Vec<u32> {
    let mut list = vec![pid];
    let mut at = pid;
    while list.len() < MAX_DEPTH {
        match sys::stat(at).map(|s| s.parent) {
            Some(parent) if parent != 0 && !list.contains(&parent) => {
                list.push(parent);
                at = parent;
            }
            _ => break,
        }
    }
    list
}

/// A process and its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// The terminal's number.
    pub tty: i64,
    /// The process's own group.
    pub group: i64,
    /// The group that has the terminal's foreground.
    pub foreground: i64,
    /// A signal has stopped the process.
    pub stopped: bool,
}

/// What the system knows of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    start: u64,
    /// Neither dead nor a zombie.
    alive: bool,
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
