//! The course of a turn in time: think, ask, run a silent tool, stream, end.

use std::io::{Result, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::answer::{self, Ending, Script};
use super::app::{App, Prompt};
use super::screen::Block;
use super::text;

/// The spinner is repainted this often.
pub const TICK: Duration = Duration::from_millis(150);
/// The shortest time between an approval and what follows.
const AFTER_APPROVAL: Duration = Duration::from_millis(100);
const FLOOD_CHUNK: u64 = 64 * 1024;
/// One filler line with its newline.
const FLOOD_LINE: u64 = 64;

/// Where a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Think { until: Instant },
    Silent { until: Instant },
    Stream { shown: usize, next: Instant },
    Flood { left: u64 },
    Background { until: Instant },
}

/// A running turn.
#[derive(Debug)]
pub struct Turn {
    pub id: String,
    pub script: Script,
    pub started: Instant,
    pub phase: Phase,
    /// When to open the dialog, until that happened.
    pub ask_at: Option<Instant>,
}

impl Turn {
    /// The part of the answer that has been streamed.
    pub fn streamed(&self) -> String {
        let Phase::Stream { shown, .. } = self.phase else { return String::new() };
        let mut left = shown;
        let end = self.script.text.match_indices([' ', '\n']).find_map(|(at, _)| {
            left = left.saturating_sub(1);
            (left == 0).then_some(at)
        });
        match end {
            _ if shown == 0 => String::new(),
            Some(end) => text::clean(&self.script.text[..end]),
            None => text::clean(&self.script.text),
        }
    }

    /// A dialog closed: nothing follows it at once.
    pub fn resume(&mut self, now: Instant) {
        if let Phase::Think { until } = &mut self.phase {
            *until = (*until).max(now + AFTER_APPROVAL);
        }
    }

    /// The time shown beside the spinner. It stands still while a silent tool runs.
    pub fn shown_time(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Silent { .. } => Duration::ZERO,
            _ => now.duration_since(self.started),
        }
    }

    fn next_event(&self, now: Instant) -> Instant {
        let phase = match self.phase {
            Phase::Silent { until } | Phase::Background { until } => return until,
            Phase::Flood { .. } => return now,
            Phase::Think { until } => self.ask_at.map_or(until, |ask| ask.min(until)),
            Phase::Stream { next, .. } => next,
        };
        phase.min(now + TICK)
    }
}

impl<W: Write> App<W> {
    /// Does all that is due at `now`. While a dialog is open, turns stand still.
    pub fn advance(&mut self, now: Instant) -> Result<()> {
        self.quit_until.take_if(|until| *until <= now);
        while self.dialog.is_none() && self.exit.is_none() {
            let Some(turn) = self.turn.take() else {
                // However short the turn is, the signals say that it works.
                if let Some(prompt) = self.queue.pop_front() {
                    self.begin(prompt, now);
                }
                break;
            };
            // Between two turns the screen and the signals show that the first is over.
            if !self.step(turn, now)? || self.turn.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// When [`App::advance`] or [`App::write_records`] has something to do next.
    pub fn next_event(&self, now: Instant) -> Option<Instant> {
        let turn = match &self.turn {
            _ if self.dialog.is_some() => None,
            Some(turn) => Some(turn.next_event(now)),
            None => (!self.queue.is_empty()).then_some(now),
        };
        [turn, self.record_due(), self.quit_until].into_iter().flatten().min()
    }

    fn begin(&mut self, prompt: Prompt, now: Instant) {
        self.turns += 1;
        let script = self.voice.script(&prompt.draft.text, self.turns);
        let id = format!("t{}", self.turns_before + self.turns);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.record(
            json!({
                "type": "prompt",
                "turn": id,
                "text": prompt.draft.text,
                "human": prompt.human,
                "at": at as u64,
            }),
            now,
        );
        self.painter.commit(Block::new("❯ ", text::clean(&prompt.draft.shown)));
        self.turn = Some(Turn {
            id,
            started: now,
            phase: Phase::Think { until: now + self.think },
            ask_at: script.ask_after.map(|after| now + after),
            script,
        });
    }

    /// Moves the turn on by one phase if it is time; false if it is not.
    fn step(&mut self, mut turn: Turn, now: Instant) -> Result<bool> {
        if turn.ask_at.take_if(|ask| *ask <= now).is_some() {
            self.turn = Some(turn);
            self.open_dialog(true)?;
            return Ok(true);
        }
        let moved = match turn.phase {
            Phase::Think { until } if until <= now && turn.ask_at.is_none() => {
                if let Some(silent) = turn.script.silent {
                    self.painter.commit(Block::new("● ", "Bash(sleep)"));
                    turn.phase = Phase::Silent { until: now + silent };
                } else {
                    return self.speak(turn, now);
                }
                true
            }
            Phase::Silent { until } if until <= now => return self.speak(turn, now),
            Phase::Stream { shown, next } if next <= now => {
                let gap = turn.script.gap.unwrap_or_default();
                if shown >= turn.script.text.split([' ', '\n']).count() {
                    return self.answer(turn, now);
                }
                turn.phase = Phase::Stream { shown: shown + 1, next: next + gap };
                true
            }
            Phase::Flood { left } => {
                let size = left.min(FLOOD_CHUNK);
                let block = Block { rest: "", spaced: false, ..Block::new("", filler(size)) };
                self.painter.commit(block);
                if left == size {
                    return self.done(turn, now);
                }
                turn.phase = Phase::Flood { left: left - size };
                // One chunk at a time, so that keys are read in between.
                false
            }
            Phase::Background { until } if until <= now => {
                let text = "The background task finished.";
                self.painter.commit(Block::new("● ", text));
                self.end(&turn.id, text, now);
                return Ok(true);
            }
            _ => false,
        };
        self.turn = Some(turn);
        Ok(moved)
    }

    /// Begins the answer, or ends the turn in another way.
    fn speak(&mut self, mut turn: Turn, now: Instant) -> Result<bool> {
        match turn.script.ending {
            Ending::Crash => {
                // The turn stays, so that the last signal says that it runs.
                self.turn = Some(turn);
                self.exit = Some(1);
            }
            Ending::Error(code) => {
                let text = answer::error_text(code);
                self.painter.commit(Block::new("● ", text.as_str()).styled("31"));
                let line = json!({ "type": "error", "turn": turn.id, "code": code, "text": text });
                self.record(line, now + self.record_delay);
            }
            Ending::Answer if turn.script.gap.is_some() => {
                turn.phase = Phase::Stream { shown: 0, next: now };
                self.turn = Some(turn);
            }
            Ending::Answer => return self.answer(turn, now),
        }
        Ok(true)
    }

    /// Shows the whole answer.
    fn answer(&mut self, mut turn: Turn, now: Instant) -> Result<bool> {
        let shown = turn.script.coloured.take();
        let shown = shown.unwrap_or_else(|| text::clean(&turn.script.text));
        self.painter.commit(Block::new("● ", shown));
        if turn.script.flood > 0 {
            turn.phase = Phase::Flood { left: turn.script.flood };
            self.turn = Some(turn);
            return Ok(true);
        }
        self.done(turn, now)
    }

    /// Shows that the turn is over. The transcript says so a little later, as in Claude Code,
    /// whose last transcript line comes 50 to 230 ms after the last token.
    fn done(&mut self, mut turn: Turn, now: Instant) -> Result<bool> {
        self.ledger.note("done", turn.id.as_str())?;
        let seconds = now.duration_since(turn.started).as_secs().max(1);
        let line = format!("{} for {seconds}s", self.voice.verb());
        self.painter.commit(Block::new("✻ ", line).styled("90"));
        if let Some(more) = turn.script.background {
            let answer = json!({ "type": "answer", "turn": turn.id, "text": turn.script.text });
            self.record(answer, now + self.record_delay);
            turn.phase = Phase::Background { until: now + more };
            self.turn = Some(turn);
        } else {
            self.end(&turn.id, &turn.script.text, now);
        }
        Ok(true)
    }

    fn end(&mut self, id: &str, text: &str, now: Instant) {
        let due = now + self.record_delay;
        self.record(json!({ "type": "answer", "turn": id, "text": text }), due);
        self.record(json!({ "type": "end", "turn": id }), due);
    }
}

/// `size` bytes of numbered lines, newlines included, without the last newline.
fn filler(size: u64) -> String {
    let mut text = String::with_capacity(size as usize);
    for n in 0..size.div_ceil(FLOOD_LINE) {
        let left = (size - n * FLOOD_LINE).min(FLOOD_LINE) as usize - 1;
        let line = format!("{n:06} the quick brown fox jumps over the lazy dog, again and a");
        text.push_str(&line[..left.min(line.len())]);
        text.push('\n');
    }
    text.pop();
    text
}
