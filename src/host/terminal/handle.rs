//! The host's end of a terminal.

use super::{Command, Event};
use crate::proto::AgentId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// What the host holds of a running terminal. When the last one is dropped the task ends and the
/// terminal is hung up, which not every program heeds: send [`Command::Kill`] and wait for
/// [`Event::Gone`] first.
#[derive(Debug, Clone)]
pub struct TerminalHandle {
    pub(super) agent: AgentId,
    pub(super) pid: u32,
    pub(super) commands: mpsc::Sender<Command>,
    /// Counts pauses. A write decided before the last pause is never performed, whichever side
    /// of the channel it is on: the task compares before every `write(2)`.
    pub(super) epoch: Arc<AtomicU64>,
    /// Human inputs that the host has handled.
    pub(super) humans: Arc<AtomicU64>,
}

/// The terminal's task is gone: the host dropped it or it failed.
#[derive(Debug, thiserror::Error)]
#[error("the terminal of agent {0} is closed")]
pub struct Closed(pub AgentId);

impl TerminalHandle {
    /// The end of a terminal that is not mado's own, with the receiver of `commands` elsewhere.
    pub(in crate::host) fn of(
        agent: AgentId,
        pid: u32,
        commands: mpsc::Sender<Command>,
        epoch: Arc<AtomicU64>,
    ) -> TerminalHandle {
        TerminalHandle { agent, pid, commands, epoch, humans: Arc::default() }
    }

    /// The agent whose terminal this is.
    pub fn agent(&self) -> AgentId {
        self.agent
    }

    /// Process id of the program in the terminal, also its session and process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a command. Waits only while the task works through 64 others.
    pub async fn send(&self, command: Command) -> Result<(), Closed> {
        self.commands.send(command).await.map_err(|_| Closed(self.agent))
    }

    /// Writes `bytes`, decided on everything this handle has been told of so far.
    pub async fn write(
        &self,
        token: u64,
        bytes: Vec<u8>,
        guard: Option<u64>,
    ) -> Result<(), Closed> {
        let humans = self.humans.load(Ordering::SeqCst);
        let epoch = self.epoch.load(Ordering::SeqCst);
        self.send(Command::Write { token, bytes, guard, humans, epoch }).await
    }

    /// Pause: from this call on not one more byte of a write leaves the host. Each write that was
    /// not finished is reported by [`Event::WriteDropped`].
    pub async fn drop_writes(&self) -> Result<(), Closed> {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.send(Command::Dropped).await
    }

    /// The host has handled [`Event::Human`] number `seq`; what it writes from now on was decided
    /// with knowledge of it.
    pub fn saw_human(&self, seq: u64) {
        self.humans.fetch_max(seq, Ordering::SeqCst);
    }
}

/// An event and the terminal it came from.
pub type Envelope = (AgentId, Event);
