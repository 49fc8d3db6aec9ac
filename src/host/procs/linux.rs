//! Processes by `/proc`.

use super::{Stat, Terminal};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// State, parent and start time.
pub(super) fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // `PID (NAME) STATE PPID …`: the name may hold anything, blanks and brackets included.
    let rest = &text[memchr::memrchr(b')', &text)? + 1..];
    let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 22 of the line; state is field 3.
    let start = fields.nth(17)?.parse().ok()?;
    Some(Stat { parent, start, alive: !matches!(state, "Z" | "X" | "x") })
}

/// Terminal and foreground: fields 5 (`pgrp`), 7 (`tty_nr`) and 8 (`tpgid`) of the line.
pub(super) fn terminal(pid: u32) -> Option<Terminal> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let rest = &text[memchr::memrchr(b')', &text)? + 1..];
    let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let stopped = matches!(fields.next()?, "T" | "t");
    let group = fields.nth(1)?.parse().ok()?;
    let tty = fields.nth(1)?.parse().ok()?;
    let foreground = fields.next()?.parse().ok()?;
    (tty != 0).then_some(Terminal { tty, group, foreground, stopped })
}

/// `wchar` of `/proc/PID/io`.
pub(super) fn written(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|l| l.strip_prefix("wchar: ")).and_then(|n| n.parse().ok())
}

/// The arguments at start.
pub(super) fn args(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = |arg: &[u8]| String::from_utf8_lossy(arg).into_owned();
    bytes.split(|b| *b == 0).map(text).collect()
}

/// The command name.
pub(super) fn name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The children of all its threads.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut readable = true;
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().filter_map(parse)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => readable = thread_gone(&thread),
            Err(_) => {}
        }
    }
    if !readable && children.is_empty() {
        // A kernel without CONFIG_PROC_CHILDREN: look at everybody's parent.
        children =
            all().into_iter().filter(|p| stat(*p).is_some_and(|s| s.parent == pid)).collect();
    }
    children.sort_unstable();
    children
}

fn thread_gone(thread: &fs::DirEntry) -> bool {
    !thread.path().exists()
}

/// The environment at start.
pub(super) fn environ(pid: u32) -> Option<BTreeMap<String, String>> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let pairs = bytes.split(|b| *b == 0).filter_map(|pair| {
        let text = String::from_utf8_lossy(pair);
        text.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()))
    });
    Some(pairs.collect())
}

/// What its descriptors lead to; sockets and the like are not paths that exist.
pub(super) fn open_files(pid: u32) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(entries.flatten().filter_map(|e| fs::read_link(e.path()).ok()).collect())
}

/// The working directory.
pub(super) fn cwd(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Every process.
fn all() -> Vec<u32> {
    let Ok(dir) = fs::read_dir("/proc") else { return Vec::new() };
    dir.flatten().filter_map(|e| e.file_name().to_str().and_then(parse)).collect()
}

fn parse(text: &str) -> Option<u32> {
    text.parse().ok()
}
