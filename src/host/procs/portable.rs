//! Processes by the `sysinfo` crate, where there is no `/proc`.

use super::{Stat, Terminal};
use std::collections::BTreeMap;
use std::path::PathBuf;
use sysinfo::{
    Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind,
};

fn look<T>(pid: u32, what: ProcessRefreshKind, take: impl Fn(&Process) -> T) -> Option<T> {
    let mut system = System::new().ok()?;
    let pid = Pid::from_u32(pid);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    system.process(pid).map(take)
}

/// State, parent and start time.
pub(super) fn stat(pid: u32) -> Option<Stat> {
    look(pid, ProcessRefreshKind::nothing(), |p| Stat {
        parent: p.parent().map_or(0, Pid::as_u32),
        start: p.start_time(),
        alive: !matches!(p.status(), ProcessStatus::Zombie | ProcessStatus::Dead),
    })
}

/// Not told here.
#[cfg_attr(test, allow(dead_code))]
pub(super) fn terminal(_: u32) -> Option<Terminal> {
    None
}

/// Not told here.
#[cfg_attr(test, allow(dead_code))]
pub(super) fn written(_: u32) -> Option<u64> {
    None
}

/// The arguments.
#[cfg_attr(test, allow(dead_code))]
pub(super) fn args(pid: u32) -> Vec<String> {
    let what = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
    let text = |p: &Process| p.cmd().iter().map(|a| a.to_string_lossy().into_owned()).collect();
    look(pid, what, text).unwrap_or_default()
}

/// The command name.
pub(super) fn name(pid: u32) -> Option<String> {
    look(pid, ProcessRefreshKind::nothing(), |p| p.name().to_string_lossy().into_owned())
}

/// Its children, by everybody's parent.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let Ok(mut system) = System::new() else { return Vec::new() };
    let what = ProcessRefreshKind::nothing();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    let parent = Some(Pid::from_u32(pid));
    let is_child = |p: &&Process| p.parent() == parent && p.thread_kind().is_none();
    let mut children: Vec<u32> =
        system.processes().values().filter(is_child).map(|p| p.pid().as_u32()).collect();
    children.sort_unstable();
    children
}

/// The environment.
pub(super) fn environ(pid: u32) -> Option<BTreeMap<String, String>> {
    let what = ProcessRefreshKind::nothing().with_environ(UpdateKind::Always);
    look(pid, what, |p| {
        let pairs = p.environ().iter().filter_map(|pair| {
            pair.to_string_lossy().split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()))
        });
        pairs.collect()
    })
}

/// Open files are not told here.
pub(super) fn open_files(_: u32) -> Option<Vec<PathBuf>> {
    None
}

/// The working directory.
pub(super) fn cwd(pid: u32) -> Option<PathBuf> {
    let what = ProcessRefreshKind::nothing().with_cwd(UpdateKind::Always);
    look(pid, what, |p| p.cwd().map(PathBuf::from)).flatten()
}
