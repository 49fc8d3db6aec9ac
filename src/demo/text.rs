//! Widths and wrapping, counted in terminal cells.
//!
//! Widths are summed per character, as terminals without grapheme clustering do: on one that
//! clusters, a row merely ends a few cells early.

use unicode_width::UnicodeWidthChar;

/// Drops control characters, so that text from outside cannot steer the terminal; a tab becomes
/// four spaces. Newlines stay.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Cells that `text` takes in one row. Colour sequences (`ESC [ … m`) take none.
pub fn cells(text: &str) -> usize {
    atoms(text).map(|(_, _, width)| width).sum()
}

/// Splits one line into rows of at most `width` cells, at spaces where there are any. The rows
/// are adjacent slices of `text`: nothing is lost, so that a position in the text can be found in
/// the rows. An empty line is one empty row.
pub fn wrap(text: &str, width: usize) -> Vec<&str> {
    let width = width.max(2);
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    // The byte after the last space of this row, and the cells used up to there.
    let mut space: Option<(usize, usize)> = None;
    for (at, atom, cells) in atoms(text) {
        while used + cells > width {
            let (end, before) = match space {
                Some(found) if atom != " " => found,
                _ => (at, used),
            };
            rows.push(&text[start..end]);
            start = end;
            used -= before;
            space = None;
        }
        used += cells;
        if atom == " " {
            space = Some((at + 1, used));
        }
    }
    rows.push(&text[start..]);
    rows
}

/// Characters and colour sequences with their byte position and width.
fn atoms(text: &str) -> impl Iterator<Item = (usize, &str, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let c = rest.chars().next()?;
        let (len, width) = match rest.strip_prefix("\x1b[").and_then(|tail| tail.find('m')) {
            Some(end) => (2 + end + 1, 0),
            None => (c.len_utf8(), c.width().unwrap_or(0)),
        };
        let begin = at;
        at += len;
        Some((begin, &text[begin..at], width))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_break_at_spaces_and_lose_nothing() {
        let text = "plan the change carefully";
        let rows = wrap(text, 10);
        assert_eq!(rows, ["plan the ", "change ", "carefully"]);
        assert_eq!(rows.concat(), text);
    }

    #[test]
    fn wide_characters_and_long_words_break_by_cells() {
        assert_eq!(wrap("日本語です", 4), ["日本", "語で", "す"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn colours_take_no_cells() {
        assert_eq!(cells("\x1b[31mred\x1b[0m"), 3);
        assert_eq!(wrap("\x1b[31mred\x1b[0mder", 6), ["\x1b[31mred\x1b[0mder"]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[201~\r\0\u{9b}b\tc\n"), "a[201~b    c\n");
    }
}
