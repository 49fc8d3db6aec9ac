//! The mock server as a Responses API, as far as Codex uses it (0.171.0): what a request says, and an answer
//! as server-sent events.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Answer, HungUp, Said, pieces};
use crate::common::epoch_ms;
use crate::common::mock::{Outcome, Reply};

/// What begins a text that the program put into the conversation, not its user.
const OWN: [&str; 5] =
    ["<environment_context>", "<turn_aborted>", "<user_instructions>", "<skills", "# AGENTS.md"];

/// What the end of the conversation says. A tool's result stands behind the prompt that it is for.
pub(super) fn said(body: &Value) -> Said {
    let items = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    let users: Vec<(usize, String)> = items
        .iter()
        .enumerate()
        .filter(|(_, item)| item["role"] == "user")
        .flat_map(|(i, item)| parts(&item["content"]).into_iter().map(move |text| (i, text)))
        .filter(|(_, text)| !OWN.iter().any(|own| text.trim_start().starts_with(own)))
        .collect();
    let (at, text) = users.last().cloned().unwrap_or_default();
    let is_result = |i: &&Value| i["type"].as_str().is_some_and(|t| t.ends_with("_output"));
    let results: Vec<&Value> = items[at.min(items.len())..].iter().filter(is_result).collect();
    let result = |r: &&Value| match &r["output"] {
        Value::String(text) => text.clone(),
        other => parts(other).join("\n"),
    };
    Said {
        text: if results.is_empty() { text } else { String::new() },
        steering: None,
        result: results.iter().map(result).collect::<Vec<_>>().join("\n"),
        has_result: !results.is_empty(),
    }
}

fn parts(content: &Value) -> Vec<String> {
    let list = content.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}

/// The body of a refusal.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({ "error": { "type": kind, "code": "mock", "message": message } })
}

/// Writes one response.
pub(super) struct Events<'a> {
    answer: &'a Answer,
    sender: mpsc::Sender<String>,
    sequence: usize,
    output: Vec<Value>,
    text: Option<String>,
}

impl Events<'_> {
    pub(super) async fn send(
        answer: &Answer,
        sender: mpsc::Sender<String>,
        steps: Vec<Reply>,
    ) -> Result<(), HungUp> {
        let mut events = Events { answer, sender, sequence: 0, output: Vec::new(), text: None };
        let mut steps = steps.into_iter().peekable();
        // Holding before the first byte is how a slow model looks.
        while let Some(Reply::Gate(_) | Reply::Wait(_)) = steps.peek() {
            events.step(steps.next().unwrap()).await?;
        }
        answer.note(|r| r.first_byte = Some(epoch_ms()));
        events.response("response.created", "in_progress").await?;
        for step in steps {
            events.step(step).await?;
        }
        events.end_text().await?;
        // Noted before it goes out, or a fast reader could be faster than the record.
        answer.finish(Outcome::Done);
        events.response("response.completed", "completed").await
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
                self.end_text().await?;
                let summary = json!([{ "type": "summary_text", "text": text }]);
                let id = self.id("rs");
                self.item(json!({ "type": "reasoning", "id": id, "summary": summary })).await?;
            }
            Reply::Tool { name, input } => {
                self.end_text().await?;
                let (id, call) = (self.id("fc"), self.id("call"));
                let mut item = json!({
                    "type": "function_call", "id": id, "call_id": call, "status": "completed",
                });
                match name.split_once('.') {
                    Some((namespace, name)) => {
                        item["namespace"] = namespace.into();
                        item["name"] = name.into();
                    }
                    None => item["name"] = tool(&name).into(),
                }
                item["arguments"] = arguments(&name, &input).to_string().into();
                self.item(item).await?;
            }
            Reply::Gate(gate) => self.answer.shared.pass(&gate).await,
            Reply::Wait(time) => tokio::time::sleep(time).await,
            Reply::Error { .. } | Reply::Seq(_) => unreachable!("flattened before"),
        }
        Ok(())
    }

    fn id(&self, kind: &str) -> String {
        self.answer.id(&format!("{kind}_{}", self.output.len()))
    }

    async fn text(&mut self, text: &str) -> Result<(), HungUp> {
        let (id, index) = (self.id("msg"), self.output.len());
        if self.text.is_none() {
            self.text = Some(String::new());
            let item = json!({
                "type": "message", "id": id, "role": "assistant", "status": "in_progress",
                "content": [],
            });
            let added = json!({ "output_index": index, "item": item });
            self.event("response.output_item.added", added).await?;
        }
        for piece in pieces(text) {
            self.text.as_mut().unwrap().push_str(&piece);
            let delta = json!({
                "item_id": id, "output_index": index, "content_index": 0, "delta": piece,
            });
            self.event("response.output_text.delta", delta).await?;
        }
        Ok(())
    }

    async fn end_text(&mut self) -> Result<(), HungUp> {
        let Some(text) = self.text.take() else { return Ok(()) };
        let part = json!({ "type": "output_text", "text": text, "annotations": [] });
        let item = json!({
            "type": "message", "id": self.id("msg"), "role": "assistant", "status": "completed",
            "content": [part],
        });
        self.done(item).await
    }

    async fn item(&mut self, item: Value) -> Result<(), HungUp> {
        let index = self.output.len();
        let added = json!({ "output_index": index, "item": item });
        self.event("response.output_item.added", added).await?;
        self.done(item).await
    }

    async fn done(&mut self, item: Value) -> Result<(), HungUp> {
        let done = json!({ "output_index": self.output.len(), "item": item });
        self.output.push(item);
        self.event("response.output_item.done", done).await
    }

    async fn response(&mut self, kind: &str, status: &str) -> Result<(), HungUp> {
        let usage = json!({
            "input_tokens": 100, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 20, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": 120,
        });
        let response = json!({
            "id": self.answer.id("resp"), "object": "response", "status": status,
            "model": self.answer.model, "output": self.output, "usage": usage,
        });
        self.event(kind, json!({ "response": response })).await
    }

    async fn event(&mut self, kind: &str, mut data: Value) -> Result<(), HungUp> {
        self.sequence += 1;
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sender.send(format!("event: {kind}\ndata: {data}\n\n")).await.map_err(|_| HungUp)?;
        // Let each event become a packet of its own, as from a model.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    }
}

/// The name under which Codex offers a tool.
fn tool(name: &str) -> &str {
    if name == "Bash" { "exec_command" } else { name }
}

/// A shell command asks to leave the sandbox, so that Codex asks a person.
fn arguments(name: &str, input: &Value) -> Value {
    if name != "Bash" {
        return input.clone();
    }
    json!({
        "cmd": input["command"], "sandbox_permissions": "require_escalated",
        "justification": "the mock wants it",
    })
}
