//! The shell's socket: one JSON object a line, `{"seq", "request"}` in, `{"seq", "ok" | "error"}` and
//! `{"event", "data"}` out.

use super::server::{Event, Incoming};
use super::wire;
use crate::proto::{ClientId, ErrorInfo, RequestResult};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// Longest line that is read, in bytes. A prompt of this size is beyond what any agent takes.
const MAX_LINE: u64 = 16 << 20;

/// Lines that may wait for a command that does not read; then it is cut off.
pub const QUEUE: usize = 1024;

/// Serves one command until either side ends the connection.
pub(super) async fn run(
    stream: UnixStream,
    client: ClientId,
    lines: mpsc::Receiver<String>,
    events: mpsc::Sender<Event>,
) {
    let (reader, writer) = stream.into_split();
    // The writer ends when the loop drops its sender, after what was queued is out: a command
    // gets its last reply even when the host ends right after.
    let mut writing = tokio::spawn(write(writer, lines));
    tokio::select! {
        () = read(reader, client, &events) => {
            let _ = events.send(Event::Client(Incoming::Gone { client })).await;
            let _ = writing.await;
        }
        _ = &mut writing => {
            let _ = events.send(Event::Client(Incoming::Gone { client })).await;
        }
    }
}

async fn read(reader: OwnedReadHalf, client: ClientId, events: &mpsc::Sender<Event>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 && line.last() == Some(&b'\n') => {}
            _ => return,
        }
        let (seq, request) = parse(&line);
        let said = Incoming::Said { client, seq, request: Box::new(request) };
        if events.send(Event::Client(said)).await.is_err() {
            return;
        }
    }
}

fn parse(line: &[u8]) -> (u64, Result<crate::proto::Request, ErrorInfo>) {
    let bad = |why: String| ErrorInfo::new("bad_request", why, "send one JSON object a line");
    match serde_json::from_slice::<Value>(line) {
        Err(e) => (0, Err(bad(format!("not a line of JSON: {e}")))),
        Ok(mut value) => {
            let seq = value.get("seq").and_then(Value::as_u64);
            let request = value.get_mut("request").map(Value::take);
            match (seq, request) {
                (Some(seq), Some(request)) => (seq, wire::request(request)),
                (seq, _) => {
                    let why = "a line must hold seq (a number) and request".to_owned();
                    (seq.unwrap_or(0), Err(bad(why)))
                }
            }
        }
    }
}

async fn write(mut writer: OwnedWriteHalf, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A reply as a line.
#[must_use]
pub fn reply_line(seq: u64, result: &RequestResult) -> String {
    let mut line = match result {
        Ok(reply) => json!({"seq": seq, "ok": reply}).to_string(),
        Err(e) => json!({"seq": seq, "error": e}).to_string(),
    };
    line.push('\n');
    line
}

/// An event as a line.
#[must_use]
pub fn event_line(event: &crate::proto::Event) -> String {
    let mut line = json!(event).to_string();
    line.push('\n');
    line
}
