//! What the screen does about what the filter saw.

use super::{KITTY_DEPTH, OTHER_MODES, Screen, Signal};
use crate::host::filter::{Query, Seen};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Handler, KeyboardModes, NamedPrivateMode, PrivateMode};
use std::time::Instant;

impl Screen {
    /// Takes `bytes[done..end]` and what was seen at its end. Returns how much of `bytes` is done.
    pub(super) fn heed(
        &mut self,
        bytes: &[u8],
        done: usize,
        end: usize,
        what: Seen,
        now: Instant,
    ) -> usize {
        match what {
            Seen::Sync(on) => {
                self.advance(&bytes[done..end]);
                if on {
                    self.begin_sync(now);
                } else {
                    self.end_sync();
                }
                return end;
            }
            Seen::ClearHistory => {
                // What was not handed out is about to go.
                let before = end.saturating_sub(1).max(done);
                self.advance(&bytes[done..before]);
                self.stash();
                self.advance(&bytes[before..end]);
                self.recount();
                return end;
            }
            Seen::AltScreen(_) | Seen::Mode(47 | 1047, _) => {
                let before = end.saturating_sub(1).max(done);
                self.advance(&bytes[done..before]);
                self.stash();
                self.advance(&bytes[before..end]);
                // The model does not know the older spellings.
                if let Seen::Mode(_, on) = what {
                    let mode = PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor);
                    if on {
                        self.term.set_private_mode(mode);
                    } else {
                        self.term.unset_private_mode(mode);
                    }
                }
                self.recount();
                return end;
            }
            Seen::Reset => {
                let before = end.saturating_sub(1).max(done);
                self.advance(&bytes[done..before]);
                self.stash();
                self.advance(&bytes[before..end]);
                self.recount();
                // A title from before the reset must not come after it.
                self.collect();
                self.end_sync();
                self.region = None;
                self.modes.clear();
                self.modify_keys = 0;
                self.kitty = [Vec::new(), Vec::new()];
                self.set_title(String::new());
                return end;
            }
            Seen::LongString => {
                self.advance(&bytes[done..end]);
                // The parser would keep the whole string in memory.
                self.advance(b"\x18");
                self.skipping = true;
                return end;
            }
            Seen::StringEnd => {
                self.skipping = false;
                // A BEL that ends a string rings no bell.
                return end + usize::from(bytes.get(end) == Some(&0x07));
            }
            Seen::Query(query) => {
                self.advance(&bytes[done..end]);
                self.collect();
                self.answer(query);
                return end;
            }
            Seen::KittyPush(flags) => {
                self.advance(&bytes[done..end]);
                self.push_kitty(flags);
                return end;
            }
            Seen::KittyPop(count) => {
                let stack =
                    &mut self.kitty[usize::from(self.term.mode().contains(TermMode::ALT_SCREEN))];
                stack.truncate(stack.len().saturating_sub(usize::from(count)));
            }
            Seen::KittySet(..) => {}
            Seen::Region(top, bottom) => self.set_region(top, bottom),
            Seen::Mode(mode, on) => {
                if self.modes.len() < OTHER_MODES || self.modes.contains_key(&mode) {
                    self.modes.insert(mode, on);
                }
            }
            Seen::ModifyKeys(level) => self.modify_keys = level,
            Seen::State(text) => self.signals.push(Signal::State(text)),
            Seen::Mark(text) => self.signals.push(Signal::Mark(text)),
        }
        done
    }

    fn push_kitty(&mut self, flags: u8) {
        let stack = &mut self.kitty[usize::from(self.term.mode().contains(TermMode::ALT_SCREEN))];
        stack.push(flags & 0x1f);
        if stack.len() > KITTY_DEPTH {
            stack.remove(0);
            // The model's own limit is 4096, and it fails to keep it.
            self.term.pop_keyboard_modes(u16::MAX);
            for flags in stack.iter() {
                self.term.push_keyboard_mode(KeyboardModes::from_bits_truncate(*flags));
            }
        }
    }

    fn set_region(&mut self, top: u16, bottom: u16) {
        let rows = self.term.screen_lines() as u16;
        let top = top.max(1);
        let bottom = if bottom == 0 { rows } else { bottom.min(rows) };
        if top < bottom {
            self.region = ((top, bottom) != (1, rows)).then_some((top, bottom));
        }
    }

    fn set_title(&mut self, title: String) {
        if self.title != title {
            self.title.clone_from(&title);
            self.signals.push(Signal::Title(title));
        }
    }

    fn answer(&mut self, query: Query) {
        let grid = self.term.grid();
        let reply = match query {
            Query::Cursor => {
                let point = grid.cursor.point;
                format!("\x1b[?{};{}R", point.line.0 + 1, point.column.0 + 1)
            }
            Query::Version => format!("\x1bP>|mado({})\x1b\\", env!("CARGO_PKG_VERSION")),
            Query::ScreenCells => {
                format!("\x1b[9;{};{}t", self.term.screen_lines(), self.term.columns())
            }
            Query::Scheme => format!("\x1b[?997;{}n", if self.colours.dark() { 1 } else { 2 }),
            // "Not a valid request": the program goes on at once instead of waiting.
            Query::Setting => "\x1bP0$r\x1b\\".to_owned(),
            Query::Capability => "\x1bP0+r\x1b\\".to_owned(),
        };
        self.replies.extend_from_slice(reply.as_bytes());
    }
}
