//! Turns the bytes read from the terminal into keys.
//!
//! It decides one thing that matters to whoever types into an agent: a long piece of raw text
//! that arrives in *one* read is taken for a paste, and then a carriage return in it is a newline
//! and not Enter. Claude Code submits `text\r` of up to 51 bytes in one write and does not from
//! 65 on (seen on 2.1.197 and 2.1.332).

/// The longest run of raw text in one read, carriage return included, that counts as typed.
const TYPED_MAX: usize = 52;
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// One thing a person or a program did at the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// Carriage return.
    Enter,
    /// Ctrl-J, or Escape followed by Enter.
    Newline,
    /// Backspace or Delete-backwards.
    Backspace,
    /// Ctrl-U.
    KillToStart,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    EndOfInput,
    /// Escape alone.
    Esc,
    /// Cursor keys and their Emacs twins.
    Left,
    /// See [`Key::Left`].
    Right,
    /// See [`Key::Left`].
    Up,
    /// See [`Key::Left`].
    Down,
    /// Start of the line.
    Home,
    /// End of the line.
    End,
    /// A bracketed paste, newlines normalised to `\n`.
    Paste(String),
    /// Raw text too long to have been typed, as it came.
    Burst(String),
    /// An answer to one of the queries sent at start.
    Reply(String),
    /// Anything else; it does nothing.
    Other,
}

/// Keeps what one read left unfinished for the next.
#[derive(Debug, Default)]
pub struct Parser {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl Parser {
    /// The keys in `bytes`, which must be the result of one read.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while self.step(&mut keys) {}
        keys
    }

    /// Whether an Escape waits for what follows it.
    pub fn escape_waits(&self) -> bool {
        self.paste.is_none() && self.pending == b"\x1b"
    }

    /// Nothing followed the Escape in time, so it was the key.
    pub fn time_out(&mut self) -> Option<Key> {
        let waited = self.escape_waits();
        if waited {
            self.pending.clear();
        }
        waited.then_some(Key::Esc)
    }

    /// Takes one piece off `pending`; false when no whole piece is left.
    fn step(&mut self, keys: &mut Vec<Key>) -> bool {
        if self.paste.is_some() {
            return self.step_paste(keys);
        }
        let Some(&first) = self.pending.first() else { return false };
        if first == 0x1b {
            return self.step_escape(keys);
        }
        if !is_text(first) {
            self.pending.drain(..1);
            keys.push(control(first));
            return true;
        }
        let end = self.pending.iter().position(|&b| !is_text(b)).unwrap_or(self.pending.len());
        let end = whole_characters(&self.pending[..end]);
        if end == 0 {
            return false;
        }
        let run: Vec<u8> = self.pending.drain(..end).collect();
        let text = String::from_utf8_lossy(&run);
        if run.len() > TYPED_MAX {
            keys.push(Key::Burst(text.into_owned()));
        } else {
            keys.extend(text.chars().map(typed));
        }
        true
    }

    fn step_paste(&mut self, keys: &mut Vec<Key>) -> bool {
        let Some(paste) = self.paste.as_mut() else { return false };
        if let Some(at) = memchr::memmem::find(&self.pending, PASTE_END) {
            paste.extend_from_slice(&self.pending[..at]);
            self.pending.drain(..at + PASTE_END.len());
            let text = String::from_utf8_lossy(paste).replace("\r\n", "\n").replace('\r', "\n");
            self.paste = None;
            keys.push(Key::Paste(text));
            return true;
        }
        // The end marker may be cut by the read: its possible beginning stays.
        let keep = (1..PASTE_END.len())
            .rev()
            .find(|&n| self.pending.ends_with(&PASTE_END[..n]))
            .unwrap_or(0);
        let body = self.pending.len() - keep;
        paste.extend(self.pending.drain(..body));
        false
    }

    fn step_escape(&mut self, keys: &mut Vec<Key>) -> bool {
        if self.pending.starts_with(PASTE_START) {
            self.pending.drain(..PASTE_START.len());
            self.paste = Some(Vec::new());
            return true;
        }
        let Some((key, len)) = escape(&self.pending) else { return false };
        self.pending.drain(..len);
        keys.push(key);
        true
    }
}

/// Text, and the white space that pasted text has.
fn is_text(byte: u8) -> bool {
    (byte >= 0x20 && byte != 0x7f) || matches!(byte, b'\r' | b'\n' | b'\t')
}

/// How much of `bytes` is whole characters; the rest is the beginning of one.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let lead = (tail..bytes.len()).rev().find(|&i| bytes[i] >= 0xc0);
    match lead {
        Some(at) => match std::str::from_utf8(&bytes[at..]) {
            Err(e) if e.valid_up_to() == 0 && e.error_len().is_none() => at,
            _ => bytes.len(),
        },
        None => bytes.len(),
    }
}

/// The key that types `c`.
pub fn typed(c: char) -> Key {
    match c {
        '\r' => Key::Enter,
        '\n' => Key::Newline,
        '\t' => Key::Other,
        c => Key::Char(c),
    }
}

fn control(byte: u8) -> Key {
    match byte {
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOfInput,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        0x15 => Key::KillToStart,
        _ => Key::Other,
    }
}

/// The key at the front of `bytes`, which begin with Escape, and its length; `None` while the
/// sequence is incomplete.
fn escape(bytes: &[u8]) -> Option<(Key, usize)> {
    match *bytes.get(1)? {
        b'\r' | b'\n' => Some((Key::Newline, 2)),
        0x1b => Some((Key::Esc, 1)),
        b'[' => {
            let end = bytes.iter().skip(2).position(|b| (0x40..=0x7e).contains(b))? + 3;
            Some((csi(&bytes[2..end]), end))
        }
        b'O' => bytes.get(2).map(|&last| (csi(&[last]), 3)),
        b'P' | b']' | b'_' => {
            let bell = memchr::memchr(0x07, bytes).map(|at| (at, 1));
            let string_end = memchr::memmem::find(bytes, b"\x1b\\").map(|at| (at, 2));
            let (at, len) = [bell, string_end].into_iter().flatten().min()?;
            let body = String::from_utf8_lossy(&bytes[1..at]).into_owned();
            Some((Key::Reply(body), at + len))
        }
        _ => Some((Key::Other, 2)),
    }
}

fn csi(body: &[u8]) -> Key {
    match body {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" => Key::Left,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        [b'?', ..] => Key::Reply(format!("[{}", String::from_utf8_lossy(body))),
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(chunks: &[&[u8]]) -> Vec<Key> {
        let mut parser = Parser::default();
        chunks.iter().flat_map(|chunk| parser.feed(chunk)).collect()
    }

    #[test]
    fn fifty_one_bytes_and_a_return_are_typed_and_sixty_four_are_not() {
        let short = [vec![b'x'; 51], vec![b'\r']].concat();
        assert_eq!(feed(&[&short]).last(), Some(&Key::Enter));
        let long = [vec![b'x'; 64], vec![b'\r']].concat();
        assert_eq!(feed(&[&long]), [Key::Burst(format!("{}\r", "x".repeat(64)))]);
        assert_eq!(feed(&[&long[..64], b"\r"]).last(), Some(&Key::Enter));
    }

    #[test]
    fn a_paste_survives_every_way_of_cutting_it() {
        let all = "\x1b[200~日\r\n語\x1b[201~\r".as_bytes();
        for cut in 0..all.len() {
            let keys = feed(&[&all[..cut], &all[cut..]]);
            assert_eq!(keys, [Key::Paste("日\n語".into()), Key::Enter], "cut at {cut}");
        }
    }

    #[test]
    fn the_end_marker_inside_a_paste_ends_it_early() {
        let keys = feed(&[b"\x1b[200~a\x1b[201~y\r\x1b[201~"]);
        assert_eq!(keys, [Key::Paste("a".into()), Key::Char('y'), Key::Enter, Key::Other]);
    }

    #[test]
    fn a_character_cut_by_the_read_is_whole() {
        let all = "a日🙂é".as_bytes();
        for cut in 0..all.len() {
            let keys = feed(&[&all[..cut], &all[cut..]]);
            assert_eq!(keys, ['a', '日', '🙂', 'é'].map(Key::Char), "cut at {cut}");
        }
    }

    #[test]
    fn escape_alone_needs_the_timeout_and_escape_enter_is_a_newline() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"\x1b"), []);
        assert!(parser.escape_waits());
        assert_eq!(parser.time_out(), Some(Key::Esc));
        assert_eq!(parser.time_out(), None);
        assert_eq!(parser.feed(b"\x1b\r"), [Key::Newline]);
    }

    #[test]
    fn answers_to_queries_are_no_keys() {
        let keys = feed(&[b"\x1bP>|term 1\x1b\\\x1b[?62;c\x1b[?2026;2$y"]);
        assert!(matches!(
            keys.as_slice(),
            [Key::Reply(a), Key::Reply(b), Key::Reply(c)]
                if a == "P>|term 1" && b == "[?62;c" && c == "[?2026;2$y"
        ));
    }
}
