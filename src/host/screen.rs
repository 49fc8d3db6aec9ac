//! The model of one terminal's screen.
//!
//! `alacritty_terminal` does the modelling. Of the three candidates measured (ANSI output, 2,000
//! lines of scrollback) it is the fastest, it reflows on a resize, which vt100 does not (that
//! one even loses text when it shrinks), it takes bytes where avt takes `&str`, and it answers most
//! queries itself. What it lacks is here: a count of the lines that left the screen, OSC 7501 and 133,
//! the queries that it does not know, synchronised updates against a clock that the caller
//! supplies, and limits where it has none. `repaint` has the serialiser that it lacks.
//!
//! Synchronised updates (DEC 2026) are not buffered: the model always holds every byte that was fed,
//! so that a repaint and the bytes that follow it fit together. What is held back is the *view*:
//! while an update is open, [`Screen::take_view`] shows the screen as it was before it.

mod heed;
mod listener;
mod rows;

pub use listener::Colours;

use super::filter::{Filter, Seen};
use crate::proto::screen::{Row, ScreenView};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Processor, Timeout};
use listener::Listener;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Lines of scrollback that are kept. At 24 bytes a cell, 2,000 lines of 200 cells are 10 MB.
pub const SCROLLBACK: usize = ScreenView::MAX_SCROLLED;

/// Lines the model may hold beyond [`SCROLLBACK`] before they are trimmed. As long as the limit is
/// never reached, the growth of the scrollback counts the lines that left the screen.
const SLACK: usize = 1000;

/// Trimmed when this many lines too many are there.
const TRIM: usize = 400;

/// Bytes after which the lines are counted. Few sequences scroll more than a line per byte, so a
/// piece stays within `SLACK - TRIM` lines.
const PIECE: usize = 512;

/// How long a synchronised update may hold back the view. Programs end theirs within a frame.
pub const SYNC_LIMIT: Duration = Duration::from_millis(150);

/// The view before a synchronised update is taken at most this often: a program that draws
/// hundreds of tiny frames a second is not slowed down by it.
const FREEZE_EVERY: Duration = Duration::from_millis(16);

/// Most kitty keyboard flags on a stack; the oldest fall out, as its specification asks.
const KITTY_DEPTH: usize = 64;

/// Most modes unknown to the model that are kept for a repaint.
const OTHER_MODES: usize = 64;

/// What a program told the terminal besides what it drew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// A new title.
    Title(String),
    /// OSC 7501, the payload.
    State(String),
    /// OSC 133, the payload.
    Mark(String),
    /// The bell.
    Bell,
}

/// Turns off the buffering of synchronised updates in the parser: see the module's text.
#[derive(Debug, Default)]
struct NoSync;

impl Timeout for NoSync {
    fn set_timeout(&mut self, _: Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

/// A size for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub rows: usize,
    pub cols: usize,
}

impl Size {
    /// The model needs a row, and two columns to place a wide character. More than 4096 of either
    /// is a mistake that would only cost memory.
    fn new(rows: u16, cols: u16) -> Size {
        Size { rows: usize::from(rows.clamp(1, 4096)), cols: usize::from(cols.clamp(2, 4096)) }
    }
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }
    fn screen_lines(&self) -> usize {
        self.rows
    }
    fn columns(&self) -> usize {
        self.cols
    }
}

/// An open synchronised update.
#[derive(Debug)]
struct Sync {
    until: Instant,
}

/// The screen of one terminal.
pub struct Screen {
    pub(super) term: Term<Listener>,
    parser: Processor<NoSync>,
    filter: Filter,
    seen: Vec<(usize, Seen)>,
    listener: Listener,
    colours: Colours,
    pub(super) title: String,
    /// The scroll region if it is not the whole screen; one-based, inclusive.
    pub(super) region: Option<(u16, u16)>,
    /// Private modes that the model does not keep.
    pub(super) modes: BTreeMap<u16, bool>,
    pub(super) modify_keys: u16,
    /// The stacks of kitty keyboard flags of the primary and the alternate screen.
    pub(super) kitty: [Vec<u8>; 2],
    scrolled: u64,
    /// Bytes read from the program so far.
    bytes: u64,
    /// Length of the primary screen's scrollback when lines were last counted.
    history: usize,
    /// Rows up to this number have been handed out, or wait in `carry`.
    reported: u64,
    /// Rows that have not been handed out and cannot be read from the model any more.
    carry: Vec<Row>,
    sync: Option<Sync>,
    /// The view before the open update, and when it was taken.
    frozen: Option<(Instant, ScreenView)>,
    /// A string too long for the model is being skipped.
    skipping: bool,
    replies: Vec<u8>,
    signals: Vec<Signal>,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("title", &self.title).finish_non_exhaustive()
    }
}

impl Screen {
    /// An empty screen.
    pub fn new(rows: u16, cols: u16, colours: Colours) -> Screen {
        let config = Config {
            scrolling_history: SCROLLBACK + SLACK,
            kitty_keyboard: true,
            ..Config::default()
        };
        let listener = Listener::default();
        Screen {
            term: Term::new(config, &Size::new(rows, cols), listener.clone()),
            parser: Processor::new(),
            filter: Filter::default(),
            seen: Vec::new(),
            listener,
            colours,
            title: String::new(),
            region: None,
            modes: BTreeMap::new(),
            modify_keys: 0,
            kitty: [Vec::new(), Vec::new()],
            scrolled: 0,
            bytes: 0,
            history: 0,
            reported: 0,
            carry: Vec::new(),
            sync: None,
            frozen: None,
            skipping: false,
            replies: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// Takes the program's output. Appends to `viewers` what terminals that show it get.
    pub fn feed(&mut self, bytes: &[u8], now: Instant, viewers: &mut Vec<u8>) {
        self.bytes += bytes.len() as u64;
        let mut seen = std::mem::take(&mut self.seen);
        self.filter.feed(bytes, viewers, &mut seen);
        let mut done = 0;
        for (end, what) in seen.drain(..) {
            done = self.heed(bytes, done, end, what, now);
        }
        self.seen = seen;
        self.advance(&bytes[done..]);
        self.collect();
    }

    /// Feeds the model and counts the lines that leave the screen.
    fn advance(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        for piece in bytes.chunks(PIECE) {
            self.parser.advance(&mut self.term, piece);
            if self.alt_screen() {
                continue;
            }
            let history = self.term.history_size();
            self.scrolled += history.saturating_sub(self.history) as u64;
            self.history = history;
            if history > SCROLLBACK + TRIM {
                let grid = self.term.grid_mut();
                grid.update_history(SCROLLBACK);
                grid.update_history(SCROLLBACK + SLACK);
                self.history = SCROLLBACK;
            }
        }
    }

    /// The scrollback changed for another reason than lines leaving the screen.
    fn recount(&mut self) {
        if !self.alt_screen() {
            self.history = self.term.history_size();
        }
    }

    pub(super) fn alt_screen(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    fn begin_sync(&mut self, now: Instant) {
        if self.sync.as_ref().is_some_and(|s| now < s.until) {
            return;
        }
        self.sync = Some(Sync { until: now + SYNC_LIMIT });
        if self.frozen.as_ref().is_none_or(|(at, _)| now >= *at + FREEZE_EVERY) {
            self.frozen = Some((now, self.look()));
        }
    }

    fn end_sync(&mut self) {
        self.sync = None;
    }

    /// Ends an update that was not ended in time. Returns whether there was one.
    pub fn expire(&mut self, now: Instant) -> bool {
        let late = self.sync.as_ref().is_some_and(|s| now >= s.until);
        if late {
            self.end_sync();
        }
        late
    }

    /// When [`Screen::expire`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.sync.as_ref().map(|s| s.until)
    }

    /// The program is in the middle of a frame: what is on the screen is not what it means to show.
    pub fn mid_frame(&self, now: Instant) -> bool {
        self.sync.as_ref().is_some_and(|s| now < s.until)
    }

    /// Changes the size. Lines reflow.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        let size = Size::new(rows, cols);
        if (size.rows, size.cols) == self.size() {
            return;
        }
        self.stash();
        let before = self.term.history_size();
        self.term.resize(size);
        if !self.alt_screen() {
            // A row keeps its number when rows are pushed off the top or come back.
            let after = self.term.history_size();
            self.scrolled = (self.scrolled + after as u64).saturating_sub(before as u64);
            self.history = after;
            // Rows that came back onto the screen have not left it.
            let left = self.carry.len().saturating_sub(before.saturating_sub(after));
            self.carry.truncate(left);
        }
        self.reported = self.scrolled;
        self.region = None;
        self.frozen = None;
        self.collect();
    }

    /// Rows and columns.
    pub fn size(&self) -> (usize, usize) {
        (self.term.screen_lines(), self.term.columns())
    }

    /// The colours that queries are answered with.
    pub fn colours(&self) -> Colours {
        self.colours
    }

    /// Sets the colours that queries are answered with.
    pub fn set_colours(&mut self, colours: Colours) {
        self.colours = colours;
    }

    /// What the program is to be answered. Empties the list.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    /// What the program signalled. Empties the list.
    pub fn take_signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }

    /// What a terminal that was just repainted must get before the next output.
    pub fn resume(&self) -> Vec<u8> {
        self.filter.resume()
    }

    fn collect(&mut self) {
        for event in self.listener.take() {
            listener::handle(
                event,
                &self.term,
                &self.colours,
                &mut self.replies,
                &mut self.signals,
                &mut self.title,
            );
        }
    }

    /// The screen, and the rows that left it since the last call.
    pub fn take_view(&mut self, now: Instant) -> ScreenView {
        let mut view = match &self.frozen {
            Some((_, view)) if self.mid_frame(now) => view.clone(),
            _ => {
                // Or the next frame could be hidden behind a picture that is older than this one.
                self.frozen = None;
                self.look()
            }
        };
        let mut rows = std::mem::take(&mut self.carry);
        if view.scrolled > self.reported {
            rows.extend(self.history_rows(self.reported, view.scrolled));
            self.reported = view.scrolled;
        }
        let excess = rows.len().saturating_sub(ScreenView::MAX_SCROLLED);
        view.scrolled_rows = rows.split_off(excess);
        view
    }

    /// The screen as it is, with the whole scrollback. Hands out nothing.
    pub fn snapshot(&self) -> ScreenView {
        let mut view = self.look();
        if !self.alt_screen() {
            let first = self.scrolled.saturating_sub(SCROLLBACK as u64);
            view.scrolled_rows = self.history_rows(first, self.scrolled);
        }
        view
    }

    /// The screen as it is, without rows that left it.
    pub fn look(&self) -> ScreenView {
        let mode = self.term.mode();
        let grid = self.term.grid();
        ScreenView {
            rows: (0..self.term.screen_lines()).map(|i| rows::visible(grid, i)).collect(),
            cols: self.term.columns(),
            cursor: (grid.cursor.point.line.0.max(0) as usize, grid.cursor.point.column.0),
            cursor_visible: mode.contains(TermMode::SHOW_CURSOR),
            title: self.title.clone(),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            alt_screen: mode.contains(TermMode::ALT_SCREEN),
            scrolled: self.scrolled,
            scrolled_rows: Vec::new(),
            bytes: self.bytes,
            foreground: None,
            unread: None,
        }
    }

    /// The rows with these numbers, as far as the model still has them.
    fn history_rows(&self, from: u64, to: u64) -> Vec<Row> {
        if self.alt_screen() {
            return Vec::new();
        }
        let have = self.term.history_size() as u64;
        let first = from.max(self.scrolled.saturating_sub(have));
        (first..to.min(self.scrolled))
            .map(|number| rows::scrolled(self.term.grid(), (self.scrolled - number) as usize))
            .collect()
    }

    /// Keeps the rows that were not handed out, before the model loses them.
    fn stash(&mut self) {
        let rows = self.history_rows(self.reported, self.scrolled);
        self.carry.extend(rows);
        let excess = self.carry.len().saturating_sub(ScreenView::MAX_SCROLLED);
        self.carry.drain(..excess);
        self.reported = self.scrolled;
    }
}

#[cfg(test)]
mod tests;
