//! The host's log file: private, rotated by size, without secrets.

use super::paths::{Paths, private_file, state_error};
use crate::core::redact::redact;
use crate::proto::ErrorInfo;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// Size at which the log is rotated, in bytes.
const ROTATE_AT: u64 = 20 << 20;

/// How many rotated files are kept.
const KEPT: usize = 3;

/// The open log. It never fails its writer: a log that cannot be written must not end a host.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    size: u64,
    rotate_at: u64,
}

impl Log {
    /// Opens the log of a state folder.
    pub fn open(paths: &Paths) -> Result<Log, ErrorInfo> {
        let path = paths.state.join("host.log");
        let file = open(&path).map_err(|e| state_error(&path, &e))?;
        let size = file.metadata().map_or(0, |m| m.len());
        Ok(Log { path, file, size, rotate_at: ROTATE_AT })
    }

    /// The file, for what a panic writes to standard error.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn rotate(&mut self) -> io::Result<()> {
        let name = |n: usize| self.path.with_file_name(format!("host.{n}.log"));
        for n in (1..KEPT).rev() {
            let _ = std::fs::rename(name(n), name(n + 1));
        }
        std::fs::rename(&self.path, name(1))?;
        self.file = open(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

fn open(path: &std::path::Path) -> io::Result<File> {
    private_file(OpenOptions::new().append(true).create(true), path)
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size >= self.rotate_at {
            let _ = self.rotate();
        }
        // An event comes in one piece.
        let clean = redact(&String::from_utf8_lossy(bytes));
        let out = if clean.secrets > 0 { clean.text.as_bytes() } else { bytes };
        self.size += out.len() as u64;
        let _ = self.file.write_all(out);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_gets_into_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: dir.path().into(),
            runtime: dir.path().into(),
            config: dir.path().into(),
        };
        let mut log = Log::open(&paths).unwrap();
        let secret = format!("gh{}_Ab3dEf6hIj9kLm2nOp5qRs8t", "p");
        log.write_all(format!("WARN it said {secret}\n").as_bytes()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("host.log")).unwrap();
        assert_eq!(text, "WARN it said [redacted GitHub token]\n");
    }

    #[test]
    fn the_log_rotates_and_keeps_three() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: dir.path().into(),
            runtime: dir.path().into(),
            config: dir.path().into(),
        };
        let mut log = Log::open(&paths).unwrap();
        log.rotate_at = 10;
        for _ in 0..20 {
            log.write_all(b"0123456789\n").unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1 + KEPT);
    }
}
