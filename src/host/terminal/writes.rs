//! What waits to be written to the program.
//!
//! One queue, in order: what the host types, what people type, the replies to queries. The kernel takes
//! what the program reads; the rest waits here, where it can still be given up.

use super::{Dropped, Event};
use crate::host::pty::{Did, Pty};
use std::collections::VecDeque;
use std::io;
use std::time::Instant;

/// Most bytes that wait for a program that does not read.
const LIMIT: usize = 4 << 20;

/// Most bytes of people's keys and of replies that wait; what is beyond is lost, as it is in any
/// terminal.
const KEYS_LIMIT: usize = 256 << 10;

/// Where a write comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// The host, decided at this pause and with so many human inputs known.
    Host { token: u64, epoch: u64, humans: u64 },
    /// A viewer, or the model's replies.
    Terminal,
}

#[derive(Debug)]
struct Entry {
    source: Source,
    bytes: Vec<u8>,
    written: usize,
}

/// The queue of one terminal.
#[derive(Debug, Default)]
pub(super) struct Writes {
    queue: VecDeque<Entry>,
    bytes: usize,
}

/// What a write of the host must have known to be performed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub epoch: u64,
    pub humans: u64,
}

impl Source {
    fn outdated(self, now: Now) -> Option<Dropped> {
        match self {
            Source::Host { epoch, .. } if epoch != now.epoch => Some(Dropped::Paused),
            Source::Host { humans, .. } if humans < now.humans => Some(Dropped::Human),
            _ => None,
        }
    }
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a write. Returns `false` if there is no room for it.
    pub(super) fn push(&mut self, source: Source, bytes: Vec<u8>) -> bool {
        let limit = match source {
            Source::Host { .. } => LIMIT,
            Source::Terminal => KEYS_LIMIT,
        };
        if self.bytes + bytes.len() > limit && !self.queue.is_empty() {
            return false;
        }
        self.bytes += bytes.len();
        self.queue.push_back(Entry { source, bytes, written: 0 });
        true
    }

    /// Gives up what was decided before `now`.
    pub(super) fn drop_outdated(&mut self, now: Now, mut tell: impl FnMut(Event)) {
        self.queue.retain(|entry| {
            let Source::Host { token, .. } = entry.source else { return true };
            let Some(why) = entry.source.outdated(now) else { return true };
            tell(Event::WriteDropped { token, written: entry.written, why });
            false
        });
        self.bytes = self.queue.iter().map(|e| e.bytes.len() - e.written).sum();
    }

    /// Gives up everything: the program is gone.
    pub(super) fn close(&mut self, mut tell: impl FnMut(Event)) {
        for entry in self.queue.drain(..) {
            if let Source::Host { token, .. } = entry.source {
                tell(Event::WriteDropped { token, written: entry.written, why: Dropped::Closed });
            }
        }
        self.bytes = 0;
    }

    /// Writes what the kernel takes, without waiting. `now` is asked before each `write(2)`, since
    /// a pause may be called at any time.
    pub(super) fn flush(
        &mut self,
        pty: &Pty,
        now: impl Fn() -> Now,
        mut tell: impl FnMut(Event),
    ) -> io::Result<()> {
        while let Some(entry) = self.queue.front_mut() {
            if let (Source::Host { token, .. }, Some(why)) =
                (entry.source, entry.source.outdated(now()))
            {
                tell(Event::WriteDropped { token, written: entry.written, why });
                self.bytes -= entry.bytes.len() - entry.written;
                self.queue.pop_front();
                continue;
            }
            if entry.written < entry.bytes.len() {
                match pty.write(&entry.bytes[entry.written..])? {
                    Did::Bytes(n) => {
                        entry.written += n;
                        self.bytes -= n;
                    }
                    Did::WouldBlock => return Ok(()),
                    Did::Closed => {
                        self.close(tell);
                        return Ok(());
                    }
                }
            }
            if entry.written == entry.bytes.len() {
                if let Source::Host { token, .. } = entry.source {
                    tell(Event::Written { token, at: Instant::now() });
                }
                self.queue.pop_front();
            }
        }
        Ok(())
    }
}
