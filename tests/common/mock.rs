//! A scripted model server on loopback: the Anthropic Messages, the OpenAI Responses and the Chat Completions API as
//! far as the agents use them.
//!
//! Each test starts its own. It runs on a thread and runtime of its own, so that a test may block.
//! By default it answers `ECHO <json of the last user text> ENDECHO`, so that a delivery can be
//! verified byte for byte; scripts, rules, and directives in the prompt itself change that.
//!
//! A reply is chosen in this order: the agent's script, the common script, rules in the order they
//! were made, the directive in the prompt, the echo. Side requests (titles, summaries: those that
//! offer no tools) get a fixed answer and consume nothing.
//!
//! Directives, the last one in the prompt counts: `MOCK:say TEXT`, `MOCK:bash COMMAND`,
//! `MOCK:tool NAME JSON`, `MOCK:think`, `MOCK:slow N` (words, 0.5 s apart), `MOCK:wait SECONDS` (before the
//! first byte), `MOCK:err STATUS [TIMES]`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::{epoch_ms, wait_value};

#[path = "mock_http.rs"]
mod http;

/// What the model says to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Text, sent at once.
    Text(String),
    /// Pieces of text, each after its delay.
    Chunks(Vec<(Duration, String)>),
    /// A thinking block.
    Think(String),
    /// A tool call. The request that brings its result is answered by what comes next in the
    /// script, else by `FINAL after tool. Result was: …`.
    Tool {
        /// The tool's name as the agent offers it, for example `Bash` (for Codex its shell tool), or
        /// `namespace.name`.
        name: String,
        /// The tool's arguments.
        input: Value,
    },
    /// Holds until [`View::open`] is called with this name. Once open, a gate stays open.
    Gate(String),
    /// Waits.
    Wait(Duration),
    /// Fails with this status, `times` times; then the next in line answers.
    Error {
        /// The HTTP status, for example 529.
        status: u16,
        /// How many requests fail.
        times: u32,
    },
    /// One after the other in one message. [`Reply::Error`] has no place in it.
    Seq(Vec<Reply>),
}

impl Reply {
    /// A text.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Text(text.into())
    }

    /// A call of the agent's shell tool.
    pub fn bash(command: &str) -> Reply {
        Reply::Tool {
            name: "Bash".into(),
            input: json!({ "command": command, "description": "run a mock command" }),
        }
    }

    /// Holds at the gate, then sends the text.
    pub fn gated(gate: &str, text: impl Into<String>) -> Reply {
        Reply::Seq(vec![Reply::Gate(gate.into()), Reply::Text(text.into())])
    }

    /// Without lists in lists.
    fn flatten(self, into: &mut Vec<Reply>) {
        match self {
            Reply::Seq(replies) => replies.into_iter().for_each(|r| r.flatten(into)),
            Reply::Error { .. } => panic!("Reply::Error cannot be a part of Reply::Seq"),
            other => into.push(other),
        }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Reply {
        Reply::text(text)
    }
}

/// Which prompts a rule answers.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Every prompt.
    Any,
    /// Prompts that contain this.
    Contains(String),
    /// Prompts that are exactly this.
    Equals(String),
    /// Prompts in which this matches.
    Matches(Regex),
    /// Requests that bring a tool's result.
    ToolResult,
}

impl From<&str> for Matcher {
    fn from(part: &str) -> Matcher {
        Matcher::Contains(part.into())
    }
}

impl Matcher {
    fn matches(&self, kind: Kind, text: &str) -> bool {
        match self {
            Matcher::ToolResult => kind == Kind::ToolResult,
            _ if kind != Kind::Prompt => false,
            Matcher::Any => true,
            Matcher::Contains(part) => text.contains(part),
            Matcher::Equals(whole) => text == whole,
            Matcher::Matches(regex) => regex.is_match(text),
        }
    }
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A prompt of the conversation.
    Prompt,
    /// The conversation goes on after a tool ran.
    ToolResult,
    /// A request beside the conversation, such as one for a title: it offers no tools.
    Side,
    /// Counts tokens.
    Count,
    /// Anything else; answered with 404.
    Other,
}

/// How far the answer got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Not finished.
    Pending,
    /// Sent to its end.
    Done,
    /// Refused with this status.
    Failed(u16),
    /// The agent hung up before the end.
    Dropped,
}

/// One request that arrived. Times are milliseconds since the epoch, with fractions.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path prefix of [`View::url_for`], empty without one.
    pub agent: String,
    /// Method and path.
    pub path: String,
    /// What it is about.
    pub kind: Kind,
    /// The last text of the user; what the agent adds as reminders is not the user's.
    pub text: String,
    /// What a person said while the turn ran, if the agent passed it on with this request.
    pub steering: Option<String>,
    /// A repetition of a request that failed.
    pub retry: bool,
    /// The request's headers.
    pub headers: BTreeMap<String, String>,
    /// The request as it came.
    pub body: Arc<Value>,
    /// When it was read.
    pub received: f64,
    /// When the first byte of the answer was handed to the socket.
    pub first_byte: Option<f64>,
    /// When the last byte was.
    pub last_byte: Option<f64>,
    /// How far the answer got.
    pub outcome: Outcome,
}

/// A running server; dropping it ends it. Its methods are those of [`View`], over all agents.
pub struct Mock {
    view: View,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Mock {
    /// Starts a server on a free port of 127.0.0.1.
    pub async fn start() -> Mock {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let (started, address) = oneshot::channel();
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || http::serve(shared, started, stopped)
        });
        let address = address.await.expect("the mock server starts");
        let view = View { shared, address, agent: None };
        Mock { view, stop: Some(stop), thread: Some(thread) }
    }
}

impl Deref for Mock {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The server as seen for all agents, or for the one of [`View::agent`].
#[derive(Clone)]
pub struct View {
    shared: Arc<Shared>,
    address: SocketAddr,
    agent: Option<String>,
}

impl View {
    /// The base URL to give to an agent.
    pub fn url(&self) -> String {
        match &self.agent {
            Some(agent) => format!("http://{}/{agent}", self.address),
            None => format!("http://{}", self.address),
        }
    }

    /// The base URL for one of several agents; its name becomes a path prefix.
    pub fn url_for(&self, agent: &str) -> String {
        self.agent(agent).url()
    }

    /// The same server, only as far as this agent is concerned.
    pub fn agent(&self, agent: &str) -> View {
        View { agent: Some(agent.into()), ..self.clone() }
    }

    /// Answers every matching prompt with this reply.
    pub fn on(&self, matcher: impl Into<Matcher>, reply: impl Into<Reply>) {
        let rule = Rule { agent: self.agent.clone(), matcher: matcher.into(), reply: reply.into() };
        self.shared.lock().rules.push(rule);
    }

    /// Queues replies for the next requests of the conversation, prompts and tool results alike.
    pub fn script(&self, replies: Vec<Reply>) {
        self.shared.lock().scripts.entry(self.agent.clone()).or_default().extend(replies);
    }

    /// How many replies of [`View::script`] are left.
    pub fn script_left(&self) -> usize {
        self.shared.lock().scripts.get(&self.agent).map_or(0, VecDeque::len)
    }

    /// Opens a gate for good.
    pub fn open(&self, gate: &str) {
        self.shared.lock().open.insert(gate.into());
        self.shared.opened.notify_waiters();
    }

    /// Waits until a request is held at this gate.
    pub async fn wait_gate(&self, gate: &str, timeout: Duration) {
        let held = || self.shared.lock().held.contains(gate).then_some(());
        let what = format!("a request at the gate {gate:?}");
        wait_value(&what, timeout, held, || self.describe()).await;
    }

    /// Everything that arrived, in order.
    pub fn requests(&self) -> Vec<Request> {
        let mut requests = self.shared.lock().requests.clone();
        requests.retain(|r| self.agent.as_ref().is_none_or(|a| *a == r.agent));
        requests
    }

    /// The requests of the conversation that brought a prompt, each once.
    pub fn prompt_requests(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|r| r.kind == Kind::Prompt && !r.retry);
        requests
    }

    /// The prompts exactly as they arrived, in order.
    pub fn prompts(&self) -> Vec<String> {
        self.prompt_requests().into_iter().map(|r| r.text).collect()
    }

    /// What was said into running turns, in order: a text that an agent took while it was busy with a
    /// tool is no prompt of its own.
    pub fn steering(&self) -> Vec<String> {
        self.requests().into_iter().filter(|r| !r.retry).filter_map(|r| r.steering).collect()
    }

    /// Waits until `n` prompts arrived and returns the `n`-th (from 1).
    pub async fn wait_prompt(&self, n: usize, timeout: Duration) -> String {
        let what = format!("prompt {n}");
        let check = || self.prompts().into_iter().nth(n - 1);
        wait_value(&what, timeout, check, || self.describe()).await
    }

    /// Waits until the `n`-th prompt (from 1) was answered to its end.
    pub async fn wait_answered(&self, n: usize, timeout: Duration) -> Request {
        let what = format!("the answer to prompt {n}");
        let done = |r: &Request| r.outcome == Outcome::Done;
        let check = || self.prompt_requests().into_iter().nth(n - 1).filter(done);
        wait_value(&what, timeout, check, || self.describe()).await
    }

    /// The requests in one line each, as a failing test should show them.
    pub fn describe(&self) -> String {
        let line = |r: Request| {
            let text: String = r.text.chars().take(120).collect();
            let retry = if r.retry { " (retry)" } else { "" };
            format!("{:?}{retry} {} {} {text:?} {:?}\n", r.kind, r.agent, r.path, r.outcome)
        };
        self.requests().into_iter().map(line).collect()
    }
}

/// What the server and the test share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Default)]
struct State {
    scripts: BTreeMap<Option<String>, VecDeque<Reply>>,
    rules: Vec<Rule>,
    /// Failures so far of `MOCK:err`, by prompt.
    failures: BTreeMap<String, u32>,
    open: BTreeSet<String>,
    held: BTreeSet<String>,
    requests: Vec<Request>,
}

struct Rule {
    agent: Option<String>,
    matcher: Matcher,
    reply: Reply,
}

/// What one request gets.
enum Plan {
    Steps(Vec<Reply>),
    Fail(u16),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits at a gate until it is open.
    async fn pass(&self, gate: &str) {
        loop {
            let opened = self.opened.notified();
            {
                let mut state = self.lock();
                if state.open.contains(gate) {
                    state.held.remove(gate);
                    return;
                }
                state.held.insert(gate.into());
            }
            opened.await;
        }
    }
}

impl State {
    fn choose(&mut self, agent: &str, kind: Kind, text: &str, result: &str, body: &Value) -> Plan {
        if kind == Kind::Side {
            let wants_title = body.to_string().to_lowercase().contains("title");
            let answer = if wants_title { r#"{"title": "Mock title"}"# } else { "ok" };
            return Plan::Steps(vec![Reply::text(answer)]);
        }
        let reply =
            self.scripted(agent).or_else(|| self.ruled(agent, kind, text)).unwrap_or_else(|| {
                match kind {
                    Kind::ToolResult => {
                        Reply::text(format!("FINAL after tool. Result was: {}", head(result, 300)))
                    }
                    _ => self.directed(text).unwrap_or_else(|| echo(text)),
                }
            });
        if let Reply::Error { status, .. } = reply {
            return Plan::Fail(status);
        }
        let mut steps = Vec::new();
        reply.flatten(&mut steps);
        if steps.iter().all(|s| matches!(s, Reply::Gate(_) | Reply::Wait(_))) {
            steps.push(echo(text));
        }
        Plan::Steps(steps)
    }

    fn scripted(&mut self, agent: &str) -> Option<Reply> {
        for key in [Some(agent.to_owned()), None] {
            let Some(queue) = self.scripts.get_mut(&key) else { continue };
            match queue.front_mut() {
                Some(Reply::Error { status, times }) if *times > 1 => {
                    *times -= 1;
                    return Some(Reply::Error { status: *status, times: *times });
                }
                Some(_) => return queue.pop_front(),
                None => {}
            }
        }
        None
    }

    fn ruled(&mut self, agent: &str, kind: Kind, text: &str) -> Option<Reply> {
        for rule in &mut self.rules {
            if rule.agent.as_ref().is_some_and(|a| a != agent) || !rule.matcher.matches(kind, text)
            {
                continue;
            }
            match &mut rule.reply {
                Reply::Error { times: 0, .. } => {}
                Reply::Error { times, .. } => {
                    *times -= 1;
                    return Some(rule.reply.clone());
                }
                reply => return Some(reply.clone()),
            }
        }
        None
    }

    fn directed(&mut self, text: &str) -> Option<Reply> {
        let (_, line) = text.rsplit_once("MOCK:")?;
        let line = line.lines().next().unwrap_or_default();
        let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
        let argument = argument.trim();
        let seconds = || Duration::from_secs_f64(argument.parse().unwrap_or(10.0));
        Some(match name.trim() {
            "say" => Reply::text(argument),
            "bash" => Reply::Seq(vec![Reply::text("I will run a command."), Reply::bash(argument)]),
            "tool" => {
                let (name, input) = argument.split_once(' ').unwrap_or((argument, "{}"));
                let input = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
                Reply::Tool { name: name.into(), input }
            }
            "think" => Reply::Seq(vec![
                Reply::Think("Let me think about it step by step.".into()),
                Reply::text("THOUGHT final answer."),
            ]),
            "slow" => {
                let half = Duration::from_millis(500);
                let words: u32 = argument.parse().unwrap_or(20);
                let mut chunks: Vec<_> = (0..words).map(|i| (half, format!("word{i} "))).collect();
                chunks.push((half, "ENDSLOW".into()));
                Reply::Chunks(chunks)
            }
            "wait" => Reply::Seq(vec![Reply::Wait(seconds()), Reply::text("WAITED. ENDWAIT")]),
            "err" => {
                let mut numbers = argument.split_whitespace();
                let status = numbers.next().and_then(|n| n.parse().ok()).unwrap_or(529);
                let times = numbers.next().and_then(|n| n.parse().ok()).unwrap_or(u32::MAX);
                let failures = self.failures.entry(text.into()).or_default();
                if *failures >= times {
                    return Some(Reply::text(format!("recovered after {status}")));
                }
                *failures += 1;
                Reply::Error { status, times }
            }
            unknown => Reply::text(format!("unknown directive {unknown}")),
        })
    }
}

/// The default answer.
pub fn echo_of(text: &str) -> String {
    format!("ECHO {} ENDECHO", Value::from(text))
}

fn echo(text: &str) -> Reply {
    Reply::Text(echo_of(text))
}

fn head(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
