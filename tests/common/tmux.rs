//! A person at a terminal: a tmux server of its own, whose one window is driven by keys and read as text.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::wait_value;

/// A tmux server. Dropping it ends it and what runs in it.
pub struct Tmux {
    /// Its socket lies in here.
    dir: tempfile::TempDir,
}

impl Tmux {
    /// Runs `argv` with exactly the environment `env` in a window of the given size.
    pub fn start(argv: &[&str], env: &[(&str, &OsStr)], cwd: &Path, rows: u16, cols: u16) -> Tmux {
        let dir = tempfile::Builder::new().prefix("mado-tmux.").tempdir_in("/tmp").unwrap();
        let tmux = Tmux { dir };
        let (rows, cols) = (rows.to_string(), cols.to_string());
        let mut command = tmux.command();
        // No status line of its own; and Escape is sent on at once.
        command.args(["start-server", ";", "set", "-g", "status", "off", ";"]);
        command.args(["set", "-s", "escape-time", "0", ";"]);
        command.args(["set", "-g", "default-terminal", "tmux-256color", ";"]);
        command.args(["new-session", "-d", "-x", &cols, "-y", &rows, "--", "env", "-i"]);
        command.args(["TERM=tmux-256color", "LANG=C.UTF-8"]);
        for (name, value) in env {
            let mut pair = (*name).to_owned() + "=";
            pair.push_str(value.to_str().expect("UTF-8"));
            command.arg(pair);
        }
        command.args(argv).current_dir(cwd);
        let output = command.output().expect("tmux is installed (Debian: tmux)");
        assert!(output.status.success(), "tmux: {}", String::from_utf8_lossy(&output.stderr));
        tmux
    }

    /// The server's socket.
    pub fn socket(&self) -> std::path::PathBuf {
        self.dir.path().join("s")
    }

    /// Runs a tmux command that must work, and gives what it prints.
    pub fn ask(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.dir.path().join("s")).args(["-f", "/dev/null", "-u"]);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().expect("tmux runs")
    }

    /// Types text.
    pub fn text(&self, text: &str) {
        let output = self.run(&["send-keys", "-l", "--", text]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Presses keys by tmux's names, such as `Enter`, `C-n`, `M-l`.
    pub fn keys(&self, keys: &[&str]) {
        let output = self.run(&[&["send-keys"], keys].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// The screen, one line per row, without trailing blanks. Empty once the program has ended.
    pub fn screen(&self) -> String {
        let output = self.run(&["capture-pane", "-p"]);
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// Whether the program still runs.
    pub fn lives(&self) -> bool {
        self.run(&["has-session"]).status.success()
    }

    /// Waits until the screen fulfils `check`; panics with the screen.
    pub async fn wait(
        &self,
        what: &str,
        timeout: Duration,
        check: impl Fn(&str) -> bool,
    ) -> String {
        let look = || Some(self.screen()).filter(|screen| check(screen));
        wait_value(what, timeout, look, || self.screen()).await
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
