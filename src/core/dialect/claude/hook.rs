//! What Claude Code gives its hooks on standard input.

use super::super::read;
use super::Unreadable;
use crate::core::dialect::HookEvent;
use serde::Deserialize;
use serde_json::Value;

/// The fields of all events that matter; each event has only some of them.
#[derive(Deserialize)]
struct Payload {
    hook_event_name: Option<String>,
    session_id: Option<String>,
    transcript_path: Option<String>,
    prompt_id: Option<String>,
    prompt: Option<String>,
    tool_name: Option<String>,
    error: Option<String>,
    error_details: Option<String>,
    last_assistant_message: Option<String>,
    background_tasks: Option<Vec<Value>>,
    /// Set in the tool events of a subagent.
    agent_id: Option<String>,
}

/// Reads a hook's payload (claude 2.1.197 and 2.1.332).
///
/// A `Stop` hook whose `background_tasks` is not empty is no end: the end of a task begins another
/// turn by itself. `SubagentStop` and the tools of subagents say nothing of the turn's end, but a
/// subagent's permission request shows the same dialog.
pub fn parse_hook(payload: &str) -> Result<HookEvent, Unreadable> {
    let p: Payload = read("a hook payload", payload)?;
    let need = |field: Option<String>, name: &str| {
        field.ok_or_else(|| Unreadable::field("a hook payload", name))
    };
    let name = need(p.hook_event_name, "hook_event_name")?;
    Ok(match name.as_str() {
        "SessionStart" => HookEvent::SessionStart {
            session: need(p.session_id, "session_id")?,
            transcript: p.transcript_path,
        },
        "UserPromptSubmit" => HookEvent::Prompt {
            session: need(p.session_id, "session_id")?,
            turn: p.prompt_id,
            text: need(p.prompt, "prompt")?,
        },
        "PermissionRequest" => HookEvent::PermissionAsked { tool: need(p.tool_name, "tool_name")? },
        "PostToolUse" | "PostToolUseFailure" | "PermissionDenied" => {
            HookEvent::ToolDone { tool: need(p.tool_name, "tool_name")? }
        }
        "Stop" if p.agent_id.is_none() => HookEvent::Stop {
            session: need(p.session_id, "session_id")?,
            turn: p.prompt_id,
            answer: p.last_assistant_message,
            background: p.background_tasks.map_or(0, |tasks| running(&tasks)),
        },
        "StopFailure" if p.agent_id.is_none() => HookEvent::StopFailure {
            turn: p.prompt_id,
            // `error` is a word such as `unknown` or `overloaded_error`; the message says more.
            error: p
                .last_assistant_message
                .or(p.error_details)
                .or(p.error)
                .unwrap_or_else(|| "unknown error".to_owned()),
        },
        "SessionEnd" => HookEvent::SessionEnd,
        _ => HookEvent::Other { name },
    })
}

/// Tasks that still run.
fn running(tasks: &[Value]) -> usize {
    let over = |t: &&Value| {
        let status = t.get("status").and_then(Value::as_str).unwrap_or("running");
        !matches!(status, "completed" | "failed" | "killed" | "stopped")
    };
    tasks.iter().filter(over).count()
}
