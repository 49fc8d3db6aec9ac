//! What a rendered screen says, by a profile's rules: composer, dialog, busy signs, output.

use super::panel::find_panel;
use super::profile::{ComposerKind, ComposerRules, Pattern, Profile};
use super::text::{self, Holds};
use crate::proto::screen::{Row, ScreenView};
use std::collections::VecDeque;
use unicode_width::UnicodeWidthStr;

/// The composer as it is seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Composer {
    /// Index of its top edge (the rule above it, or its first row): output ends before it.
    pub top: usize,
    /// Index of its last row.
    pub last: usize,
    /// What it holds, without prompts, indents and what is drawn faint. Rows are joined by newlines.
    pub text: String,
    /// Rows above the visible ones that the program says it hides (1 where it does not say how many); 0
    /// when all is visible.
    pub hidden: usize,
    /// It shows nothing, and yet it is not as an empty one: it holds blanks.
    pub blank: bool,
    /// It may hide rows without saying so.
    pub scrolls: bool,
    /// The columns of a panel, the end exclusive: output stands in these, too.
    pub cols: Option<(usize, usize)>,
}

impl Composer {
    /// Whether it holds text; what it hides is text too, and so are blanks.
    #[must_use]
    pub fn filled(&self) -> bool {
        self.hidden > 0 || self.blank || !self.text.trim().is_empty()
    }

    /// How what it shows compares with a text that was typed in pieces.
    #[must_use]
    pub fn holds<S: AsRef<str>>(&self, pieces: &[S], stand_in: Option<&Pattern>) -> Holds {
        match text::holds_pieces(&self.text, self.hidden, pieces, stand_in) {
            Holds::Other if self.scrolls && self.hidden == 0 => {
                text::holds_pieces(&self.text, 1, pieces, stand_in)
            }
            holds => holds,
        }
    }
}

/// What one view says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The composer, where there is one with the keyboard.
    pub composer: Option<Composer>,
    /// A dialog waits; the row that says so.
    pub dialog: Option<String>,
    /// A turn is open; the row that says so.
    pub busy: Option<String>,
}

impl Facts {
    /// Reads a view. `line_base` is what a shell's prompt row held when it became idle.
    #[must_use]
    pub fn read(view: &ScreenView, profile: &Profile, line_base: Option<&LineBase>) -> Facts {
        let composer = match profile.composer.kind {
            ComposerKind::Box => find_box(view, &profile.composer),
            ComposerKind::Panel => find_panel(view, &profile.composer),
            ComposerKind::Line => find_line(view, line_base),
        };
        let below = match &composer {
            Some(c) if profile.composer.kind != ComposerKind::Line => {
                tail(&view.rows[(c.last + 1).min(view.rows.len())..], usize::MAX)
            }
            // A shell's own line is no dialog, whatever it prints.
            Some(_) => Vec::new(),
            None => tail(&view.rows, 24),
        };
        let dialog = first_match(&profile.screen.dialog, &below);
        let busy = match &composer {
            Some(c) => first_match(&profile.screen.busy_footer, &below)
                .or_else(|| first_match(&profile.screen.busy_above, &tail(&view.rows[..c.top], 8))),
            None => None,
        };
        Facts { composer, dialog, busy }
    }
}

/// The last `n` non-empty rows.
fn tail(rows: &[Row], n: usize) -> Vec<&str> {
    rows.iter().rev().map(|r| r.text.as_str()).filter(|t| !t.trim().is_empty()).take(n).collect()
}

/// The row that the first matching pattern matches: a profile names the most telling ones first.
fn first_match(patterns: &[Pattern], rows: &[&str]) -> Option<String> {
    patterns.iter().find_map(|p| rows.iter().find(|r| p.is_match(r))).map(|r| r.trim().to_owned())
}

/// The lowest place that has all the marks of a composer. A fake one inside a dialog's preview has
/// the dialog's own rows below it; those are matched against the dialog rules, and where the cursor
/// must be inside, it is not.
fn find_box(view: &ScreenView, rules: &ComposerRules) -> Option<Composer> {
    let first = rules.first.as_ref()?;
    if rules.cursor_visible && !view.cursor_visible {
        return None;
    }
    let rows = &view.rows;
    let footer_rows = if rules.footer_rows == 0 { 8 } else { rules.footer_rows };
    for i in (0..rows.len()).rev() {
        // Where rows are hidden, the first one on the screen is one of the further ones.
        let hidden = if i > 0 { hidden_rows(&rows[i - 1].text, rules) } else { 0 };
        let mark = if hidden > 0 { rules.rest.as_ref().unwrap_or(first) } else { first };
        if mark.prefix_len(&rows[i].text).is_none() {
            continue;
        }
        let has_top = rules.top.as_ref().is_none_or(|top| i > 0 && top.is_match(&rows[i - 1].text));
        if !has_top {
            continue;
        }
        let last =
            if rules.at_bottom { end_at_bottom(view, i, rules) } else { end(rows, i, rules) };
        let Some(last) = last else { continue };
        if tail(&rows[last + 1..], usize::MAX).len() > footer_rows + 1 {
            continue;
        }
        if rules.cursor_inside && !(i..=last).contains(&view.cursor.0) {
            continue;
        }
        let top = if rules.top.is_some() { i - 1 } else { i };
        let (text, ghost) = box_text(&rows[i..=last], view, i, mark, rules);
        let above = rules.scrolled.as_ref().filter(|p| p.is_match(&rows[i].text));
        let hidden = if above.is_some() { hidden.max(1) } else { hidden };
        // The mark may be drawn faint, and so be left out already.
        let text = above.and_then(|p| without(p, &text)).unwrap_or(text);
        let blank = rules.ghost && !ghost && text.trim().is_empty();
        return Some(Composer { top, last, text, hidden, blank, ..Composer::default() });
    }
    None
}

/// The last row of a composer that begins at row `i` and ends where its bottom edge is.
fn end(rows: &[Row], i: usize, rules: &ComposerRules) -> Option<usize> {
    let mut last = i;
    for (j, row) in rows.iter().enumerate().skip(i + 1) {
        if rules.bottom.as_ref().is_some_and(|b| b.is_match(&row.text)) {
            return Some(last);
        }
        let belongs = row.text.trim().is_empty()
            || rules.rest.as_ref().is_none_or(|r| r.prefix_len(&row.text).is_some());
        if !belongs {
            break;
        }
        last = j;
    }
    rules.bottom.is_none().then_some(last)
}

/// The same for one at the bottom of the screen. What a person or mado has just typed ends at or below the
/// cursor, so a row that looks like the footer's and is not below it is text.
fn end_at_bottom(view: &ScreenView, i: usize, rules: &ComposerRules) -> Option<usize> {
    let rows = &view.rows;
    let from = rows.len().saturating_sub(rules.footer_rows + 1).max(view.cursor.0 + 1).max(i + 1);
    let edge = (from..rows.len())
        .find(|j| rules.bottom.as_ref().is_none_or(|b| b.is_match(&rows[*j].text)))?;
    let belongs = |row: &Row| {
        row.text.trim().is_empty()
            || rules.rest.as_ref().is_none_or(|r| r.prefix_len(&row.text).is_some())
    };
    rows[i + 1..edge].iter().all(belongs).then_some(edge - 1)
}

/// The text without what the pattern matches on its first line; `None`: it matches nothing there.
fn without(pattern: &Pattern, text: &str) -> Option<String> {
    let first = text.lines().next()?;
    let found = pattern.0.find(first)?;
    Some(format!("{}{}", &text[..found.start()], &text[found.end()..]))
}

/// How many rows the program says it hides above the visible ones (`─── ↑ 13 more ───`, seen:
/// claude 2.1.332, whose composer shows at most 7 rows on a screen of 24).
fn hidden_rows(top: &str, rules: &ComposerRules) -> usize {
    rules
        .hidden
        .as_ref()
        .and_then(|h| h.0.captures(top))
        .and_then(|c| c.get(1).and_then(|m| m.as_str().parse().ok()))
        .unwrap_or(0)
}

/// What the rows hold, and whether they show something faint.
fn box_text(
    rows: &[Row],
    view: &ScreenView,
    first: usize,
    first_mark: &Pattern,
    rules: &ComposerRules,
) -> (String, bool) {
    let mut lines = Vec::new();
    let mut faint_chars = 0usize;
    for (k, row) in rows.iter().enumerate() {
        let mark = if k == 0 { Some(first_mark) } else { rules.rest.as_ref() };
        let skip = mark.and_then(|m| m.prefix_len(&row.text)).unwrap_or(0);
        let skip = row.text[..skip].chars().count();
        let mut line = String::new();
        for (n, c) in row.text.chars().enumerate().skip(skip) {
            if row.faint.iter().any(|(from, to)| (*from..*to).contains(&n)) {
                faint_chars += usize::from(!c.is_whitespace());
            } else {
                line.push(c);
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    // The first character of a placeholder stands under a reversed cursor cell and so is not faint
    // (`Press up to edit queued messages`, claude 2.1.197 and 2.1.332).
    let under_cursor = faint_chars > 0
        && view.cursor.0 == first
        && lines.iter().map(|l| l.trim().chars().count()).sum::<usize>() == 1
        && cursor_on_first_char(&rows[0], view.cursor.1, rules);
    let ghost = faint_chars > 0;
    if under_cursor {
        return (String::new(), ghost);
    }
    while lines.len() > 1 && lines.last().is_some_and(|l| l.trim().is_empty()) {
        lines.pop();
    }
    let text = lines.join("\n");
    let hint = rules.hints.iter().any(|h| h.is_match(text.trim()));
    (if hint { String::new() } else { text }, ghost || hint)
}

fn cursor_on_first_char(row: &Row, col: usize, rules: &ComposerRules) -> bool {
    let prefix = rules.first.as_ref().and_then(|f| f.prefix_len(&row.text)).unwrap_or(0);
    row.text[..prefix].width() == col
}

/// What stood on a shell's prompt row when it became idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineBase {
    /// The row's absolute number.
    pub row: u64,
    /// Its text up to the cursor: the prompt.
    pub prompt: String,
}

impl LineBase {
    /// Takes the cursor's row of a quiet shell as its prompt.
    #[must_use]
    pub fn take(view: &ScreenView) -> LineBase {
        let row = view.cursor.0.min(view.rows.len().saturating_sub(1));
        let text = view.rows.get(row).map_or("", |r| r.text.as_str());
        LineBase { row: view.scrolled + row as u64, prompt: text.trim_end().to_owned() }
    }
}

/// A shell's line: from the prompt row on, without the prompt. Only while the shell itself is in
/// the foreground.
fn find_line(view: &ScreenView, base: Option<&LineBase>) -> Option<Composer> {
    if view.foreground == Some(false) || view.alt_screen {
        return None;
    }
    let base = base?;
    let top = usize::try_from(base.row.checked_sub(view.scrolled)?).ok()?;
    if top >= view.rows.len() {
        return None;
    }
    let mut text = String::new();
    let mut last = top;
    for (i, row) in view.rows.iter().enumerate().skip(top) {
        if row.text.trim().is_empty() && i > view.cursor.0 {
            break;
        }
        let part =
            if i == top { row.text.strip_prefix(base.prompt.as_str())? } else { row.text.as_str() };
        text.push_str(part);
        if !row.wrapped {
            text.push('\n');
        }
        last = i;
    }
    Some(Composer { top, last, text: text.trim().to_owned(), ..Composer::default() })
}

/// The rows an agent has shown: those that left the screen, and the visible ones above the composer.
#[derive(Debug, Clone, Default)]
pub struct OutputLog {
    /// Rows that left the top, oldest first, at most [`OutputLog::KEEP`].
    scrolled: VecDeque<Row>,
    /// Absolute number of the first row that is not in `scrolled` any more or yet.
    end: u64,
}

/// A logical line: rows that the terminal wrapped, joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Absolute number of its first row.
    pub row: u64,
    /// Its text.
    pub text: String,
}

impl OutputLog {
    /// How many rows are kept.
    pub const KEEP: usize = 2_000;

    /// Takes the rows that a new view brings.
    pub fn take(&mut self, view: &ScreenView) {
        // A reset may leave rows without a number.
        let numbered = usize::try_from(view.scrolled).unwrap_or(usize::MAX);
        let rows = &view.scrolled_rows[view.scrolled_rows.len().saturating_sub(numbered)..];
        let first = view.scrolled - rows.len() as u64;
        if first > self.end || view.scrolled < self.end {
            // Rows are missing (a flood) or the numbers went back (a reset): what was kept can no
            // longer be put in order with what comes.
            self.scrolled.clear();
            self.end = first;
        }
        let skip = usize::try_from(self.end - first).unwrap_or(usize::MAX);
        for row in rows.iter().skip(skip) {
            self.scrolled.push_back(row.clone());
        }
        self.end = view.scrolled;
        while self.scrolled.len() > Self::KEEP {
            self.scrolled.pop_front();
        }
    }

    /// Logical lines from the absolute row `from` to the visible row `until` (exclusive).
    #[must_use]
    pub fn lines(&self, view: &ScreenView, from: u64, until: usize) -> Vec<Line> {
        let start = self.end - self.scrolled.len() as u64;
        let kept = self.scrolled.iter().enumerate().map(|(i, r)| (start + i as u64, r));
        let shown = view.rows.iter().take(until).enumerate().map(|(i, r)| (self.end + i as u64, r));
        let mut lines: Vec<Line> = Vec::new();
        let mut open = false;
        for (number, row) in kept.chain(shown).filter(|(n, _)| *n >= from) {
            match lines.last_mut() {
                Some(line) if open => line.text.push_str(&row.text),
                _ => lines.push(Line { row: number, text: row.text.clone() }),
            }
            open = row.wrapped;
        }
        lines
    }
}

/// Lines that are output: echoed prompts, spinners, hints and blank edges left out.
#[must_use]
pub fn output_lines(lines: &[Line], profile: &Profile) -> Vec<Line> {
    let rules = &profile.screen;
    // Without a mark for output there is nothing to tell an echo's end by but its own line.
    let mut echo = rules.output.is_some();
    let mut out: Vec<Line> = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let text = line.text.trim_end();
        if rules.chrome.iter().any(|p| p.is_match(text)) {
            continue;
        }
        if rules.echo.as_ref().is_some_and(|p| p.is_match(text)) {
            echo = rules.output.is_some();
            continue;
        }
        if rules.output.as_ref().is_some_and(|p| p.is_match(text)) {
            echo = false;
        }
        if echo || (rules.output.is_none() && rules.echo.is_none() && i == 0) {
            continue;
        }
        out.push(Line { row: line.row, text: text.to_owned() });
    }
    let first = out.iter().position(|l| !l.text.is_empty()).unwrap_or(out.len());
    out.drain(..first);
    while out.last().is_some_and(|l| l.text.is_empty()) {
        out.pop();
    }
    out
}

/// Joins lines that the program itself wrapped at the terminal's edge, so that a pattern can match
/// across the break: a line is taken as wrapped when the next line's first word would not have fit.
#[must_use]
pub fn unwrap_lines(lines: &[String], cols: usize) -> String {
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        text.push_str(if i == 0 { line } else { line.trim_start() });
        let Some(next) = lines.get(i + 1) else { break };
        let word = next.split_whitespace().next().unwrap_or("");
        let width = line.width();
        // Programs keep a margin of up to two cells at the right edge.
        if width + 2 >= cols && !word.is_empty() {
            // Broken inside a word: nothing belongs between the halves.
        } else if !word.is_empty() && !line.is_empty() && width + 1 + word.width() + 2 > cols {
            text.push(' ');
        } else {
            text.push('\n');
            let indent = next.len() - next.trim_start().len();
            text.push_str(&next[..indent]);
        }
    }
    text
}
