//! A host of one's own: fresh folders, the binary under test, and its command line.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine.
pub const LONG: Duration = Duration::from_secs(30);

/// What a command did.
#[derive(Debug, Clone)]
pub struct Ran {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Its standard output as JSON lines.
    pub fn json(&self) -> Vec<Value> {
        assert!(self.ok, "the command failed: {self:?}");
        self.out.lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
    }

    /// Its standard error as the JSON of an error.
    pub fn error(&self) -> Value {
        assert!(!self.ok, "the command did not fail: {self:?}");
        serde_json::from_str(&self.err).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"))
    }
}

/// Folders for a host. What runs in them is ended when it is dropped.
pub struct Site {
    dir: tempfile::TempDir,
    vars: Vec<(String, String)>,
}

impl Site {
    pub fn new() -> Site {
        let dir = tempfile::Builder::new().prefix("mado-t").tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Site { dir, vars: Vec::new() }
    }

    /// Sets a variable for every command from now on.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.unset(name);
        self.vars.push((name.to_owned(), value.into()));
    }

    pub fn unset(&mut self, name: &str) {
        self.vars.retain(|(n, _)| n != name);
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where commands are run; a project of its own.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work").canonicalize().unwrap()
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn socket(&self, name: &str) -> PathBuf {
        self.dir.path().join("run").join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mado"));
        command.args(args).current_dir(self.work()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path().join("home"));
        command.env("LANG", "C.UTF-8").env("SHELL", "/bin/bash").env("PS1", "$ ");
        command.env("MADO_HOME", self.dir.path());
        for (name, value) in &self.vars {
            command.env(name, value);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// Runs with this on standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        // A command that reads nothing may end first.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("the command ends");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs a command that must work, and gives what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert!(ran.ok, "mado {args:?} failed: {ran:?}");
        ran.out
    }

    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        self.run(args).json()
    }

    /// Starts a host in the foreground and waits until it serves.
    pub fn serve(&self) -> Host {
        let mut command = self.command(&["serve", "--foreground"]);
        // A file, not a pipe: nobody reads along, and a full pipe would stop the host.
        let log = self.dir.path().join("host.err");
        let err = std::fs::File::create(&log).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(err);
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a line");
        if !line.starts_with("host ") {
            let _ = child.wait();
            panic!("no host: {line:?} {}", std::fs::read_to_string(log).unwrap_or_default());
        }
        Host { child }
    }

    /// A shell agent that waits for a prompt.
    pub fn open_shell(&self, name: &str) {
        self.ok(&["open", "shell", "--name", name, "--", "--norc", "--noprofile"]);
        self.ok(&["wait", &format!("agent={name}"), "phase=idle", "--timeout", "30s"]);
    }

    /// The log of a detached host.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("host.log")).unwrap_or_default()
    }

    /// Speaks with the shell's socket by hand.
    pub fn dial(&self) -> Dialogue {
        let stream = UnixStream::connect(self.socket("shell.sock")).expect("a host");
        stream.set_read_timeout(Some(LONG)).unwrap();
        Dialogue { reader: BufReader::new(stream) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.unset("MADO_CRASH_AT");
        let _ = self.command(&["stop"]).output();
    }
}

/// A host in the foreground. Killed, not stopped, when it is dropped while it runs.
pub struct Host {
    pub child: Child,
}

impl Host {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As `kill -9` does it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn ends_within(&mut self, limit: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// JSON lines, by hand.
pub struct Dialogue {
    reader: BufReader<UnixStream>,
}

impl Dialogue {
    pub fn send(&mut self, value: &Value) {
        let line = format!("{value}\n");
        self.reader.get_mut().write_all(line.as_bytes()).expect("the host listens");
    }

    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("the host answers");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    pub fn ask(&mut self, value: &Value) -> Value {
        self.send(value);
        self.next()
    }
}

/// Waits until `check` gives something.
pub fn wait_for<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + LONG;
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < until, "waited {LONG:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs; a zombie does not.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

impl Site {
    /// Starts an agent with an environment of its own, and waits until it may be typed into.
    pub fn open_with(
        &self,
        profile: &str,
        name: &str,
        env: &std::collections::BTreeMap<String, String>,
        args: &[&str],
    ) {
        let mut all = vec!["open", profile, "--name", name, "--rows", "40", "--cols", "120", "--"];
        all.extend(args);
        let mut command = self.command(&all);
        command.envs(env);
        // The agent's own home must not decide where the host is.
        command.env("MADO_HOME", self.path());
        let output = command.output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.ok(&["wait", &format!("agent={name}"), "phase=idle", "--timeout", "60s"]);
    }
}
