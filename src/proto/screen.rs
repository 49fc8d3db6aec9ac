//! The rendered screen of an agent's terminal, as the host's screen model shows it.
//!
//! The host makes these views; the core reads them and decides. They are plain data so that a
//! trace can hold them and a test can write them by hand.

use serde::{Deserialize, Serialize};

/// One visible row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The row's characters, trailing blanks removed, the spacer cells of wide characters left out.
    pub text: String,
    /// The terminal wrapped this row: it and the next row are one logical line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrapped: bool,
    /// Ranges of *character* (not byte) indices in `text`, end exclusive, that are drawn faint
    /// (SGR 2). Programs draw placeholders and hints faint; what a person typed never is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faint: Vec<(usize, usize)>,
}

/// A snapshot of the visible screen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenView {
    /// Visible rows from top to bottom; as many as the terminal is high.
    pub rows: Vec<Row>,
    /// Width in cells.
    pub cols: usize,
    /// Cursor position, zero-based row and column in cells.
    pub cursor: (usize, usize),
    /// Whether the program shows the terminal's own cursor (many draw one themselves).
    pub cursor_visible: bool,
    /// The window title set by OSC 0 or 2, empty if none was set.
    pub title: String,
    /// The program asked for bracketed paste (DECSET 2004).
    pub bracketed_paste: bool,
    /// The alternate screen is active.
    pub alt_screen: bool,
    /// Lines that left the top of the primary screen since the agent started. With a row's index
    /// it gives the row an absolute number that repaints do not change. Reflow on a resize and
    /// clearing the scrollback may move it.
    pub scrolled: u64,
    /// The lines that left the top since the previous view was taken (at most
    /// [`ScreenView::MAX_SCROLLED`], the newest ones), oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrolled_rows: Vec<Row>,
    /// Bytes read from the agent since it started: whether it wrote anything since a moment.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of input that wait in the terminal for the program to read (`FIONREAD` on its side).
    /// Taken for checks; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<u64>,
    /// Whether the terminal's foreground process group is the agent's own first process
    /// (`tcgetpgrp` on the PTY). `None` where the profile does not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground: Option<bool>,
}

impl ScreenView {
    /// How many scrolled-off rows one view carries at most.
    pub const MAX_SCROLLED: usize = 2000;

    /// The visible rows as text, one line each, for messages and tests.
    #[must_use]
    pub fn text(&self) -> String {
        let rows: Vec<&str> = self.rows.iter().map(|r| r.text.as_str()).collect();
        rows.join("\n").trim_end().to_owned()
    }
}
