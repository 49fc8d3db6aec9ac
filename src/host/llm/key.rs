//! Keys: read when they are needed, kept in memory for one call, in nothing that can be printed.

use crate::proto::{Provider, ProviderKind};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long the program that prints a key may take; it may have to ask a person.
const COMMAND: Duration = Duration::from_mins(1);
/// The longest key, in bytes.
const LONGEST: u64 = 64 << 10;

/// The variable that a provider's key is in. The services of Anthropic and `OpenAI` need one; of others
/// only the user knows.
#[must_use]
pub fn variable(spec: &Provider) -> Option<&str> {
    let own = spec.base_url.is_empty() && spec.key_command.is_empty();
    match spec.kind {
        _ if !spec.key_env.is_empty() => Some(&spec.key_env),
        ProviderKind::Anthropic if own => Some("ANTHROPIC_API_KEY"),
        ProviderKind::Openai if own => Some("OPENAI_API_KEY"),
        _ => None,
    }
}

/// Where a provider's key comes from, for messages.
#[must_use]
pub fn origin(spec: &Provider) -> String {
    match (spec.key_command.first(), variable(spec)) {
        (Some(program), _) => format!("the output of {program} (key_command)"),
        (None, Some(name)) => format!("the variable {name}"),
        (None, None) => "no key is configured (key_env or key_command)".to_owned(),
    }
}

/// A variable of an agent's environment, else of the host's own. An empty one is none.
fn value(name: &str, env: &BTreeMap<String, String>) -> Option<String> {
    let own = || std::env::var(name).ok();
    env.get(name)
        .cloned()
        .filter(|v| !v.trim().is_empty())
        .or_else(own)
        .filter(|v| !v.trim().is_empty())
}

/// Whether the variable that a provider needs has a value.
pub fn check(spec: &Provider, env: &BTreeMap<String, String>) -> Result<(), String> {
    if !spec.key_command.is_empty() {
        return Ok(());
    }
    match variable(spec) {
        Some(name) if value(name, env).is_none() => Err(missing(name)),
        _ => Ok(()),
    }
}

fn missing(name: &str) -> String {
    format!(
        "the variable {name} is not set, neither for the agent nor for the host; set it where you start Neovim and open the agent again"
    )
}

/// Reads a provider's key, if it has one. Errors name the variable or the program, never what is in it.
pub async fn find(
    spec: &Provider,
    env: &BTreeMap<String, String>,
) -> Result<Option<SecretString>, String> {
    if let Some((program, args)) = spec.key_command.split_first() {
        return print_of(program, args, env).await.map(Some);
    }
    let Some(name) = variable(spec) else { return Ok(None) };
    let key = value(name, env).ok_or_else(|| missing(name))?;
    Ok(Some(SecretString::from(key.trim())))
}

async fn print_of(
    program: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> Result<SecretString, String> {
    let failed = |why: String| format!("its key_command {program} {why}");
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| failed(format!("cannot be started: {e}")))?;
    let mut out = String::new();
    let stdout = child.stdout.take();
    let read = async {
        if let Some(stdout) = stdout {
            stdout.take(LONGEST).read_to_string(&mut out).await?;
        }
        child.wait().await
    };
    let status = tokio::time::timeout(COMMAND, read)
        .await
        .map_err(|_| failed(format!("has printed no key within {} s", COMMAND.as_secs())))?
        .map_err(|e| failed(format!("cannot be read: {}", e.kind())))?;
    if !status.success() {
        return Err(failed(format!("failed ({status}); run it by hand to see why")));
    }
    match out.lines().next().map(str::trim).filter(|l| !l.is_empty()) {
        Some(key) => Ok(SecretString::from(key)),
        None => Err(failed("printed nothing".to_owned())),
    }
}
