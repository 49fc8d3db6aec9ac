//! What the live area shows, and the two signals beside it: the title and OSC 7501.

use std::io::{Result, Write};
use std::time::Instant;

use super::app::App;
use super::screen::{Block, Frame, styled};
use super::text;
use super::turn::{Phase, TICK};

const PLACEHOLDER: &str = "Try \"plan the change\"";

/// The rows of the permission dialog between its rules.
const QUESTION: [&str; 4] =
    ["Bash command", "  touch demo.txt", "", "Do you want to run this command?"];

impl<W: Write> App<W> {
    /// Brings the screen up to date; the signals follow what they speak of.
    pub fn paint(&mut self, lines: usize, now: Instant) -> Result<()> {
        let frame = self.frame(lines, now);
        self.painter.paint(frame)?;
        self.signal()
    }

    /// Redraws for a new size.
    pub fn resize(&mut self, size: (usize, usize), now: Instant) -> Result<()> {
        self.ledger.note("resize", vec![size.0, size.1])?;
        // The frame depends on the width, which the painter holds.
        self.painter.set_size(size);
        let frame = self.frame(size.1, now);
        self.painter.redraw(frame)
    }

    /// Tells title and state when they changed. The title says idle during a dialog and while
    /// only a background task runs, as Claude Code's does.
    fn signal(&mut self) -> Result<()> {
        let asks = self.dialog.is_some();
        let title = if self.busy() && !asks { "⠂ demo" } else { "✳ demo" };
        let state = match () {
            () if asks => "blocked",
            () if self.turn.is_some() => "working",
            () => "idle",
        };
        if title != self.title {
            self.title = title;
            self.painter.send(&format!("\x1b]0;{title}\x07"))?;
        }
        if state != self.state {
            self.state = state;
            if self.osc {
                self.painter.send(&format!("\x1b]7501;state={state}:app=demo\x07"))?;
            }
        }
        Ok(())
    }

    /// A turn runs and the screen shows it.
    fn busy(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| !matches!(turn.phase, Phase::Background { .. }))
    }

    fn frame(&self, lines: usize, now: Instant) -> Frame {
        let cols = self.painter.cols();
        let mut rows = Vec::new();
        if let Some(dialog) = &self.dialog {
            rows.push(String::new());
            rows.push(marked_rule(' ', 0, cols));
            rows.extend(QUESTION.map(|row| fit(row, cols)));
            let mark = |option| if dialog.selected == option { "❯" } else { " " };
            rows.push(fit(&format!("{} 1. Yes", mark(0)), cols));
            rows.push(fit(&format!("{} 2. No", mark(1)), cols));
            rows.push(String::new());
            rows.push(styled("90", &fit("Esc to cancel", cols)));
            return Frame { rows, cursor: None };
        }
        if let Some(turn) = self.turn.as_ref().filter(|_| self.busy()) {
            let streamed = turn.streamed();
            if !streamed.is_empty() {
                rows.extend(Block::new("● ", streamed).rows(cols));
            }
            let time = turn.shown_time(now);
            let bright = (time.as_millis() / TICK.as_millis()).is_multiple_of(2);
            let spinner = fit(&format!("✶ Working… ({}s)", time.as_secs()), cols);
            rows.push(String::new());
            rows.push(styled(if bright { "33" } else { "93" }, &spinner));
        }
        rows.push(String::new());
        for prompt in &self.queue {
            let shown = text::clean(&prompt.draft.shown);
            rows.extend(Block { spaced: false, ..Block::new("❯ ", shown) }.styled("2").rows(cols));
        }
        let (composer, (row, col)) = self.composer.layout(cols.saturating_sub(3));
        // Of a long text, only a window with the cursor in it; the rules say how much is hidden, and
        // the prompt's mark is hidden with the first row, as in Claude Code 2.1.332, which shows 7
        // rows on a screen of 24.
        let room = (lines / 3).saturating_sub(1).max(3);
        let first = (row + 1).saturating_sub(room);
        let below = composer.len().saturating_sub(first + room);
        rows.push(marked_rule('↑', first, cols));
        let cursor = Some((rows.len() + row - first, (col + 2).min(cols.saturating_sub(1))));
        if self.composer.is_empty() {
            rows.push(format!("❯ {}", styled("2", &fit(PLACEHOLDER, cols.saturating_sub(2)))));
        } else {
            for (n, text) in composer.iter().skip(first).take(room).enumerate() {
                let mark = if first + n == 0 { "❯ " } else { "  " };
                rows.push(styled("", &format!("{mark}{text}")));
            }
        }
        rows.push(marked_rule('↓', below, cols));
        rows.push(styled("90", &fit(&self.footer(), cols)));
        Frame { rows, cursor }
    }

    fn footer(&self) -> String {
        let footer = match &self.turn {
            _ if self.quit_until.is_some() => "Press Ctrl-C again to exit",
            None => "? for shortcuts",
            Some(_) if self.busy() => "esc to interrupt",
            Some(_) => "1 background task running · ? for shortcuts",
        };
        format!("  {footer}")
    }
}

/// A rule that says how many rows of the composer are hidden beyond it.
fn marked_rule(arrow: char, hidden: usize, cols: usize) -> String {
    let mark = if hidden > 0 { format!("─── {arrow} {hidden} more ") } else { String::new() };
    fit(&format!("{mark}{}", "─".repeat(cols)), cols)
}

/// The beginning of `text` that fits into `cols` cells.
fn fit(text: &str, cols: usize) -> String {
    if text::cells(text) <= cols {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if text::cells(&short) > cols {
            short.pop();
            break;
        }
    }
    short
}
