//! The mock server's side towards the agents: reading requests, and writing answers as the Messages API
//! does, in one piece or as server-sent events. The Responses API is in `mock_responses.rs`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{Kind, Outcome, Plan, Reply, Request, Shared, epoch_ms};

#[path = "mock_chat.rs"]
mod chat;
#[path = "mock_responses.rs"]
mod responses;

/// Serves until `stopped` resolves (or its sender is dropped), then hangs up on everyone.
pub(super) fn serve(
    shared: Arc<Shared>,
    started: oneshot::Sender<std::net::SocketAddr>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind loopback");
        let _ = started.send(listener.local_addr().unwrap());
        let app =
            Router::new().fallback(handle).layer(DefaultBodyLimit::disable()).with_state(shared);
        tokio::select! {
            _ = async { axum::serve(listener, app).await } => {}
            _ = stopped => {}
        }
    });
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let received = epoch_ms();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (agent, endpoint) = match uri.path().find("/v1/") {
        Some(at) => (uri.path()[..at].trim_start_matches('/').to_owned(), &uri.path()[at..]),
        None => (String::new(), uri.path()),
    };
    let api = match endpoint {
        "/v1/responses" => Api::Responses,
        "/v1/chat/completions" => Api::Chat,
        _ => Api::Messages,
    };
    let said = match api {
        Api::Messages => Said::read(&body),
        Api::Responses => responses::said(&body),
        Api::Chat => chat::read(&body),
    };
    let kind = match endpoint {
        "/v1/messages" | "/v1/responses" | "/v1/chat/completions" if method == Method::POST => {
            said.kind(&body)
        }
        "/v1/messages/count_tokens" => Kind::Count,
        _ => Kind::Other,
    };
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(k, v)| (k.to_string(), text(v))).collect();

    let (index, plan) = {
        let mut state = shared.lock();
        // The same conversation again, right after a failure, is a repetition by the agent.
        let retry =
            state.requests.iter().rev().find(|r| r.agent == agent && r.kind == kind).is_some_and(
                |r| {
                    matches!(r.outcome, Outcome::Failed(_))
                        && r.text == said.text
                        && message_count(&r.body) == message_count(&body)
                },
            );
        let plan = match kind {
            Kind::Count | Kind::Other => None,
            _ => Some(state.choose(&agent, kind, &said.text, &said.result, &body)),
        };
        state.requests.push(Request {
            agent,
            path: format!("{method} {uri}"),
            kind,
            text: said.text,
            steering: said.steering,
            retry,
            headers,
            body: Arc::new(body.clone()),
            received,
            first_byte: None,
            last_byte: None,
            outcome: Outcome::Pending,
        });
        (state.requests.len() - 1, plan)
    };

    let answer = Answer { shared, index, model: body["model"].clone(), api };
    match plan {
        None if kind == Kind::Count => answer.whole(StatusCode::OK, json!({ "input_tokens": 123 })),
        None => answer.whole(StatusCode::NOT_FOUND, error("not_found_error", "no such endpoint")),
        Some(Plan::Fail(status)) => answer.failure(status),
        Some(Plan::Steps(steps)) if body["stream"] == true => answer.stream(steps),
        Some(Plan::Steps(steps)) => answer.message(steps).await,
    }
}

/// Which form of conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions.
    Chat,
}

fn message_count(body: &Value) -> usize {
    let list = body["messages"].as_array().or_else(|| body["input"].as_array());
    list.map_or(0, Vec::len)
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

/// How Claude passes on what a person said while a tool ran: with the tool's result (2.1.332), or as a
/// message of the role `system` after it (2.1.197).
const STEERING: &str = "The user sent a new message while you were working:\n";
/// What follows the person's words there, in either version.
const STEERING_ENDS: [&str; 2] = ["\n\nThis is how Claude Code", "\n\nIMPORTANT: After completing"];

/// What the last message of the user says.
#[derive(Default)]
struct Said {
    text: String,
    steering: Option<String>,
    result: String,
    has_result: bool,
}

impl Said {
    fn read(body: &Value) -> Said {
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(at) = messages.iter().rposition(|m| m["role"] == "user") else {
            return Said::default();
        };
        // Reminders are blocks that the agent adds by itself.
        let own: Vec<String> = texts(&messages[at]["content"])
            .into_iter()
            .filter(|t| !t.trim_start().starts_with("<system-reminder>"))
            .collect();
        let after = messages[at + 1..].iter().flat_map(|m| texts(&m["content"]));
        let steering = own.iter().cloned().chain(after).find_map(|t| steering(&t));
        let text = own.into_iter().rfind(|t| !t.starts_with(STEERING)).unwrap_or_default();
        let blocks = messages[at]["content"].as_array().map_or(&[][..], Vec::as_slice);
        let results: Vec<_> = blocks.iter().filter(|b| b["type"] == "tool_result").collect();
        Said {
            text,
            steering,
            result: results
                .iter()
                .flat_map(|r| texts(&r["content"]))
                .collect::<Vec<_>>()
                .join("\n"),
            has_result: !results.is_empty(),
        }
    }

    fn kind(&self, body: &Value) -> Kind {
        if body["tools"].as_array().is_none_or(Vec::is_empty) {
            Kind::Side
        } else if self.has_result && self.text.is_empty() {
            // With words beside it, it is the result of a refused call that the next prompt brings.
            Kind::ToolResult
        } else {
            Kind::Prompt
        }
    }
}

/// The texts of a message or of a tool's result: a string, or a list of blocks.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            let text = |b: &Value| b["text"].as_str().map(str::to_owned);
            blocks.iter().filter(|b| b["type"] == "text").filter_map(text).collect()
        }
        _ => Vec::new(),
    }
}

fn steering(text: &str) -> Option<String> {
    let said = text.strip_prefix(STEERING)?;
    let end = STEERING_ENDS.iter().filter_map(|mark| said.rfind(mark)).max();
    Some(said[..end.unwrap_or(said.len())].to_owned())
}

/// One answer on its way; it keeps the request's record up to date.
struct Answer {
    shared: Arc<Shared>,
    index: usize,
    model: Value,
    api: Api,
}

impl Answer {
    fn note(&self, change: impl FnOnce(&mut Request)) {
        change(&mut self.shared.lock().requests[self.index]);
    }

    fn finish(&self, outcome: Outcome) {
        let now = epoch_ms();
        self.note(|r| {
            r.first_byte.get_or_insert(now);
            r.last_byte = Some(now);
            r.outcome = outcome;
        });
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_mock{:08}", self.index)
    }

    fn whole(&self, status: StatusCode, body: Value) -> Response {
        let outcome =
            if status.is_success() { Outcome::Done } else { Outcome::Failed(status.as_u16()) };
        self.finish(outcome);
        let headers =
            [(header::CONTENT_TYPE, "application/json".to_owned()), (REQUEST_ID, self.id("req"))];
        (status, headers, body.to_string()).into_response()
    }

    fn failure(&self, status: u16) -> Response {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        let code = StatusCode::from_u16(status).expect("a valid HTTP status");
        let said = format!("mock {status}");
        let body = match self.api {
            Api::Messages | Api::Chat => error(kind, &said),
            Api::Responses => responses::error(kind, &said),
        };
        let mut response = self.whole(code, body);
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        response
    }

    fn start(&self, content: Value, stop: Option<&str>) -> Value {
        json!({
            "id": self.id("msg"), "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage(),
        })
    }

    async fn message(self, steps: Vec<Reply>) -> Response {
        let stop = stop_reason(&steps);
        let mut content = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Reply::Text(text) => content.push(json!({ "type": "text", "text": text })),
                Reply::Chunks(chunks) => {
                    let mut text = String::new();
                    for (delay, chunk) in chunks {
                        tokio::time::sleep(delay).await;
                        text += &chunk;
                    }
                    content.push(json!({ "type": "text", "text": text }));
                }
                Reply::Tool { name, input } => {
                    let id = self.id(&format!("toolu_{i}"));
                    content.push(
                        json!({ "type": "tool_use", "id": id, "name": name, "input": input }),
                    );
                }
                Reply::Gate(gate) => self.shared.pass(&gate).await,
                Reply::Wait(time) => tokio::time::sleep(time).await,
                Reply::Think(_) | Reply::Error { .. } | Reply::Seq(_) => {}
            }
        }
        let message = self.start(json!(content), Some(stop));
        self.whole(StatusCode::OK, message)
    }

    fn stream(self, steps: Vec<Reply>) -> Response {
        let headers =
            [(header::CONTENT_TYPE, "text/event-stream".to_owned()), (REQUEST_ID, self.id("req"))];
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let hung_up = sender.clone();
            let send = async {
                match self.api {
                    Api::Messages => {
                        let events = Events { answer: &self, sender, index: 0, block: None };
                        events.send(steps).await
                    }
                    Api::Responses => responses::Events::send(&self, sender, steps).await,
                    Api::Chat => chat::Chunks { answer: &self, sender, calls: 0 }.send(steps).await,
                }
            };
            let finished = tokio::select! {
                sent = send => sent.is_ok(),
                () = hung_up.closed() => false,
            };
            // Some hang up on the last event, before the stream's own end.
            let pending = || self.shared.lock().requests[self.index].outcome == Outcome::Pending;
            if !finished && pending() {
                self.finish(Outcome::Dropped);
            }
        });
        (headers, Body::from_stream(Chunks(receiver))).into_response()
    }
}

const REQUEST_ID: header::HeaderName = header::HeaderName::from_static("request-id");

fn usage() -> Value {
    json!({
        "input_tokens": 100, "output_tokens": 20,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

fn stop_reason(steps: &[Reply]) -> &'static str {
    if steps.iter().any(|s| matches!(s, Reply::Tool { .. })) { "tool_use" } else { "end_turn" }
}

/// The stream that axum sends as the body.
struct Chunks(mpsc::Receiver<String>);

impl futures_core::Stream for Chunks {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}

/// The agent hung up.
struct HungUp;

/// The open content block's kind.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Block {
    Text,
    Other,
}

/// Writes one message as server-sent events.
struct Events<'a> {
    answer: &'a Answer,
    sender: mpsc::Sender<String>,
    index: usize,
    block: Option<Block>,
}

impl Events<'_> {
    async fn send(mut self, steps: Vec<Reply>) -> Result<(), HungUp> {
        let stop = stop_reason(&steps);
        let mut steps = steps.into_iter().peekable();
        // Holding before the first byte is how a slow model looks.
        while let Some(Reply::Gate(_) | Reply::Wait(_)) = steps.peek() {
            self.step(steps.next().unwrap()).await?;
        }
        self.answer.note(|r| r.first_byte = Some(epoch_ms()));
        self.event("message_start", json!({ "message": self.answer.start(json!([]), None) }))
            .await?;
        self.event("ping", json!({})).await?;
        for step in steps {
            self.step(step).await?;
        }
        self.end_block().await?;
        let delta = json!({ "stop_reason": stop, "stop_sequence": null });
        self.event("message_delta", json!({ "delta": delta, "usage": usage() })).await?;
        // Noted before it goes out, or a fast reader could be faster than the record.
        self.answer.finish(Outcome::Done);
        self.event("message_stop", json!({})).await
    }

    async fn step(&mut self, step: Reply) -> Result<(), HungUp> {
        match step {
            Reply::Text(text) => self.text(&text).await?,
            Reply::Chunks(chunks) => {
                for (delay, chunk) in chunks {
                    tokio::time::sleep(delay).await;
                    self.text(&chunk).await?;
                }
            }
            Reply::Think(text) => {
                let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
                self.begin_block(Block::Other, block).await?;
                self.delta(json!({ "type": "thinking_delta", "thinking": text })).await?;
                self.delta(json!({ "type": "signature_delta", "signature": "c2ln" })).await?;
            }
            Reply::Tool { name, input } => {
                let id = self.answer.id(&format!("toolu_{}", self.index));
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.begin_block(Block::Other, block).await?;
                for piece in pieces(&input.to_string()) {
                    self.delta(json!({ "type": "input_json_delta", "partial_json": piece }))
                        .await?;
                }
            }
            Reply::Gate(gate) => self.answer.shared.pass(&gate).await,
            Reply::Wait(time) => tokio::time::sleep(time).await,
            Reply::Error { .. } | Reply::Seq(_) => unreachable!("flattened before"),
        }
        Ok(())
    }

    async fn text(&mut self, text: &str) -> Result<(), HungUp> {
        if self.block != Some(Block::Text) {
            self.begin_block(Block::Text, json!({ "type": "text", "text": "" })).await?;
        }
        for piece in pieces(text) {
            self.delta(json!({ "type": "text_delta", "text": piece })).await?;
        }
        Ok(())
    }

    async fn begin_block(&mut self, kind: Block, block: Value) -> Result<(), HungUp> {
        self.end_block().await?;
        self.block = Some(kind);
        let event = json!({ "index": self.index, "content_block": block });
        self.event("content_block_start", event).await
    }

    async fn end_block(&mut self) -> Result<(), HungUp> {
        if self.block.take().is_some() {
            self.event("content_block_stop", json!({ "index": self.index })).await?;
            self.index += 1;
        }
        Ok(())
    }

    async fn delta(&mut self, delta: Value) -> Result<(), HungUp> {
        self.event("content_block_delta", json!({ "index": self.index, "delta": delta })).await
    }

    async fn event(&mut self, kind: &str, mut data: Value) -> Result<(), HungUp> {
        data["type"] = kind.into();
        self.sender.send(format!("event: {kind}\ndata: {data}\n\n")).await.map_err(|_| HungUp)?;
        // Let each event become a packet of its own, as from a model.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }
}

/// Pieces of a text as a model sends it: several, but few.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = chars.len().div_ceil(20).max(12);
    chars.chunks(size).map(|c| c.iter().collect()).collect()
}
