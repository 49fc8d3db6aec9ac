//! Anthropic's Messages API, streamed (`anthropic-version: 2023-06-01`).
//!
//! The stable part is a system block that is marked for the prompt cache. In the body it stands before
//! the message, so that the bytes of two calls are the same up to what differs.

use super::http::{Odd, Wire, own_headers, secret_header};
use super::{Call, Collected, Failure, MAX_TOKENS, Stop};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;

const HOME: &str = "https://api.anthropic.com";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    system: [Block<'a>; 1],
    messages: [Message<'a>; 1],
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

#[derive(Serialize)]
struct Cache {
    r#type: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: [Block<'a>; 1],
}

pub(super) fn wire(call: &Call, key: Option<&SecretString>) -> Result<Wire, Failure> {
    let block = |text, cache_control| Block { r#type: "text", text, cache_control };
    let body = Body {
        model: &call.spec.model,
        max_tokens: call.spec.max_tokens.unwrap_or(MAX_TOKENS),
        stream: true,
        system: [block(&call.stable, Some(Cache { r#type: "ephemeral" }))],
        messages: [Message { role: "user", content: [block(&call.variable, None)] }],
    };
    let base = if call.spec.base_url.is_empty() { HOME } else { call.spec.base_url.as_str() };
    let base = base.trim_end_matches('/');
    let base = base.strip_suffix("/v1").unwrap_or(base);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    if let Some(key) = key {
        headers.insert("x-api-key", secret_header(call, "", key)?);
    }
    own_headers(call, &mut headers)?;
    Ok(Wire {
        url: format!("{base}/v1/messages"),
        headers,
        body: serde_json::to_vec(&body).unwrap_or_default(),
        event,
        document,
        expected: "a message of the Messages API",
    })
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// `usage` counts what was read from and written to the cache apart from the rest.
fn usage(value: Option<&Value>, into: &mut Collected) {
    let Some(value) = value else { return };
    let cached = number(value, "cache_read_input_tokens");
    let input =
        number(value, "input_tokens") + cached + number(value, "cache_creation_input_tokens");
    into.usage.input = into.usage.input.max(input);
    into.usage.cached = into.usage.cached.max(cached);
    into.usage.output = into.usage.output.max(number(value, "output_tokens"));
}

fn stop(reason: Option<&Value>, into: &mut Collected) {
    match reason.and_then(Value::as_str) {
        None => {}
        Some("max_tokens" | "model_context_window_exceeded") => into.stop = Stop::Length,
        Some("refusal") => into.stop = Stop::Refused("refusal".to_owned()),
        Some(_) => into.stop = Stop::Done,
    }
}

fn event(value: &Value, into: &mut Collected) -> Result<(), Odd> {
    match value.get("type").and_then(Value::as_str).ok_or(Odd::Nonsense)? {
        "message_start" => usage(value.pointer("/message/usage"), into),
        "content_block_delta" => {
            if let Some(text) = value.pointer("/delta/text").and_then(Value::as_str) {
                into.push(text);
            }
        }
        "message_delta" => {
            usage(value.get("usage"), into);
            stop(value.pointer("/delta/stop_reason"), into);
        }
        "message_stop" => into.ended = true,
        "error" => return Err(Odd::Error(error(value))),
        // Pings, blocks that begin and end, and what later versions add.
        _ => {}
    }
    Ok(())
}

fn document(value: &Value, into: &mut Collected) -> Result<(), Odd> {
    if value.get("type").and_then(Value::as_str) == Some("error") {
        return Err(Odd::Error(error(value)));
    }
    let blocks = value.get("content").and_then(Value::as_array).ok_or(Odd::Nonsense)?;
    blocks.iter().filter_map(|b| b.get("text")?.as_str()).for_each(|t| into.push(t));
    usage(value.get("usage"), into);
    stop(value.get("stop_reason"), into);
    Ok(())
}

fn error(value: &Value) -> String {
    let message = value.pointer("/error/message").and_then(Value::as_str);
    message.map_or_else(|| value.to_string(), str::to_owned)
}
