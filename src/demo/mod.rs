//! `mado demo-agent`: a deterministic stand-in for a coding agent.
//!
//! It is a program like the real ones, with composer, spinner, done line, permission dialog and
//! transcript, for tests and for trying mado without an account. It must not be kinder than they
//! are, so it shares no code with the rest of mado: what the host believes about terminals and
//! what this program does to one meet only in a terminal.
//!
//! The ledger (`--ledger`) is the truth on which tests assert. Each line is one JSON object with
//! `at` (milliseconds since 1970) and one of: `start` (pid), `read` (the bytes of one read, one
//! character U+0000 to U+00FF each), `reply` (to a query), `paste`, `burst` (long raw text),
//! `ignored_paste` (in a dialog), `draft` (the composer's text after a read that changed it),
//! `submit` (with `queued`), `empty_enter`, `complete`, `shell`, `command`, `dialog` (`turn` or
//! `control` opened it), `approve` and `deny` (how), `interrupt` (turn), `done` (the turn whose done line is
//! about to be drawn), `resize`, `exit`.

pub mod args;

mod answer;
mod app;
mod composer;
mod control;
mod keys;
mod record;
mod screen;
mod text;
mod tty;
mod turn;
mod view;

use std::io::{ErrorKind, Result, Stdout};
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

pub use args::{DemoArgs, Role};

use app::App;
use control::Command;
use keys::Parser;
use screen::Painter;

/// How long an Escape waits for the rest of a sequence.
const ESCAPE_WAIT: Duration = Duration::from_millis(50);
/// Bracketed paste on; then XTVERSION, DA1 and DECRQM 2026, as Claude Code asks at start. It
/// needs none of the answers.
const GREETING: &str = "\x1b[?2004h\x1b[>0q\x1b[c\x1b[?2026$p";

/// Runs the demo agent on this process's terminal and gives its exit code.
///
/// Fails if there is no terminal, or if the ledger, the transcript or the control socket cannot
/// be opened.
pub fn run(args: DemoArgs) -> Result<i32> {
    let args = args.with_env(|name| std::env::var_os(name));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = match runtime.block_on(drive(&args)) {
        // The terminal is gone, as after a hang-up; there is nobody to tell.
        Err(e) if e.kind() == ErrorKind::BrokenPipe || e.raw_os_error() == Some(5) => Ok(129),
        other => other,
    };
    // The reading thread may still wait for a key; the end of the process ends it.
    runtime.shutdown_background();
    code
}

async fn drive(args: &DemoArgs) -> Result<i32> {
    // First, so that a signal at any later moment finds its handler.
    let mut signals = Signals::new()?;
    let (_socket, mut commands) = match &args.control {
        Some(path) => {
            let (socket, commands) = control::listen(path)?;
            (Some(socket), Some(commands))
        }
        None => (None, None),
    };
    if args.startup > 0 {
        tokio::time::sleep(Duration::from_millis(args.startup)).await;
    }
    let mut app = App::new(args, Painter::new(std::io::stdout(), tty::size()))?;
    let _raw = tty::RawMode::enter()?;
    let mut reads = tty::reads();
    app.start(GREETING)?;
    let code = steer(&mut app, &mut reads, &mut commands, &mut signals).await?;
    app.finish(code)?;
    Ok(code)
}

async fn steer(
    app: &mut App<Stdout>,
    reads: &mut tokio::sync::mpsc::Receiver<(Vec<u8>, f64)>,
    commands: &mut Option<tokio::sync::mpsc::Receiver<Command>>,
    signals: &mut Signals,
) -> Result<i32> {
    let mut parser = Parser::default();
    let mut last_read = Instant::now();
    loop {
        let now = Instant::now();
        app.advance(now)?;
        app.paint(tty::size().1, now)?;
        app.write_records(now, false)?;
        if let Some(code) = app.exit_code() {
            return Ok(code);
        }
        let escape = parser.escape_waits().then(|| last_read + ESCAPE_WAIT);
        let due = [escape, app.next_event(now)].into_iter().flatten().min();
        let wait = due.map_or(Duration::from_hours(1), |due| due.saturating_duration_since(now));
        tokio::select! {
            read = reads.recv() => {
                let Some((bytes, at)) = read else { return Ok(129) };
                last_read = Instant::now();
                let keys = parser.feed(&bytes);
                app.read(&bytes, at, keys, last_read)?;
            }
            command = next(commands) => {
                let (line, reply) = command;
                let answer = app.control(&line, Instant::now())?;
                let now = Instant::now();
                app.paint(tty::size().1, now)?;
                // The reply says that it is on the screen. Whoever asked may have gone.
                let _ = reply.send(answer);
            }
            code = signals.next() => match code {
                Some(code) => return Ok(code),
                None => app.resize(tty::size(), Instant::now())?,
            },
            () = tokio::time::sleep(wait) => {
                let now = Instant::now();
                if escape.is_some_and(|due| due <= now)
                    && let Some(key) = parser.time_out()
                {
                    app.key(key, now)?;
                }
            }
        }
    }
}

/// The next command, or for ever nothing without a control socket.
async fn next(commands: &mut Option<tokio::sync::mpsc::Receiver<Command>>) -> Command {
    if let Some(commands) = commands
        && let Some(command) = commands.recv().await
    {
        return command;
    }
    std::future::pending().await
}

struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
    window: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Signals {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            window: signal(SignalKind::window_change())?,
        })
    }

    /// The exit code of the next deadly signal, or `None` for a new window size.
    async fn next(&mut self) -> Option<i32> {
        tokio::select! {
            _ = self.hang_up.recv() => Some(129),
            _ = self.interrupt.recv() => Some(130),
            _ = self.terminate.recv() => Some(143),
            _ = self.window.recv() => None,
        }
    }
}
