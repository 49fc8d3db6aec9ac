//! Real agents in a world: one mock for all, a home of their own, one working directory.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::claude;
use crate::common::mock::{Mock, View};
use crate::world::{Open, World};

/// A world for real agents of one version.
pub struct Claudes {
    pub world: World,
    pub mock: Mock,
    pub home: tempfile::TempDir,
    bin: PathBuf,
}

impl Claudes {
    /// Starts a host, with these variables beside the usual ones.
    pub async fn new(binary: &Path, vars: &[(&str, &str)]) -> Claudes {
        let mock = Mock::start().await;
        let world = World::new(vars);
        let home = claude::home(&[&world.site.work()]);
        let bin = world.site.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(binary, bin.join("claude")).unwrap();
        Claudes { world, mock, home, bin }
    }

    /// The environment of the agent of this name; its requests go to `self.mock.agent(name)`.
    pub fn env(&self, name: &str) -> BTreeMap<String, String> {
        let mut env = claude::claude_env(self.home.path(), &self.mock.url_for(name));
        let path = format!("{}:{}", self.bin.display(), env["PATH"]);
        env.insert("PATH".into(), path);
        env
    }

    /// Opens an agent and does not wait for it.
    pub fn begin(&self, name: &str, args: &[&str], profile: Option<Value>) {
        self.begin_in(name, self.env(name), args, profile);
    }

    /// The same with an environment made by the test.
    pub fn begin_in(
        &self,
        name: &str,
        env: BTreeMap<String, String>,
        args: &[&str],
        profile: Option<Value>,
    ) {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        self.world.open("claude", name, Open { env, args, cwd: None, profile });
    }

    /// Opens an agent and waits until it is idle.
    pub fn open(&self, name: &str, args: &[&str]) -> View {
        self.begin(name, args, None);
        self.world.wait_phase(name, "idle");
        self.mock.agent(name)
    }

    /// The agent's own status file.
    pub fn session_file(&self, name: &str) -> Value {
        let file = format!(".claude/sessions/{}.json", self.world.pid(name));
        let path = self.home.path().join(file);
        self.world.wait("the session file", || {
            serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()
        })
    }

    /// Gives the agent a prompt from outside its terminal, as its peers do (claude 2.1.332; 2.1.197 has no
    /// such socket).
    pub fn peer_message(&self, name: &str, text: &str) -> PeerMessage {
        let path = self.session_file(name)["messagingSocketPath"].as_str().unwrap().to_owned();
        let message =
            serde_json::json!({"type": "user", "message": {"role": "user", "content": text}});
        PeerMessage { path, line: format!("{message}\n") }
    }
}

/// A message that can be sent at a chosen moment.
pub struct PeerMessage {
    path: String,
    line: String,
}

impl PeerMessage {
    pub fn send(&self) {
        let mut stream = UnixStream::connect(&self.path).expect("the agent's socket");
        stream.write_all(self.line.as_bytes()).unwrap();
    }
}
