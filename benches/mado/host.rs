//! A host of its own for each measure, with everything it writes in a temporary folder.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use mado::proto::attach::{Decoder, Frame, Hello, VERSION};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The built program.
pub const MADO: &str = env!("CARGO_BIN_EXE_mado");

/// A host, started by its first agent. Dropping it ends it and its agents.
pub struct Host {
    dir: TempDir,
    env: BTreeMap<String, String>,
}

impl Host {
    /// Folders for a host, and the profile `bench`: the demo agent's, with this program as its command.
    pub fn new() -> Host {
        // A socket's path must be short.
        let dir =
            tempfile::Builder::new().prefix("mado-bench.").tempdir_in("/tmp").expect("a folder");
        let path = |name: &str| format!("{}/{name}", dir.path().display());
        let env = [
            ("HOME", path("home")),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("TERM", "xterm-256color".into()),
            ("LANG", "C.UTF-8".into()),
            ("MADO_BIN", MADO.into()),
            ("MADO_STATE_DIR", path("state")),
            ("MADO_RUNTIME_DIR", path("run")),
            ("MADO_CONFIG", path("config")),
        ];
        let mut env: BTreeMap<_, _> = env.map(|(name, value)| (name.to_owned(), value)).into();
        // To see where the time goes.
        env.extend(std::env::var("MADO_TRACE").ok().map(|file| ("MADO_TRACE".to_owned(), file)));
        fs::create_dir(dir.path().join("home")).expect("a folder");
        let host = Host { dir, env };
        let me = super::child::command(&[]).remove(0);
        let mut profile: toml::Table =
            include_str!("../../profiles/demo.toml").parse().expect("the demo's profile is TOML");
        profile.insert("name".into(), "bench".into());
        let program = profile["program"].as_table_mut().expect("a table");
        program.insert("command".into(), me.into());
        program.insert("args".into(), toml::Value::Array(vec!["--child".into()]));
        host.profile("bench", &profile.to_string());
        host
    }

    /// Writes a profile.
    pub fn profile(&self, name: &str, text: &str) {
        let folder = self.dir.path().join("config/profiles");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("{name}.toml")), text).expect("a file");
    }

    /// The folder that goes with the host; also its project.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The whole environment of what belongs to this host.
    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// Adds to the environment.
    pub fn set_env(&mut self, more: BTreeMap<String, String>) {
        self.env.extend(more);
    }

    /// Runs `mado …` and returns what it printed.
    pub fn mado(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("mado runs");
        assert!(
            output.status.success(),
            "mado {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(MADO);
        command.args(args).env_clear().envs(&self.env).current_dir(self.dir.path());
        command.stdin(Stdio::null());
        command
    }

    /// Connects to an agent as `mado attach` does, without a terminal.
    pub fn attach(&self, agent: &str) -> Attached {
        let socket = self.dir.path().join("run/attach.sock");
        let mut stream = UnixStream::connect(socket).expect("the host listens");
        let mut hello = Vec::new();
        Frame::Hello(Hello {
            version: VERSION,
            agent: agent.to_owned(),
            rows: 40,
            cols: 120,
            ..Hello::default()
        })
        .encode(&mut hello);
        stream.write_all(&hello).expect("the host reads");
        let mut attached = Attached { stream, decoder: Decoder::default() };
        let first = attached.frame();
        assert!(matches!(first, Frame::Welcome(_)), "{first:?}");
        attached
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.command(&["stop"]).stdout(Stdio::null()).status();
    }
}

/// A connection to an agent.
pub struct Attached {
    stream: UnixStream,
    decoder: Decoder,
}

impl Attached {
    /// Types.
    pub fn write(&mut self, bytes: &[u8]) {
        let mut frame = Vec::new();
        Frame::Input(bytes.to_vec()).encode(&mut frame);
        self.stream.write_all(&frame).expect("the host reads");
    }

    /// The next frame.
    pub fn frame(&mut self) -> Frame {
        let mut buffer = vec![0; 1 << 16];
        loop {
            if let Some(frame) = self.decoder.next_frame().expect("well-formed frames") {
                return frame;
            }
            let n = self.stream.read(&mut buffer).expect("the host answers");
            assert!(n > 0, "the host hung up");
            self.decoder.feed(&buffer[..n]);
        }
    }
}
