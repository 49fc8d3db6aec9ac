//! A hop: one firing of a route, or one send, from its trigger to exactly one final state.

use crate::core::io::Now;
use crate::proto::{AgentId, HopId, HopInfo, HopState, RouteId};

/// A hop as the core holds it.
#[derive(Debug, Clone)]
pub struct Hop {
    /// What listings and the store show of it.
    pub info: HopInfo,
    /// Its route.
    pub route: Option<RouteId>,
    /// Its target; `None` for a hop of a former host whose target does not run.
    pub target: Option<AgentId>,
    /// The source's turn that fired it.
    pub seq: Option<u64>,
    /// One paste (`Some(true)`), lines (`Some(false)`), or as the profile says.
    pub paste: Option<bool>,
    /// A person must say yes.
    pub confirm: bool,
    /// Since when it waits for what it waits for now, monotonic milliseconds.
    pub since: u64,
    /// It may not be typed: paused by a person while it was being typed or waited.
    pub paused: bool,
    /// What was typed of it before a pause or a dialog, which may still be in the composer.
    pub residue: Option<Residue>,
    /// When it became final, monotonic milliseconds.
    pub done: Option<u64>,
}

/// What an interrupted delivery may have left in a composer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Residue {
    /// All text that reached the terminal, without paste marks.
    pub typed: String,
    /// The last write ended inside a bracketed paste: its end is owed.
    pub open_paste: bool,
    /// A write whose fate is not known yet: its number and its text with paste marks.
    pub pending: Option<(u64, String)>,
}

/// Start of a bracketed paste (DECSET 2004).
pub const PASTE_START: &str = "\u{1b}[200~";
/// End of a bracketed paste.
pub const PASTE_END: &str = "\u{1b}[201~";

impl Residue {
    /// Learns how much of the pending write reached the terminal.
    pub fn resolve(&mut self, token: u64, written: Option<usize>) {
        let Some((pending, raw)) = self.pending.take() else { return };
        if pending != token {
            self.pending = Some((pending, raw));
            return;
        }
        let n = written.unwrap_or(raw.len()).min(raw.len());
        if n == 0 {
            return;
        }
        let reached = String::from_utf8_lossy(&raw.as_bytes()[..n]).into_owned();
        let inner = reached.strip_prefix(PASTE_START).unwrap_or("");
        match inner.strip_suffix(PASTE_END) {
            Some(text) => self.typed.push_str(text),
            None if raw.starts_with(PASTE_START) => {
                self.open_paste = true;
                self.typed.push_str(inner);
            }
            None => self.typed.push_str(&reached),
        }
    }
}

impl Hop {
    /// Whether it has a final state.
    pub fn is_final(&self) -> bool {
        self.info.state.is_final()
    }

    /// Sets the reason; the age of the wait starts again when the code changes.
    pub fn reason(&mut self, now: Now, code: &str, text: impl Into<String>) -> bool {
        let text = text.into();
        if self.info.reason_code == code && self.info.reason_text == text {
            return false;
        }
        if self.info.reason_code != code {
            self.since = now.mono;
        }
        code.clone_into(&mut self.info.reason_code);
        self.info.reason_text = text;
        true
    }

    /// Moves to a state. A final state is never left: that is the invariant's one place.
    pub fn enter(
        &mut self,
        now: Now,
        state: HopState,
        code: &str,
        text: impl Into<String>,
    ) -> bool {
        if self.is_final() {
            return false;
        }
        self.info.state = state;
        self.reason(now, code, text);
        let times = &mut self.info.times;
        match state {
            HopState::Typing => times.typing = times.typing.or(Some(now.wall)),
            HopState::Submitted => times.submitted = times.submitted.or(Some(now.wall)),
            HopState::Accepted => times.accepted = Some(now.wall),
            HopState::Answered => times.answered = Some(now.wall),
            _ => {}
        }
        if state.is_final() {
            self.done = Some(now.mono);
        }
        true
    }

    /// Adds a note once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.info.notes.contains(&note) {
            self.info.notes.push(note);
        }
    }

    /// Its id.
    pub fn id(&self) -> HopId {
        self.info.id
    }
}
