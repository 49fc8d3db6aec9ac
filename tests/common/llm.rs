//! A stand-in for a model's service, byte by byte: it can break off, hang, and see that a caller is gone.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What is done with a request.
#[derive(Debug, Clone)]
pub enum Say {
    /// Status, headers, body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// A stream of events, to its end.
    Stream(String),
    /// The beginning of a stream whose rest never comes: the connection breaks off.
    Cut(String),
    /// The beginning of a stream, and then nothing.
    Hang(String),
    /// Nothing at all.
    Silence,
    /// The connection is closed without a word.
    Close,
    /// A sign of life every so often, for ever.
    Drip(Duration),
}

impl Say {
    pub fn status(status: u16, body: &str) -> Say {
        Say::Status(status, vec![], body.to_owned())
    }

    pub fn json(body: Value) -> Say {
        Say::Status(200, vec![("content-type", "application/json".into())], body.to_string())
    }
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    /// Headers in lower case, as they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub at: Instant,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

#[derive(Default)]
struct State {
    script: VecDeque<Say>,
    otherwise: Option<Say>,
    seen: Vec<Seen>,
    gone: usize,
}

/// The service. Its threads end with the test.
#[derive(Clone)]
pub struct Service {
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl Service {
    pub fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Service { url, state: Arc::default() };
        let state = service.state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || serve(stream, &state));
            }
        });
        service
    }

    /// What is done with the next requests, in order.
    pub fn script(&self, script: impl IntoIterator<Item = Say>) {
        self.state.lock().unwrap().script.extend(script);
    }

    /// What is done when the script is at its end.
    pub fn otherwise(&self, say: Say) {
        self.state.lock().unwrap().otherwise = Some(say);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Callers that hung up on an answer that was not at its end.
    pub fn gone(&self) -> usize {
        self.state.lock().unwrap().gone
    }

    pub fn wait_seen(&self, n: usize) -> Seen {
        wait(&format!("request {n}"), || self.seen().into_iter().nth(n - 1))
    }

    pub fn wait_gone(&self, n: usize) {
        wait(&format!("{n} callers to hang up"), || (self.gone() >= n).then_some(()));
    }
}

pub fn wait<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < until, "waited for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let Some(seen) = read(&mut stream) else { return };
    let say = {
        let mut state = state.lock().unwrap();
        state.seen.push(seen);
        let next = state.script.pop_front().or_else(|| state.otherwise.clone());
        next.unwrap_or_else(|| Say::status(500, "the script is at its end"))
    };
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    match say {
        Say::Status(status, headers, body) => {
            let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            let _ = stream.write_all(format!("{text}\r\n{body}").as_bytes());
        }
        Say::Stream(body) => {
            // In two pieces, cut anywhere.
            let at = (body.len() / 2..).find(|i| body.is_char_boundary(*i)).unwrap();
            let text = format!("{head}{}{}0\r\n\r\n", chunk(&body[..at]), chunk(&body[at..]));
            let _ = stream.write_all(text.as_bytes());
        }
        Say::Cut(body) => {
            let _ = stream.write_all(format!("{head}{}", chunk(&body)).as_bytes());
        }
        Say::Hang(body) => {
            let _ = stream.write_all(format!("{head}{}", chunk(&body)).as_bytes());
            until_gone(&mut stream, state, None);
        }
        Say::Silence => until_gone(&mut stream, state, None),
        Say::Close => {}
        Say::Drip(gap) => {
            let _ = stream.write_all(head.as_bytes());
            until_gone(&mut stream, state, Some((gap, chunk(": still here\n\n"))));
        }
    }
}

fn until_gone(stream: &mut TcpStream, state: &Mutex<State>, drip: Option<(Duration, String)>) {
    let gap = drip.as_ref().map_or(Duration::from_millis(50), |(gap, _)| *gap);
    stream.set_read_timeout(Some(gap)).unwrap();
    loop {
        let mut buffer = [0];
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Err(e)
                if !matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                break;
            }
            _ => {}
        }
        if let Some((_, text)) = &drip
            && stream.write_all(text.as_bytes()).is_err()
        {
            break;
        }
    }
    state.lock().unwrap().gone += 1;
}

fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let pair = |l: &str| l.split_once(": ").map(|(n, v)| (n.to_lowercase(), v.to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
    let length = headers.iter().find(|(n, _)| n == "content-length")?.1.parse::<usize>().ok()?;
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => body.extend_from_slice(&buffer[..n]),
            _ => return None,
        }
    }
    Some(Seen { path, headers, body, at: Instant::now() })
}

/// A stream of the Messages API.
pub fn anthropic(text: &str, stop: &str) -> String {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 5, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"role": "assistant", "usage": usage}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    for piece in text.split_inclusive(' ') {
        events.push(json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": piece}}));
    }
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop},
        "usage": {"output_tokens": 12}}));
    events.push(json!({"type": "message_stop"}));
    let event = |e: &Value| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

/// A stream of chat completions.
pub fn openai(text: &str, stop: &str) -> String {
    let choice = |delta: Value, stop: Value| {
        json!({"object": "chat.completion.chunk", "choices": [
            {"index": 0, "delta": delta, "finish_reason": stop}
        ]})
    };
    let mut events = vec![choice(json!({"role": "assistant", "content": ""}), Value::Null)];
    for piece in text.split_inclusive(' ') {
        events.push(choice(json!({"content": piece}), Value::Null));
    }
    events.push(choice(json!({}), stop.into()));
    events.push(json!({"object": "chat.completion.chunk", "choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 90}}}));
    let lines: String = events.iter().map(|e| format!("data: {e}\r\n\r\n")).collect();
    lines + "data: [DONE]\n\n"
}
