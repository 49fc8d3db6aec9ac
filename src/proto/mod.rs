//! Every type that crosses a border: editor, shell, hook, trace.
//!
//! Architecture invariant: nothing here decides anything, and nothing here depends on another
//! room of the house.

mod adopt;
pub mod attach;
mod event;
mod info;
mod model;
mod project_file;
mod request;
pub mod screen;

pub use adopt::{AdoptParams, AdoptedParams, BufferLook, Done, Foreign, Found, Typed};
pub use event::{Event, Level, Notice};
pub use info::{AgentInfo, HopInfo, HopStep, HopTimes, QueueItem, RouteInfo, Shadow, StepKind};
pub use model::{OnError, Provider, ProviderKind, Usage};
pub use project_file::{LoadParams, LoadReply, ProjectAgent, ProjectFile, ProjectRoute};
pub use request::{
    AgentParams, AnswerReply, ApproveParams, ClientKind, ConnectParams, FireParams, HandoffParams,
    HelloParams, HelloReply, HopParams, HopsParams, ListParams, OpenParams, PauseParams,
    RenameParams, Reply, Request, RequestResult, RouteOptions, RouteParams, ScopeParams,
    SendParams, TransformParams, TriggerParams,
};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Exchanged before anything else; host and plugin talk only when theirs are equal.
/// `tests/protocol_hash.rs` fails when a type of this room changes and this number does not.
pub const PROTOCOL: u32 = 2;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// An agent, for the life of the host and its store.
    AgentId
);
id!(
    /// A route.
    RouteId
);
id!(
    /// A hop; never reused, not even by a later host on the same store.
    HopId
);
id!(
    /// A chain: what follows from one human prompt.
    ChainId
);
id!(
    /// A connection to the host: an editor or a shell command.
    ClientId
);

/// What an agent is doing, as far as the evidence goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its composer has not been seen yet.
    #[default]
    Starting,
    /// Positive evidence says that it waits for a prompt.
    Idle,
    /// A turn is open.
    Busy,
    /// A dialog waits for a human.
    Asking,
    /// The screen shows something that no rule recognises.
    Unknown,
    /// The program has ended.
    Exited,
}

impl Phase {
    /// The name used in listings, `mado wait phase=…` and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Idle => "idle",
            Phase::Busy => "busy",
            Phase::Asking => "asking",
            Phase::Unknown => "unknown",
            Phase::Exited => "exited",
        }
    }
}

/// A rung of the ladder of evidence, strongest first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// A hook that the agent itself calls.
    Hook,
    /// The agent's own record: a transcript line.
    Record,
    /// The agent's status file.
    Status,
    /// An OSC 7501 state report in the terminal stream.
    Osc,
    /// The terminal title.
    Title,
    /// The rendered screen.
    Screen,
    /// The terminal's foreground process group (shells).
    Foreground,
    /// A person or a command said so.
    Manual,
    /// Nothing has been seen.
    #[default]
    None,
}

impl Rung {
    /// The name used in listings and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rung::Hook => "hook",
            Rung::Record => "record",
            Rung::Status => "status",
            Rung::Osc => "osc",
            Rung::Title => "title",
            Rung::Screen => "screen",
            Rung::Foreground => "foreground",
            Rung::Manual => "manual",
            Rung::None => "none",
        }
    }
}

/// When a route fires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A completion match, then `idle_ms` of silence.
    #[default]
    #[serde(alias = "on-complete")]
    OnIdle,
    /// The agent's output matches a regular expression.
    OnKeyword,
    /// All new output, in batches.
    Always,
    /// The agent's own record says that the turn ended.
    OnTurn,
}

impl Trigger {
    /// The spelling in commands, listings and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Trigger::OnIdle => "on-idle",
            Trigger::OnKeyword => "on-keyword",
            Trigger::Always => "always",
            Trigger::OnTurn => "on-turn",
        }
    }
}

/// How an answer becomes a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transform {
    /// The user's template around the answer.
    #[default]
    PromptWrap,
    /// The last 30 lines of output.
    FullOutput,
    /// The last 10 lines of output.
    Raw,
    /// A prompt for the target that a language model writes.
    AiRouting,
    /// A summary for the target that a language model writes.
    Summary,
}

impl Transform {
    /// The spelling in commands, listings and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Transform::PromptWrap => "prompt-wrap",
            Transform::FullOutput => "full-output",
            Transform::Raw => "raw",
            Transform::AiRouting => "ai-routing",
            Transform::Summary => "summary",
        }
    }

    /// Whether a language model is asked.
    #[must_use]
    pub fn asks_model(self) -> bool {
        matches!(self, Transform::AiRouting | Transform::Summary)
    }
}

/// Which decision maker delivers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// Evidence, records and gates.
    #[default]
    Madoagent,
    /// The screen's text, a completion pattern, a fixed silence; the same gates.
    Legacy,
    /// `Legacy` delivers, and what `Madoagent` would have delivered is written down beside it.
    Shadow,
}

impl Dispatch {
    /// The spelling in commands, listings and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dispatch::Madoagent => "madoagent",
            Dispatch::Legacy => "legacy",
            Dispatch::Shadow => "shadow",
        }
    }
}

/// Where a route stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteState {
    /// It fires.
    #[default]
    Active,
    /// A person paused it.
    Paused,
    /// Made from an editor that is not attached now.
    Held,
    /// A guard stopped it; the reason says which, and how to go on.
    Stopped,
}

/// Where a hop stands. The last four are final.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HopState {
    /// Waiting: for the answer, the cooldown, the target. The reason says for what.
    #[default]
    Queued,
    /// Its text is being typed.
    Typing,
    /// Enter was sent.
    Submitted,
    /// The target's own record or screen shows that the turn began with this prompt.
    Accepted,
    /// Left by a host that died before the Enter; a person resumes it.
    Held,
    /// Final: the target's turn ended with an answer.
    Answered,
    /// Final: Enter was sent and no evidence of acceptance came.
    Unconfirmed,
    /// Final: it could not be done.
    Failed,
    /// Final: a guard, a person or an event stopped it.
    Stopped,
}

impl HopState {
    /// The name used in listings and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HopState::Queued => "queued",
            HopState::Typing => "typing",
            HopState::Submitted => "submitted",
            HopState::Accepted => "accepted",
            HopState::Held => "held",
            HopState::Answered => "answered",
            HopState::Unconfirmed => "unconfirmed",
            HopState::Failed => "failed",
            HopState::Stopped => "stopped",
        }
    }

    /// Whether nothing follows this state.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            HopState::Answered | HopState::Unconfirmed | HopState::Failed | HopState::Stopped
        )
    }
}

/// An error as users and programs see it: what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// A stable code in `snake_case`.
    pub code: String,
    /// One sentence that names the thing.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl ErrorInfo {
    /// Makes an error.
    pub fn new(code: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        ErrorInfo { code: code.to_owned(), message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for ErrorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.remedy.is_empty() {
            write!(f, "{}", self.message)
        } else {
            write!(f, "{} ({})", self.message, self.remedy)
        }
    }
}

impl std::error::Error for ErrorInfo {}
