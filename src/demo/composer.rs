//! The text being written, with long pastes kept behind a placeholder.

use super::text;

/// Pastes with more lines than this, or more characters than [`PASTE_CHARS`], are not shown.
const PASTE_LINES: usize = 8;
const PASTE_CHARS: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    Paste { label: String, text: String },
}

/// The composer's text and the cursor in it.
#[derive(Debug, Default)]
pub struct Composer {
    pieces: Vec<Piece>,
    cursor: usize,
    /// Placeholders are numbered over the whole run.
    pastes: usize,
}

/// What leaves the composer on Enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// All of it, pastes included.
    pub text: String,
    /// As it was shown, with placeholders.
    pub shown: String,
}

impl Composer {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn insert(&mut self, c: char) {
        self.pieces.insert(self.cursor, Piece::Char(c));
        self.cursor += 1;
    }

    /// Inserts pasted text literally, except that tabs become four spaces, as in Claude Code.
    pub fn paste(&mut self, pasted: &str) {
        let text = pasted.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
        let newlines = text.matches('\n').count();
        if newlines >= PASTE_LINES || text.chars().count() > PASTE_CHARS {
            self.pastes += 1;
            let label = if newlines == 0 {
                format!("[Pasted text #{}]", self.pastes)
            } else {
                format!("[Pasted text #{} +{newlines} lines]", self.pastes)
            };
            self.pieces.insert(self.cursor, Piece::Paste { label, text });
            self.cursor += 1;
        } else {
            text.chars().for_each(|c| self.insert(c));
        }
    }

    pub fn backspace(&mut self) {
        if self.cursor > 0 {
            self.cursor -= 1;
            self.pieces.remove(self.cursor);
        }
    }

    /// Deletes back to the start of the line; there, joins it with the line before.
    pub fn kill_to_start(&mut self) {
        let start = self.line_start();
        if start == self.cursor {
            self.backspace();
        } else {
            self.pieces.drain(start..self.cursor);
            self.cursor = start;
        }
    }

    pub fn left(&mut self) {
        self.cursor = self.cursor.saturating_sub(1);
    }

    pub fn right(&mut self) {
        self.cursor = (self.cursor + 1).min(self.pieces.len());
    }

    pub fn home(&mut self) {
        self.cursor = self.line_start();
    }

    pub fn end(&mut self) {
        let newline = self.pieces[self.cursor..].iter().position(|p| *p == Piece::Char('\n'));
        self.cursor = newline.map_or(self.pieces.len(), |n| self.cursor + n);
    }

    pub fn clear(&mut self) {
        self.pieces.clear();
        self.cursor = 0;
    }

    /// The text to submit. A trailing newline is not part of it, as in Claude Code.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Char(c) => all.push(*c),
                Piece::Paste { text, .. } => all.push_str(text),
            }
        }
        all.truncate(all.trim_end_matches('\n').len());
        all
    }

    /// Whether Enter completes a name instead of submitting: the cursor stands behind a final
    /// `@word`.
    pub fn completes(&self) -> bool {
        let shown = self.shown(self.pieces.len());
        let token = shown.rsplit(char::is_whitespace).next().unwrap_or_default();
        self.cursor == self.pieces.len() && token.len() > 1 && token.starts_with('@')
    }

    /// Empties the composer and gives what was in it.
    pub fn take(&mut self) -> Draft {
        let shown = self.shown(self.pieces.len()).trim_end_matches('\n').to_owned();
        let draft = Draft { text: self.text(), shown };
        self.clear();
        draft
    }

    /// The rows to draw within `width` cells, and the cursor's row and column in them.
    pub fn layout(&self, width: usize) -> (Vec<String>, (usize, usize)) {
        let before = self.shown(self.cursor).len();
        let all = self.shown(self.pieces.len());
        let (mut rows, mut cursor, mut at) = (Vec::new(), (0, 0), 0);
        for line in all.split('\n') {
            for row in text::wrap(line, width) {
                if before >= at {
                    let left = row.get(..before - at).unwrap_or(row);
                    cursor = (rows.len(), text::cells(left));
                }
                at += row.len();
                rows.push(row.to_owned());
            }
            at += 1;
        }
        (rows, cursor)
    }

    /// The first `count` pieces as they are drawn.
    fn shown(&self, count: usize) -> String {
        let mut all = String::new();
        for piece in &self.pieces[..count] {
            match piece {
                Piece::Char(c) if c.is_control() && *c != '\n' => {}
                Piece::Char(c) => all.push(*c),
                Piece::Paste { label, .. } => all.push_str(label),
            }
        }
        all
    }

    fn line_start(&self) -> usize {
        let newline = self.pieces[..self.cursor].iter().rposition(|p| *p == Piece::Char('\n'));
        newline.map_or(0, |n| n + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Composer {
        let mut composer = Composer::default();
        composer.paste(text);
        composer
    }

    #[test]
    fn kill_to_start_deletes_the_line_and_then_joins() {
        let mut composer = with("one\ntwo");
        composer.kill_to_start();
        assert_eq!(composer.layout(20).0, ["one", ""]);
        composer.kill_to_start();
        assert_eq!(composer.layout(20).0, ["one"]);
        composer.kill_to_start();
        assert!(composer.is_empty());
    }

    #[test]
    fn long_pastes_hide_and_arrive_whole() {
        let text = (1..=9).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let mut composer = with(&text);
        assert_eq!(composer.layout(40).0, ["[Pasted text #1 +8 lines]"]);
        composer.insert('!');
        assert_eq!(composer.take().text, format!("{text}!"));
        assert_eq!(with(&"x".repeat(2001)).layout(40).0, ["[Pasted text #1]"]);
        assert_eq!(with("1\n2\n3\n4\n5\n6\n7\n8").layout(40).0.len(), 8);
    }

    #[test]
    fn the_cursor_follows_wrapped_and_wide_text() {
        assert_eq!(with("").layout(10).1, (0, 0));
        assert_eq!(with("日本").layout(10).1, (0, 4));
        assert_eq!(with("aaaa bbbb").layout(6).1, (1, 4));
        let mut composer = with("ab\ncd");
        composer.home();
        assert_eq!(composer.layout(10).1, (1, 0));
        composer.left();
        assert_eq!(composer.layout(10).1, (0, 2));
    }

    #[test]
    fn only_a_final_name_completes() {
        assert!(with("see @file").completes());
        assert!(!with("see @file ").completes());
        assert!(!with("mail a@b").completes());
        assert!(!with("see @").completes());
    }
}
