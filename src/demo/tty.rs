//! The terminal itself: raw mode, its size, reading.

use std::io::{Error, Result, Stdin, stdin};
use std::thread;

use rustix::termios::{self, OptionalActions, QueueSelector, Termios};
use tokio::sync::mpsc::{Receiver, channel};

use super::record::now_ms;

/// Raw mode; dropping it restores what was before, whichever way the program ends.
#[derive(Debug)]
pub struct RawMode {
    stdin: Stdin,
    before: Termios,
}

impl RawMode {
    /// Fails if standard input or output is no terminal.
    pub fn enter() -> Result<Self> {
        let stdin = stdin();
        if !termios::isatty(&stdin) || !termios::isatty(std::io::stdout()) {
            return Err(Error::other(
                "the demo agent needs a terminal as its standard input and output",
            ));
        }
        let before = termios::tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(RawMode { stdin, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Late answers to the queries must not reach the shell. Neither call may wait for output
        // to drain: nobody may be left to read it. Failing means that the terminal is gone.
        let _ = termios::tcflush(&self.stdin, QueueSelector::IFlush);
        let _ = termios::tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }
}

/// Columns and rows; 80 by 24 where the terminal does not know.
pub fn size() -> (usize, usize) {
    match termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

/// What each read gave and when (milliseconds since 1970). The channel closes when the terminal
/// does. A thread reads, because making the terminal non-blocking would change it for everyone
/// who shares it.
pub fn reads() -> Receiver<(Vec<u8>, f64)> {
    let (sender, receiver) = channel(64);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match rustix::io::read(stdin(), &mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    if sender.blocking_send((buffer[..n].to_vec(), now_ms())).is_err() {
                        break;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    });
    receiver
}
