//! Reads files of lines from the end and as they grow, in bounded pieces.
//!
//! Transcripts of hundreds of megabytes exist, single lines of several megabytes too, and the last
//! line may be half written, even within a character. So nothing here ever loads a whole file; a
//! line is only given out once its newline is there.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How far back an answer is looked for.
pub const MAX_BACK: u64 = 8 * 1024 * 1024;
/// Bytes per read.
const BLOCK: usize = 64 * 1024;
/// The longest line that is followed; a longer one is passed over and reported.
pub const MAX_LINE: usize = 16 * 1024 * 1024;
/// The most that one [`Follower::poll`] reads.
pub const MAX_POLL: usize = 1024 * 1024;

/// What comes next when reading backwards.
#[derive(Debug, PartialEq, Eq)]
pub enum Back {
    /// The next older line, without its newline.
    Line(String),
    /// A line that is not UTF-8.
    Garbled,
    /// There are no older lines.
    Start,
    /// Older lines are beyond the limit.
    TooFar,
}

/// Gives a file's complete lines, newest first.
#[derive(Debug)]
pub struct BackwardLines<R> {
    source: R,
    /// Where the bytes of `held` begin in the file.
    position: u64,
    /// Read and not yet given out. The bytes before the first newline may be the end of a line
    /// whose start is not read yet.
    held: Vec<u8>,
    /// Pieces of one long line, newest first, so that it is not copied again with each block.
    pieces: Vec<Vec<u8>>,
    limit: u64,
    read: u64,
    /// A newline was seen, and the line before it is not given out yet.
    started: bool,
}

impl<R: Read + Seek> BackwardLines<R> {
    /// Starts at the end of `source`; reads at most `limit` bytes.
    pub fn new(mut source: R, limit: u64) -> io::Result<Self> {
        let position = source.seek(SeekFrom::End(0))?;
        Ok(BackwardLines {
            source,
            position,
            held: Vec::new(),
            pieces: Vec::new(),
            limit,
            read: 0,
            started: false,
        })
    }

    /// How many bytes were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// The next older line. What follows the last newline is still being written and passed over.
    pub fn next_line(&mut self) -> io::Result<Back> {
        loop {
            if let Some(newline) = memchr::memrchr(b'\n', &self.held) {
                let tail = self.held.split_off(newline + 1);
                self.held.pop();
                let line = self.take_line(tail);
                if self.started {
                    return Ok(line);
                }
                self.started = true;
                continue;
            }
            if self.position == 0 {
                let head = std::mem::take(&mut self.held);
                if !self.started {
                    return Ok(Back::Start);
                }
                let line = self.take_line(head);
                self.started = false;
                return Ok(line);
            }
            if self.read >= self.limit {
                return Ok(Back::TooFar);
            }
            let part = std::mem::take(&mut self.held);
            if !part.is_empty() {
                self.pieces.push(part);
            }
            self.read_block()?;
        }
    }

    fn take_line(&mut self, head: Vec<u8>) -> Back {
        let mut line = head;
        for piece in self.pieces.drain(..).rev() {
            line.extend_from_slice(&piece);
        }
        String::from_utf8(line).map_or(Back::Garbled, Back::Line)
    }

    fn read_block(&mut self) -> io::Result<()> {
        let left = usize::try_from(self.limit - self.read).unwrap_or(usize::MAX);
        let len = BLOCK.min(left).min(usize::try_from(self.position).unwrap_or(BLOCK));
        self.position -= len as u64;
        self.source.seek(SeekFrom::Start(self.position))?;
        self.held = vec![0; len];
        // The file may have shrunk meanwhile; then this is an error, and the caller looks again.
        self.source.read_exact(&mut self.held)?;
        self.read += len as u64;
        Ok(())
    }
}

/// What a poll brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Complete new lines, oldest first.
    pub lines: Vec<String>,
    /// The file was replaced or cut: what follows is read from its start.
    pub restarted: bool,
    /// Lines that were too long, or not UTF-8.
    pub dropped: usize,
    /// There is more to read now.
    pub more: bool,
}

/// Follows a growing file of lines.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    file: Option<(File, FileId)>,
    position: u64,
    carry: Vec<u8>,
    /// Within a line that was too long.
    skipping: bool,
    from_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(meta: &Metadata) -> Self {
        FileId { device: meta.dev(), inode: meta.ino() }
    }
}

impl Follower {
    /// Follows `path` from its start, or from its present end.
    pub fn new(path: PathBuf, from_end: bool) -> Self {
        Follower { path, file: None, position: 0, carry: Vec::new(), skipping: false, from_end }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has been found.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Reads what is new, at most [`MAX_POLL`] bytes. A file that is not there (yet, or between
    /// being removed and replaced) brings nothing.
    pub fn poll(&mut self) -> io::Result<Batch> {
        let mut batch = Batch::default();
        let meta = match std::fs::metadata(&self.path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(batch),
            Err(e) => return Err(e),
        };
        let id = FileId::of(&meta);
        match &self.file {
            None => {
                self.open(id)?;
                if std::mem::take(&mut self.from_end) {
                    self.skip_to_end()?;
                }
            }
            Some((_, old)) if *old != id || meta.len() < self.position => {
                self.open(id)?;
                batch.restarted = true;
            }
            Some(_) => {}
        }
        self.from_end = false;
        self.read(&mut batch)?;
        Ok(batch)
    }

    fn open(&mut self, id: FileId) -> io::Result<()> {
        let file = File::open(&self.path)?;
        // The name may have been given to another file since it was looked up.
        let id = file.metadata().map_or(id, |m| FileId::of(&m));
        self.file = Some((file, id));
        self.position = 0;
        self.carry.clear();
        self.skipping = false;
        Ok(())
    }

    /// What is there already was said before; a line that is half written is still to come.
    fn skip_to_end(&mut self) -> io::Result<()> {
        let Some((file, _)) = self.file.as_mut() else { return Ok(()) };
        let end = file.seek(SeekFrom::End(0))?;
        self.position = end;
        if end > 0 {
            let mut last = [0];
            file.seek(SeekFrom::Start(end - 1))?;
            file.read_exact(&mut last)?;
            self.skipping = last != *b"\n";
        }
        Ok(())
    }

    fn read(&mut self, batch: &mut Batch) -> io::Result<()> {
        let Some((file, _)) = self.file.as_mut() else { return Ok(()) };
        file.seek(SeekFrom::Start(self.position))?;
        let mut block = vec![0; BLOCK];
        let mut total = 0;
        loop {
            if total >= MAX_POLL {
                batch.more = true;
                return Ok(());
            }
            let n = file.read(&mut block)?;
            if n == 0 {
                return Ok(());
            }
            total += n;
            self.position += n as u64;
            take(&block[..n], &mut self.carry, &mut self.skipping, batch);
        }
    }
}

/// Adds a block to what is carried and gives out the lines that are complete.
fn take(mut bytes: &[u8], carry: &mut Vec<u8>, skipping: &mut bool, batch: &mut Batch) {
    while let Some(newline) = memchr::memchr(b'\n', bytes) {
        let (line, rest) = (&bytes[..newline], &bytes[newline + 1..]);
        bytes = rest;
        if std::mem::take(skipping) {
            continue;
        }
        carry.extend_from_slice(line);
        match String::from_utf8(std::mem::take(carry)) {
            Ok(line) => batch.lines.push(line),
            Err(_) => batch.dropped += 1,
        }
    }
    if *skipping {
        return;
    }
    carry.extend_from_slice(bytes);
    if carry.len() > MAX_LINE {
        *carry = Vec::new();
        *skipping = true;
        batch.dropped += 1;
    }
}

#[cfg(test)]
mod tests;
