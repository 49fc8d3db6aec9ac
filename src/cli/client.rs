//! A command's connection to the host: JSON lines over the shell's socket.

use mado::host::lock::HostRecord;
use mado::host::paths::Paths;
use mado::proto::{
    ClientKind, ErrorInfo, Event, HelloParams, HelloReply, PROTOCOL, Reply, Request,
};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long an answer may take. Ending agents takes seconds, nothing takes more.
const ANSWER: Duration = Duration::from_secs(30);

/// A connection that has said hello.
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    seq: u64,
    events: VecDeque<Event>,
    /// What the host said of itself.
    pub hello: HelloReply,
}

/// The error of every command that needs a host and must not start one.
pub fn no_host() -> ErrorInfo {
    ErrorInfo::new("no_host", "no host is running", "`mado open` starts one")
}

/// The folders of the running host, if one seems to run.
pub fn running(paths: &Paths) -> Option<(HostRecord, Paths)> {
    let record = HostRecord::read(paths)?;
    let paths = record.apply(paths);
    Some((record, paths))
}

impl Client {
    /// Connects to the running host and says hello from `project`.
    pub fn connect(paths: &Paths, project: &str) -> Result<Client, ErrorInfo> {
        let (_, at) = running(paths).ok_or_else(no_host)?;
        at.check_runtime()?;
        let stream = UnixStream::connect(at.shell_socket()).map_err(|_| no_host())?;
        let reader = stream.try_clone().map_err(|e| lost(&e))?;
        let mut client = Client {
            reader: BufReader::new(reader),
            writer: stream,
            seq: 0,
            events: VecDeque::new(),
            hello: HelloReply::default(),
        };
        let hello = Request::Hello(HelloParams {
            protocol: PROTOCOL,
            client: ClientKind::Shell,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            project: project.to_owned(),
            colors: None,
        });
        match client.ask(&hello)? {
            Reply::Hello(hello) => client.hello = hello,
            other => return Err(unexpected(&other)),
        }
        Ok(client)
    }

    /// Asks and waits for the answer.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, ErrorInfo> {
        self.ask_raw(json!(request))
    }

    /// The same for a request that the host is to check.
    pub fn ask_raw(&mut self, request: Value) -> Result<Reply, ErrorInfo> {
        self.seq += 1;
        let mut line = json!({"seq": self.seq, "request": request}).to_string();
        line.push('\n');
        self.writer.write_all(line.as_bytes()).map_err(|e| lost(&e))?;
        let until = Instant::now() + ANSWER;
        loop {
            match self.line(Some(until))? {
                Line::Event(event) => self.events.push_back(event),
                Line::Reply(seq, result) if seq == self.seq => return result,
                Line::Reply(..) => {}
                Line::Timeout => {
                    let message = format!("the host did not answer within {} s", ANSWER.as_secs());
                    return Err(ErrorInfo::new("timeout", message, "see `mado status`"));
                }
            }
        }
    }

    /// The next event. `None`: it did not come in time.
    pub fn event(&mut self, until: Option<Instant>) -> Result<Option<Event>, ErrorInfo> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        loop {
            match self.line(until)? {
                Line::Event(event) => return Ok(Some(event)),
                Line::Reply(..) => {}
                Line::Timeout => return Ok(None),
            }
        }
    }

    fn line(&mut self, until: Option<Instant>) -> Result<Line, ErrorInfo> {
        let mut line = Vec::new();
        loop {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                return Ok(Line::Timeout);
            }
            self.reader.get_ref().set_read_timeout(left).map_err(|e| lost(&e))?;
            // What was read before a timeout stays in `line`.
            match self.reader.read_until(b'\n', &mut line) {
                Ok(_) if line.last() == Some(&b'\n') => return parse(&line),
                Ok(_) => return Err(lost(&ErrorKind::UnexpectedEof.into())),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(&e)),
            }
        }
    }
}

enum Line {
    Reply(u64, Result<Reply, ErrorInfo>),
    Event(Event),
    Timeout,
}

fn parse(line: &[u8]) -> Result<Line, ErrorInfo> {
    let bad = |e: serde_json::Error| {
        let message = format!("the host sent what this mado does not understand: {e}");
        ErrorInfo::new("protocol", message, "host and command may be of different versions")
    };
    let mut value: Value = serde_json::from_slice(line).map_err(bad)?;
    if value.get("event").is_some() {
        return serde_json::from_value(value).map(Line::Event).map_err(bad);
    }
    let seq = value.get("seq").and_then(Value::as_u64).unwrap_or(0);
    if let Some(ok) = value.get_mut("ok") {
        return Ok(Line::Reply(seq, Ok(serde_json::from_value(ok.take()).map_err(bad)?)));
    }
    let error = value.get_mut("error").map(Value::take).unwrap_or_default();
    Ok(Line::Reply(seq, Err(serde_json::from_value(error).map_err(bad)?)))
}

fn lost(e: &std::io::Error) -> ErrorInfo {
    ErrorInfo::new(
        "host_gone",
        format!("the connection to the host ended: {e}"),
        "`mado ls` shows whether it still runs; its log is host.log in the state folder",
    )
}

/// An answer of a kind that the request does not have.
pub fn unexpected(reply: &Reply) -> ErrorInfo {
    let value = json!(reply);
    let message = format!("the host answered with {}", value["kind"]);
    ErrorInfo::new("protocol", message, "host and command may be of different versions")
}
