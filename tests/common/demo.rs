//! A demo agent in a terminal, with its ledger, transcript and control socket in a folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use pty_process::blocking::Command;
use serde_json::Value;
use tempfile::TempDir;

use super::pty::{PATIENCE, Screen, Terminal};

/// A running demo agent whose composer is ready.
pub struct Demo {
    terminal: Terminal,
    pub dir: TempDir,
}

impl Demo {
    /// Starts it with 80 by 24 in a terminal that answers queries.
    pub fn start(args: &[&str]) -> Self {
        Self::start_in(args, true)
    }

    /// The same in a terminal that answers queries only if `answer`.
    pub fn start_in(args: &[&str], answer: bool) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let command = Command::new(env!("CARGO_BIN_EXE_mado"))
            .arg("demo-agent")
            .arg("--ledger")
            .arg(dir.path().join("ledger.jsonl"))
            .arg("--control")
            .arg(dir.path().join("control"))
            .args(args)
            .env_clear()
            .env("TERM", "xterm-256color")
            .env("MADO_AGENT_DIR", dir.path());
        let demo = Demo { terminal: Terminal::start(command, 80, 24, answer), dir };
        demo.wait("the composer", |s| s.has("  ? for shortcuts") && s.title == "✳ demo");
        demo
    }

    /// Pastes `text`, waits until the agent has it, and presses Enter.
    pub fn submit(&self, text: &str) {
        let before = self.all("submit").len();
        self.write(paste(text));
        self.until("the draft", |d| {
            d.all("draft").last().is_some_and(|line| line["draft"] == text)
        });
        self.write("\r");
        self.until("the submit", |d| d.all("submit").len() == before + 1);
    }

    /// Waits for the open dialog.
    pub fn dialog(&self) -> Screen {
        self.wait("the dialog", |s| s.has("Do you want to run this command?"))
    }

    /// Sends a command to the control socket and gives the reply.
    pub fn control(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.dir.path().join("control")).expect("a socket");
        stream.write_all(format!("{line}\n").as_bytes()).expect("it takes a line");
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).expect("a reply");
        reply.trim_end().to_owned()
    }

    /// The ledger's entries that have `key`.
    pub fn all(&self, key: &str) -> Vec<Value> {
        let lines = self.lines("ledger.jsonl");
        lines.into_iter().filter(|line| line.get(key).is_some()).collect()
    }

    /// Waits for the first ledger entry with `key`.
    pub fn entry(&self, key: &str) -> Value {
        self.until(key, |d| !d.all(key).is_empty());
        self.all(key).remove(0)
    }

    /// What was submitted.
    pub fn submits(&self) -> Vec<String> {
        let text = |line: &Value| line["submit"].as_str().unwrap_or_default().to_owned();
        self.all("submit").iter().map(text).collect()
    }

    /// The transcript once it satisfies `until`.
    pub fn transcript_until(&self, until: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until("the transcript", |d| until(&d.lines("transcript.jsonl")));
        self.lines("transcript.jsonl")
    }

    /// Waits for something that is not on the screen.
    pub fn until(&self, what: &str, until: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !until(self) {
            assert!(
                Instant::now() < deadline,
                "never came: {what}; the screen:\n{}\nthe ledger:\n{}",
                self.screen().lines.join("\n"),
                fs::read_to_string(self.dir.path().join("ledger.jsonl")).unwrap_or_default()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The whole lines of a file of JSON lines.
    pub fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }
}

impl Deref for Demo {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl DerefMut for Demo {
    fn deref_mut(&mut self) -> &mut Terminal {
        &mut self.terminal
    }
}

/// A bracketed paste.
pub fn paste(text: &str) -> String {
    format!("\x1b[200~{text}\x1b[201~")
}
