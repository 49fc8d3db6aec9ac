//! Draws on the primary screen: finished output scrolls up and away, the live area is repainted
//! at the bottom.

use std::collections::VecDeque;
use std::io::{Result, Write};

use super::text;

/// Finished blocks kept to redraw the screen after a resize.
const KEPT: usize = 200;

/// A finished piece of output. It is wrapped anew for each width.
#[derive(Debug, Clone)]
pub struct Block {
    /// Put before the first row.
    pub first: &'static str,
    /// Put before all others; as wide as `first`.
    pub rest: &'static str,
    /// SGR parameters for the text, `""` for none.
    pub style: &'static str,
    /// The text. Its only control characters are newlines and colours.
    pub text: String,
    /// Leave a blank row before it.
    pub spaced: bool,
}

impl Block {
    /// A block set off by a blank row, further rows indented by two.
    pub fn new(first: &'static str, text: impl Into<String>) -> Self {
        Block { first, rest: "  ", style: "", text: text.into(), spaced: true }
    }

    /// A block that belongs to the one before it.
    pub fn attached(first: &'static str, text: impl Into<String>) -> Self {
        Block { spaced: false, rest: "     ", ..Block::new(first, text) }
    }

    #[must_use]
    pub fn styled(mut self, style: &'static str) -> Self {
        self.style = style;
        self
    }

    /// The rows within `cols` cells.
    pub fn rows(&self, cols: usize) -> Vec<String> {
        let mut rows = Vec::new();
        if self.spaced {
            rows.push(String::new());
        }
        let mut prefix = self.first;
        for line in self.text.split('\n') {
            for (n, row) in
                text::wrap(line, cols.saturating_sub(text::cells(prefix))).into_iter().enumerate()
            {
                // The space at which the line was broken belongs to neither row.
                let row = row.trim_end();
                let row = if n > 0 { row.strip_prefix(' ').unwrap_or(row) } else { row };
                rows.push(styled(self.style, &format!("{prefix}{row}")));
                prefix = self.rest;
            }
        }
        rows
    }
}

/// `text` drawn with the SGR parameters `style`.
pub fn styled(style: &str, text: &str) -> String {
    let text = text.trim_end();
    if style.is_empty() { text.to_owned() } else { format!("\x1b[{style}m{text}\x1b[0m") }
}

/// The live area.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Rows, none wider than the screen.
    pub rows: Vec<String>,
    /// Where to show the cursor: row in the frame and column; hidden if `None`.
    pub cursor: Option<(usize, usize)>,
}

/// What is on the screen, and how to get from there to what should be.
#[derive(Debug)]
pub struct Painter<W> {
    out: W,
    cols: usize,
    lines: usize,
    /// The frame on the screen; the terminal's cursor stands in row `cursor_row` of it.
    drawn: Option<Frame>,
    cursor_row: usize,
    history: VecDeque<Block>,
    fresh: Vec<Block>,
}

impl<W: Write> Painter<W> {
    pub fn new(out: W, (cols, lines): (usize, usize)) -> Self {
        Painter {
            out,
            cols,
            lines,
            drawn: None,
            cursor_row: 0,
            history: VecDeque::new(),
            fresh: Vec::new(),
        }
    }

    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Adds finished output, drawn with the next [`Painter::paint`].
    pub fn commit(&mut self, block: Block) {
        self.fresh.push(block);
    }

    /// Sends something that moves no cursor: a title, a query.
    pub fn send(&mut self, sequence: &str) -> Result<()> {
        self.out.write_all(sequence.as_bytes())?;
        self.out.flush()
    }

    /// Shows new finished output above `frame`, in one synchronised update.
    pub fn paint(&mut self, frame: Frame) -> Result<()> {
        let frame = self.clip(frame);
        if self.fresh.is_empty() && self.drawn.as_ref() == Some(&frame) {
            return Ok(());
        }
        let mut out = String::from("\x1b[?2026h\x1b[?25l");
        if self.drawn.is_some() {
            out.push_str(&go(self.cursor_row, 'A'));
            out.push_str("\r\x1b[J");
        }
        for block in std::mem::take(&mut self.fresh) {
            for row in block.rows(self.cols) {
                out.push_str(&row);
                out.push_str("\r\n");
            }
            self.history.push_back(block);
        }
        let excess = self.history.len().saturating_sub(KEPT);
        self.history.drain(..excess);
        self.draw(out, frame)
    }

    /// Takes a new size; [`Painter::redraw`] must follow.
    pub fn set_size(&mut self, (cols, lines): (usize, usize)) {
        (self.cols, self.lines) = (cols, lines);
    }

    /// Repaints all that is visible: where the old rows stand after a resize, and the terminal's
    /// own reflow, cannot be known.
    pub fn redraw(&mut self, frame: Frame) -> Result<()> {
        let frame = self.clip(frame);
        self.history.extend(self.fresh.drain(..));
        let room = self.lines - frame.rows.len();
        let mut rows = VecDeque::new();
        for block in self.history.iter().rev() {
            if rows.len() >= room {
                break;
            }
            for row in block.rows(self.cols).into_iter().rev() {
                rows.push_front(row);
            }
        }
        // Erased in two pieces: erasing the whole screen pushes it into the scrollback of tmux.
        let mut out = String::from("\x1b[?2026h\x1b[?25l\x1b[H\x1b[K\x1b[2;1H\x1b[J\x1b[H");
        for row in rows.iter().skip(rows.len().saturating_sub(room)) {
            out.push_str(row);
            out.push_str("\r\n");
        }
        self.draw(out, frame)
    }

    /// Leaves the cursor on a fresh row below everything and all modes as they were.
    pub fn leave(&mut self) -> Result<()> {
        let below = self.drawn.as_ref().map_or(0, |f| f.rows.len() - 1 - self.cursor_row);
        let mut out = go(below, 'B');
        out.push_str("\r\n\x1b[0m\x1b[?25h\x1b[?2004l\x1b]0;\x07");
        self.send(&out)
    }

    fn draw(&mut self, mut out: String, frame: Frame) -> Result<()> {
        out.push_str(&frame.rows.join("\r\n"));
        let last = frame.rows.len() - 1;
        self.cursor_row = frame.cursor.map_or(last, |(row, _)| row);
        if let Some((row, col)) = frame.cursor {
            out.push_str(&go(last - row, 'A'));
            out.push('\r');
            out.push_str(&go(col, 'C'));
            out.push_str("\x1b[?25h");
        }
        out.push_str("\x1b[?2026l");
        self.drawn = Some(frame);
        self.send(&out)
    }

    /// Keeps the bottom rows of a frame that is higher than the screen; never leaves it empty.
    fn clip(&self, mut frame: Frame) -> Frame {
        let over = frame.rows.len().saturating_sub(self.lines.max(1));
        frame.rows.drain(..over);
        frame.cursor = frame.cursor.and_then(|(row, col)| Some((row.checked_sub(over)?, col)));
        if frame.rows.is_empty() {
            frame.rows.push(String::new());
        }
        frame
    }
}

/// Moves the cursor by `count` in the direction of the CSI letter; nothing for 0.
fn go(count: usize, direction: char) -> String {
    if count == 0 { String::new() } else { format!("\x1b[{count}{direction}") }
}
