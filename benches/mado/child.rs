//! The programs that run in the measured terminals: this same binary, started with `--child`.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs;
use std::io::{BufRead, Read, Write, stdin, stdout};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length of a [`stamp`], in bytes.
const DIGITS: usize = 20;

/// The command line of a child.
pub fn command(args: &[&str]) -> Vec<String> {
    let me = std::env::current_exe().expect("the benchmark's own path");
    let me = me.to_str().expect("a UTF-8 path").to_owned();
    [me, "--child".into()].into_iter().chain(args.iter().map(ToString::to_string)).collect()
}

/// What [`dump`] writes when it is done.
pub fn marker(run: usize) -> String {
    format!("<<end of run {run}>>")
}

/// Runs a child.
pub fn run(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["dump"] => dump(),
        ["echo"] => echo(),
        ["flood", pid_file] => flood(pid_file),
        ["stamp"] => stamps(),
        other => panic!("no child is called {other:?}"),
    }
}

/// For each line `RUN KIND MEGABYTES` writes that much and then the run's marker.
fn dump() {
    say("ready");
    let plain = plain_block();
    let ansi = ansi_block();
    for line in stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [run, kind, megabytes] = words.as_slice() else { continue };
        let block = if *kind == "plain" { &plain } else { &ansi };
        let size = megabytes.parse::<usize>().expect("a number") << 20;
        let mut out = stdout().lock();
        let mut left = size;
        while left > 0 {
            let piece = &block[..left.min(block.len())];
            out.write_all(piece).expect("a terminal");
            left -= piece.len();
        }
        let marker = marker(run.parse().expect("a number"));
        out.write_all(format!("\x1b[0m\r\n{marker}\r\n").as_bytes()).expect("a terminal");
        out.flush().expect("a terminal");
    }
}

/// Shows the last key in the corner.
fn echo() {
    raw();
    say("\x1b[2J\x1b[H-");
    let mut key = [0];
    while stdin().lock().read_exact(&mut key).is_ok() {
        let mut out = stdout().lock();
        out.write_all(&[0x1b, b'[', b'H', key[0]]).expect("a terminal");
        out.flush().expect("a terminal");
    }
}

/// Floods whenever it is not stopped by a signal; it starts stopped.
fn flood(pid_file: &str) {
    let block = plain_block();
    say("ready");
    let pid = getpid();
    fs::write(pid_file, pid.as_raw_nonzero().to_string()).expect("write the pid");
    kill_process(pid, Signal::STOP).expect("stop itself");
    loop {
        stdout().lock().write_all(&block).expect("a terminal");
    }
}

/// For each line `COUNT GAP` writes COUNT chunks of 1 KB, GAP microseconds apart, each
/// with the time of its writing at its end.
fn stamps() {
    raw();
    say("ready");
    let mut line = Vec::new();
    let mut byte = [0];
    let filler = &ansi_block()[..1000];
    // Never half a sequence at the end.
    let filler = &filler[..filler.iter().rposition(|b| *b == b'\n').unwrap_or(0)];
    while stdin().lock().read_exact(&mut byte).is_ok() {
        if byte[0] != b'\r' && byte[0] != b'\n' {
            line.push(byte[0]);
            continue;
        }
        let text = String::from_utf8(std::mem::take(&mut line)).expect("UTF-8");
        let mut numbers = text.split_whitespace().map(|n| n.parse::<u64>().expect("a number"));
        let (Some(count), Some(gap)) = (numbers.next(), numbers.next()) else { continue };
        for _ in 0..count {
            sleep(Duration::from_micros(gap));
            let mut chunk = filler.to_vec();
            chunk.extend_from_slice(format!("\x1b[0m<{:0DIGITS$}>", nanoseconds()).as_bytes());
            stdout().lock().write_all(&chunk).expect("a terminal");
            stdout().lock().flush().expect("a terminal");
        }
    }
}

/// Nanoseconds since the epoch.
pub fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos()
}

/// Takes the stamps out of a stream; what may be the beginning of one stays.
pub fn take_stamps(stream: &mut Vec<u8>) -> Vec<u128> {
    let mut found = Vec::new();
    let mut done = 0;
    while let Some(open) = memchr::memchr(b'<', &stream[done..]) {
        let start = done + open + 1;
        let Some(digits) = stream.get(start..start + DIGITS) else {
            done = start - 1;
            stream.drain(..done);
            return found;
        };
        found.extend(std::str::from_utf8(digits).ok().and_then(|d| d.parse::<u128>().ok()));
        done = start;
    }
    stream.clear();
    found
}

fn say(text: &str) {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).expect("a terminal");
    out.flush().expect("a terminal");
}

fn raw() {
    let mut modes = tcgetattr(stdin()).expect("a terminal");
    modes.make_raw();
    tcsetattr(stdin(), OptionalActions::Now, &modes).expect("a terminal");
}

/// A quarter of a megabyte of text as a build or a log would print it.
pub fn plain_block() -> Vec<u8> {
    let mut out = Vec::new();
    for n in 0.. {
        let line = format!(
            "{n:06} compiling the quick brown fox v{}.{}.{} (jumps over the lazy dog)",
            n % 7,
            n % 11,
            n % 13
        );
        out.extend_from_slice(line.as_bytes());
        // Lines of several lengths, up to 110.
        out.extend(std::iter::repeat_n(b'.', (n * 7) % 45));
        out.push(b'\n');
        if out.len() >= 256 << 10 {
            return out;
        }
    }
    out
}

/// A quarter of a megabyte as agents draw: a colour per word, rows erased and drawn again, rules.
pub fn ansi_block() -> Vec<u8> {
    let words = ["fn", "Working…", "let", "│", "●", "diff", "+12", "−3", "src/main.rs", "日本"];
    let mut out = String::new();
    for n in 0.. {
        out.push_str("\x1b[2K");
        let word = |w: usize| {
            let word = words[(n + w * 3) % words.len()];
            let colour = 16 + (n * 5 + w * 31) % 216;
            match w % 4 {
                0 => format!("\x1b[38;5;{colour}m{word}\x1b[39m "),
                1 => format!("\x1b[1;38;2;{colour};120;200m{word}\x1b[0m "),
                2 => format!("\x1b[7m{word}\x1b[27m\x1b[1C"),
                _ => format!("{word} "),
            }
        };
        out.extend((0..12).map(word));
        if n % 8 == 7 {
            out.push_str("\r\n\x1b[3A\x1b[2K\x1b[90m");
            out.push_str(&"─".repeat(60));
            out.push_str("\x1b[0m\x1b[3B");
        }
        out.push_str("\r\n");
        if out.len() >= 256 << 10 {
            return out.into_bytes();
        }
    }
    out.into_bytes()
}
