//! Processes for tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use super::breadth_first;
use crate::host::reap::MARK;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A shell with children, ended with all of them.
pub(crate) struct Tree(Child);

impl Tree {
    /// Runs a script, which must print a line when it is ready.
    pub fn new(script: &str, mark: &str) -> Tree {
        Tree::with_env(script, &[(MARK, mark)])
    }

    /// A process that is named `claude`, with this environment.
    pub fn claude(env: &[(&str, &str)]) -> Tree {
        Tree::named("claude", ":", env)
    }

    /// A process of this name with this environment, which runs a command first.
    pub fn named(name: &str, first: &str, env: &[(&str, &str)]) -> Tree {
        Tree::with_env(&format!("printf {name} > /proc/self/comm; {first}; echo ready; read"), env)
    }

    fn with_env(script: &str, env: &[(&str, &str)]) -> Tree {
        let mut child = Command::new("/bin/bash")
            .args(["-c", script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Tree(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for process in breadth_first(self.pid()).iter().skip(1) {
            let pid = rustix::process::Pid::from_raw(process.pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process of the name in the background of a script.
pub(crate) fn named(name: &str) -> String {
    format!(
        "bash -c 'printf {name} > /proc/self/comm; while :; do read -t 5 < <(:); sleep 5; done' & "
    )
}

/// Waits until the tree holds a process of the name.
pub(crate) fn wait_for_name(root: u32, name: &str) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !breadth_first(root).iter().any(|p| p.name().as_deref() == Some(name)) {
        assert!(std::time::Instant::now() < until, "no process is named {name}");
        std::thread::yield_now();
    }
}
