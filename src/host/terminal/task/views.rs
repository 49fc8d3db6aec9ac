//! From the program's output to views of its screen.

use super::Task;
use crate::host::pty::Did;
use crate::host::screen::{Screen, Signal};
use crate::host::terminal::Event;
use crate::host::terminal::writes::Source;
use crate::proto::screen::ScreenView;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A view is taken when the output has paused for so long …
const QUIET: Duration = Duration::from_millis(4);

/// … or when so much time has passed since the first change that is in no view.
const EVERY: Duration = Duration::from_millis(33);

/// Most bytes fed to the model between two looks at everything else. With 64 KiB a flood kept its
/// processor for 2 ms at a time, in which whoever was to hand on what was fed before waited: a Neovim
/// that shows the flood ran dry a tenth of the time.
pub(super) const BATCH: usize = 16 * 1024;

/// How long a viewer that is behind holds the program back before each [`BATCH`]. A viewer that reads as
/// fast as a terminal can then misses nothing, and no queue grows that its keys' echoes would wait
/// behind. The program keeps 2 MB/s whatever its viewers do, and all of its speed once the queue of one that
/// does not read has overflowed.
pub(super) const HOLD: Duration = Duration::from_millis(8);

/// Most bytes that a check reads. A program that has written more than a terminal's buffer holds
/// while it was read still floods, and its screen proves nothing.
pub(super) const CHECK_LIMIT: usize = 1 << 20;

/// Most signals (titles, marks, bells) that wait for the host; what is beyond is lost.
const SIGNALS: usize = 1000;

/// When the foreground is looked at again after the last activity: a command that prints nothing takes it
/// after its line was echoed. The last step is repeated.
pub(super) const FOREGROUND: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_secs(1)];

/// How long until a terminal whose program closed it is tried again, while the program runs.
pub(super) const REOPEN: Duration = Duration::from_millis(100);

/// When the foreground is looked at next.
pub(super) struct Watch {
    pub step: usize,
    pub at: Instant,
}

/// A change that is in no view yet.
pub(super) struct Dirty {
    first: Instant,
    last: Instant,
}

impl Task {
    /// Reads what is there, at most `limit` bytes. Returns whether that was all.
    pub(super) fn read(&mut self, limit: usize) -> bool {
        let mut buf = std::mem::take(&mut self.buf);
        let mut total = 0;
        let all = loop {
            let mut filled = 0;
            let last = loop {
                match self.pty.read(&mut buf[filled..]) {
                    Ok(Did::Bytes(n)) => filled += n,
                    Ok(Did::WouldBlock) => break Some(true),
                    Ok(Did::Closed) | Err(_) => {
                        self.closed();
                        break Some(true);
                    }
                }
                if filled == buf.len() || total + filled >= limit {
                    break None;
                }
            };
            total += filled;
            self.take(&buf[..filled]);
            if last.is_some() {
                break true;
            }
            if total >= limit {
                break false;
            }
        };
        self.buf = buf;
        self.flush();
        all
    }

    /// Reads everything that the program has written by now. Returns whether the screen can be
    /// relied on.
    pub(super) fn drain(&mut self) -> bool {
        let all = !self.open || self.read(CHECK_LIMIT);
        let now = Instant::now();
        self.screen.expire(now);
        all && !self.screen.mid_frame(now)
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut out = Vec::with_capacity(bytes.len());
        let screen = &mut self.screen;
        if catch_unwind(AssertUnwindSafe(|| screen.feed(bytes, now, &mut out))).is_err() {
            // A mistake in the model must not end the agent. What it showed is unknown now, and
            // looks it: an empty screen that the program's next full redraw fills.
            tracing::error!("the screen model of agent {} failed and starts anew", self.agent);
            let (rows, cols) = self.screen.size();
            let colours = self.screen.colours();
            self.screen = Screen::new(rows as u16, cols as u16, colours);
        }
        self.viewers.output(out, now);
        let replies = self.screen.take_replies();
        if !replies.is_empty() {
            self.writes.push(Source::Terminal, replies);
        }
        for signal in self.screen.take_signals() {
            // What the agent says of its state must not be lost to titles and bells, which nobody misses.
            let full = match signal {
                Signal::Title(_) | Signal::Bell => SIGNALS,
                Signal::State(_) | Signal::Mark(_) => 8 * SIGNALS,
            };
            if self.outbox.len() >= full {
                continue;
            }
            self.outbox.push_back(match signal {
                Signal::Title(text) => Event::Title(text),
                Signal::State(text) => Event::State(text),
                Signal::Mark(text) => Event::Mark(text),
                Signal::Bell => Event::Bell,
            });
        }
        self.touch(now);
    }

    /// The screen may have changed.
    pub(super) fn touch(&mut self, now: Instant) {
        match &mut self.dirty {
            Some(dirty) => dirty.last = now,
            None => self.dirty = Some(Dirty { first: now, last: now }),
        }
        if let Some(watch) = &mut self.watch {
            *watch = Watch { step: 0, at: now + FOREGROUND[0] };
        }
    }

    pub(super) fn foreground(&self) -> Option<bool> {
        self.watch.as_ref()?;
        Some(self.pty.foreground_pgrp() == Some(self.leader.pid))
    }

    pub(super) fn take_view(&mut self) -> ScreenView {
        self.dirty = None;
        let mut view = self.screen.take_view(Instant::now());
        view.foreground = self.foreground();
        view
    }

    /// When the next view is due.
    fn view_at(&self) -> Option<Instant> {
        let Dirty { first, last } = self.dirty.as_ref()?;
        let (paused, at_last) = (*last + QUIET, *first + EVERY);
        // A program that is held back has not paused.
        Some(if self.hold.is_some() { at_last } else { paused.min(at_last) })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        [
            self.view_at().filter(|_| !self.view_due),
            self.screen.deadline(),
            self.viewers.deadline(),
            self.watch.as_ref().filter(|_| self.exit.is_none()).map(|w| w.at),
            self.retry,
            self.hold,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn timers(&mut self, now: Instant) {
        if self.screen.expire(now) {
            self.view_due = true;
        }
        if self.view_at().is_some_and(|at| now >= at) {
            self.view_due = true;
        }
        self.viewers.refresh(&self.screen, now);
        if self.retry.is_some_and(|at| now >= at) {
            self.retry = None;
            self.open = true;
        }
        self.hold.take_if(|until| now >= *until);
        let foreground = self.foreground();
        if let Some(watch) = self.watch.as_mut().filter(|w| now >= w.at) {
            watch.step = (watch.step + 1).min(FOREGROUND.len() - 1);
            watch.at = now + FOREGROUND[watch.step];
            let differs = self.sent.as_ref().is_some_and(|sent| sent.foreground != foreground);
            self.view_due |= differs && self.exit.is_none();
        }
    }

    /// The view, unless it is the one that was sent last.
    pub(super) fn fresh_view(&mut self) -> Option<ScreenView> {
        let view = self.take_view();
        let shown = bare(&view);
        if view.scrolled_rows.is_empty() && self.sent.as_ref() == Some(&shown) {
            return None;
        }
        self.sent = Some(shown);
        Some(view)
    }
}

/// A view as it is compared: without the rows that left it.
pub(super) fn bare(view: &ScreenView) -> ScreenView {
    ScreenView { scrolled_rows: Vec::new(), unread: None, ..view.clone() }
}
