//! What a viewer's terminal sends: a person's keys, or its own doing.
//!
//! A person's key stops a hop; a focus change, a mouse report or a terminal's reply must not. The
//! forms are those of xterm's control sequences and of the kitty keyboard protocol.

/// What a piece of input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Typed or pasted by a person.
    Human,
    /// A focus change, the mouse, the release of a key, a change of colour scheme: the program
    /// asked to be told and is, but nobody typed.
    Report,
    /// A reply to a query. The host answers queries itself, so that this one is nobody's and the
    /// program must not get it.
    Reply,
}

/// A piece of input of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// It holds an Enter that is not part of a paste and has no modifier.
    pub submits: bool,
    /// There are other keys after the last such Enter, or there is none.
    pub rest: bool,
}

/// Longest unfinished sequence that is kept until it is known what it is, in bytes. What is longer is no
/// reply that a terminal sends.
const HOLD: usize = 4096;

/// Longest unfinished control sequence that is kept; keys and reports are shorter.
const HOLD_CSI: usize = 64;

const ESC: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";

/// The classifier of one viewer's input.
#[derive(Debug, Default)]
pub struct Keys {
    held: Vec<u8>,
    pasting: bool,
}

/// What a position in the input begins with.
enum Token {
    /// A whole token of so many bytes.
    Whole { kind: Kind, length: usize, submits: bool },
    /// A bracketed paste begins; the mark is so many bytes long.
    Paste(usize),
    /// More must be seen.
    Partial,
}

fn human(length: usize) -> Token {
    Token::Whole { kind: Kind::Human, length, submits: false }
}

impl Keys {
    /// Classifies the next input. Whatever can be a key is never kept back; the beginning of a
    /// reply or of a mark may be kept until the next call.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut input = std::mem::take(&mut self.held);
        input.extend_from_slice(bytes);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut push = |kind: Kind, bytes: &[u8], submits: bool| {
            if bytes.is_empty() {
                return;
            }
            // Plain keys come as a run, sequences one by one.
            let rest = !submits || (bytes[0] != ESC && bytes.last() != Some(&b'\r'));
            match pieces.last_mut() {
                Some(last) if last.kind == kind => {
                    last.bytes.extend_from_slice(bytes);
                    last.submits |= submits;
                    last.rest = rest;
                }
                _ => pieces.push(Piece { kind, bytes: bytes.to_vec(), submits, rest }),
            }
        };
        let mut rest = &input[..];
        while !rest.is_empty() {
            if self.pasting {
                let end = find(rest, PASTE_END);
                let length = match end {
                    Some(at) => at + PASTE_END.len(),
                    // The end mark may be cut.
                    None => rest.len() - prefix_at_end(rest, PASTE_END),
                };
                self.pasting = end.is_none();
                push(Kind::Human, &rest[..length], false);
                if end.is_none() {
                    self.held = rest[length..].to_vec();
                    break;
                }
                rest = &rest[length..];
                continue;
            }
            match token(rest) {
                Token::Whole { kind, length, submits } => {
                    push(kind, &rest[..length], submits);
                    rest = &rest[length..];
                }
                Token::Paste(length) => {
                    push(Kind::Human, &rest[..length], false);
                    rest = &rest[length..];
                    self.pasting = true;
                }
                Token::Partial => {
                    self.held = rest.to_vec();
                    break;
                }
            }
        }
        pieces
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

/// How many bytes at the end of `bytes` are a beginning of `mark`.
fn prefix_at_end(bytes: &[u8], mark: &[u8]) -> usize {
    (1..mark.len()).rev().find(|&n| bytes.ends_with(&mark[..n])).unwrap_or(0)
}

fn token(s: &[u8]) -> Token {
    if s[0] != ESC {
        let plain = s.iter().position(|b| *b == ESC).unwrap_or(s.len());
        let submits = s[..plain].contains(&b'\r');
        return Token::Whole { kind: Kind::Human, length: plain, submits };
    }
    match s.get(1) {
        // The Escape key, or Alt with Escape.
        None | Some(&ESC) => human(1),
        Some(b'[') => csi(s),
        Some(b'O') => match s.get(2) {
            None => human(2),
            Some(last) => Token::Whole { kind: Kind::Human, length: 3, submits: *last == b'M' },
        },
        // Alt with one of these, unless what follows belongs to a reply.
        Some(b']') if s.get(2).is_some_and(u8::is_ascii_digit) => string(s),
        Some(b'P') if s.get(2).is_some_and(|b| b.is_ascii_digit() || b">!$+".contains(b)) => {
            string(s)
        }
        Some(b'_') if s.get(2) == Some(&b'G') => string(s),
        // Alt with a key; with Enter it is a new line in every agent, so it submits nothing. The
        // key may be a character of several bytes: those follow as text.
        Some(_) => human(2),
    }
}

/// A reply in a string: OSC, DCS, APC.
fn string(s: &[u8]) -> Token {
    for (i, b) in s.iter().enumerate().skip(2) {
        match (*b, s.get(i + 1)) {
            (0x07, _) => return reply(i + 1),
            (ESC, Some(b'\\')) => return reply(i + 2),
            (ESC, None) => break,
            // Cut off by another sequence.
            (ESC, Some(_)) => return reply(i),
            _ => {}
        }
    }
    if s.len() > HOLD { human(s.len()) } else { Token::Partial }
}

fn reply(length: usize) -> Token {
    Token::Whole { kind: Kind::Reply, length, submits: false }
}

fn report(length: usize) -> Token {
    Token::Whole { kind: Kind::Report, length, submits: false }
}

fn csi(s: &[u8]) -> Token {
    let Some(end) = s[2..].iter().position(|b| !matches!(*b, 0x20..=0x3f)) else {
        // Alt with `[`, if nothing follows.
        return if s.len() == 2 || s.len() > HOLD_CSI { human(s.len()) } else { Token::Partial };
    };
    let end = end + 2;
    let length = end + 1;
    let body = &s[2..end];
    let private = body.first().copied().filter(|b| matches!(b, b'<'..=b'?'));
    let params: Vec<&[u8]> = body[usize::from(private.is_some())..].split(|b| *b == b';').collect();
    match (private, s[end]) {
        (None, b'I' | b'O') if body.is_empty() => report(length),
        // The oldest mouse report: three bytes of any value follow.
        (None, b'M') if body.is_empty() => {
            if s.len() < length + 3 {
                Token::Partial
            } else {
                report(length + 3)
            }
        }
        (Some(b'<'), b'M' | b'm') => report(length),
        (None, b'M') if params.len() == 3 => report(length),
        (Some(b'?'), b'n') if params[0] == b"997" => report(length),
        (Some(b'?' | b'>' | b'='), b'c')
        | (Some(b'?'), b'R' | b'n' | b'u' | b'S' | b'y')
        | (None, b'n' | b't' | b'x' | b'y') => reply(length),
        (None, b'R') => {
            // F3 with a modifier looks like a position in row 1. The modifier is 2 to 16.
            let modifier = params.get(1).and_then(|p| number(p));
            let key = params.len() < 2
                || params[0] == b"1" && modifier.is_some_and(|m| (2..=16).contains(&m));
            if key { human(length) } else { reply(length) }
        }
        (None, b'~') if body == b"200" => Token::Paste(length),
        (None, b'u') => {
            // Key code : alternates ; modifiers : event. Event 3 is the release.
            let mut second = params.get(1).copied().unwrap_or_default().split(|b| *b == b':');
            let modifier = second.next().and_then(number).unwrap_or(1);
            let event = second.next().and_then(number).unwrap_or(1);
            if event == 3 {
                return report(length);
            }
            let code = params[0].split(|b| *b == b':').next().and_then(number);
            // Enter and the keypad's. Caps lock (64) and num lock (128) are no modifiers here.
            let plain = modifier.saturating_sub(1) % 64 == 0;
            let submits = plain && matches!(code, Some(13 | 57414));
            Token::Whole { kind: Kind::Human, length, submits }
        }
        (None, _) if released(&params) => report(length),
        _ => human(length),
    }
}

/// The release of a key that is not sent as `u` (arrows, function keys): `CSI 1;1:3A`.
fn released(params: &[&[u8]]) -> bool {
    params.get(1).is_some_and(|p| p.ends_with(b":3"))
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(input: &str) -> Vec<(Kind, String)> {
        Keys::default()
            .feed(input.as_bytes())
            .into_iter()
            .map(|p| (p.kind, String::from_utf8_lossy(&p.bytes).into_owned()))
            .collect()
    }

    fn submits(input: &str) -> bool {
        Keys::default().feed(input.as_bytes()).iter().any(|p| p.submits)
    }

    #[test]
    fn keys_are_human() {
        for key in [
            "a",
            "é",
            "\r",
            "\t",
            "\x7f",
            "\x03",
            "\x1b",
            "\x1b\x1b",
            "\x1bx",
            "\x1b\r",
            "\x1b[A",
            "\x1b[1;5C",
            "\x1b[3~",
            "\x1bOP",
            "\x1bOM",
            "\x1b[",
            "\x1b]",
            "\x1bP",
            "\x1b_",
            "\x1bO",
            "\x1b[97;5u",
            "\x1b[1;2R",
            "\x1b[Z",
            "\x1b[27;2;13~",
            "\x1b[57414u",
            "\x1b]x",
        ] {
            assert_eq!(kinds(key), [(Kind::Human, key.to_owned())], "{key:?}");
        }
    }

    #[test]
    fn focus_mouse_and_releases_are_reports() {
        for report in [
            "\x1b[I",
            "\x1b[O",
            "\x1b[M !!",
            "\x1b[<0;10;5M",
            "\x1b[<0;10;5m",
            "\x1b[32;10;5M",
            "\x1b[?997;1n",
            "\x1b[97;1:3u",
            "\x1b[1;1:3A",
            "\x1b[3;1:3~",
        ] {
            assert_eq!(kinds(report), [(Kind::Report, report.to_owned())], "{report:?}");
        }
    }

    #[test]
    fn replies_are_nobodys() {
        for reply in [
            "\x1b[?62;22c",
            "\x1b[>0;95;0c",
            "\x1b[24;80R",
            "\x1b[1;40R",
            "\x1b[?1;2R",
            "\x1b[0n",
            "\x1b[?2026;2$y",
            "\x1b[4;0$y",
            "\x1b[?1u",
            "\x1b[8;24;80t",
            "\x1b[48;24;80;0;0t",
            "\x1b]11;rgb:0000/0000/0000\x07",
            "\x1b]10;rgb:ff/ff/ff\x1b\\",
            "\x1bP>|xterm(400)\x1b\\",
            "\x1bP1$r0m\x1b\\",
            "\x1b_Gi=31;OK\x1b\\",
        ] {
            assert_eq!(kinds(reply), [(Kind::Reply, reply.to_owned())], "{reply:?}");
        }
    }

    #[test]
    fn a_paste_is_human_and_its_newlines_submit_nothing() {
        let paste = "\x1b[200~a\rb\x1b[Ic\x1b[201~";
        assert_eq!(kinds(paste), [(Kind::Human, paste.to_owned())]);
        assert!(!submits(paste));
        assert!(submits(&format!("{paste}\r")));
    }

    #[test]
    fn only_an_enter_without_modifier_submits() {
        for yes in ["\r", "yes\r", "\x1b[13u", "\x1b[13;1u", "\x1b[13;65u", "\x1bOM", "\x1b[57414u"]
        {
            assert!(submits(yes), "{yes:?}");
        }
        for no in ["\n", "a", "\x1b\r", "\x1b[13;2u", "\x1b[13;1:3u", "\x1b[27;2;13~", "\x1b[I"] {
            assert!(!submits(no), "{no:?}");
        }
    }

    #[test]
    fn neighbours_are_told_apart() {
        assert_eq!(
            kinds("a\x1b[Ib\x1b[?62c\x1b[<0;1;1Mc"),
            [
                (Kind::Human, "a".to_owned()),
                (Kind::Report, "\x1b[I".to_owned()),
                (Kind::Human, "b".to_owned()),
                (Kind::Reply, "\x1b[?62c".to_owned()),
                (Kind::Report, "\x1b[<0;1;1M".to_owned()),
                (Kind::Human, "c".to_owned()),
            ]
        );
    }

    #[test]
    fn a_reply_or_a_paste_cut_in_two_is_still_one() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b]11;rgb:00"), []);
        assert_eq!(keys.feed(b"00/0000/0000\x1b")[..], []);
        let pieces = keys.feed(b"\\x");
        assert_eq!(pieces.iter().map(|p| p.kind).collect::<Vec<_>>(), [Kind::Reply, Kind::Human]);

        let mut keys = Keys::default();
        assert!(!keys.feed(b"\x1b[200~a\x1b[20")[0].submits);
        assert!(!keys.feed(b"\rstill\x1b[201").iter().any(|p| p.submits));
        assert!(keys.feed(b"~\r")[0].submits);
    }

    #[test]
    fn keys_after_an_enter_are_told_from_the_enter() {
        let rest = |input: &[u8]| {
            let pieces = Keys::default().feed(input);
            let last = pieces.last().unwrap();
            (last.submits, last.rest)
        };
        assert_eq!(rest(b"ls\r"), (true, false));
        assert_eq!(rest(b"ls\rrm -rf "), (true, true));
        assert_eq!(rest(b"ls\r\x1b[D"), (true, true));
        assert_eq!(rest(b"\x1b[Dls\r"), (true, false));
        assert_eq!(rest(b"ls"), (false, true));
        assert_eq!(rest(b"\x1bOM"), (true, false));
    }

    #[test]
    fn an_endless_reply_is_given_up_and_passed_on() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b]11;"), []);
        let pieces = keys.feed(&[b'x'; HOLD]);
        assert_eq!(pieces[0].kind, Kind::Human);
        assert_eq!(pieces[0].bytes.len(), HOLD + 5);
        assert_eq!(keys.feed(b"y")[0].bytes, b"y");
    }
}
