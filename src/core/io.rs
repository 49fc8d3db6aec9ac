//! The core's two borders: what comes in, what goes out. Both are plain data, so that a trace of
//! `(now, input, effects)` can be written down and replayed.

use super::dialect::{
    Answer, CommandMark, HookEvent, NoAnswer, OscState, RecordEvent, StatusState,
};
use super::profile::Profile;
use super::question::{NotTold, Question, Told};
use crate::proto::screen::ScreenView;
use crate::proto::{
    AgentId, ClientId, ClientKind, Event, HopId, HopInfo, Request, RequestResult, Rung,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The two clocks, read by the host once per input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic milliseconds since the host started. All waiting is counted with it.
    pub mono: u64,
    /// Milliseconds since the epoch. Only written down, never compared.
    pub wall: u64,
}

/// What the host tells the core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A connection said hello.
    ClientHere {
        /// The connection.
        client: ClientId,
        /// What it is.
        kind: ClientKind,
        /// The project it works in.
        project: String,
    },
    /// A connection is gone.
    ClientGone {
        /// The connection.
        client: ClientId,
    },
    /// A client asks for something; exactly one [`Effect::Reply`] follows, now or later.
    Request {
        /// Who asks.
        client: ClientId,
        /// Its number for the answer.
        seq: u64,
        /// The agent that the asking process runs inside of, found by the peer's ancestry.
        inside: Option<AgentId>,
        /// For `open`: the profile, already loaded, and the directory, already checked.
        profile: Option<Box<Profile>>,
        /// What.
        request: Request,
    },
    /// An [`Effect::Spawn`] worked.
    Spawned {
        /// The agent.
        agent: AgentId,
        /// Process id of the PTY child.
        pid: u32,
    },
    /// An [`Effect::Spawn`] did not work.
    SpawnFailed {
        /// The agent.
        agent: AgentId,
        /// Why, with the remedy.
        error: crate::proto::ErrorInfo,
    },
    /// The agent's program ended and its terminal is drained.
    Exited {
        /// The agent.
        agent: AgentId,
        /// Exit code; `None` when a signal ended it.
        code: Option<i32>,
        /// The signal's number.
        signal: Option<i32>,
    },
    /// The screen changed. Coalesced: never one per byte.
    Screen {
        /// The agent.
        agent: AgentId,
        /// The screen now.
        view: Box<ScreenView>,
    },
    /// The answer to [`Effect::Check`]: the terminal was drained just now. What the core writes in
    /// reply is written before the host looks at anything else.
    Checked {
        /// The agent.
        agent: AgentId,
        /// The check's number.
        token: u64,
        /// The screen now.
        view: Box<ScreenView>,
    },
    /// The bytes of an [`Effect::Write`] reached the terminal's input queue.
    Written {
        /// The agent.
        agent: AgentId,
        /// The write's number.
        token: u64,
    },
    /// An [`Effect::Write`] was given up, after [`Effect::DropWrites`] or an error.
    WriteDropped {
        /// The agent.
        agent: AgentId,
        /// The write's number.
        token: u64,
        /// How many bytes had reached the terminal before.
        written: usize,
    },
    /// A person typed into a view of the agent.
    Human {
        /// The agent.
        agent: AgentId,
        /// The keys held an Enter (outside a paste).
        submits: bool,
        /// Other keys came after the last Enter, or there was none.
        rest: bool,
    },
    /// How many viewers show the agent.
    Attached {
        /// The agent.
        agent: AgentId,
        /// Viewers now.
        viewers: usize,
    },
    /// The agent's hook spoke.
    Hook {
        /// The agent.
        agent: AgentId,
        /// What it said.
        event: HookEvent,
    },
    /// The agent's transcript grew.
    Record {
        /// The agent.
        agent: AgentId,
        /// What it says.
        event: RecordEvent,
    },
    /// The agent's status file changed.
    Status {
        /// The agent.
        agent: AgentId,
        /// The state it names.
        state: StatusState,
    },
    /// The agent reported its state in the terminal stream.
    Osc {
        /// The agent.
        agent: AgentId,
        /// The state it names.
        state: OscState,
    },
    /// A shell marked its prompt or a command (OSC 133).
    Command {
        /// The agent.
        agent: AgentId,
        /// What the mark says.
        mark: CommandMark,
    },
    /// The agent's session was found or replaced (`/clear`).
    Session {
        /// The agent.
        agent: AgentId,
        /// The session's id.
        session: String,
    },
    /// The answer to [`Effect::Extract`].
    Extracted {
        /// The agent.
        agent: AgentId,
        /// The request's number.
        token: u64,
        /// What was found.
        result: Result<Answer, NoAnswer>,
    },
    /// The answer to [`Effect::Ask`]. After [`Effect::CancelAsk`] it may still come; then it says
    /// nothing.
    Asked {
        /// The hop.
        hop: HopId,
        /// The call's number.
        token: u64,
        /// What the model said, or why it did not.
        result: Result<Told, NotTold>,
    },
    /// What the store held when the host started; the first input.
    Restored {
        /// Hops that had no final state.
        hops: Vec<RestoredHop>,
        /// The next free hop id.
        next_hop: u64,
    },
    /// The store could not write. The hop whose intent was to be recorded must not go on.
    StoreFailed {
        /// Why, with the remedy.
        error: String,
    },
    /// The time that [`super::Hub::deadline`] named has come.
    Tick,
}

/// A hop that a host which died left without a final state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoredHop {
    /// As it was last recorded.
    pub hop: HopInfo,
    /// Whether the intent of its Enter was recorded.
    pub enter: bool,
    /// Whether the target's own record holds the prompt (looked up by the host when `enter`).
    pub in_record: bool,
    /// Its prompt held secrets, which are not on disk: what is here is not the whole of it.
    #[serde(default)]
    pub hidden: bool,
}

/// What the core tells the host to do. Performed once, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Answer a request.
    Reply {
        /// Who asked.
        client: ClientId,
        /// Its number.
        seq: u64,
        /// The answer.
        result: RequestResult,
    },
    /// Tell the clients of the event's project (and those who listen to all).
    Publish(Event),
    /// Start a program in a new terminal.
    Spawn(Box<Spawn>),
    /// End an agent: its process group, then its descendants, harder each time.
    Kill {
        /// The agent.
        agent: AgentId,
    },
    /// Write to the agent's terminal, after all that was written before.
    Write {
        /// The agent.
        agent: AgentId,
        /// Reported back by [`Input::Written`].
        token: u64,
        /// What.
        text: String,
    },
    /// Give up every write of this agent that has not reached its terminal.
    DropWrites {
        /// The agent.
        agent: AgentId,
    },
    /// Drain the agent's terminal now and answer with [`Input::Checked`].
    Check {
        /// The agent.
        agent: AgentId,
        /// Reported back.
        token: u64,
    },
    /// Read the agent's last answer from its records and answer with [`Input::Extracted`].
    Extract {
        /// The agent.
        agent: AgentId,
        /// Reported back.
        token: u64,
    },
    /// Ask a model for the prompt of a hop and answer with [`Input::Asked`], whatever happens.
    Ask {
        /// The hop.
        hop: HopId,
        /// Reported back.
        token: u64,
        /// What, and whom.
        question: Box<Question>,
    },
    /// Nobody waits for this hop's call any more: end it at once.
    CancelAsk {
        /// The hop.
        hop: HopId,
    },
    /// Append to the store and sync before anything that follows in this list is performed.
    Record {
        /// The hop as it is now.
        hop: Box<HopInfo>,
        /// `Some(true)`: the next write is the Enter. `Some(false)`: the next write is its first
        /// byte. `None`: a change of state.
        enter: Option<bool>,
    },
    /// The agent has a viewer-independent claim on its size until released: no resize meanwhile.
    HoldSize {
        /// The agent.
        agent: AgentId,
        /// Hold or release.
        hold: bool,
    },
    /// Forget the agent's terminal, records and files.
    Forget {
        /// The agent.
        agent: AgentId,
    },
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spawn {
    /// The agent.
    pub agent: AgentId,
    /// Its name, for its environment and messages.
    pub name: String,
    /// Its project.
    pub project: String,
    /// What is known of its program.
    pub profile: Profile,
    /// Arguments after the profile's own.
    pub args: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// The whole environment; the host adds `MADO_*`.
    pub env: BTreeMap<String, String>,
    /// Rows and columns.
    pub size: (u16, u16),
    /// The session to resume, for a restart.
    pub resume: Option<String>,
}

/// A rung and what it says, for messages.
pub type Evidence = (Rung, String);
