//! A terminal for tests: runs a program in a PTY and shows what a person would see.
//!
//! It is deliberately independent of the host's own screen model, so that an error there cannot
//! hide itself here. It answers terminal queries as a plain terminal would.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use alacritty_terminal::Term as Model;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::{Processor, Rgb};
use mado::proto::screen::{Row, ScreenView};
use pty_process::Size;
use pty_process::blocking::{Command, Pty};
use rustix::process::{Pid, Signal, kill_process_group};

use super::wait_value;

/// The library opens descriptors first and marks them close-on-exec after; a spawn in between
/// would inherit them. So one spawn at a time.
static SPAWN: Mutex<()> = Mutex::new(());

/// A program running in a terminal. Dropping it kills the program's process group.
pub struct Term {
    pty: Arc<Pty>,
    child: Mutex<Child>,
    pid: Pid,
    screen: Arc<Mutex<Screen>>,
}

struct Screen {
    model: Model<Listener>,
    parser: Processor,
    events: Arc<Mutex<Events>>,
    raw: Vec<u8>,
    last_output: Instant,
    closed: bool,
}

#[derive(Default)]
struct Events {
    replies: Vec<u8>,
    title: String,
    bells: usize,
}

#[derive(Clone)]
struct Listener(Arc<Mutex<Events>>);

impl EventListener for Listener {
    fn send_event(&self, event: Event) {
        let mut events = self.0.lock().unwrap();
        match event {
            Event::PtyWrite(text) => events.replies.extend_from_slice(text.as_bytes()),
            // A dark terminal: black background (257), light everything else.
            Event::ColorRequest(index, format) => {
                let level = if index == 257 { 0 } else { 0xdd };
                let reply = format(Rgb { r: level, g: level, b: level });
                events.replies.extend_from_slice(reply.as_bytes());
            }
            Event::Title(title) => events.title = title,
            Event::ResetTitle => events.title.clear(),
            Event::Bell => events.bells += 1,
            _ => {}
        }
    }
}

impl Term {
    /// Starts `argv` with exactly the environment `env` in a terminal of the given size.
    pub fn spawn<S: AsRef<OsStr>>(
        argv: &[S],
        env: &BTreeMap<String, String>,
        cwd: &Path,
        rows: u16,
        cols: u16,
    ) -> Term {
        let (pty, child) = {
            let _one_at_a_time = SPAWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (pty, pts) = pty_process::blocking::open().expect("open a pty");
            pty.resize(Size::new(rows, cols)).expect("size the pty");
            let child = Command::new(&argv[0])
                .args(&argv[1..])
                .env_clear()
                .envs(env)
                .current_dir(cwd)
                .spawn(pts)
                .unwrap_or_else(|e| panic!("cannot start {}: {e}", argv[0].as_ref().display()));
            (Arc::new(pty), child)
        };
        let events = Arc::new(Mutex::new(Events::default()));
        let size = TermSize::new(cols.into(), rows.into());
        let screen = Arc::new(Mutex::new(Screen {
            model: Model::new(Config::default(), &size, Listener(events.clone())),
            parser: Processor::new(),
            events,
            raw: Vec::new(),
            last_output: Instant::now(),
            closed: false,
        }));
        let pid = Pid::from_child(&child);
        {
            let (pty, screen) = (pty.clone(), screen.clone());
            std::thread::spawn(move || read(&pty, &screen));
        }
        Term { pty, child: Mutex::new(child), pid, screen }
    }

    /// Writes bytes as if they were typed.
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        (&*self.pty).write_all(bytes.as_ref()).expect("write to the pty");
    }

    /// Writes text as one bracketed paste, without an Enter.
    pub fn paste(&self, text: &str) {
        self.write(format!("\x1b[200~{text}\x1b[201~"));
    }

    /// The visible screen, one line per row, trailing blanks removed.
    pub fn text(&self) -> String {
        let screen = self.screen();
        (0..screen.model.screen_lines()).map(|row| screen.row(row as i32) + "\n").collect()
    }

    /// What scrolled off the top, then the visible screen.
    pub fn full_text(&self) -> String {
        let screen = self.screen();
        let history = screen.model.history_size() as i32;
        (-history..screen.model.screen_lines() as i32).map(|row| screen.row(row) + "\n").collect()
    }

    /// The visible screen as the core reads one, so that its rules can be tried on real programs
    /// without the host's own screen model.
    pub fn view(&self) -> ScreenView {
        let screen = self.screen();
        let mode = *screen.model.mode();
        let point = screen.model.grid().cursor.point;
        ScreenView {
            rows: (0..screen.model.screen_lines()).map(|r| screen.view_row(r as i32)).collect(),
            cols: screen.model.columns(),
            cursor: (point.line.0 as usize, point.column.0),
            cursor_visible: mode.contains(TermMode::SHOW_CURSOR),
            title: screen.events.lock().unwrap().title.clone(),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            alt_screen: mode.contains(TermMode::ALT_SCREEN),
            scrolled: screen.model.history_size() as u64,
            scrolled_rows: Vec::new(),
            bytes: screen.raw.len() as u64,
            foreground: None,
            unread: None,
        }
    }

    /// The cursor's row and column, from zero.
    pub fn cursor(&self) -> (usize, usize) {
        let point = self.screen().model.grid().cursor.point;
        (point.line.0 as usize, point.column.0)
    }

    /// The window title.
    pub fn title(&self) -> String {
        self.screen().events.lock().unwrap().title.clone()
    }

    /// How often the bell rang.
    pub fn bells(&self) -> usize {
        self.screen().events.lock().unwrap().bells
    }

    /// The program asked for bracketed paste.
    pub fn bracketed_paste(&self) -> bool {
        self.screen().model.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// The alternate screen is active.
    pub fn alt_screen(&self) -> bool {
        self.screen().model.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Every byte that the program wrote so far.
    pub fn raw(&self) -> Vec<u8> {
        self.screen().raw.clone()
    }

    /// Time since the program last wrote something.
    pub fn quiet_for(&self) -> Duration {
        self.screen().last_output.elapsed()
    }

    /// The process id of the program, which is also its process group's and session's.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Changes the terminal's size.
    pub fn resize(&self, rows: u16, cols: u16) {
        self.screen().model.resize(TermSize::new(cols.into(), rows.into()));
        self.pty.resize(Size::new(rows, cols)).expect("resize the pty");
    }

    /// The program's exit status once it ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().expect("wait for the program")
    }

    /// Waits until the visible text fulfils `check`, or panics with the screen.
    pub async fn wait_for(&self, what: &str, timeout: Duration, check: impl Fn(&str) -> bool) {
        wait_value(what, timeout, || check(&self.text()).then_some(()), || self.describe()).await;
    }

    /// Waits until the visible text contains `needle`.
    pub async fn wait_text(&self, needle: &str, timeout: Duration) {
        self.wait_for(&format!("{needle:?} on the screen"), timeout, |t| t.contains(needle)).await;
    }

    /// Waits until something outside the screen is true, or panics with the screen.
    pub async fn wait_until(&self, what: &str, timeout: Duration, check: impl Fn() -> bool) {
        wait_value(what, timeout, || check().then_some(()), || self.describe()).await;
    }

    /// Waits until the program ended and all its output is on the screen.
    pub async fn wait_exit(&self, timeout: Duration) -> ExitStatus {
        let check = || self.screen().closed.then(|| self.exit_status()).flatten();
        wait_value("the program's end", timeout, check, || self.describe()).await
    }

    /// The screen as a failing test should show it.
    pub fn describe(&self) -> String {
        let (row, column) = self.cursor();
        format!(
            "{}\n[cursor {row}:{column}, title {:?}, exit {:?}]",
            self.text().trim_end(),
            self.title(),
            self.exit_status()
        )
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        let mut screen = self.screen.lock().unwrap();
        screen.end_stale_update();
        screen
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner).wait();
    }
}

impl Screen {
    fn row(&self, row: i32) -> String {
        let cells = &self.model.grid()[Line(row)];
        let mut text = String::new();
        for column in 0..self.model.columns() {
            let cell = &cells[Column(column)];
            if !cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                text.push(cell.c);
                text.extend(cell.zerowidth().into_iter().flatten());
            }
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// A row as the core takes it.
    fn view_row(&self, row: i32) -> Row {
        let cells = &self.model.grid()[Line(row)];
        let columns = self.model.columns();
        let mut made = Row { wrapped: false, ..Row::default() };
        let mut chars = 0;
        for column in 0..columns {
            let cell = &cells[Column(column)];
            if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                continue;
            }
            let first = chars;
            made.text.push(if cell.c == '\t' { ' ' } else { cell.c });
            made.text.extend(cell.zerowidth().into_iter().flatten());
            chars += 1 + cell.zerowidth().map_or(0, <[char]>::len);
            if cell.flags.contains(Flags::DIM) {
                made.faint.push((first, chars));
            }
        }
        made.wrapped = cells[Column(columns - 1)].flags.contains(Flags::WRAPLINE);
        if !made.wrapped {
            made.text.truncate(made.text.trim_end_matches(' ').len());
        }
        made
    }

    /// A synchronized update that a program never ends is shown after its time, as terminals do.
    fn end_stale_update(&mut self) {
        let deadline = self.parser.sync_timeout().sync_timeout();
        if deadline.is_some_and(|d| d <= Instant::now()) {
            self.parser.stop_sync(&mut self.model);
        }
    }
}

/// Feeds the program's output to the screen until the terminal closes (EIO at the session's end).
fn read(mut pty: &Pty, screen: &Mutex<Screen>) {
    let mut buffer = vec![0; 65536];
    while let Ok(n @ 1..) = pty.read(&mut buffer) {
        let replies = {
            let mut screen = screen.lock().unwrap();
            let Screen { model, parser, raw, events, last_output, .. } = &mut *screen;
            parser.advance(model, &buffer[..n]);
            raw.extend_from_slice(&buffer[..n]);
            *last_output = Instant::now();
            std::mem::take(&mut events.lock().unwrap().replies)
        };
        // A program that is gone needs no reply.
        let _ = pty.write_all(&replies);
    }
    screen.lock().unwrap().closed = true;
}
