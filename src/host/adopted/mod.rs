//! Terminals that mado did not start: a `:terminal` of an editor, a pane of tmux.
//!
//! To the host's loop such a terminal is one like its own: a [`TerminalHandle`] that takes the same
//! commands, and the same events. What differs is how far a look reaches, and that the program is never
//! ended. What a terminal's owner does not tell is filled in on the safe side, or said in the agent's
//! `limits`:
//!
//! - *Rows have no absolute numbers* where the owner does not say which screen is shown; a turn's output is
//!   then what stands on the screen, as on an alternate screen.
//! - *Whether the program asked for bracketed paste* is not told. Neovim and tmux put the marks around a
//!   paste exactly when it did, so a paste is left to them. A program whose profile says that it
//!   needs them asks for them all its life; a shell does not, so that it only gets single lines.
//! - *Other programs in the same terminal*: what is typed goes to whoever has the foreground. On Linux
//!   that is looked up before each look and each write, and must be the agent.

mod find;
pub mod nvim;
pub mod tmux;

pub use find::{find, transcript};

use super::procs::Process;
use super::terminal::{Command, Dropped, Envelope, Event, TerminalHandle};
use crate::core::profile::{ComposerKind, Profile};
use crate::core::screen::Facts;
use crate::proto::AgentId;
use crate::proto::screen::ScreenView;
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often it is looked whether the agent's process still runs.
const ALIVE: Duration = Duration::from_millis(500);

/// How long after a delivery the composer's text is not yet taken for a person's.
const AFTER: Duration = Duration::from_millis(600);

/// How long a prompt must have stood for what is added to it to be a person's, not the shell's own.
const STOOD: Duration = Duration::from_millis(500);

/// What is taken over.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The agent.
    pub agent: AgentId,
    /// Its process.
    pub process: Process,
    /// What is known of its program, as fits its terminal.
    pub profile: Profile,
    /// The program's side of the terminal.
    pub tty: PathBuf,
    /// A folder for files that live for a write.
    pub folder: PathBuf,
}

/// The part of a backend that does not depend on whose terminal it is.
struct Common {
    subject: Subject,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Envelope>,
    /// Events that wait for room: like a terminal of mado's own, this never waits for the host.
    outbox: VecDeque<Event>,
    epoch: Arc<AtomicU64>,
    /// What was told of people's inputs so far.
    humans: u64,
    /// The last view.
    view: Option<ScreenView>,
    /// The last view that was sent, to send no other like it.
    sent: Option<ScreenView>,
    /// Changes that were seen: stands in for a count of the program's bytes.
    changes: u64,
    /// mado types into it: between the first look of a delivery and its end.
    holds: bool,
    /// When that ended last.
    held: Option<Instant>,
    /// The composer's text (of a shell its row, numbered) as it was seen last, outside of a delivery.
    composed: Option<(u64, String)>,
    /// Since when that is so.
    composed_at: Instant,
    /// Where a person's draft in a shell began.
    base: Option<(u64, String)>,
    /// A person wrote that.
    draft: bool,
    /// The terminal is out of reach, or was released.
    over: bool,
}

/// A write that the host wants.
struct Wanted {
    token: u64,
    bytes: Vec<u8>,
    guard: Option<u64>,
    humans: u64,
    epoch: u64,
}

fn handle(subject: Subject, events: mpsc::Sender<Envelope>) -> (TerminalHandle, Common) {
    let (sender, commands) = mpsc::channel(64);
    let epoch = Arc::<AtomicU64>::default();
    let handle = TerminalHandle::of(subject.agent, subject.process.pid, sender, Arc::clone(&epoch));
    let common = Common {
        subject,
        commands,
        events,
        outbox: VecDeque::new(),
        epoch,
        humans: 0,
        view: None,
        sent: None,
        changes: 1,
        holds: false,
        held: None,
        composed: None,
        composed_at: Instant::now(),
        base: None,
        draft: false,
        over: false,
    };
    (handle, common)
}

impl Common {
    fn tell(&mut self, event: Event) {
        self.outbox.push_back(event);
    }

    /// Gives the host what there is room for.
    fn send(&mut self, permit: mpsc::OwnedPermit<Envelope>) {
        if let Some(event) = self.outbox.pop_front() {
            permit.send((self.subject.agent, event));
        }
    }

    fn dropped(&mut self, token: u64, why: Dropped) {
        self.tell(Event::WriteDropped { token, written: 0, why });
    }

    /// Why a write must not be performed any more, before anything of it was.
    fn outdated(&self, wanted: &Wanted) -> Option<Dropped> {
        if self.over {
            Some(Dropped::Closed)
        } else if wanted.epoch != self.epoch.load(Ordering::SeqCst) {
            Some(Dropped::Paused)
        } else if wanted.humans < self.humans {
            Some(Dropped::Human)
        } else {
            None
        }
    }

    /// A person typed.
    fn human(&mut self, submits: bool, rest: bool) {
        self.humans += 1;
        self.tell(Event::Human { seq: self.humans, bytes: Vec::new(), submits, rest });
    }

    /// The terminal cannot be reached any more. `why` goes on after the agent's name.
    fn lost(&mut self, why: &str) {
        if !std::mem::replace(&mut self.over, true) {
            self.tell(Event::Lost { why: why.to_owned() });
            self.tell(Event::Exited { code: None, signal: None });
        }
    }

    /// mado lets go of it.
    fn released(&mut self) {
        if !std::mem::replace(&mut self.over, true) {
            self.tell(Event::Exited { code: None, signal: None });
        }
        self.tell(Event::Gone { left: Vec::new() });
    }

    fn is_line(&self) -> bool {
        self.subject.profile.composer.kind == ComposerKind::Line
    }

    /// Whether the agent has its terminal's foreground. `None` where the system does not say.
    fn foreground(&self) -> Option<bool> {
        self.subject.process.terminal().map(|t| t.group == t.foreground && !t.stopped)
    }

    /// Bytes that the program has not read yet.
    fn unread(&self) -> Option<u64> {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tty = rustix::fs::open(&self.subject.tty, flags, Mode::empty()).ok()?;
        rustix::io::ioctl_fionread(&tty).ok()
    }

    /// Rows and columns of the terminal.
    fn size(&self) -> Option<(usize, usize)> {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tty = rustix::fs::open(&self.subject.tty, flags, Mode::empty()).ok()?;
        let size = rustix::termios::tcgetwinsize(&tty).ok()?;
        let (rows, cols) = (usize::from(size.ws_row), usize::from(size.ws_col));
        (rows > 0 && cols > 0).then_some((rows, cols))
    }

    /// What every backend adds to a view.
    fn complete(&mut self, mut view: ScreenView) -> ScreenView {
        view.foreground = self.foreground();
        let same = self.view.as_ref().is_some_and(|old| bare(old) == bare(&view));
        if !same {
            self.changes += 1;
        }
        view.bytes = self.changes;
        self.view = Some(view.clone());
        view
    }

    /// Takes a view that came by itself.
    fn looked(&mut self, view: ScreenView) {
        self.infer(&view);
        let shown = bare(&view);
        if view.scrolled_rows.is_empty() && self.sent.as_ref() == Some(&shown) {
            return;
        }
        self.sent = Some(shown);
        self.tell(Event::View(Box::new(view)));
    }

    /// Where keys are not told, what they did shows: text in the composer that mado did not type is
    /// a person's, and when it is gone they have sent it, or taken it back.
    fn infer(&mut self, view: &ScreenView) {
        if self.holds || self.held.is_some_and(|at| at.elapsed() < AFTER) {
            self.composed = None;
            return;
        }
        let now = if self.is_line() {
            let row = view.rows.get(view.cursor.0).map_or("", |r| r.text.trim_end());
            (view.scrolled + view.cursor.0 as u64, row.to_owned())
        } else {
            // While it is covered, what it holds is as it was.
            let composer = Facts::read(view, &self.subject.profile, None).composer;
            let Some(composer) = composer else { return };
            (0, composer.text.trim().to_owned())
        };
        let Some(before) = self.composed.clone() else {
            (self.composed, self.composed_at) = (Some(now), Instant::now());
            return;
        };
        if self.is_line() {
            self.infer_line(view, &before, &now);
        } else if before != now && !now.1.is_empty() {
            self.draft = true;
            self.human(false, true);
        } else if before != now && std::mem::take(&mut self.draft) {
            self.human(true, false);
        }
        if before != now {
            (self.composed, self.composed_at) = (Some(now), Instant::now());
        }
    }

    fn infer_line(&mut self, view: &ScreenView, before: &(u64, String), now: &(u64, String)) {
        if self.draft {
            // Run, or taken back.
            let base = self.base.clone().unwrap_or_default();
            if now.0 != base.0 || now.1 == base.1 {
                self.draft = false;
                self.human(true, false);
            }
            return;
        }
        // A prompt that has stood for a while and goes on: somebody typed. A command that runs is told by the
        // foreground.
        let grown =
            now.0 == before.0 && now.1.len() > before.1.len() && now.1.starts_with(&before.1);
        let stood = self.composed_at.elapsed() > STOOD && !before.1.is_empty();
        if grown && stood && view.foreground != Some(false) {
            self.draft = true;
            self.base = Some(before.clone());
            self.human(false, true);
        }
    }

    /// A person used something that shows this terminal; with which keys is not known.
    fn active(&mut self) {
        self.human(false, true);
        if self.is_line() && !std::mem::replace(&mut self.draft, true) {
            self.base.clone_from(&self.composed);
        }
    }

    fn hold(&mut self, hold: bool) {
        if self.holds && !hold {
            self.held = Some(Instant::now());
        }
        self.holds = hold;
        if hold {
            self.draft = false;
        }
    }

    /// Whether the agent's process still runs; tells it when it does not.
    fn alive(&mut self) -> bool {
        if !self.over && !self.subject.process.is_alive() {
            self.over = true;
            self.tell(Event::Exited { code: None, signal: None });
        }
        !self.over
    }
}

/// A view as it is compared.
fn bare(view: &ScreenView) -> ScreenView {
    ScreenView { scrolled_rows: Vec::new(), unread: None, bytes: 0, ..view.clone() }
}

/// Splits a write of the core into what is pasted and whether it is a paste. Keys are no paste.
fn paste(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let inner = text.strip_prefix("\x1b[200~").and_then(|t| t.strip_suffix("\x1b[201~"));
    match inner {
        Some(inner) => (inner.to_owned(), true),
        None => (text, false),
    }
}

async fn sleep_until(at: Instant) {
    tokio::time::sleep_until(at.into()).await;
}

/// The profile as it holds in a terminal of this owner.
#[must_use]
pub fn fit(profile: &Profile, owner: &str) -> Profile {
    use crate::proto::Rung;
    let mut profile = profile.clone();
    // Hooks are given at the start, which was not mado's.
    profile.evidence.rungs.retain(|r| *r != Rung::Hook);
    if owner == "tmux" {
        // tmux hands on no such reports.
        profile.evidence.rungs.retain(|r| *r != Rung::Osc);
    } else {
        // Neovim tells where the cursor is only while its window is in terminal mode.
        profile.composer.cursor_inside = false;
    }
    profile
}
