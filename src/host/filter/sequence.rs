//! What one escape sequence is: a query, something to note, or neither.

use super::{BEL, CAN, ENQ, ESC, HOLD, Query, SUB, Seen, State};

/// Most bytes of an unfinished control sequence that are held; the longest query is far shorter.
const HOLD_CSI: usize = 256;

/// A sequence, or as much of it as is decided at once.
pub(super) struct Next {
    /// Its bytes.
    pub length: usize,
    pub verdict: Verdict,
    /// What surrounds the byte after it.
    pub state: State,
}

pub(super) enum Verdict {
    Pass,
    /// It is a query; what remains of it, often nothing.
    Replace(Vec<u8>),
}

#[allow(clippy::unnecessary_wraps)]
fn pass(length: usize, state: State) -> Option<Next> {
    Some(Next { length, verdict: Verdict::Pass, state })
}

/// Drops a sequence, except for control characters in the midst of it: terminals act on those.
#[allow(clippy::unnecessary_wraps)]
fn drop(sequence: &[u8], state: State) -> Option<Next> {
    let controls =
        sequence.iter().copied().filter(|b| *b < 0x20 && *b != ESC && *b != ENQ).collect();
    Some(Next { length: sequence.len(), verdict: Verdict::Replace(controls), state })
}

/// Looks at the sequence that `s` begins with; `s[0]` is ESC. `None`: its end must be seen first.
/// `note` gets what was noted and the length up to there.
pub(super) fn next(s: &[u8], mut note: impl FnMut(usize, Seen)) -> Option<Next> {
    // Control characters within a sequence are acted on and do not end it.
    let inner = |b: u8| b < 0x20 && !matches!(b, ESC | CAN | SUB);
    let Some(at) = s[1..].iter().position(|&b| !inner(b)) else {
        return if s.len() > HOLD_CSI { pass(s.len(), State::Ground) } else { None };
    };
    let at = at + 1;
    match s[at] {
        b'[' => csi(s, at + 1, note),
        b']' => osc(s, at + 1, note),
        b'P' => dcs(s, at + 1, note),
        b'X' | b'^' | b'_' => pass(at + 1, State::String),
        ESC => pass(at, State::Ground),
        0x20..=0x2f => {
            let end = s[at..].iter().position(|&b| !(inner(b) || matches!(b, 0x20..=0x2f)));
            match end {
                None if s.len() > HOLD_CSI => pass(s.len(), State::Ground),
                None => None,
                Some(end) if s[at + end] == ESC => pass(at + end, State::Ground),
                Some(end) => pass(at + end + 1, State::Ground),
            }
        }
        // DECID, the oldest way to ask for DA1.
        b'Z' => drop(&s[..=at], State::Ground),
        b'c' => {
            note(at + 1, Seen::Reset);
            pass(at + 1, State::Ground)
        }
        _ => pass(at + 1, State::Ground),
    }
}

fn csi(s: &[u8], body: usize, mut note: impl FnMut(usize, Seen)) -> Option<Next> {
    let end = s[body..].iter().position(|b| matches!(*b, 0x40..=0x7e | CAN | SUB | ESC));
    let Some(end) = end.map(|e| e + body) else {
        return if s.len() > HOLD_CSI { pass(s.len(), State::Csi) } else { None };
    };
    match s[end] {
        ESC => return pass(end, State::Ground),
        CAN | SUB => return pass(end + 1, State::Ground),
        _ => {}
    }
    let length = end + 1;
    // Most sequences are colours and moves; they are done with here.
    let first = s[body];
    if matches!(s[end], b'm' | b'H' | b'A'..=b'G' | b'K' | b'X' | b'P' | b'd')
        && !matches!(first, b'<'..=b'?')
    {
        return pass(length, State::Ground);
    }
    let csi = Csi::parse(&s[body..=end]);
    if csi.query(|what| note(length, what)) {
        return drop(&s[..length], State::Ground);
    }
    csi.note(|what| note(length, what));
    pass(length, State::Ground)
}

/// A control sequence taken apart.
struct Csi {
    /// One of `<=>?`, or zero.
    private: u8,
    params: Vec<u16>,
    /// The intermediate byte, or zero; more than one intermediate is none of ours.
    intermediate: u8,
    last: u8,
}

impl Csi {
    fn parse(body: &[u8]) -> Csi {
        let mut csi = Csi { private: 0, params: vec![], intermediate: 0, last: 0 };
        let mut param: Option<u16> = None;
        for &b in body {
            match b {
                b'0'..=b'9' => {
                    let digit = u16::from(b - b'0');
                    param = Some(param.unwrap_or(0).saturating_mul(10).saturating_add(digit));
                }
                b';' | b':' => csi.params.push(param.take().unwrap_or(0)),
                b'<'..=b'?' => csi.private = b,
                0x20..=0x2f if csi.intermediate == 0 => csi.intermediate = b,
                0x20..=0x2f => csi.intermediate = 0xff,
                0x40..=0x7e => csi.last = b,
                _ => {}
            }
        }
        if let Some(param) = param {
            csi.params.push(param);
        }
        csi
    }

    fn param(&self, index: usize) -> u16 {
        self.params.get(index).copied().unwrap_or(0)
    }

    /// Whether a terminal would answer. Notes the queries that the model does not answer.
    ///
    /// The list is xterm's control sequences (patch 400), the kitty keyboard protocol and
    /// contour's colour scheme report.
    fn query(&self, mut note: impl FnMut(Seen)) -> bool {
        match (self.private, self.intermediate, self.last) {
            // DA1, DSR and CPR, DECREQTPARM; DA2, DA3.
            (0, 0, b'c' | b'n' | b'x')
            | (b'>' | b'=', 0, b'c')
            // DECRQM of either kind, DECRQTSR, DECRQPSR.
            | (0, b'$', b'p' | b'u' | b'w')
            | (b'?', b'$', b'p')
            // Kitty keyboard flags, `modifyOtherKeys`, sixel geometry.
            | (b'?', 0, b'u' | b'm' | b'S')
            // DECRQUPSS, DECRQCRA, XTREPORTSGR.
            | (0, b'&', b'u')
            | (0, b'*', b'y')
            | (0, b'#', b'|') => true,
            (b'?', 0, b'n') => {
                match self.param(0) {
                    6 => note(Seen::Query(Query::Cursor)),
                    996 => note(Seen::Query(Query::Scheme)),
                    _ => {}
                }
                true
            }
            (b'>', 0, b'q') => {
                note(Seen::Query(Query::Version));
                true
            }
            (0, 0, b't') => match self.param(0) {
                19 => {
                    note(Seen::Query(Query::ScreenCells));
                    true
                }
                11 | 13..=18 | 20 | 21 => true,
                _ => false,
            },
            _ => false,
        }
    }

    fn note(&self, mut note: impl FnMut(Seen)) {
        match (self.private, self.intermediate, self.last) {
            (b'?', 0, b'h' | b'l') => {
                let on = self.last == b'h';
                for &mode in &self.params {
                    match mode {
                        2026 => note(Seen::Sync(on)),
                        1049 => note(Seen::AltScreen(on)),
                        // Kept by the model.
                        1 | 3 | 6 | 7 | 12 | 25 | 1000 | 1002..=1007 | 2004 => {}
                        other => note(Seen::Mode(other, on)),
                    }
                }
            }
            (0, 0, b'J') if self.param(0) == 3 => note(Seen::ClearHistory),
            (0, 0, b'r') => note(Seen::Region(self.param(0), self.param(1))),
            (b'>', 0, b'm') if self.params.is_empty() || self.param(0) == 4 => {
                note(Seen::ModifyKeys(self.param(1)));
            }
            (b'>', 0, b'u') => note(Seen::KittyPush(self.param(0) as u8)),
            (b'<', 0, b'u') => note(Seen::KittyPop(self.param(0).max(1))),
            (b'=', 0, b'u') => {
                note(Seen::KittySet(self.param(0) as u8, self.param(1).max(1)));
            }
            _ => {}
        }
    }
}

/// Whether an operating system command of this number may be a query or is listened to.
fn heeded(number: &[u8]) -> bool {
    matches!(
        number,
        b"4" | b"5"
            | b"10"
            | b"11"
            | b"12"
            | b"13"
            | b"14"
            | b"15"
            | b"16"
            | b"17"
            | b"18"
            | b"19"
            | b"21"
            | b"22"
            | b"52"
            | b"133"
            | b"7501"
    )
}

fn osc(s: &[u8], body: usize, mut note: impl FnMut(usize, Seen)) -> Option<Next> {
    let text = &s[body..];
    let digits = text.iter().position(|b| !b.is_ascii_digit());
    let Some(digits) = digits else {
        return if text.len() > 5 { pass(s.len(), State::Osc(s.len())) } else { None };
    };
    if !heeded(&text[..digits]) || text[digits] != b';' {
        return pass(body + digits, State::Osc(digits));
    }
    let end = text.iter().position(|b| matches!(*b, BEL | CAN | SUB | ESC));
    let Some(end) = end else {
        return if s.len() > HOLD { pass(s.len(), State::Osc(s.len())) } else { None };
    };
    let length = match text[end] {
        BEL => body + end + 1,
        ESC => match text.get(end + 1) {
            None => return None,
            Some(b'\\') => body + end + 2,
            // The ESC ends the command and begins a sequence of its own.
            Some(_) => body + end,
        },
        // A cancelled command: terminals differ in whether they act on it, so it is treated as
        // one that ended. The CAN itself stays in the stream.
        _ => body + end,
    };
    let (number, payload) = (&text[..digits], &text[digits + 1..end]);
    let lossy = || String::from_utf8_lossy(payload).into_owned();
    match number {
        b"7501" => note(length, Seen::State(lossy())),
        b"133" => note(length, Seen::Mark(lossy())),
        _ => {
            if let Some(by) = colour_query(number, payload, &s[body + end..length]) {
                return Some(Next { length, verdict: Verdict::Replace(by), state: State::Ground });
            }
        }
    }
    pass(length, State::Ground)
}

/// If the command asks something: what is left of it without the questions.
fn colour_query(number: &[u8], payload: &[u8], terminator: &[u8]) -> Option<Vec<u8>> {
    let fields: Vec<&[u8]> = payload.split(|b| *b == b';').collect();
    let asks = |field: &&[u8]| *field == b"?" || field.ends_with(b"=?");
    if !fields.iter().any(asks) {
        return None;
    }
    let terminator = if terminator.is_empty() { b"\x1b\\" } else { terminator };
    let mut left = Vec::new();
    let mut set = |number: &[u8], values: &[&[u8]]| {
        left.extend_from_slice(b"\x1b]");
        left.extend_from_slice(number);
        for value in values {
            left.push(b';');
            left.extend_from_slice(value);
        }
        left.extend_from_slice(terminator);
    };
    match number {
        // Pairs of an index and a value.
        b"4" | b"5" => {
            for pair in fields.chunks(2) {
                if pair.len() == 2 && pair[1] != b"?" {
                    set(number, pair);
                }
            }
        }
        // Values for this number and those that follow it.
        b"10" | b"11" | b"12" | b"13" | b"14" | b"15" | b"16" | b"17" | b"18" | b"19" => {
            let first = u32::from(number[1] - b'0') + 10;
            for (number, value) in (first..).zip(&fields) {
                if *value != b"?" {
                    set(number.to_string().as_bytes(), &[value]);
                }
            }
        }
        // Kitty's colours: names with values.
        b"21" => {
            let values: Vec<&[u8]> = fields.iter().copied().filter(|f| !asks(f)).collect();
            if !values.is_empty() {
                set(number, &values);
            }
        }
        _ => {}
    }
    Some(left)
}

fn dcs(s: &[u8], body: usize, mut note: impl FnMut(usize, Seen)) -> Option<Next> {
    let Some(end) = s[body..].iter().position(|b| matches!(*b, 0x40..=0x7e | CAN | SUB | ESC))
    else {
        return if s.len() > HOLD_CSI { pass(s.len(), State::String) } else { None };
    };
    let end = body + end;
    match s[end] {
        ESC => return pass(end, State::Ground),
        CAN | SUB => return pass(end + 1, State::Ground),
        _ => {}
    }
    let query = match (s[end], s[end - 1]) {
        (b'q', b'$') => Query::Setting,
        (b'q', b'+') => Query::Capability,
        _ => return pass(end + 1, State::String),
    };
    note(end + 1, Seen::Query(query));
    drop(&s[..=end], State::Drop)
}
