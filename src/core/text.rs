//! Text on its way from an answer to a composer: made literal, defused, compared.

use super::profile::{DefuseRule, Pattern};
use std::collections::BTreeMap;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_width::UnicodeWidthChar;

/// What [`sanitise`] took out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Escape sequences, paste ends included.
    pub sequences: usize,
    /// Single control characters.
    pub controls: usize,
    /// Bidirectional controls, which make text look other than it is.
    pub bidi: usize,
}

impl Removed {
    /// One sentence for the hop, or nothing when nothing was removed.
    #[must_use]
    pub fn note(self) -> Option<String> {
        let mut parts = Vec::new();
        for (n, what) in [
            (self.sequences, "escape sequence"),
            (self.controls, "control character"),
            (self.bidi, "bidirectional control"),
        ] {
            if n > 0 {
                parts.push(format!("{n} {what}{}", if n == 1 { "" } else { "s" }));
            }
        }
        (!parts.is_empty()).then(|| format!("removed from the text: {}", parts.join(", ")))
    }
}

/// Makes text literal: what is left can be put inside a bracketed paste and never ends it.
///
/// Tab and newline stay; CR LF becomes a newline; every other control character (C0, DEL, C1),
/// every escape sequence and every bidirectional control goes. Nothing that is kept can begin an
/// escape sequence, so the result needs no second pass.
#[must_use]
pub fn sanitise(text: &str) -> (String, Removed) {
    let mut out = String::with_capacity(text.len());
    let mut removed = Removed::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\t' | '\n' => out.push(c),
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    removed.controls += 1;
                }
            }
            '\u{1b}' => {
                removed.sequences += 1;
                match chars.peek() {
                    Some('[') => {
                        chars.next();
                        skip_csi(&mut chars);
                    }
                    Some(']' | 'P' | 'X' | '^' | '_') => {
                        chars.next();
                        skip_string(&mut chars);
                    }
                    Some(c) if (' '..='/').contains(c) => {
                        while chars.peek().is_some_and(|c| (' '..='/').contains(c)) {
                            chars.next();
                        }
                        if chars.peek().is_some_and(|c| ('0'..='~').contains(c)) {
                            chars.next();
                        }
                    }
                    Some(c) if ('0'..='~').contains(c) => {
                        chars.next();
                    }
                    _ => {}
                }
            }
            '\u{9b}' => {
                removed.sequences += 1;
                skip_csi(&mut chars);
            }
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => {
                removed.sequences += 1;
                skip_string(&mut chars);
            }
            '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{61c}' => removed.bidi += 1,
            c if c.is_control() => removed.controls += 1,
            c => out.push(c),
        }
    }
    (out, removed)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips parameters, intermediates and the final byte of a control sequence. Stops before anything
/// that cannot belong to one, so that a broken sequence eats no text.
fn skip_csi(chars: &mut Chars) {
    while chars.peek().is_some_and(|c| (' '..='?').contains(c)) {
        chars.next();
    }
    if chars.peek().is_some_and(|c| ('@'..='~').contains(c)) {
        chars.next();
    }
}

/// Skips a string sequence up to its terminator, only when there is one on the same line; a string
/// that never ends would eat the rest of the answer.
fn skip_string(chars: &mut Chars) {
    let mut ahead = chars.clone();
    let mut n = 0usize;
    while let Some(c) = ahead.next() {
        n += 1;
        match c {
            '\u{7}' | '\u{9c}' => break,
            '\u{1b}' if ahead.peek() == Some(&'\\') => {
                n += 1;
                break;
            }
            '\n' | '\u{1b}' => return,
            _ => {}
        }
        if ahead.peek().is_none() {
            return;
        }
    }
    for _ in 0..n {
        chars.next();
    }
}

/// Applies the profile's rules for texts that the program would take as a command. Says what it
/// did, for the hop.
#[must_use]
pub fn defuse(text: &str, rules: &[DefuseRule]) -> (String, Option<String>) {
    let (mut prefix, mut suffix) = (String::new(), String::new());
    for rule in rules.iter().filter(|r| r.pattern.is_match(text)) {
        prefix.push_str(&rule.prefix);
        suffix.push_str(&rule.suffix);
    }
    let note = match (prefix.is_empty(), suffix.is_empty()) {
        (true, true) => None,
        (false, true) => Some("its beginning"),
        (true, false) => Some("its end"),
        (false, false) => Some("its beginning and its end"),
    };
    let note = note.map(|what| format!("{what} would be taken as a command; defused"));
    (format!("{prefix}{text}{suffix}"), note)
}

/// Folds text to what survives rendering: programs wrap, indent, expand tabs and use no-break
/// spaces; terminals drop or merge zero-width characters; Claude composes an `e` and its accent.
/// Programs and terminals also differ in how many cells a cluster of characters takes, and then one
/// writes over what the other drew (claude 2.1.197 and 2.1.332). So marks are left out, and of a run
/// of pictographs (`👩‍💻`, `👍🏽`) only the first is kept.
#[must_use]
pub fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = false;
    let shown =
        |c: &char| !c.is_whitespace() && c.width().is_some_and(|w| w > 0) && !is_combining_mark(*c);
    for c in text.nfc().filter(shown) {
        let picture = is_pictograph(c);
        if !(picture && run) {
            out.push(c);
        }
        run = picture;
    }
    out
}

/// What can be joined to, or coloured by, its neighbours: emoji, their modifiers, flags.
fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// How a composer's content compares to what mado typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Nothing.
    Empty,
    /// Exactly the text, or the program's own stand-in for it.
    Ours,
    /// Something else, or more, or less.
    Other,
}

/// Compares a composer's content with a text that was typed into it in one piece. `hidden` is how
/// many rows the program says it hides above what it shows; then what it shows must be the
/// text's own end.
#[must_use]
pub fn holds(composer: &str, hidden: usize, typed: &str, placeholder: Option<&Pattern>) -> Holds {
    holds_pieces(composer, hidden, &[typed], placeholder)
}

/// The same for a text that was written in pieces. A program may show its own stand-in for a
/// long piece, for the whole of it and nothing else; the number of lines or characters that it names
/// must fit.
#[must_use]
pub fn holds_pieces<S: AsRef<str>>(
    composer: &str,
    hidden: usize,
    pieces: &[S],
    placeholder: Option<&Pattern>,
) -> Holds {
    let mut shown = Vec::new();
    let mut rest = 0;
    for mark in placeholder.into_iter().flat_map(|p| p.0.captures_iter(composer)) {
        let Some(whole) = mark.get(0).filter(|m| !m.is_empty()) else { continue };
        shown.push(Shown::Text(fold(&composer[rest..whole.start()])));
        let count = |m: regex::Match| m.as_str().trim().parse().ok();
        let named = match mark.name("chars") {
            Some(chars) => Named { chars: count(chars), newlines: None },
            None => Named { chars: None, newlines: mark.get(1).and_then(count) },
        };
        shown.push(Shown::StandIn(named));
        rest = whole.end();
    }
    shown.push(Shown::Text(fold(&composer[rest..])));
    shown.retain(|s| !matches!(s, Shown::Text(text) if text.is_empty()));
    if shown.is_empty() {
        return if hidden == 0 { Holds::Empty } else { Holds::Other };
    }
    let typed: Vec<(String, &str)> =
        pieces.iter().map(|p| (fold(p.as_ref()), p.as_ref())).collect();
    if fits(&shown, &typed, hidden > 0) { Holds::Ours } else { Holds::Other }
}

/// A part of what a composer shows.
enum Shown {
    Text(String),
    StandIn(Named),
}

/// What a stand-in says of the text that it stands for.
#[derive(Clone, Copy)]
struct Named {
    chars: Option<usize>,
    newlines: Option<usize>,
}

/// Whether what is shown is made of the pieces, seen from the end. With `hidden` rows it is only
/// their end, and something of them must be left over.
fn fits(shown: &[Shown], pieces: &[(String, &str)], hidden: bool) -> bool {
    let empty = |pieces: &[(String, &str)]| pieces.iter().all(|(folded, _)| folded.is_empty());
    match shown.split_last() {
        None => hidden != empty(pieces),
        Some((Shown::StandIn(named), before)) => {
            let Some(last) = pieces.iter().rposition(|(folded, _)| !folded.is_empty()) else {
                return false;
            };
            stands_for(*named, pieces[last].1) && fits(before, &pieces[..last], hidden)
        }
        Some((Shown::Text(text), before)) => {
            let mut left = text.as_str();
            for (i, (folded, _)) in pieces.iter().enumerate().rev() {
                if let Some(rest) = left.strip_suffix(folded.as_str()) {
                    left = rest;
                } else {
                    // Its beginning may be among the hidden rows.
                    return hidden && before.is_empty() && folded.ends_with(left);
                }
                if left.is_empty() {
                    return fits(before, &pieces[..i], hidden);
                }
            }
            false
        }
    }
}

/// Whether a stand-in can be for a piece: programs use them for long ones only, and count its
/// newlines, give or take one at the edges, or its characters.
fn stands_for(named: Named, piece: &str) -> bool {
    let newlines = piece.matches('\n').count();
    let chars = piece.chars().count();
    let long = newlines >= 2 || chars >= 100;
    long && named.newlines.is_none_or(|n| n.abs_diff(newlines) <= 1)
        && named.chars.is_none_or(|n| n == chars)
}

/// The placeholders of a `prompt-wrap` template.
pub const PLACEHOLDERS: [&str; 4] = ["output", "round", "maxRounds", "source"];

/// The template used where a route names none: the answer, under the header that says whose it is.
pub const DEFAULT_TEMPLATE: &str = "{output}";

/// Checks a template; the error names the placeholder, its position and what is known.
pub fn check_template(template: &str) -> Result<(), String> {
    render(template, &BTreeMap::new()).map(|_| ())
}

/// Substitutes in one pass: what an answer brings in is never looked at again. `{{` is a brace.
pub fn render(template: &str, values: &BTreeMap<&str, String>) -> Result<String, String> {
    render_known(template, &PLACEHOLDERS, values)
}

/// The same with placeholders of another kind of template.
pub fn render_known(
    template: &str,
    known: &[&str],
    values: &BTreeMap<&str, String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut at = 0usize;
    while let Some(i) = rest.find(['{', '}']) {
        out.push_str(&rest[..i]);
        let tail = &rest[i..];
        let position = at + rest[..i].chars().count() + 1;
        let used = if tail.starts_with("{{") || tail.starts_with("}}") {
            out.push_str(&tail[..1]);
            2
        } else if tail.starts_with('}') {
            out.push('}');
            1
        } else {
            let Some(end) = tail.find('}') else {
                return Err(format!(
                    "the template has an open brace without an end at position {position}; write {{{{ for a brace"
                ));
            };
            let name = &tail[1..end];
            if !known.contains(&name) {
                return Err(format!(
                    "the template has an unknown placeholder {{{name}}} at position {position}; known are {}; write {{{{ for a brace",
                    known.iter().map(|p| format!("{{{p}}}")).collect::<Vec<_>>().join(" ")
                ));
            }
            out.push_str(values.get(name).map_or("", String::as_str));
            end + 1
        };
        at += rest[..i + used].chars().count();
        rest = &rest[i + used..];
    }
    out.push_str(rest);
    Ok(out)
}

/// A hash that tells repeated content: FNV-1a over the folded, lower-cased text.
#[must_use]
pub fn content_hash(text: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in fold(text).to_lowercase().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}
