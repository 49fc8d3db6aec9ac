//! Terminals that mado did not start: what names them, and what an editor tells of one.

use super::ClientId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parameters of `adopt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptParams {
    /// The project; worked out from `cwd` by the host when empty.
    #[serde(default)]
    pub project: String,
    /// Name of the profile; guessed from the terminal's processes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Wanted name; taken from the profile and numbered when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The directory that the request comes from.
    #[serde(default)]
    pub cwd: String,
    /// Profiles that the editor's configuration adds or overrides, as TOML-shaped data by name.
    #[serde(default)]
    pub profiles: BTreeMap<String, serde_json::Value>,
    /// The terminal.
    pub terminal: Foreign,
    /// What the host found there; what a client says here is overwritten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// A terminal that another program owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Foreign {
    /// A `:terminal` of the Neovim that asks.
    Nvim {
        /// The buffer's number.
        buffer: u64,
        /// Its job.
        pid: u32,
        /// The job's side of the terminal, as a path.
        tty: String,
    },
    /// A pane of a tmux server.
    Tmux {
        /// The server's socket, as a path.
        socket: String,
        /// The pane's own id, such as `%3`.
        pane: String,
        /// Its first process.
        pid: u32,
        /// The program's side of the terminal, as a path.
        tty: String,
    },
}

impl Foreign {
    /// What owns it, as listings name it.
    #[must_use]
    pub fn owner(&self) -> &'static str {
        match self {
            Foreign::Nvim { .. } => "nvim",
            Foreign::Tmux { .. } => "tmux",
        }
    }
}

/// What the host found in a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// The process that is the agent.
    pub pid: u32,
    /// When it started, as the system counts it: with the pid it names one process for good.
    pub start: u64,
    /// The editor that asked.
    pub client: ClientId,
    /// Where the terminal is, in words.
    pub place: String,
    /// What an agent in this terminal cannot offer, a few words each.
    pub limits: Vec<String>,
    /// The agent's working directory.
    pub cwd: String,
}

/// What an editor tells of a buffer of its own that was adopted. It is not answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdoptedParams {
    /// The buffer's number.
    pub buffer: u64,
    /// What became of something that the host asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
    /// Its text has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look: Option<BufferLook>,
    /// A person typed into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typed: Option<Typed>,
    /// The program sent an OSC sequence that Neovim itself has no use for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<String>,
    /// The buffer or its job is gone: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<String>,
}

/// A terminal buffer as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BufferLook {
    /// `b:changedtick`.
    pub tick: u64,
    /// How many lines the buffer has.
    pub count: u64,
    /// The last of them.
    pub lines: Vec<String>,
    /// `b:term_title`.
    pub title: String,
    /// Counts what people typed into it.
    pub humans: u64,
    /// Nothing was drawn for a while before this was read.
    pub settled: bool,
}

/// What became of a look or a write that the host asked an editor for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Done {
    /// The host's number for it.
    pub ask: u64,
    /// `looked`, or of a write `written`, `changed`, `human`, `revoked`, `failed`; of either `gone`.
    pub said: String,
    /// What was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look: Option<BufferLook>,
}

/// Keys of a person in an adopted buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Typed {
    /// Counts what people typed into it.
    pub humans: u64,
    /// How many characters of text it can have been, at most.
    pub chars: u64,
    /// An Enter was among them, outside a paste.
    pub submits: bool,
    /// Other keys came after the last Enter, or there was none.
    pub rest: bool,
}
