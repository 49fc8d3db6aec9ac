//! A program in a real terminal: a PTY, a screen model, and waiting for what it shows.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::Processor;
use pty_process::blocking::{Command, Pty, open};

/// No condition takes longer, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What can be seen at one moment.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// Lines above the screen, then the screen's; trailing blanks removed.
    pub lines: Vec<String>,
    /// How many of `lines` are above the screen.
    pub above: usize,
    /// Text drawn faint, in order.
    pub faint: String,
    /// Row on the screen and column, if the cursor is shown.
    pub cursor: Option<(usize, usize)>,
    pub title: String,
    pub bracketed_paste: bool,
    /// Every byte the program wrote.
    pub raw: Vec<u8>,
}

impl Screen {
    /// Only the visible rows.
    pub fn rows(&self) -> &[String] {
        &self.lines[self.above..]
    }

    /// Some line is exactly `line`.
    pub fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|l| l == line)
    }

    /// Some line contains `part`.
    pub fn shows(&self, part: &str) -> bool {
        self.lines.iter().any(|l| l.contains(part))
    }

    /// The program sent `sequence`.
    pub fn sent(&self, sequence: &str) -> bool {
        memchr::memmem::find(&self.raw, sequence.as_bytes()).is_some()
    }

    /// How many lines are exactly `line`.
    pub fn count(&self, line: &str) -> usize {
        self.lines.iter().filter(|l| *l == line).count()
    }
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<(String, String)>>);

impl EventListener for Listener {
    fn send_event(&self, event: Event) {
        let mut seen = lock(&self.0);
        match event {
            Event::Title(title) => seen.0 = title,
            Event::ResetTitle => seen.0.clear(),
            Event::PtyWrite(reply) => seen.1.push_str(&reply),
            _ => {}
        }
    }
}

struct Size(usize, usize);

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.1
    }

    fn screen_lines(&self) -> usize {
        self.1
    }

    fn columns(&self) -> usize {
        self.0
    }
}

struct State {
    term: Term<Listener>,
    parser: Processor,
    raw: Vec<u8>,
    closed: bool,
}

/// A running program. Dropping it kills it.
pub struct Terminal {
    pub child: Child,
    pub pty: Arc<Pty>,
    state: Arc<(Mutex<State>, Condvar)>,
    listener: Listener,
}

/// One spawn at a time: between opening a PTY and marking it close-on-exec another child would
/// inherit it, and then the end of the program would not be seen.
static SPAWN: Mutex<()> = Mutex::new(());

impl Terminal {
    /// Starts `command` with `cols` by `rows`. Queries are answered if `answer`.
    pub fn start(command: Command, cols: u16, rows: u16, answer: bool) -> Self {
        let (pty, child) = {
            let _one = lock(&SPAWN);
            let (pty, pts) = open().expect("a PTY");
            pty.resize(pty_process::Size::new(rows, cols)).expect("its size");
            (Arc::new(pty), command.spawn(pts).expect("the program starts"))
        };
        let listener = Listener::default();
        let size = Size(cols.into(), rows.into());
        let term = Term::new(Config::default(), &size, listener.clone());
        let state = State { term, parser: Processor::new(), raw: Vec::new(), closed: false };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        thread::spawn({
            let (pty, state, listener) = (Arc::clone(&pty), Arc::clone(&state), listener.clone());
            move || pump(&pty, &state, &listener, answer)
        });
        Terminal { child, pty, state, listener }
    }

    /// Types bytes, in one write.
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        (&*self.pty).write_all(bytes.as_ref()).expect("the terminal takes input");
    }

    /// Changes the size of the terminal and of the screen model.
    pub fn resize(&self, cols: u16, rows: u16) {
        let mut state = lock(&self.state.0);
        state.term.resize(Size(cols.into(), rows.into()));
        self.pty.resize(pty_process::Size::new(rows, cols)).expect("a new size");
    }

    /// What is seen now.
    pub fn screen(&self) -> Screen {
        self.look(&lock(&self.state.0))
    }

    /// Waits until the screen satisfies `until` and gives it.
    pub fn wait(&self, what: &str, until: impl Fn(&Screen) -> bool) -> Screen {
        let deadline = Instant::now() + PATIENCE;
        let mut state = lock(&self.state.0);
        loop {
            let screen = self.look(&state);
            if until(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !state.closed,
                "never seen: {what}; the screen:\n{}",
                screen.lines.join("\n")
            );
            let waited = self.state.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the end of the program and of what it wrote.
    pub fn exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child to wait for")
                && lock(&self.state.0).closed
            {
                return status;
            }
            assert!(Instant::now() < deadline, "the program does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn look(&self, state: &State) -> Screen {
        let grid = state.term.grid();
        let above = grid.history_size();
        let (mut lines, mut faint) = (Vec::new(), String::new());
        for line in -(above as i32)..grid.screen_lines() as i32 {
            let mut text = String::new();
            for column in 0..grid.columns() {
                let cell = &grid[Line(line)][Column(column)];
                if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                    continue;
                }
                text.push(cell.c);
                text.extend(cell.zerowidth().into_iter().flatten());
                if cell.flags.contains(Flags::DIM) {
                    faint.push(cell.c);
                }
            }
            lines.push(text.trim_end().to_owned());
        }
        let mode = state.term.mode();
        let point = grid.cursor.point;
        let cursor = (point.line.0 as usize, point.column.0);
        Screen {
            lines,
            above,
            faint,
            cursor: mode.contains(TermMode::SHOW_CURSOR).then_some(cursor),
            title: lock(&self.listener.0).0.clone(),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            raw: state.raw.clone(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pump(pty: &Pty, state: &(Mutex<State>, Condvar), listener: &Listener, answer: bool) {
    let mut pty = pty;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        // The end of a PTY is an error on Linux.
        let read = pty.read(&mut buffer).unwrap_or(0);
        let mut all = lock(&state.0);
        let State { term, parser, raw, closed } = &mut *all;
        raw.extend_from_slice(&buffer[..read]);
        parser.advance(term, &buffer[..read]);
        *closed = read == 0;
        drop(all);
        let reply = std::mem::take(&mut lock(&listener.0).1);
        if answer && !reply.is_empty() {
            let _ = pty.write_all(reply.as_bytes());
        }
        state.1.notify_all();
        if read == 0 {
            break;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
