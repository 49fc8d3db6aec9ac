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

/// Compares a composer's content with a text that was typed into it. `hidden` is how many rows the
/// program says it hides above what it shows; then what it shows must be the text's own end.
#[must_use]
pub fn holds(composer: &str, hidden: usize, typed: &str, placeholder: Option<&Pattern>) -> Holds {
    let shown = fold(composer);
    if shown.is_empty() {
        return Holds::Empty;
    }
    let ours = fold(typed);
    if ours.is_empty() {
        return Holds::Other;
    }
    if hidden == 0 && shown == ours {
        return Holds::Ours;
    }
    if hidden > 0 {
        // A row hides at least nothing and at most a row's width; more than the text has cannot be.
        let fits = shown.len() < ours.len() && ours.ends_with(shown.as_str());
        return if fits { Holds::Ours } else { Holds::Other };
    }
    let Some(pattern) = placeholder else { return Holds::Other };
    holds_placeholder(composer, typed, &ours, pattern)
}

/// A composer that shows a stand-in: what is around it must be the text's own start and end, and
/// the number of lines it names (its first group) must fit what it stands for.
fn holds_placeholder(composer: &str, typed: &str, ours: &str, pattern: &Pattern) -> Holds {
    let (Some(first), Some(last)) =
        (pattern.0.find(composer), pattern.0.find_iter(composer).last())
    else {
        return Holds::Other;
    };
    let head = fold(&composer[..first.start()]);
    let tail = fold(&composer[last.end()..]);
    if head.len() + tail.len() >= ours.len()
        || !ours.starts_with(head.as_str())
        || !ours.ends_with(tail.as_str())
    {
        return Holds::Other;
    }
    let named: usize = pattern
        .0
        .captures_iter(composer)
        .filter_map(|c| c.get(1).and_then(|m| m.as_str().parse::<usize>().ok()))
        .sum();
    let has = typed.trim_end_matches('\n').matches('\n').count();
    let literal_lines = composer[..first.start()].matches('\n').count()
        + composer[last.end()..].matches('\n').count();
    // The stand-in counts newlines; programs differ by one at its edges.
    if named > 0 && (named + literal_lines > has + 1 || named + literal_lines + 1 < has) {
        return Holds::Other;
    }
    Holds::Ours
}

/// The placeholders of a `prompt-wrap` template.
pub const PLACEHOLDERS: [&str; 4] = ["output", "round", "maxRounds", "source"];

/// The template used where a route names none.
pub const DEFAULT_TEMPLATE: &str = "{source} answered (round {round} of {maxRounds}):\n\n{output}";

/// Checks a template; the error names the placeholder, its position and what is known.
pub fn check_template(template: &str) -> Result<(), String> {
    render(template, &BTreeMap::new()).map(|_| ())
}

/// Substitutes in one pass: what an answer brings in is never looked at again. `{{` is a brace.
pub fn render(template: &str, values: &BTreeMap<&str, String>) -> Result<String, String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut at = 0usize;
    while let Some(i) = rest.find(['{', '}']) {
        out.push_str(&rest[..i]);
        let tail = &rest[i..];
        let position = at + i + 1;
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
            if !PLACEHOLDERS.contains(&name) {
                return Err(format!(
                    "the template has an unknown placeholder {{{name}}} at position {position}; known are {}; write {{{{ for a brace",
                    PLACEHOLDERS.map(|p| format!("{{{p}}}")).join(" ")
                ));
            }
            out.push_str(values.get(name).map_or("", String::as_str));
            end + 1
        };
        at += i + used;
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
