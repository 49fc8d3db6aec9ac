//! Walks a program's output once: takes out the terminal queries, and notes what the screen model
//! does not tell.
//!
//! The host answers queries itself (see [`super::screen`]). Were they to reach the viewers, each
//! viewer's terminal would answer too, and the program would read the same reply several times
//! or take one for keys. Everything else passes byte for byte, in whatever pieces it arrives.
//!
//! A sequence is held back until it is known whether it is a query. No more than [`HOLD`] bytes
//! are ever held: what is longer than any query passes.

mod sequence;

use memchr::memchr2;
use sequence::{Next, Verdict};

/// Most bytes of an unfinished sequence that are held back.
pub const HOLD: usize = 1024;

/// Strings longer than this many bytes are reported with [`Seen::LongString`].
const LONG_STRING: usize = 64 * 1024;

const ENQ: u8 = 0x05;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// A query that the screen model has no answer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// DECXCPR, `CSI ? 6 n`.
    Cursor,
    /// XTVERSION, `CSI > q`.
    Version,
    /// Size of the screen in cells, `CSI 19 t`.
    ScreenCells,
    /// Dark or light, `CSI ? 996 n`.
    Scheme,
    /// DECRQSS, `DCS $ q … ST`.
    Setting,
    /// XTGETTCAP, `DCS + q … ST`.
    Capability,
}

/// Something in the stream that the screen model does not surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A synchronised update (DEC 2026) begins or ends.
    Sync(bool),
    /// The alternate screen (DEC 1049) is entered or left.
    AltScreen(bool),
    /// The scrollback is cleared (`CSI 3 J`).
    ClearHistory,
    /// The terminal is reset (RIS).
    Reset,
    /// The scroll region (DECSTBM) is set; zero means the default.
    Region(u16, u16),
    /// A private mode that the model does not keep is set or reset.
    Mode(u16, bool),
    /// xterm's `modifyOtherKeys` is set to a level.
    ModifyKeys(u16),
    /// Kitty keyboard flags are pushed.
    KittyPush(u8),
    /// Kitty keyboard flags are popped, so many.
    KittyPop(u16),
    /// Kitty keyboard flags are changed: the flags, and how (1 replaces, 2 adds, 3 removes).
    KittySet(u8, u16),
    /// OSC 7501: the program reports its state. What followed `7501;`.
    State(String),
    /// OSC 133: a shell's prompt mark. What followed `133;`.
    Mark(String),
    /// A query that the model leaves unanswered.
    Query(Query),
    /// The string being received is too long for a model to keep. It goes on until
    /// [`Seen::StringEnd`].
    LongString,
    /// The end of a long string: the byte at the offset is its terminator's first.
    StringEnd,
}

/// What surrounds the next byte, if that is not the plain stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// In a control sequence that is too long to be a query.
    Csi,
    /// In an operating system command that passes, so many bytes long by now.
    Osc(usize),
    /// In a string of another kind that passes.
    String,
    /// In a device control string that is a query; it does not pass.
    Drop,
}

/// The filter of one terminal.
#[derive(Debug, Default)]
pub struct Filter {
    state: State,
    /// An unfinished sequence, from its ESC on. Only in [`State::Ground`] and [`State::Drop`].
    held: Vec<u8>,
    /// An unfinished UTF-8 character at the end of what was passed on.
    partial: Vec<u8>,
    /// The string now received was reported to be long.
    long: bool,
}

impl Filter {
    /// Appends to `out` what viewers get of `input`, and to `seen` what was noted, each with the
    /// offset in `input` just behind the sequence.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>, seen: &mut Vec<(usize, Seen)>) {
        if self.held.is_empty() {
            self.walk(input, 0, out, seen);
        } else {
            let before = self.held.len();
            let mut whole = std::mem::take(&mut self.held);
            whole.extend_from_slice(input);
            self.walk(&whole, before, out, seen);
        }
    }

    /// What puts a terminal that has just been painted into the state that the stream is in: the
    /// beginning of a string whose beginning it has missed, or of a character.
    #[must_use]
    pub fn resume(&self) -> Vec<u8> {
        match self.state {
            // An unknown command and a string without meaning swallow the rest of the real one.
            State::Osc(_) => b"\x1b]7777;".to_vec(),
            State::String => b"\x1bX".to_vec(),
            State::Csi => b"\x1b[?".to_vec(),
            State::Ground => self.partial.clone(),
            State::Drop => Vec::new(),
        }
    }

    /// What is held back now. For tests of the bound.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// `input` begins with what was held, `before` bytes.
    fn walk(
        &mut self,
        input: &[u8],
        before: usize,
        out: &mut Vec<u8>,
        seen: &mut Vec<(usize, Seen)>,
    ) {
        // `input[passed..pos]` passes, but is not in `out` yet.
        let mut passed = 0;
        let mut pos = 0;
        let mut note = |end: usize, what: Seen| seen.push((end.saturating_sub(before), what));
        while pos < input.len() {
            let rest = &input[pos..];
            match self.state {
                State::Ground => {
                    let Some(found) = memchr2(ESC, ENQ, rest) else {
                        pos = input.len();
                        break;
                    };
                    pos += found;
                    if input[pos] == ENQ {
                        out.extend_from_slice(&input[passed..pos]);
                        pos += 1;
                        passed = pos;
                        continue;
                    }
                    let Some(Next { length, verdict, state }) =
                        sequence::next(&input[pos..], |end, what| note(pos + end, what))
                    else {
                        out.extend_from_slice(&input[passed..pos]);
                        self.held.extend_from_slice(&input[pos..]);
                        self.partial.clear();
                        return;
                    };
                    match verdict {
                        Verdict::Pass => {}
                        Verdict::Replace(by) => {
                            out.extend_from_slice(&input[passed..pos]);
                            out.extend_from_slice(&by);
                            passed = pos + length;
                        }
                    }
                    pos += length;
                    self.state = state;
                }
                State::Csi => {
                    let end = rest.iter().position(|b| matches!(*b, 0x40..=0x7e | CAN | SUB | ESC));
                    let Some(end) = end else {
                        pos = input.len();
                        break;
                    };
                    // An ESC begins a sequence of its own; all others belong to this one.
                    pos += end + usize::from(rest[end] != ESC);
                    self.state = State::Ground;
                }
                State::Osc(length) => {
                    let end = rest.iter().position(|b| matches!(*b, BEL | CAN | SUB | ESC));
                    let length = length + end.unwrap_or(rest.len());
                    self.state = State::Osc(length);
                    if length > LONG_STRING && !self.long {
                        self.long = true;
                        note(pos, Seen::LongString);
                    }
                    let Some(end) = end else {
                        pos = input.len();
                        break;
                    };
                    pos += end;
                    if std::mem::take(&mut self.long) {
                        note(pos, Seen::StringEnd);
                    }
                    pos += usize::from(input[pos] != ESC);
                    self.state = State::Ground;
                }
                State::String => {
                    let Some(end) = rest.iter().position(|b| matches!(*b, CAN | SUB | ESC)) else {
                        pos = input.len();
                        break;
                    };
                    pos += end + usize::from(rest[end] != ESC);
                    self.state = State::Ground;
                }
                State::Drop => {
                    let Some(end) = rest.iter().position(|b| matches!(*b, CAN | SUB | ESC)) else {
                        return;
                    };
                    pos += end;
                    passed = pos;
                    if input[pos] == ESC {
                        match input.get(pos + 1) {
                            None => {
                                self.held.push(ESC);
                                return;
                            }
                            Some(b'\\') => {
                                pos += 2;
                                passed = pos;
                            }
                            Some(_) => {}
                        }
                    }
                    self.state = State::Ground;
                }
            }
        }
        out.extend_from_slice(&input[passed..pos]);
        self.note_partial(&input[passed..pos]);
    }

    /// Keeps the beginning of a character that `passed` ends with.
    fn note_partial(&mut self, passed: &[u8]) {
        if passed.is_empty() {
            return;
        }
        self.partial.extend_from_slice(&passed[passed.len().saturating_sub(3)..]);
        let from = self.partial.len().saturating_sub(3);
        let tail = &self.partial[from..];
        let begin = (0..tail.len()).find(|&i| {
            let length = match tail[i] {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 0,
            };
            length > tail.len() - i && tail[i + 1..].iter().all(|b| matches!(b, 0x80..=0xbf))
        });
        self.partial = begin.map(|i| tail[i..].to_vec()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
