//! One agent's terminal: the real PTY, the model of its screen, and everybody who looks at it.
//!
//! Each agent has one task that owns all of it, so there is exactly one writer. The host's loop
//! talks with the task over two bounded channels: [`Command`]s in, [`Event`]s out. The task never
//! waits for the host (events that find no room are kept until there is), and the host therefore
//! may wait for the task, so the two cannot lock each other up.
//!
//! # Why the Enter is a compare-and-swap
//!
//! The decision to press Enter is made by the pure core, in the host's loop, from a view that the
//! task took. Between that look and the key other things happen: the intent is synced to disk,
//! the agent draws. A lock held meanwhile would not help, since the agent itself does not take
//! it. So the look and the key are joined at the only place where both are cheap: a
//! [`Command::Write`] may carry the token of the [`Event::Checked`] that it was decided on
//! (`guard`). The task then drains the PTY once more, without waiting, compares what it sees
//! with what it answered then, and writes in the same breath only if nothing changed. Else it
//! writes nothing and says so ([`Event::WriteDropped`] with [`Dropped::ScreenChanged`]); the core looks
//! again. No `await` lies between the last look and the key.
//!
//! The same idea keeps a person's keys and mado's apart: every write says how many human inputs
//! its author knew of. One that was decided before a key arrived is refused.

mod handle;
mod task;
mod viewer;
mod viewers;
mod writes;

pub use handle::{Closed, Envelope, TerminalHandle};
pub use task::start;

use super::screen::Colours;
use crate::proto::AgentId;
use crate::proto::screen::ScreenView;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What to run, and how its terminal is to be.
#[derive(Debug, Clone)]
pub struct TerminalSpec {
    /// The agent, named in every event.
    pub agent: AgentId,
    /// The value of `MADO_AGENT_ID` in `env`: leftovers of the agent are found by it when it is
    /// ended. Empty: not looked for.
    pub mark: String,
    /// The program and its arguments; the program is searched in `env`'s `PATH`.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The whole environment; nothing of the host's own is added.
    pub env: BTreeMap<String, String>,
    /// Rows and columns.
    pub size: (u16, u16),
    /// Fill [`ScreenView::foreground`] and watch it. For shells.
    pub watch_foreground: bool,
    /// What colour queries are answered with.
    pub colours: Colours,
}

/// What the host tells a terminal.
#[derive(Debug)]
pub enum Command {
    /// Write to the program, after everything written before. Answered by [`Event::Written`] or
    /// [`Event::WriteDropped`].
    Write {
        /// Reported back.
        token: u64,
        /// What. May be long: what the kernel does not take at once waits.
        bytes: Vec<u8>,
        /// The token of the [`Event::Checked`] this was decided on: write only if a fresh look shows
        /// the same.
        guard: Option<u64>,
        /// How many human inputs were known when this was decided (see [`Event::Human`]).
        humans: u64,
        /// Which pause this write was decided after; set by [`TerminalHandle`].
        epoch: u64,
    },
    /// Read everything that the program has written by now into the model and answer with
    /// [`Event::Checked`].
    Check {
        /// Reported back.
        token: u64,
    },
    /// The current screen, outside of the order of events: for `mado screen`.
    Snapshot {
        /// Gets the view. Its `scrolled_rows` are all rows of the scrollback.
        reply: oneshot::Sender<ScreenView>,
    },
    /// Set the terminal's size, whoever shows it. Ignored while the size is held.
    Resize {
        /// Height in rows.
        rows: u16,
        /// Width in cells.
        cols: u16,
    },
    /// While held, no viewer's key changes the size; what was asked for meanwhile happens on
    /// release.
    HoldSize(bool),
    /// An editor told its colours.
    Colours(Colours),
    /// A viewer's connection, after its hello.
    Attach(super::attach::Connection),
    /// A pause was called (see [`TerminalHandle::drop_writes`]): report what was given up.
    Dropped,
    /// End the program, its process group, its descendants and what else carries its mark.
    /// Answered by [`Event::Exited`] if it was running, and then by [`Event::Gone`].
    Kill {
        /// How long to wait between `SIGHUP`, `SIGTERM` and `SIGKILL`.
        grace: Duration,
    },
}

/// Why a write was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// [`TerminalHandle::drop_writes`] was called.
    Paused,
    /// A person typed into a view before it was written.
    Human,
    /// The screen is not the one that its guard named, or cannot be known (the program is in the
    /// middle of a frame, or floods).
    ScreenChanged,
    /// The program has ended or does not read and the queue is full.
    Closed,
}

/// What a terminal tells the host.
#[derive(Debug)]
pub enum Event {
    /// The screen changed. Taken 4 ms after the output paused, or every 33 ms if it does not.
    View(Box<ScreenView>),
    /// The answer to [`Command::Check`].
    Checked {
        /// The check's number, also the guard for a write decided on it.
        token: u64,
        /// The screen now.
        view: Box<ScreenView>,
        /// `false`: the program is in the middle of a synchronised update or still floods, so that
        /// this look proves nothing. A guarded write on it is always refused.
        settled: bool,
    },
    /// A write has reached the kernel whole.
    Written {
        /// The write's number.
        token: u64,
        /// When its last byte was accepted.
        at: Instant,
    },
    /// A write was given up, whole or in part.
    WriteDropped {
        /// The write's number.
        token: u64,
        /// How many of its bytes had reached the kernel before.
        written: usize,
        /// Why.
        why: Dropped,
    },
    /// A person typed into a view. Tell [`TerminalHandle::saw_human`] when it is handled.
    Human {
        /// Counts the human inputs of this terminal.
        seq: u64,
        /// What was typed; neighbouring inputs may be joined.
        bytes: Vec<u8>,
        /// It held an Enter, outside a paste.
        submits: bool,
        /// Other keys came after the last Enter, or there was none.
        rest: bool,
    },
    /// OSC 7501: the program reports its own state. The payload after `7501;`, as it came.
    State(String),
    /// OSC 133: a shell's prompt mark. The payload after `133;`, as it came (`A`, `C`, `D;0` …).
    Mark(String),
    /// The program set the title.
    Title(String),
    /// The program rang the bell.
    Bell,
    /// The terminal's size changed.
    Resized {
        /// Height in rows.
        rows: u16,
        /// Width in cells.
        cols: u16,
    },
    /// A viewer came or went.
    Viewers(usize),
    /// A terminal that is not mado's own is out of reach; [`Event::Exited`] follows.
    Lost {
        /// Why, as it goes on after the agent's name.
        why: String,
    },
    /// The program ended and its output is in the model. A last [`Event::View`] came before.
    Exited {
        /// Exit code; `None` when a signal ended it.
        code: Option<i32>,
        /// The signal's number.
        signal: Option<i32>,
    },
    /// After [`Command::Kill`]: how many processes are still there in spite of `SIGKILL`.
    Gone {
        /// Process ids that would not die.
        left: Vec<u32>,
    },
}
