//! Editors on the host's socket, played by hand: what one does, or does not do, concerns nobody else.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{LONG, Site};
use mado::proto::PROTOCOL;
use rmpv::Value;
use serde_json::json;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

struct Editor {
    stream: UnixStream,
    bytes: Vec<u8>,
    seq: u64,
    /// Messages that have come and were not looked at.
    taken: VecDeque<serde_json::Value>,
}

impl Editor {
    fn connect(site: &Site, project: &str) -> Editor {
        let stream = UnixStream::connect(site.socket("editor.sock")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut editor = Editor { stream, bytes: Vec::new(), seq: 0, taken: VecDeque::new() };
        editor.ask(
            "hello",
            json!({"protocol": PROTOCOL, "client": "editor", "version": "1", "project": project}),
        );
        editor
    }

    /// As `vim.rpcnotify(chan, 'mado', seq, request)` sends it.
    fn ask(&mut self, method: &str, params: serde_json::Value) {
        self.seq += 1;
        let request = mado::host::wire::msgpack(&json!({"method": method, "params": params}));
        let args = Value::Array(vec![self.seq.into(), request]);
        let message = Value::Array(vec![2.into(), "mado".into(), args]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &message).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next call of the host: its number and the messages in it.
    fn call(&mut self) -> (Value, Vec<serde_json::Value>) {
        loop {
            let mut cursor = std::io::Cursor::new(&self.bytes);
            if let Ok(call) = rmpv::decode::read_value(&mut cursor) {
                let used = cursor.position() as usize;
                self.bytes.drain(..used);
                assert_eq!(call[2].as_str(), Some("nvim_exec_lua"));
                let batch = call[3][1][0].as_array().unwrap().clone();
                let batch = batch.into_iter().map(mado::host::wire::json).collect();
                return (call[1].clone(), batch);
            }
            let mut buf = [0; 65536];
            let n = self.stream.read(&mut buf).expect("the host calls");
            assert!(n > 0, "the host closed the connection");
            self.bytes.extend_from_slice(&buf[..n]);
        }
    }

    fn answer(&mut self, id: Value) {
        let answer = Value::Array(vec![1.into(), id, Value::Nil, Value::Nil]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &answer).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// Takes messages until one fits.
    fn until(&mut self, fits: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        loop {
            while let Some(message) = self.taken.pop_front() {
                if fits(&message) {
                    return message;
                }
            }
            let (id, batch) = self.call();
            self.answer(id);
            self.taken.extend(batch);
        }
    }

    fn reply(&mut self) -> serde_json::Value {
        let seq = self.seq;
        self.until(|m| m["type"] == "reply" && m["seq"] == seq)
    }
}

#[test]
fn an_editor_opens_agents_hears_of_its_project_alone_and_leaves_them_behind() {
    let site = Site::new();
    let _host = site.serve();
    let work = site.work().display().to_string();
    let mut editor = Editor::connect(&site, &work);
    let hello = editor.reply();
    assert_eq!(hello["ok"]["value"]["protocol"], PROTOCOL);
    let socket = site.socket("attach.sock");
    assert_eq!(hello["ok"]["value"]["attach_socket"], socket.to_str().unwrap());
    let mut elsewhere = Editor::connect(&site, "/elsewhere");
    elsewhere.reply();
    editor.ask(
        "open",
        json!({"profile": "shell", "name": "a", "project": work, "cwd": work,
               "env": {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}, "args": [], "profiles": []}),
    );
    assert_eq!(editor.reply()["ok"]["value"]["name"], "a");
    editor.until(|m| m["event"] == "agent" && m["data"]["phase"] == "idle");
    drop(editor);
    assert_eq!(site.json(&["ls", "--json"])[0]["name"], "a");
    elsewhere.ask("agents", json!({"all": true}));
    let all = elsewhere.until(|m| {
        assert_ne!(m["event"], "agent", "it heard of another project");
        m["type"] == "reply"
    });
    assert_eq!(all["ok"]["value"][0]["name"], "a");
    // The next one is told what runs.
    let mut next = Editor::connect(&site, &work);
    assert_eq!(next.reply()["ok"]["value"]["agents"][0]["name"], "a");
}

#[test]
fn an_editor_that_does_not_answer_stalls_nobody_and_catches_up() {
    let mut site = Site::new();
    site.set("MADO_TIMING", "editor_ms=100");
    let _host = site.serve();
    let work = site.work().display().to_string();
    let mut stalled = Editor::connect(&site, &work);
    let (first, _) = stalled.call();
    // It sits at a prompt now. Everything else goes on.
    site.open_shell("a");
    let start = Instant::now();
    for i in 0..40 {
        site.ok(&["rename", "a", "b"]);
        site.ok(&["rename", "b", "a"]);
        if i == 0 {
            assert!(start.elapsed() < Duration::from_secs(5), "a stalled editor slows commands");
        }
    }
    site.ok(&["rename", "a", "last"]);
    stalled.answer(first);
    // Of one subject the newest was kept; what was done last may come just behind it.
    let mut heard = 0;
    while stalled.until(|m| m["event"] == "agent")["data"]["name"] != "last" {
        heard += 1;
        assert!(heard < 4, "events were not joined");
    }
    stalled.ask("agents", json!({"project": work}));
    assert_eq!(stalled.reply()["ok"]["value"][0]["name"], "last");
}

#[test]
fn a_mistake_is_answered_with_the_key_that_is_wrong() {
    let site = Site::new();
    let _host = site.serve();
    let mut editor = Editor::connect(&site, "/p");
    editor.reply();
    editor.ask("connect", json!({"source": "a", "target": "b", "options": {"trigger": "x"}}));
    let e = editor.reply()["error"].clone();
    assert_eq!(e["code"], "bad_request");
    let message = e["message"].as_str().unwrap();
    assert!(message.starts_with("connect.options.trigger: unknown variant `x`"), "{message}");
    editor.ask(
        "open",
        json!({"profile": "shell", "cwd": "/", "project": "/p",
               "profiles": {"shell": {"submit": {"wait": 1}}}}),
    );
    let e = editor.reply()["error"].clone();
    assert_eq!(e["code"], "bad_profile");
    let message = e["message"].as_str().unwrap();
    assert!(message.contains("profiles.shell") && message.contains("submit.wait"), "{message}");
}
