//! The demo agent's state, and what keys and commands do to it.
//!
//! It is strict where the real agents are: Enter approves an open dialog, letters are hotkeys in
//! it, pastes are ignored there, and an Enter too many does nothing on an empty composer only.

use std::collections::VecDeque;
use std::io::{Result, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::{self, Voice};
use super::args::DemoArgs;
use super::composer::{Composer, Draft};
use super::keys::{self, Key};
use super::record::{self, Lines};
use super::screen::{Block, Painter};
use super::text;
use super::turn::{Phase, Turn};

/// How long a second Ctrl-C quits.
const QUIT_WINDOW: Duration = Duration::from_secs(2);

/// A prompt that waits for its turn.
#[derive(Debug)]
pub struct Prompt {
    pub draft: Draft,
    /// It came from the composer and not from the control socket.
    pub human: bool,
}

/// An open permission dialog.
#[derive(Debug)]
pub struct Dialog {
    /// The running turn asks, so denying ends it.
    pub of_turn: bool,
    /// The option that Enter chooses: 0 is yes.
    pub selected: usize,
}

/// All of the demo agent but its clock and its input.
pub struct App<W> {
    pub(super) painter: Painter<W>,
    pub(super) composer: Composer,
    pub(super) queue: VecDeque<Prompt>,
    pub(super) turn: Option<Turn>,
    pub(super) dialog: Option<Dialog>,
    pub(super) voice: Voice,
    pub(super) think: Duration,
    pub(super) ledger: Lines,
    transcript: Lines,
    /// Transcript lines and when they are due. They are written in order, so a late one holds
    /// back those behind it.
    records: VecDeque<(Instant, Value)>,
    pub(super) record_delay: Duration,
    /// Turns started so far.
    pub(super) turns: u64,
    /// Turns of an earlier run in the same transcript: no two in it have one id.
    pub(super) turns_before: u64,
    pub(super) quit_until: Option<Instant>,
    /// Set once the program should end.
    pub(super) exit: Option<i32>,
    draft: String,
    pub(super) osc: bool,
    pub(super) title: &'static str,
    pub(super) state: &'static str,
}

impl<W: Write> App<W> {
    /// Opens the files of `args` and greets.
    pub fn new(args: &DemoArgs, painter: Painter<W>) -> Result<Self> {
        let mut app = App {
            painter,
            composer: Composer::default(),
            queue: VecDeque::new(),
            turn: None,
            dialog: None,
            voice: Voice { role: args.role, name: args.name.clone(), seed: args.seed },
            think: args.think(),
            ledger: Lines::open(args.ledger.as_deref())?,
            transcript: Lines::open(args.transcript.as_deref())?,
            records: VecDeque::new(),
            record_delay: Duration::from_millis(args.record_delay),
            turns: 0,
            turns_before: Lines::count(args.transcript.as_deref(), "prompt"),
            quit_until: None,
            exit: None,
            draft: String::new(),
            osc: !args.no_osc,
            title: "",
            state: "",
        };
        app.ledger.note("start", std::process::id())?;
        let header = Block {
            spaced: false,
            ..Block::new("", format!("mado demo agent · {}", args.role.label()))
        };
        app.painter.commit(header.styled("1"));
        let hint = format!("{} answers by rule, without a model · /help", text::clean(&args.name));
        app.painter.commit(Block { spaced: false, ..Block::new("", hint) }.styled("90"));
        Ok(app)
    }

    /// Asks the terminal what it must and draws the first screen with the first pass of the loop.
    pub fn start(&mut self, greeting: &str) -> Result<()> {
        self.painter.send(greeting)
    }

    /// Writes what is left to write and gives the terminal back. A crash writes no transcript.
    pub fn finish(&mut self, code: i32) -> Result<()> {
        if code != 1 {
            self.write_records(Instant::now(), true)?;
        }
        self.ledger.note("exit", code)?;
        self.painter.leave()
    }

    /// Set once the program should end.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit
    }

    /// Takes the result of one read, which happened at `at` (milliseconds since 1970).
    pub fn read(&mut self, bytes: &[u8], at: f64, keys: Vec<Key>, now: Instant) -> Result<()> {
        self.ledger.note_at("read", record::latin1(bytes), at)?;
        for key in keys {
            self.key(key, now)?;
        }
        self.note_draft()
    }

    /// Takes one key.
    pub fn key(&mut self, key: Key, now: Instant) -> Result<()> {
        if let Key::Reply(reply) = key {
            return self.ledger.note("reply", reply);
        }
        if self.dialog.is_some() {
            return self.dialog_key(key, now);
        }
        match key {
            Key::Char(c) => self.composer.insert(c),
            Key::Newline => self.composer.insert('\n'),
            Key::Paste(text) => {
                self.ledger.note("paste", text.as_str())?;
                self.composer.paste(&text);
            }
            Key::Burst(text) => {
                self.ledger.note("burst", text.as_str())?;
                self.composer.paste(&text);
            }
            Key::Backspace => self.composer.backspace(),
            Key::KillToStart => self.composer.kill_to_start(),
            Key::Left => self.composer.left(),
            Key::Right => self.composer.right(),
            Key::Home => self.composer.home(),
            Key::End => self.composer.end(),
            Key::Enter => self.enter(now)?,
            Key::Esc => self.interrupt(now)?,
            Key::Interrupt => self.ctrl_c(now)?,
            Key::EndOfInput if self.composer.is_empty() => self.ctrl_c(now)?,
            Key::EndOfInput | Key::Up | Key::Down | Key::Other | Key::Reply(_) => {}
        }
        Ok(())
    }

    /// Takes one line from the control socket and gives the reply.
    pub fn control(&mut self, line: &str, now: Instant) -> Result<String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, rest.trim().parse::<u64>()) {
            ("ask", _) => {
                if self.dialog.is_some() {
                    return Ok("error: a dialog is already open".into());
                }
                self.open_dialog(false)?;
            }
            ("turn", _) if !rest.is_empty() => {
                let draft = Draft { text: rest.to_owned(), shown: rest.to_owned() };
                self.queue.push_back(Prompt { draft, human: false });
            }
            ("write-transcript-late", Ok(ms)) => self.record_delay = Duration::from_millis(ms),
            ("exit", Ok(code)) => self.exit = Some(i32::try_from(code).unwrap_or(1)),
            _ => {
                return Ok(format!(
                    "error: {line:?} is not one of: ask, turn TEXT, write-transcript-late MS, \
                     exit N"
                ));
            }
        }
        self.advance(now)?;
        Ok("ok".into())
    }

    /// Opens the permission dialog; the composer and its draft wait behind it.
    pub(super) fn open_dialog(&mut self, of_turn: bool) -> Result<()> {
        self.dialog = Some(Dialog { of_turn, selected: 0 });
        self.ledger.note("dialog", if of_turn { "turn" } else { "control" })
    }

    fn dialog_key(&mut self, key: Key, now: Instant) -> Result<()> {
        let Some(dialog) = self.dialog.as_mut() else { return Ok(()) };
        match key {
            Key::Enter if dialog.selected == 0 => self.approve("enter", now),
            Key::Enter => self.deny("enter", now),
            Key::Char('1') => self.approve("1", now),
            Key::Char('y') => self.approve("y", now),
            Key::Char('p') => self.approve("p", now),
            Key::Char('2') => self.deny("2", now),
            Key::Char('n') => self.deny("n", now),
            Key::Esc => self.deny("esc", now),
            Key::Interrupt => self.deny("ctrl-c", now),
            Key::Up => {
                dialog.selected = 0;
                Ok(())
            }
            Key::Down => {
                dialog.selected = 1;
                Ok(())
            }
            Key::Paste(text) => self.ledger.note("ignored_paste", text),
            // Without brackets a dialog cannot tell a paste from keys.
            Key::Burst(text) => text.chars().try_for_each(|c| self.key(keys::typed(c), now)),
            _ => Ok(()),
        }
    }

    fn approve(&mut self, how: &str, now: Instant) -> Result<()> {
        self.dialog = None;
        self.ledger.note("approve", how)?;
        self.painter.commit(Block::new("● ", "Bash(touch demo.txt)"));
        self.painter.commit(Block::attached("  ⎿  ", "Done (the demo agent runs nothing)"));
        if let Some(turn) = self.turn.as_mut() {
            turn.resume(now);
        }
        Ok(())
    }

    fn deny(&mut self, how: &str, now: Instant) -> Result<()> {
        let of_turn = self.dialog.take().is_some_and(|d| d.of_turn);
        self.ledger.note("deny", how)?;
        self.painter.commit(Block::new("● ", "Bash(touch demo.txt)"));
        if of_turn {
            return self.interrupt(now);
        }
        self.painter.commit(Block::attached("  ⎿  ", "Denied"));
        if let Some(turn) = self.turn.as_mut() {
            turn.resume(now);
        }
        Ok(())
    }

    fn enter(&mut self, now: Instant) -> Result<()> {
        if self.composer.completes() {
            self.composer.insert(' ');
            return self.ledger.note("complete", self.composer.text());
        }
        if self.composer.text().trim().is_empty() {
            return self.ledger.note("empty_enter", true);
        }
        let draft = self.composer.take();
        if let Some(command) = draft.text.strip_prefix('!') {
            self.painter.commit(Block::new("! ", text::clean(command)));
            self.painter.commit(Block::attached("  ⎿  ", "(noted; the demo agent runs nothing)"));
            return self.ledger.note("shell", command);
        }
        if draft.text.starts_with('/') {
            return self.command(&draft.text);
        }
        let queued = self.turn.is_some() || !self.queue.is_empty();
        self.ledger
            .write(&json!({ "submit": draft.text, "queued": queued, "at": record::now_ms() }))?;
        self.queue.push_back(Prompt { draft, human: true });
        self.advance(now)
    }

    fn command(&mut self, text: &str) -> Result<()> {
        self.ledger.note("command", text)?;
        let name = text.split_whitespace().next().unwrap_or(text);
        self.painter.commit(Block::new("❯ ", text::clean(text)));
        match name {
            "/exit" | "/quit" => self.exit = Some(0),
            "/help" => {
                let help = Block::new("  ", answer::HELP);
                self.painter.commit(Block { spaced: false, ..help });
            }
            _ => {
                let message = format!("Unknown command: {}", text::clean(name));
                self.painter.commit(Block::attached("  ⎿  ", message));
            }
        }
        Ok(())
    }

    fn ctrl_c(&mut self, now: Instant) -> Result<()> {
        if self.quit_until.is_some_and(|until| now < until) {
            self.exit = Some(0);
        } else if self.turn.is_some() {
            self.interrupt(now)?;
        } else {
            self.composer.clear();
        }
        self.quit_until = Some(now + QUIT_WINDOW);
        Ok(())
    }

    /// Ends the running turn without an answer. What waits in the queue comes next.
    fn interrupt(&mut self, now: Instant) -> Result<()> {
        let running = self.turn.take_if(|turn| !matches!(turn.phase, Phase::Background { .. }));
        let Some(turn) = running else { return Ok(()) };
        let partial = turn.streamed();
        if !partial.is_empty() {
            self.painter.commit(Block::new("● ", partial));
        }
        self.painter.commit(Block::attached("  ⎿  ", "Interrupted by user"));
        self.record(json!({ "type": "interrupted", "turn": turn.id }), now + self.record_delay);
        self.ledger.note("interrupt", turn.id)
    }

    /// Queues a transcript line.
    pub(super) fn record(&mut self, line: Value, due: Instant) {
        self.records.push_back((due, line));
    }

    /// Writes the transcript lines that are due, or all of them.
    pub fn write_records(&mut self, now: Instant, all: bool) -> Result<()> {
        while let Some((_, line)) = self.records.pop_front_if(|(due, _)| all || *due <= now) {
            self.transcript.write(&line)?;
        }
        Ok(())
    }

    /// When the next transcript line is due.
    pub(super) fn record_due(&self) -> Option<Instant> {
        self.records.front().map(|(due, _)| *due)
    }

    fn note_draft(&mut self) -> Result<()> {
        let text = self.composer.text();
        if text != self.draft {
            self.draft.clone_from(&text);
            self.ledger.note("draft", text)?;
        }
        Ok(())
    }
}
