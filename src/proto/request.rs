//! What editors and shell commands ask, and what they get back. One vocabulary for both.

use super::{
    AgentInfo, ErrorInfo, HopId, HopInfo, LoadParams, OnError, Provider, QueueItem, RouteInfo,
    Transform, Trigger,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    /// A Neovim.
    #[default]
    Editor,
    /// A `mado …` command.
    Shell,
}

/// A request. On the wire `{"method": "connect", "params": {…}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Request {
    /// First message of every connection.
    Hello(HelloParams),
    /// Starts an agent.
    Open(OpenParams),
    /// Lists agents.
    Agents(ListParams),
    /// Lists routes.
    Routes(ListParams),
    /// Lists hops, oldest first.
    Hops(HopsParams),
    /// Lists what waits, target by target, in order.
    Queue(ListParams),
    /// Makes a route (two with `both`).
    Connect(ConnectParams),
    /// Removes a route.
    Disconnect(RouteParams),
    /// Changes a route's trigger.
    Trigger(TriggerParams),
    /// Changes a route's transform.
    Transform(TransformParams),
    /// Pauses one route, or everything of a project.
    Pause(PauseParams),
    /// Resumes one route or held hop, or everything of a project.
    Resume(PauseParams),
    /// Pauses or resumes everything of a project.
    Toggle(PauseParams),
    /// Fires a route now with the source's last answer.
    Fire(FireParams),
    /// Says yes to a hop that waits for it, with the text as it is or as a person wrote it.
    Approve(ApproveParams),
    /// Takes a hop that has not been submitted out of its queue, for good.
    Drop(HopParams),
    /// Sends the source's last answer once, without a route.
    Handoff(HandoffParams),
    /// Queues text for an agent.
    Send(SendParams),
    /// Takes a project's file over: agents, templates, routes.
    Load(LoadParams),
    /// The project's agents and routes as such a file.
    Save(ScopeParams),
    /// The agent's last answer.
    Answer(AgentParams),
    /// Renames an agent.
    Rename(RenameParams),
    /// Ends an agent, children included.
    Close(AgentParams),
    /// Ends an agent and starts it again, resuming its session where its program can.
    Restart(AgentParams),
    /// The agent that has waited longest for a person.
    Next(ScopeParams),
    /// The rendered screen of an agent (answered by the host's shell).
    Screen(AgentParams),
    /// What the host is and holds (answered by the host's shell).
    HostStatus(ScopeParams),
    /// Streams events from now on (answered by the host's shell).
    Events(ListParams),
    /// Ends every agent and the host (carried out by the host's shell).
    Stop(ScopeParams),
}

/// Parameters of `hello`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HelloParams {
    /// The sender's protocol number.
    pub protocol: u32,
    /// What the sender is.
    pub client: ClientKind,
    /// The sender's version, for messages.
    pub version: String,
    /// The project it works in.
    pub project: String,
    /// Foreground and background colour as `#rrggbb`, for agents that ask the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colors: Option<(String, String)>,
}

/// Answer to `hello`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// The host's protocol number.
    pub protocol: u32,
    /// The host's version.
    pub version: String,
    /// The host's process id.
    pub pid: u32,
    /// Path of the socket for `mado attach`.
    pub attach_socket: String,
    /// Agents of the sender's project that already run.
    pub agents: Vec<AgentInfo>,
}

/// Parameters of `open`. Everything that is particular to the editor travels here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenParams {
    /// Name of the profile.
    pub profile: String,
    /// Wanted name; taken from the profile and numbered when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The project; worked out from `cwd` by the host when empty.
    pub project: String,
    /// Working directory.
    pub cwd: String,
    /// The whole environment of the program.
    pub env: BTreeMap<String, String>,
    /// Arguments after the profile's own.
    pub args: Vec<String>,
    /// Terminal height in rows; 0 means 24.
    pub rows: u16,
    /// Terminal width in columns; 0 means 80.
    pub cols: u16,
    /// Profiles that the editor's configuration adds or overrides, as TOML-shaped data by name.
    pub profiles: BTreeMap<String, serde_json::Value>,
}

/// Parameters of listings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListParams {
    /// Keep to this project; empty with `all`.
    pub project: String,
    /// Every project.
    pub all: bool,
}

/// Parameters of `next`, `stop` and `host_status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeParams {
    /// The project asked from.
    pub project: String,
}

/// Parameters of `hops`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HopsParams {
    /// Keep to this project.
    pub project: String,
    /// Every project.
    pub all: bool,
    /// Only hops of this route (id, or `source->target`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Only this hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<HopId>,
    /// At most the newest this many; 0 means 200.
    pub limit: usize,
}

/// What can be said of a route. Absent means: the default, or unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteOptions {
    /// When it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Regular expression of `on-keyword`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// How the answer becomes a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transform: Option<Transform>,
    /// Template of `prompt-wrap`; instructions of `ai-routing` and `summary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The provider that `ai-routing` and `summary` ask, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What happens to a hop whose model gives no prompt.
    #[serde(alias = "onError", skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// What the target is there for, in the user's words, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Which decision maker delivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<super::Dispatch>,
    /// Rounds within one chain, 1 to 20.
    #[serde(alias = "maxRounds", skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// Least time between firings, 1000 to 30000 milliseconds.
    #[serde(alias = "cooldownMs", skip_serializing_if = "Option::is_none")]
    pub cooldown_ms: Option<u64>,
    /// An answer that holds this literal text is not delivered and stops the route.
    #[serde(alias = "stopKeyword", skip_serializing_if = "Option::is_none")]
    pub stop_keyword: Option<String>,
    /// Silence of `on-idle`, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// `lines` or `paste`; absent: lines up to the profile's `paste_above`, then paste.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver: Option<String>,
    /// Ask a person before each delivery. `None`: as the target's profile says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<bool>,
    /// Keep firing while no editor is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_detached: Option<bool>,
    /// Regular expression: only an answer that it matches is handed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// `all`: wait for the answers of every route into the target that says so, and hand them on
    /// as one prompt. `none`: each by itself, the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// How long an answer waits for the others of a join, 1000 to 86400000 milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_timeout_ms: Option<u64>,
    /// Put a line before the text that says from whom it comes and that it is not the user
    /// speaking. `None`: with the built-in templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<bool>,
    /// Black out secrets (keys, tokens, private key blocks) in prompts too, not only on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redact: Option<bool>,
    /// Tokens that a chain may have used when the route fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_tokens: Option<u64>,
    /// Tokens that the host may have used in the last 24 hours when the route fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day_tokens: Option<u64>,
}

/// Parameters of `connect`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectParams {
    /// The project of both agents.
    pub project: String,
    /// The source agent's name.
    pub source: String,
    /// The target agent's name.
    pub target: String,
    /// Make the way back too.
    pub both: bool,
    /// How.
    pub options: RouteOptions,
    /// Providers that the editor's configuration names. The core sees the one that was chosen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Provider>,
}

/// Parameters that name a route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RouteParams {
    /// The project.
    pub project: String,
    /// Its id, or `source->target`; empty when the project has only one.
    pub route: String,
}

/// Parameters of `trigger`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TriggerParams {
    /// The project.
    pub project: String,
    /// The route.
    pub route: String,
    /// The new trigger.
    pub trigger: Trigger,
    /// The pattern of `on-keyword`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// Parameters of `transform`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformParams {
    /// The project.
    pub project: String,
    /// The route.
    pub route: String,
    /// The new transform.
    pub transform: Transform,
    /// The template of `prompt-wrap`; instructions of `ai-routing` and `summary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The provider that `ai-routing` and `summary` ask, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// As for `connect`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Provider>,
}

/// Parameters of `pause`, `resume` and `toggle`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PauseParams {
    /// The project.
    pub project: String,
    /// One route; the whole project when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// One held or waiting-for-confirmation hop (`resume` only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<HopId>,
}

/// Parameters of `fire`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FireParams {
    /// The project.
    pub project: String,
    /// The route.
    pub route: String,
    /// Ask a person before it is typed.
    pub confirm: bool,
}

/// Parameters of `approve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApproveParams {
    /// The project.
    pub project: String,
    /// The hop.
    pub hop: HopId,
    /// The prompt as a person wants it; absent: as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Parameters that name a hop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HopParams {
    /// The project.
    pub project: String,
    /// The hop.
    pub hop: HopId,
}

/// Parameters of `handoff`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HandoffParams {
    /// The project.
    pub project: String,
    /// The source agent's name.
    pub source: String,
    /// The target agent's name.
    pub target: String,
    /// Template or plain text to put before the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Parameters of `send`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SendParams {
    /// The project.
    pub project: String,
    /// The target agent's name.
    pub target: String,
    /// The text, newlines allowed.
    pub text: String,
    /// `lines` or `paste`; absent: the profile decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver: Option<String>,
}

/// Parameters that name an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentParams {
    /// The project.
    pub project: String,
    /// The agent's name; empty when the project has only one.
    pub agent: String,
}

/// Parameters of `rename`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RenameParams {
    /// The project.
    pub project: String,
    /// The agent's name now.
    pub agent: String,
    /// The name wanted.
    pub name: String,
}

/// An agent's last answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerReply {
    /// The agent's name.
    pub agent: String,
    /// Its text.
    pub text: String,
    /// Its turn as the record names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// Where it was read.
    pub rung: super::Rung,
}

/// What a request gets back. On the wire `{"kind": "agents", "value": […]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Reply {
    /// Done.
    Done,
    /// Done, and this is worth saying.
    Said(String),
    /// The answer to `hello`.
    Hello(HelloReply),
    /// One agent.
    Agent(AgentInfo),
    /// Agents.
    Agents(Vec<AgentInfo>),
    /// Routes (also what `connect` made).
    Routes(Vec<RouteInfo>),
    /// One hop.
    Hop(HopInfo),
    /// Hops.
    Hops(Vec<HopInfo>),
    /// What waits.
    Queue(Vec<QueueItem>),
    /// An answer.
    Answer(AnswerReply),
    /// Free-form data of the host's shell: screen, status.
    Data(serde_json::Value),
}

/// Shorthand for what every request ends in.
pub type RequestResult = Result<Reply, ErrorInfo>;
