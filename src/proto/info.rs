//! What listings show of agents, routes and hops. Field names are stable: scripts read them.

use super::{
    AgentId, ChainId, Dispatch, HopId, HopState, OnError, Phase, RouteId, RouteState, Rung,
    Transform, Trigger, Usage,
};
use serde::{Deserialize, Serialize};

/// One agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// Its id, unique in the host.
    pub id: AgentId,
    /// Its name, unique in its project.
    pub name: String,
    /// The git root of its working directory, else the directory.
    pub project: String,
    /// The name of its profile.
    pub profile: String,
    /// Process id of the PTY child; 0 before it was started.
    pub pid: u32,
    /// Its working directory at the start.
    pub cwd: String,
    /// What it is doing.
    pub phase: Phase,
    /// Which evidence says so.
    pub rung: Rung,
    /// Why, as a stable code.
    pub reason_code: String,
    /// Why, in words.
    pub reason_text: String,
    /// The composer holds text that mado did not type.
    pub draft: bool,
    /// Since when it has been in this phase, milliseconds since the epoch.
    pub since: u64,
    /// Hops and sends waiting for it or being typed.
    pub queue: usize,
    /// Viewers that show it now.
    pub attached: usize,
    /// The agent's own session id where its records name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Exit status once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteInfo {
    /// Its id.
    pub id: RouteId,
    /// The source agent's name.
    pub source: String,
    /// The target agent's name.
    pub target: String,
    /// The project of both.
    pub project: String,
    /// When it fires.
    pub trigger: Trigger,
    /// The pattern of `on-keyword`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// How the answer becomes a prompt.
    pub transform: Transform,
    /// The template of `prompt-wrap`; instructions of `ai-routing` and `summary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whom `ai-routing` and `summary` ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which model of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What happens to a hop whose model gives no prompt.
    #[serde(default)]
    pub on_error: OnError,
    /// What the target is there for, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Which decision maker delivers.
    pub dispatch: Dispatch,
    /// Where it stands.
    pub state: RouteState,
    /// Deliveries within the current chain.
    pub round: u32,
    /// How many rounds a chain may take.
    pub max_rounds: u32,
    /// Least time between two firings, milliseconds.
    pub cooldown_ms: u64,
    /// An answer that holds this literal text stops the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_keyword: Option<String>,
    /// Only an answer that this regular expression matches is handed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// `all`: its answers wait for those of the other routes into the target that say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// A line before the text says from whom it comes.
    #[serde(default)]
    pub header: bool,
    /// Secrets are blacked out in prompts.
    #[serde(default)]
    pub redact: bool,
    /// Why it is in this state, as a stable code.
    pub reason_code: String,
    /// Why, in words, with how to resume where it is stopped.
    pub reason_text: String,
}

/// When each step of a hop happened, milliseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HopTimes {
    /// The trigger fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fired: Option<u64>,
    /// The answer was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extracted: Option<u64>,
    /// The prompt was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transformed: Option<u64>,
    /// The first byte was typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typing: Option<u64>,
    /// Enter was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted: Option<u64>,
    /// The turn began with this prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<u64>,
    /// The turn ended with an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
}

/// What kind of thing a step of a hop's audit is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// What fired it.
    Evidence,
    /// A model was asked, answered, failed, or was not waited for any more.
    Model,
    /// A look at the target's drained screen.
    #[default]
    Look,
    /// Bytes that reached the target's terminal, or were given up.
    Write,
    /// An Enter that reached it, or was given up.
    Enter,
    /// What the target's own record or screen shows of the prompt.
    Receipt,
    /// What a person did.
    Person,
}

/// One thing that was seen or done on a hop's way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopStep {
    /// When, milliseconds since the epoch.
    pub at: u64,
    /// What kind of thing.
    pub kind: StepKind,
    /// What, in words.
    pub text: String,
}

/// What the evidence and the records made of a turn whose text went out the simple way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shadow {
    /// When it was decided, milliseconds since the epoch.
    pub at: u64,
    /// The evidence that would have fired.
    pub rung: Rung,
    /// The source's turn, as its record names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The answer that would have been handed on.
    pub answer: String,
    /// What would have been typed; empty when nothing would.
    pub prompt: String,
}

/// One hop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopInfo {
    /// Its id.
    pub id: HopId,
    /// The route that fired; none for a send or a hand-off.
    pub route: Option<RouteId>,
    /// The chain it belongs to.
    pub chain: ChainId,
    /// How many hops of the chain came before it on the way here.
    pub depth: u32,
    /// The source agent's name; empty for a send from a person.
    pub source: String,
    /// The target agent's name.
    pub target: String,
    /// The target's project.
    pub project: String,
    /// Where it stands.
    pub state: HopState,
    /// Why, as a stable code.
    pub reason_code: String,
    /// Why, in words.
    pub reason_text: String,
    /// The evidence that fired it.
    pub rung: Rung,
    /// How it was made: trigger and transform by name, or `send`, `handoff`.
    pub how: String,
    /// The round of its route within the chain, from 1.
    pub round: u32,
    /// What was extracted from the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What a model was given to make the prompt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Whom it was given to: the provider's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Which model of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What that took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What is typed into the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The source's turn that fired it, as the source's record names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The target's turn that began with its prompt, as the target's record names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_as: Option<String>,
    /// The target's turn that answered it, as the target's record names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Under `dispatch=shadow`: what would have gone out by evidence and records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,
    /// The hops whose answers were joined into this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<HopId>,
    /// What happened on the way, one sentence each (removed control bytes, a second Enter, …).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its audit: what was seen and done, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<HopStep>,
    /// Steps that were left out between the oldest and the newest ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_lost: u32,
    /// When each step happened.
    pub times: HopTimes,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One waiting entry of a target's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueItem {
    /// The hop.
    pub hop: HopId,
    /// The source agent's name; empty for a send from a person.
    #[serde(default)]
    pub source: String,
    /// The target agent's name.
    pub target: String,
    /// Its project.
    pub project: String,
    /// What it waits for, in words.
    pub waiting_for: String,
    /// For how long, milliseconds.
    pub age_ms: u64,
}
