//! Writing to standard output. A reader that has gone (`mado log | head`) ends the command quietly.

use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Writes a line.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"));
    if let Err(e) = written.and_then(|()| out.flush()) {
        let quiet = e.kind() == ErrorKind::BrokenPipe;
        std::process::exit(i32::from(!quiet));
    }
}

/// Writes a value as one line of JSON.
pub fn json(value: &impl Serialize) {
    line(&serde_json::to_string(value).unwrap_or_default());
}
