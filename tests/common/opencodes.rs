//! Real OpenCodes in a world: one mock for all, a home of their own, one working directory.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::mock::{Mock, View};
use crate::common::opencode;
use crate::world::{Open, World};

/// A prompt that can be sent to an agent's server at a chosen moment.
pub struct OutsidePrompt {
    port: u16,
    request: String,
}

impl OutsidePrompt {
    /// Sends it, and does not wait until it is answered.
    pub fn send(&self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the agent's server");
        stream.write_all(self.request.as_bytes()).unwrap();
        let mut head = [0; 64];
        let n = stream.read(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..n]).into_owned();
        assert!(head.contains(" 200 ") || head.contains(" 204 "), "{head}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let all =
            chunk.iter().fold(0u32, |all, b| (all << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(all >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// A start takes about ten seconds; with several at a time on a loaded machine, a minute.
pub const START: Duration = Duration::from_secs(180);

/// A world for real agents.
pub struct Opencodes {
    pub world: World,
    pub mock: Mock,
    pub home: tempfile::TempDir,
}

impl Opencodes {
    /// Starts a host, with these variables beside the usual ones.
    pub async fn new(vars: &[(&str, &str)]) -> Opencodes {
        let mock = Mock::start().await;
        let world = World::new(vars);
        // It needs a whole core for seconds at its start and in its first turn.
        world.patience.set(START);
        let home = opencode::home();
        let bin = world.site.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(opencode::binary(), bin.join("opencode")).unwrap();
        Opencodes { world, mock, home }
    }

    /// The environment of the agent of this name; its requests go to `self.mock.agent(name)`.
    pub fn env(&self, name: &str) -> BTreeMap<String, String> {
        let mut env = opencode::env(self.home.path(), &self.mock.url_for(name));
        let bin = self.world.site.path().join("bin");
        let path = format!("{}:{}", bin.display(), env["PATH"]);
        env.insert("PATH".into(), path);
        env
    }

    /// Opens an agent and does not wait for it.
    pub fn begin(&self, name: &str, args: &[&str], profile: Option<Value>) {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let env = self.env(name);
        self.world.open("opencode", name, Open { env, args, cwd: None, profile });
    }

    /// Opens an agent and waits until it is idle.
    pub fn open(&self, name: &str) -> View {
        self.open_with(name, &[], None)
    }

    /// The same with arguments and keys of the profile.
    pub fn open_with(&self, name: &str, args: &[&str], profile: Option<Value>) -> View {
        self.begin(name, args, profile);
        self.ready(name);
        self.mock.agent(name)
    }

    /// A prompt from outside the agent's terminal, into the session that it works in.
    pub fn outside_prompt(&self, name: &str, text: &str) -> OutsidePrompt {
        let pid = self.world.pid(name);
        let read = |file: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
            let all = String::from_utf8(bytes).unwrap();
            all.split('\0').map(str::to_owned).collect::<Vec<_>>()
        };
        let args = read("cmdline");
        let at = args.iter().position(|a| a == "--port").expect("a port of mado's");
        let port = args[at + 1].parse().unwrap();
        let secret = "OPENCODE_SERVER_PASSWORD=";
        let env = read("environ");
        let secret = env.iter().find_map(|e| e.strip_prefix(secret)).expect("a password");
        assert!(!args.iter().any(|a| a.contains(secret)), "the password is not to be seen by all");
        let session = self
            .world
            .wait("its session", || self.world.agent(name)["session"].as_str().map(str::to_owned));
        let body = json!({"parts": [{"type": "text", "text": text}]}).to_string();
        let request = format!(
            "POST /session/{session}/prompt_async HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Authorization: Basic {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            base64(format!("opencode:{secret}").as_bytes()),
            body.len(),
        );
        OutsidePrompt { port, request }
    }

    /// Waits until an agent that has been begun is idle.
    pub fn ready(&self, name: &str) {
        let began = Instant::now();
        let phase = || self.world.agent(name)["phase"].clone();
        while phase() != "idle" {
            let screen = || self.world.screen(name);
            assert!(
                began.elapsed() < START,
                "{name} is {} after {START:?}:\n{}",
                phase(),
                screen()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
