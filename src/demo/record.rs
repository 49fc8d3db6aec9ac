//! The two files the demo agent writes: the ledger of what it received, and the transcript of its
//! turns. One JSON object per line, each written with one call, so that a reader never waits for
//! a buffer.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Result, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Milliseconds since 1970.
pub fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1000.0
}

/// A file of JSON lines that is only ever appended to; without a path it swallows everything.
#[derive(Debug)]
pub struct Lines(Option<File>);

impl Lines {
    /// Opens `path` for appending and creates its folder. The error names the file.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Lines(None)) };
        let open = || {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir)?;
            }
            OpenOptions::new().create(true).append(true).open(path)
        };
        let file = open().map_err(|e| {
            Error::new(e.kind(), format!("cannot write to {}: {e}; choose another", path.display()))
        })?;
        Ok(Lines(Some(file)))
    }

    /// How many objects of this type the file at `path` holds already.
    pub fn count(path: Option<&Path>, kind: &str) -> u64 {
        let text = path.and_then(|p| fs::read_to_string(p).ok()).unwrap_or_default();
        let lines = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        lines.filter(|l| l["type"] == kind).count() as u64
    }

    /// Appends one object.
    pub fn write(&mut self, value: &Value) -> Result<()> {
        let Some(file) = self.0.as_mut() else { return Ok(()) };
        file.write_all(format!("{value}\n").as_bytes())
    }

    /// Appends `{key: value, "at": …}`.
    pub fn note(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        self.note_at(key, value, now_ms())
    }

    /// The same with the time of the event, where it happened before it could be written.
    pub fn note_at(&mut self, key: &str, value: impl Into<Value>, at: f64) -> Result<()> {
        self.write(&json!({ key: value.into(), "at": at }))
    }
}

/// Bytes as text, one character U+0000 to U+00FF for each byte: ASCII reads as itself, nothing is
/// lost, and pieces cut anywhere can be joined.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}
