//! Ends a program and everything that belongs to it.
//!
//! What belongs: the session and process group of the terminal's first process, its descendants,
//! and every process whose environment carries the agent's mark (`MADO_AGENT_ID`), which finds
//! what made itself a session of its own after its parents are gone. All are asked politely
//! first, and harder each time. A process is known by its pid *and* start time, so that a pid which
//! the system gave to somebody else meanwhile is never signalled.

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The variable that marks an agent's processes.
pub const MARK: &str = "MADO_AGENT_ID";

/// How often a wait looks whether the processes are gone.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// One process, as `/proc/PID/stat` tells of it (see `proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    group: u32,
    session: u32,
    /// In clock ticks since boot.
    started: u64,
    /// Dead, only not yet waited for.
    zombie: bool,
}

/// The first process of a terminal: its session and its process group have its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot; `None` where the system does not tell.
    pub started: Option<u64>,
}

impl Leader {
    /// The process with this id, which must be running now.
    pub fn of(pid: u32) -> Leader {
        Leader { pid, started: stat(pid).map(|p| p.started) }
    }
}

/// Ends the session of `leader` and what carries `mark` (nothing, if that is empty). Waits up to
/// `grace` after each of `SIGHUP`, `SIGTERM` and `SIGKILL`. Returns the pids that are still there.
///
/// The leader's parent must wait for it meanwhile, though a zombie counts as gone.
pub async fn end(leader: Leader, mark: String, grace: Duration) -> Vec<u32> {
    if leader.started.is_none() {
        return end_group(leader.pid, grace).await;
    }
    let mut known: BTreeMap<u32, u64> = BTreeMap::new();
    for signal in [Signal::HUP, Signal::TERM, Signal::KILL] {
        let until = Instant::now() + grace;
        let mut signalled: BTreeMap<u32, u64> = BTreeMap::new();
        loop {
            known = look(leader, &mark, known).await;
            if known.is_empty() {
                return Vec::new();
            }
            // New ones may appear while the old are dying; each gets each signal once.
            for (&pid, &started) in &known {
                if signalled.insert(pid, started) != Some(started) {
                    send(pid, signal);
                }
            }
            if Instant::now() >= until {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    look(leader, &mark, known).await.into_keys().collect()
}

/// The same where there is no `/proc`: the process group is all that is known.
async fn end_group(leader: u32, grace: Duration) -> Vec<u32> {
    let Some(group) = pid(leader) else { return Vec::new() };
    for signal in [Signal::HUP, Signal::TERM, Signal::KILL] {
        let until = Instant::now() + grace;
        if kill_process_group(group, signal).is_err() {
            return Vec::new();
        }
        let _ = kill_process_group(group, Signal::CONT);
        while Instant::now() < until {
            if test_kill_process_group(group).is_err() {
                return Vec::new();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    vec![leader]
}

fn pid(raw: u32) -> Option<Pid> {
    Pid::from_raw(raw.try_into().ok()?)
}

fn send(raw: u32, signal: Signal) {
    let Some(pid) = pid(raw) else { return };
    // It may have gone by itself; that is all right.
    let _ = kill_process(pid, signal);
    if signal != Signal::KILL {
        // A stopped process acts on no other signal.
        let _ = kill_process(pid, Signal::CONT);
    }
}

/// What belongs now, with what was known before and still lives. By pid, with the start time.
async fn look(leader: Leader, mark: &str, known: BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let mark = mark.to_owned();
    let found = tokio::task::spawn_blocking(move || belonging(leader, &mark, &known)).await;
    found.unwrap_or_default()
}

fn belonging(leader: Leader, mark: &str, known: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let all = processes();
    let me = std::process::id();
    let entry = format!("{MARK}={mark}");
    // A pid is not given away while a session or group has its number. So if somebody else has
    // the leader's, nothing of the session is left.
    let taken = all.iter().any(|p| p.pid == leader.pid && Some(p.started) != leader.started);
    let mut found: BTreeMap<u32, u64> = BTreeMap::new();
    let lives = |p: &&Process| !p.zombie && p.pid != me;
    for p in all.iter().filter(lives) {
        let own = !taken && [p.pid, p.session, p.group].contains(&leader.pid);
        let old = known.get(&p.pid) == Some(&p.started);
        if own || old || (!mark.is_empty() && environ_has(p.pid, entry.as_bytes())) {
            found.insert(p.pid, p.started);
        }
    }
    // Descendants, also of a leader that is a zombie by now.
    let mut parents: Vec<u32> = found.keys().copied().collect();
    if !taken {
        parents.push(leader.pid);
    }
    while let Some(parent) = parents.pop() {
        for p in all.iter().filter(lives).filter(|p| p.parent == parent) {
            if found.insert(p.pid, p.started).is_none() {
                parents.push(p.pid);
            }
        }
    }
    found
}

fn environ_has(pid: u32, entry: &[u8]) -> bool {
    // Other users' processes cannot be read, and are not ours.
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|b| *b == 0).any(|e| e == entry))
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect()
}

fn stat(pid: u32) -> Option<Process> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The command's name is in parentheses and may hold anything, parentheses too.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_is_read_past() {
        let stat = "42 (a) b (c)) S 1 42 43 34816 42 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 1";
        let p = parse(42, stat).expect("a process");
        assert_eq!((p.parent, p.group, p.session, p.started, p.zombie), (1, 42, 43, 9876, false));
    }

    #[test]
    fn this_process_is_found_with_its_parent() {
        let me = std::process::id();
        let p = processes().into_iter().find(|p| p.pid == me).expect("listed");
        assert_eq!(p.parent, std::os::unix::process::parent_id());
        assert!(!p.zombie);
    }
}
