//! Server-sent events out of a stream of bytes that is cut anywhere.

use memchr::memchr;

/// Longest line that is kept; one that is longer is passed over.
const MOST: usize = 16 << 20;

/// Collects bytes and gives whole events.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// A line whose end has not come. Only whole lines are made text of, so a character that is cut
    /// is none yet.
    line: Vec<u8>,
    /// The `data:` lines of the event so far.
    data: Option<String>,
    skip: bool,
}

impl Lines {
    /// Takes the next bytes and gives the data of the events that they complete.
    pub fn take(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(end) = memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.skip) {
                self.data = None;
            } else {
                events.extend(self.line(&line));
            }
        }
        self.keep(bytes);
        events
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skip || self.line.len() + bytes.len() > MOST {
            self.skip = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, line: &[u8]) -> Option<String> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.data.take();
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            let text = String::from_utf8_lossy(data.strip_prefix(b" ").unwrap_or(data));
            match self.data.as_mut() {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&text);
                }
                None => self.data = Some(text.into_owned()),
            }
        }
        None
    }
}
