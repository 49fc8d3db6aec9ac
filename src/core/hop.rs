//! A hop: one firing of a route, or one send, from its trigger to exactly one final state.

use super::text::fold;
use crate::core::io::Now;
use crate::proto::{AgentId, HopId, HopInfo, HopState, RouteId};

/// How far the asking of a hop's model has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// It is to be asked.
    Due,
    /// The call of this number is under way.
    Open(u64),
}

/// A hop as the core holds it.
#[derive(Debug, Clone)]
pub struct Hop {
    /// What listings and the store show of it.
    pub info: HopInfo,
    /// Its route.
    pub route: Option<RouteId>,
    /// The other routes whose answers are joined in it: what holds one of them holds it.
    pub also: Vec<RouteId>,
    /// The hops whose prompts began the source's turn; from them its line is followed back.
    pub parents: Vec<HopId>,
    /// What it brings, without header and defusing: its part of a joined prompt.
    pub part: Option<String>,
    /// A model was to write it and did not: the built-in template did.
    pub fell_back: bool,
    /// A person wants it handed on without the others of its join.
    pub alone: bool,
    /// Its target; `None` for a hop of a former host whose target does not run.
    pub target: Option<AgentId>,
    /// The source's turn that fired it.
    pub seq: Option<u64>,
    /// One paste (`Some(true)`), lines (`Some(false)`), or as the profile says.
    pub paste: Option<bool>,
    /// A person must say yes.
    pub confirm: bool,
    /// It needs a model's text that is not there yet.
    pub ask: Option<Ask>,
    /// Since when it waits for what it waits for now, monotonic milliseconds.
    pub since: u64,
    /// When it became final, monotonic milliseconds.
    pub done: Option<u64>,
}

/// What an interrupted delivery may have left in a composer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Its hop, which may be final by now.
    pub hop: HopId,
    /// What reached the terminal, write by write, without paste marks.
    pub pieces: Vec<String>,
    /// A write whose fate is not known yet: its number, its text with paste marks, and the bytes
    /// that the program had written before it.
    pub pending: Option<(u64, String, u64)>,
    /// Bytes the program had written before the last of it: only what it drew since can show it.
    pub bytes: u64,
    /// When it was left, monotonic milliseconds.
    pub at: u64,
    /// The composer has held something since. Until then an empty one only says that the program has
    /// not come to it yet: a busy one draws its spinner before it looks at its input.
    pub shown: bool,
    /// Clearing has begun: the composer may hold only the beginning.
    pub clearing: bool,
    /// The terminal gave the write up by itself, which a person's key makes it do.
    pub refused: bool,
    /// The program did not read.
    pub stuck: bool,
}

impl Left {
    /// How many clearing keys remove what cannot be seen: blanks and newlines alone. 0 when
    /// there is something to see, or nothing at all.
    #[must_use]
    pub fn unseen(&self) -> u32 {
        let text = self.pieces.concat();
        if text.is_empty() || !fold(&text).is_empty() {
            return 0;
        }
        u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX).saturating_add(1)
    }
}

/// Start of a bracketed paste (DECSET 2004).
pub const PASTE_START: &str = "\u{1b}[200~";
/// End of a bracketed paste.
pub const PASTE_END: &str = "\u{1b}[201~";

/// What a write did that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The text that reached the terminal, without paste marks.
    pub text: String,
    /// What must follow, so that the program is not left inside a paste or a mark of one.
    pub owed: String,
}

/// How much of a write reached the terminal.
#[must_use]
pub fn reached(raw: &str, written: usize) -> Reached {
    let written = written.min(raw.len());
    let whole = raw.strip_prefix(PASTE_START).and_then(|t| t.strip_suffix(PASTE_END));
    let text = |to: usize| String::from_utf8_lossy(&raw.as_bytes()[..to]).into_owned();
    let Some(inner) = whole else { return Reached { text: text(written), owed: String::new() } };
    if written == 0 {
        return Reached { text: String::new(), owed: String::new() };
    }
    if written < PASTE_START.len() {
        // Both marks, around nothing.
        let owed = format!("{}{PASTE_END}", &PASTE_START[written..]);
        return Reached { text: String::new(), owed };
    }
    let end = PASTE_START.len() + inner.len();
    let owed = if written > end { &raw[written..] } else { PASTE_END };
    let text = text(written.min(end))[PASTE_START.len()..].to_owned();
    Reached { text, owed: owed.to_owned() }
}

impl Hop {
    /// A hop that waits.
    pub fn new(info: HopInfo, target: Option<AgentId>, since: u64) -> Hop {
        Hop {
            info,
            route: None,
            also: Vec::new(),
            parents: Vec::new(),
            part: None,
            alone: false,
            fell_back: false,
            target,
            seq: None,
            paste: None,
            confirm: false,
            ask: None,
            since,
            done: None,
        }
    }

    /// The routes that it comes by.
    pub fn routes(&self) -> impl Iterator<Item = RouteId> {
        self.route.into_iter().chain(self.also.iter().copied())
    }

    /// Whether it comes by this route.
    pub fn is_of(&self, route: RouteId) -> bool {
        self.routes().any(|r| r == route)
    }

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
