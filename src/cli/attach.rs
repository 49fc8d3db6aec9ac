//! `mado attach`: shows an agent's terminal in this one.
//!
//! As thin as can be, since everything an agent prints goes through it: one thread copies from the host to
//! the terminal, one from the terminal to the host, both with plain blocking calls, and one waits for
//! signals. Nothing is printed that does not come from the agent, unless there is no agent to
//! show.

use super::args::AttachArgs;
use super::client;
use mado::host::paths::Paths;
use mado::proto::ErrorInfo;
use mado::proto::attach::{Decoder, Exit, Frame, HEAD, Hello, VERSION};
use rustix::io::Errno;
use rustix::termios::{self, OptionalActions, Termios};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Undoes what an agent that goes on elsewhere has set in this terminal: scroll region, pen,
/// alternate screen, mouse, focus, paste and keyboard modes, hidden cursor.
const RESET: &[u8] = b"\x18\x1b[r\x1b[0m\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\
    \x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[<9u\x1b[>4;0m\x1b[?7h\x1b[?25h\r\n";

/// How the attachment ended.
enum End {
    /// The agent has ended.
    Exited(Exit),
    /// This client was asked to go, or its terminal is gone.
    Detached,
    /// The host closed the connection without a word.
    HostGone,
}

/// Runs the command. The exit code is the agent's, or 128 and the number of the signal that ended it.
pub fn run(args: &AttachArgs, project: String) -> Result<ExitCode, ErrorInfo> {
    let size = termios::tcgetwinsize(io::stdout()).ok();
    let terminal = termios::isatty(io::stdin()) && termios::isatty(io::stdout());
    let Some(size) = size.filter(|_| terminal) else {
        let message = "`mado attach` shows an agent in a terminal, and this is none";
        return Err(ErrorInfo::new("no_terminal", message, "use `mado screen` to read a screen"));
    };
    let mut stream = connect(args)?;
    let hello = Hello {
        version: VERSION,
        agent: args.agent.clone(),
        project,
        rows: size.ws_row,
        cols: size.ws_col,
        colours: None,
        read_only: args.read_only,
    };
    send(&stream, &Frame::Hello(hello)).map_err(|e| gone(&e))?;
    let mut incoming = Incoming::default();
    welcome(&mut stream, &mut incoming)?;

    let raw = Arc::new(RawMode::enter().map_err(|e| {
        let message = format!("this terminal cannot be put into raw mode: {e}");
        ErrorInfo::new("no_terminal", message, "attach from another terminal")
    })?);
    let leaving = Arc::new(AtomicBool::new(false));
    let clone = || stream.try_clone().map_err(|e| gone(&e));
    let (keys, signals) = (clone()?, clone()?);
    std::thread::spawn({
        let leaving = Arc::clone(&leaving);
        move || forward_keys(&keys, &leaving)
    });
    std::thread::spawn({
        let (leaving, raw) = (Arc::clone(&leaving), Arc::clone(&raw));
        move || heed_signals(&signals, &leaving, &raw)
    });
    let end = show(&mut stream, &mut incoming, &leaving);
    if !matches!(end, End::Exited(_)) {
        // It may be gone; then nobody sees it.
        let _ = write_all(RESET);
    }
    raw.leave();
    match end {
        End::Exited(exit) => {
            if !exit.text.is_empty() {
                eprintln!("mado: {}", exit.text);
            }
            let code = exit.code.or(exit.signal.map(|signal| 128 + signal)).unwrap_or(1);
            Ok(ExitCode::from((code & 0xff) as u8))
        }
        End::Detached => Ok(ExitCode::SUCCESS),
        End::HostGone => Err(ErrorInfo::new(
            "host_gone",
            "the host has ended, and the agent with it",
            "`mado open` starts another",
        )),
    }
}

fn gone(error: &io::Error) -> ErrorInfo {
    let message = format!("the host does not answer: {error}");
    ErrorInfo::new("no_host", message, "see `mado health`")
}

fn connect(args: &AttachArgs) -> Result<UnixStream, ErrorInfo> {
    let socket = if let Some(socket) = &args.socket {
        socket.clone()
    } else {
        let paths = Paths::from_env()?;
        let (_, at) = client::running(&paths).ok_or_else(client::no_host)?;
        at.check_runtime()?;
        at.attach_socket()
    };
    UnixStream::connect(socket).map_err(|_| client::no_host())
}

fn send(mut stream: &UnixStream, frame: &Frame) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    stream.write_all(&bytes)
}

/// Waits for the host's yes. A no is its message.
fn welcome(stream: &mut UnixStream, incoming: &mut Incoming) -> Result<(), ErrorInfo> {
    loop {
        match incoming.take(stream, |_| Ok(())) {
            Ok(Some(Frame::Welcome(_))) => return Ok(()),
            Ok(Some(Frame::Refused(refused))) => {
                return Err(ErrorInfo::new("refused", refused.message, ""));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(gone(&io::ErrorKind::UnexpectedEof.into())),
            Err(e) => return Err(gone(&e)),
        }
    }
}

/// Copies the agent's output until it ends.
fn show(stream: &mut UnixStream, incoming: &mut Incoming, leaving: &AtomicBool) -> End {
    loop {
        match incoming.take(stream, write_all) {
            Ok(Some(Frame::Exit(exit))) => return End::Exited(exit),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) if leaving.load(Ordering::SeqCst) => return End::Detached,
            // Either side may have failed. If it is this terminal, nobody reads a message.
            Ok(None) | Err(_) => return End::HostGone,
        }
    }
}

/// Cuts frames out of the stream. Output is handed on as it comes, uncopied, without
/// waiting for the rest of its frame.
struct Incoming {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// What is left of the current output frame.
    output: usize,
    /// What is left of another frame, and what there is of it.
    other: usize,
    decoder: Decoder,
}

impl Default for Incoming {
    fn default() -> Self {
        let buf = vec![0; 128 * 1024];
        Incoming { buf, start: 0, end: 0, output: 0, other: 0, decoder: Decoder::default() }
    }
}

impl Incoming {
    /// The next frame that is no output; `None` at the end of the stream.
    fn take(
        &mut self,
        stream: &mut UnixStream,
        mut output: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Option<Frame>> {
        loop {
            let have = &self.buf[self.start..self.end];
            if self.output > 0 && !have.is_empty() {
                let n = self.output.min(have.len());
                output(&have[..n])?;
                self.start += n;
                self.output -= n;
            } else if self.other > 0 && !have.is_empty() {
                let n = self.other.min(have.len());
                self.decoder.feed(&have[..n]);
                self.start += n;
                self.other -= n;
                if self.other == 0 {
                    let frame = self.decoder.next_frame().map_err(io::Error::other)?;
                    if frame.is_some() {
                        return Ok(frame);
                    }
                }
            } else if self.output == 0 && self.other == 0 && have.len() >= HEAD {
                let len = u32::from_be_bytes([have[1], have[2], have[3], have[4]]) as usize;
                if have[0] == b'o' {
                    self.output = len;
                    self.start += HEAD;
                } else {
                    self.other = HEAD + len;
                }
            } else {
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                match stream.read(&mut self.buf[self.end..]) {
                    Ok(0) => return Ok(None),
                    Ok(n) => self.end += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
}

/// Writes to the terminal, past the buffer of the standard library.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(io::stdout(), bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_writable()?,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Whoever shares the terminal may have made it non-blocking.
fn wait_writable() -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = io::stdout();
    poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None)?;
    Ok(())
}

fn forward_keys(stream: &UnixStream, leaving: &AtomicBool) {
    let mut buf = vec![0; 16 * 1024];
    loop {
        match rustix::io::read(io::stdin(), &mut buf) {
            Ok(n) if n > 0 => {
                if send(stream, &Frame::Input(buf[..n].to_vec())).is_err() {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(5)),
            // The terminal is gone.
            Ok(_) | Err(_) => return leave(stream, leaving),
        }
    }
}

/// Ends the attachment. The agent stays.
fn leave(stream: &UnixStream, leaving: &AtomicBool) {
    leaving.store(true, Ordering::SeqCst);
    let _ = send(stream, &Frame::Detach);
    let _ = stream.shutdown(Shutdown::Both);
}

fn heed_signals(stream: &UnixStream, leaving: &AtomicBool, raw: &RawMode) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let listened = runtime.block_on(async {
        let mut resized = signal(SignalKind::window_change())?;
        let mut ends = [
            signal(SignalKind::hangup())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        ];
        // Changes between the hello and this moment were not heard.
        tell_size(stream);
        loop {
            tokio::select! {
                _ = resized.recv() => tell_size(stream),
                () = any(&mut ends) => return io::Result::Ok(()),
            }
        }
    });
    if listened.is_ok() {
        leave(stream, leaving);
        // The other thread ends the program, unless it waits for a terminal that does not read.
        std::thread::sleep(Duration::from_millis(200));
        raw.leave();
        std::process::exit(0);
    }
}

async fn any(signals: &mut [Signal; 3]) {
    let [a, b, c] = signals;
    tokio::select! {
        _ = a.recv() => {}
        _ = b.recv() => {}
        _ = c.recv() => {}
    }
}

fn tell_size(stream: &UnixStream) {
    if let Ok(size) = termios::tcgetwinsize(io::stdout()) {
        // If the host is gone, the other thread says so.
        let _ = send(stream, &Frame::Resize(size.ws_row, size.ws_col));
    }
}

/// Raw mode. What was before comes back when it is left or dropped.
struct RawMode {
    before: Termios,
}

impl RawMode {
    fn enter() -> io::Result<RawMode> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(RawMode { before })
    }

    /// Doing it twice does no harm. Fails only if the terminal is gone.
    fn leave(&self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        self.leave();
    }
}
