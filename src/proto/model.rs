//! Language models that transforms ask: where they are and what a call cost. A key is never among
//! these types, only where it can be found.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// Anthropic's Messages API.
    Anthropic,
    /// The chat completions that `OpenAI`, Ollama, llama.cpp and vLLM share.
    #[default]
    Openai,
    /// A program that reads a prompt from its standard input and prints the answer.
    Command,
}

impl ProviderKind {
    /// The spelling in files and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ProviderKind::Anthropic => "anthropic",
            ProviderKind::Openai => "openai",
            ProviderKind::Command => "command",
        }
    }
}

/// A provider of a language model, as a user configures it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// How it is spoken to.
    pub kind: ProviderKind,
    /// Where it is; empty: the kind's own service.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base_url: String,
    /// The model's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The environment variable that holds the key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_env: String,
    /// A program and its arguments that print the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_command: Vec<String>,
    /// The program of the kind `command`, and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The most tokens that an answer may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How long a call may take with all its retries, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long it may say nothing, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// How often a call that failed for a passing reason is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Further headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl Provider {
    /// What messages call its model.
    #[must_use]
    pub fn model_name(&self) -> &str {
        match self.command.first() {
            _ if !self.model.is_empty() => &self.model,
            Some(program) => program,
            None => "the model",
        }
    }
}

/// What a route does when its model gives no prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The hop fails.
    #[default]
    Stop,
    /// The prompt is made by `prompt-wrap` with its built-in template.
    PromptWrap,
}

impl OnError {
    /// The spelling in commands, listings and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OnError::Stop => "stop",
            OnError::PromptWrap => "prompt-wrap",
        }
    }
}

/// What a call took, in tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens that were read, cached ones included.
    pub input: u64,
    /// Of these, tokens that came from the provider's cache.
    pub cached: u64,
    /// Tokens that were written.
    pub output: u64,
}
