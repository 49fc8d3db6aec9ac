//! The mock server's side towards agents of the Chat Completions API (`/v1/chat/completions`), as OpenCode
//! uses it with a provider of its own (seen: 1.18.33).

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Answer, HungUp, Outcome, Reply, Said, epoch_ms, pieces, texts};

/// What the last message of the user says, and what tools brought since.
pub(super) fn read(body: &Value) -> Said {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(at) = messages.iter().rposition(|m| m["role"] == "user") else {
        return Said::default();
    };
    let results: Vec<&Value> = messages[at + 1..].iter().filter(|m| m["role"] == "tool").collect();
    let text = texts(&messages[at]["content"]).pop().unwrap_or_default();
    Said {
        // A result goes on with the prompt before it; it is no prompt of its own.
        text: if results.is_empty() { text } else { String::new() },
        steering: None,
        result: results.iter().flat_map(|r| texts(&r["content"])).collect::<Vec<_>>().join("\n"),
        has_result: !results.is_empty(),
    }
}

/// Writes one message as server-sent events.
pub(super) struct Chunks<'a> {
    pub answer: &'a Answer,
    pub sender: mpsc::Sender<String>,
    /// Tool calls so far.
    pub calls: usize,
}

impl Chunks<'_> {
    pub async fn send(mut self, steps: Vec<Reply>) -> Result<(), HungUp> {
        let mut steps = steps.into_iter().peekable();
        while let Some(Reply::Gate(_) | Reply::Wait(_)) = steps.peek() {
            self.step(steps.next().unwrap()).await?;
        }
        self.answer.note(|r| r.first_byte = Some(epoch_ms()));
        self.chunk(json!({ "role": "assistant", "content": "" }), None).await?;
        for step in steps {
            self.step(step).await?;
        }
        let reason = if self.calls > 0 { "tool_calls" } else { "stop" };
        self.chunk(json!({}), Some(reason)).await?;
        // Noted before it goes out, or a fast reader could be faster than the record.
        self.answer.finish(Outcome::Done);
        self.line("[DONE]").await
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
            Reply::Think(text) => self.chunk(json!({ "reasoning_content": text }), None).await?,
            Reply::Tool { name, input } => {
                let id = self.answer.id(&format!("call_{}", self.calls));
                // Its tools have small letters.
                let function =
                    json!({ "name": name.to_lowercase(), "arguments": input.to_string() });
                let call = json!({
                    "index": self.calls, "id": id, "type": "function", "function": function,
                });
                self.calls += 1;
                self.chunk(json!({ "tool_calls": [call] }), None).await?;
            }
            Reply::Gate(gate) => self.answer.shared.pass(&gate).await,
            Reply::Wait(time) => tokio::time::sleep(time).await,
            Reply::Error { .. } | Reply::Seq(_) => unreachable!("flattened before"),
        }
        Ok(())
    }

    async fn text(&mut self, text: &str) -> Result<(), HungUp> {
        for piece in pieces(text) {
            self.chunk(json!({ "content": piece }), None).await?;
        }
        Ok(())
    }

    async fn chunk(&mut self, delta: Value, reason: Option<&str>) -> Result<(), HungUp> {
        let mut chunk = json!({
            "id": self.answer.id("chatcmpl"), "object": "chat.completion.chunk", "created": 0,
            "model": self.answer.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
        });
        if reason.is_some() {
            chunk["usage"] =
                json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
        }
        self.line(&chunk.to_string()).await
    }

    async fn line(&mut self, data: &str) -> Result<(), HungUp> {
        self.sender.send(format!("data: {data}\n\n")).await.map_err(|_| HungUp)?;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        Ok(())
    }
}
