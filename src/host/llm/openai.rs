//! Chat completions, streamed, as `OpenAI`, Ollama, llama.cpp and vLLM offer them.
//!
//! The stable part is the system message and comes first; these services cache prefixes by themselves.

use super::http::{Odd, Wire, own_headers, secret_header};
use super::{Call, Collected, Failure, MAX_TOKENS, Stop};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;

const HOME: &str = "https://api.openai.com/v1";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    /// `OpenAI`'s own service wants the newer name, others know only the older one.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    messages: [Message<'a>; 2],
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

pub(super) fn wire(call: &Call, key: Option<&SecretString>) -> Result<Wire, Failure> {
    let base = if call.spec.base_url.is_empty() { HOME } else { call.spec.base_url.as_str() };
    let base = base.trim_end_matches('/');
    let newer = base.starts_with("https://api.openai.com");
    let most = call.spec.max_tokens.unwrap_or(MAX_TOKENS);
    let body = Body {
        model: &call.spec.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens: (!newer).then_some(most),
        max_completion_tokens: newer.then_some(most),
        messages: [
            Message { role: "system", content: &call.stable },
            Message { role: "user", content: &call.variable },
        ],
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = key {
        headers.insert(AUTHORIZATION, secret_header(call, "Bearer ", key)?);
    }
    own_headers(call, &mut headers)?;
    Ok(Wire {
        url: format!("{base}/chat/completions"),
        headers,
        body: serde_json::to_vec(&body).unwrap_or_default(),
        event,
        document,
        expected: "a chat completion",
    })
}

fn usage(value: Option<&Value>, into: &mut Collected) {
    let Some(value) = value.filter(|v| v.is_object()) else { return };
    let number = |path: &str| value.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    into.usage.input = number("/prompt_tokens");
    into.usage.cached = number("/prompt_tokens_details/cached_tokens");
    into.usage.output = number("/completion_tokens");
}

fn choice(value: &Value, text: &str, into: &mut Collected) {
    let Some(choice) = value.pointer("/choices/0") else { return };
    if let Some(text) = choice.pointer(text).and_then(Value::as_str) {
        into.push(text);
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        None => return,
        Some("length") => into.stop = Stop::Length,
        Some(word @ "content_filter") => into.stop = Stop::Refused(word.to_owned()),
        Some(_) => into.stop = Stop::Done,
    }
    into.ended = true;
}

fn failed(value: &Value) -> Option<Odd> {
    let error = value.get("error").filter(|e| !e.is_null())?;
    let message = error.get("message").unwrap_or(error);
    Some(Odd::Error(message.as_str().map_or_else(|| message.to_string(), str::to_owned)))
}

fn event(value: &Value, into: &mut Collected) -> Result<(), Odd> {
    if let Some(odd) = failed(value) {
        return Err(odd);
    }
    if value.get("choices").is_none_or(|c| !c.is_array()) {
        return Err(Odd::Nonsense);
    }
    choice(value, "/delta/content", into);
    usage(value.get("usage"), into);
    Ok(())
}

fn document(value: &Value, into: &mut Collected) -> Result<(), Odd> {
    if let Some(odd) = failed(value) {
        return Err(odd);
    }
    value.pointer("/choices/0/message/content").filter(|c| c.is_string()).ok_or(Odd::Nonsense)?;
    choice(value, "/message/content", into);
    usage(value.get("usage"), into);
    Ok(())
}
