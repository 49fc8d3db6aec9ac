//! A composer that is a panel: a bar at its left, a bottom edge as wide as itself, and a row above
//! that edge which names the program's mode.
//!
//! The edge says which columns are the panel's, so a side bar is never taken for text. Refuses a
//! panel without the keyboard: the cursor must be shown, and stand in its text.

use super::profile::ComposerRules;
use super::screen::Composer;
use crate::proto::screen::{Row, ScreenView};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A row's part in the columns from `cols.0` to `cols.1` (exclusive). Wide characters count two.
pub(super) fn cut(text: &str, cols: (usize, usize)) -> &str {
    let mut at = 0;
    let (mut from, mut to) = (None, text.len());
    for (i, c) in text.char_indices() {
        let width = c.width().unwrap_or(0);
        if width > 0 && at >= cols.1 {
            to = i;
            break;
        }
        if at >= cols.0 && from.is_none() {
            from = Some(i);
        }
        at += width;
    }
    &text[from.unwrap_or(to)..to]
}

/// The lowest panel that has all the marks and the keyboard.
pub(super) fn find_panel(view: &ScreenView, rules: &ComposerRules) -> Option<Composer> {
    let edge = rules.bottom.as_ref()?;
    let footer_rows = if rules.footer_rows == 0 { 8 } else { rules.footer_rows };
    view.rows.iter().enumerate().rev().find_map(|(bottom, row)| {
        let found = edge.0.find(&row.text)?;
        let left = row.text[..found.start()].width();
        let cols = (left, left + found.as_str().width());
        let below = view.rows[bottom + 1..].iter().filter(|r| !r.text.trim().is_empty()).count();
        (below <= footer_rows).then(|| panel_above(view, rules, bottom, cols)).flatten()
    })
}

/// Blank row, text, blank row, status row: what stands above the edge in row `bottom`.
fn panel_above(
    view: &ScreenView,
    rules: &ComposerRules,
    bottom: usize,
    cols: (usize, usize),
) -> Option<Composer> {
    let bar = rules.first.as_ref()?;
    // What follows the bar; `None` where there is no bar, or another one (a menu's).
    let inner = |row: &Row| {
        let text = cut(&row.text, cols);
        bar.prefix_len(text).map(|n| text[n..].trim_end().to_owned())
    };
    let status = inner(view.rows.get(bottom.checked_sub(1)?)?)?;
    if rules.status.as_ref().is_some_and(|s| !s.is_match(&status)) {
        return None;
    }
    let mut lines = Vec::new();
    for row in view.rows[..bottom - 1].iter().rev() {
        let Some(line) = inner(row) else { break };
        lines.push(line);
    }
    lines.reverse();
    let top = bottom - 1 - lines.len();
    let blank = |line: Option<&String>| line.is_some_and(String::is_empty);
    if lines.len() < 3 || !blank(lines.first()) || !blank(lines.last()) {
        return None;
    }
    let texts = &lines[1..lines.len() - 1];
    let (row, col) = view.cursor;
    let inside = (top + 1..=top + texts.len()).contains(&row) && (cols.0..cols.1).contains(&col);
    if rules.cursor_inside && !(inside && view.cursor_visible) {
        return None;
    }
    let text = texts.join("\n");
    // An empty one and a hint have the cursor on the first character; blanks, and a draft that says the
    // same, have it elsewhere.
    let first = format!("{}  ", cut(&view.rows[top + 1].text, cols));
    let mark = bar.prefix_len(&first).unwrap_or(0);
    let start = view.cursor == (top + 1, cols.0 + first[..mark].width());
    let hint = start && rules.hints.iter().any(|h| h.is_match(text.trim()));
    let text = if hint { String::new() } else { text.trim_end_matches('\n').to_owned() };
    let blank = !hint && text.trim().is_empty() && !(start && texts.len() == 1);
    let most = rules.scrolls.max(view.rows.len() / 3);
    let scrolls = rules.scrolls > 0 && texts.len() >= most;
    Some(Composer { top, last: bottom, text, hidden: 0, blank, scrolls, cols: Some(cols) })
}
