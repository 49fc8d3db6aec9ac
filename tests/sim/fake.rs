//! A fake agent: renders a composer and dialogs in Claude's manner, takes keys as the real programs do.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use mado::core::dialect::{Answer, NoAnswer};
use mado::core::profile::Profile;
use mado::proto::screen::{Row, ScreenView};

/// A profile in Claude's manner; `rungs` as the test needs.
pub fn profile(name: &str, rungs: &str) -> Profile {
    let text = format!(
        r#"
name = "{name}"
[program]
command = "x"
[records]
dialect = "claude"
[evidence]
rungs = [{rungs}]
title_busy = '^⠂'
[screen]
busy_above = ['^✶ ']
busy_footer = ['esc to interrupt']
dialog = ['Do you want to', 'Esc to cancel']
done = ['^✻ \S+ for \d+s']
interrupted = ['⎿ +Interrupted']
error = ['^● API Error']
echo = '^❯ '
output = '^● '
chrome = ['^✶ ', '^✻ ']
[composer]
kind = "box"
top = '^──'
first = '^❯[ \u00a0]?'
rest = '^(  |$)'
bottom = '^──'
cursor_inside = true
hidden = '↑ (\d+) more'
placeholder = '\[Pasted text #\d+(?: \+(\d+) lines)?\]'
clear = "\u0015"
clear_max = 50
[[defuse]]
match = '^[!/#]'
prefix = " "
[[defuse]]
match = '(^|\s)@\S+$'
suffix = " "
"#
    );
    toml::from_str(&text).unwrap()
}

pub const ALL: &str = r#""hook", "record", "status", "screen""#;

/// A fake agent.
#[derive(Debug, Default)]
pub struct Fake {
    pub composer: String,
    pub dialog: bool,
    pub busy: bool,
    pub title: String,
    pub rows: Vec<String>,
    pub cols: usize,
    pub bytes: u64,
    pub frozen: bool,
    /// It draws, but reads nothing: a slow program.
    pub slow: bool,
    /// Text is taken but never rendered.
    pub blind: bool,
    /// A long paste is shown as this.
    pub stand_in: Option<String>,
    /// Enter is ignored this many times (a completion menu eats it).
    pub eats_enter: u32,
    /// The terminal refuses this many Enters: the screen changed after the look.
    pub refuse_enter: u32,
    pub hooks: bool,
    pub status: bool,
    pub records: bool,
    /// How much later than usual its hooks, its status file and its record speak.
    pub hook_ms: u64,
    pub status_ms: u64,
    pub record_ms: u64,
    /// Everything that was written to it, with times.
    pub writes: Vec<(u64, String)>,
    pub submits: Vec<String>,
    pub approvals: u32,
    pub record: Vec<(String, String, Option<String>)>,
    pub turn: u64,
    /// The last turn that is over.
    pub over: u64,
    /// A person's prompt that waits for the end of the turn.
    pub queued: Option<String>,
    /// The turn leaves a background task, whose end starts another.
    pub background: bool,
    /// Prompts that the program gave itself.
    pub notices: Vec<String>,
    /// The answer given to each prompt; `None`: echoes.
    pub answer: Option<String>,
    pub unread: String,
    /// Nothing happens by itself after a submit: the test tells the evidence.
    pub manual: bool,
    /// What its record gives instead of its own.
    pub extract: Option<Result<Answer, NoAnswer>>,
    /// The files that its record says the turn changed.
    pub changed: Option<Vec<String>>,
    /// Readings of its record are never answered.
    pub mute: bool,
    /// Its terminal takes no writes: they wait until they are dropped or it is unclogged.
    pub clogged: bool,
    /// Of a write that is dropped while it is clogged, this many bytes got through.
    pub takes: usize,
    /// Writes that wait: number and text.
    pub pending: Vec<(u64, String)>,
    /// This many looks are never answered.
    pub deaf: u32,
    /// It has not asked for bracketed paste.
    pub unbracketed: bool,
    /// It is inside a paste.
    pub pasting: bool,
    /// The beginning of a sequence whose rest has not come yet.
    pub held: String,
    /// It draws on the alternate screen, its composer at the bottom of so many rows.
    pub alt: Option<usize>,
    /// A shell: a prompt, and what runs in its foreground.
    pub shell: Option<Shell>,
}

/// What a fake shell shows.
#[derive(Debug, Clone)]
pub struct Shell {
    pub prompt: String,
    /// A command of it has the terminal.
    pub running: bool,
    /// What the host knows of the foreground.
    pub told: bool,
}

impl Fake {
    fn shell_view(&self, shell: &Shell) -> ScreenView {
        let mut rows: Vec<Row> =
            self.rows.iter().map(|r| Row { text: r.clone(), ..Row::default() }).collect();
        let mut cursor = (rows.len(), 0);
        if !shell.running {
            for (i, line) in self.composer.split('\n').enumerate() {
                let text = if i == 0 { format!("{}{line}", shell.prompt) } else { line.to_owned() };
                cursor = (rows.len(), text.chars().count());
                rows.push(Row { text: text.trim_end().to_owned(), ..Row::default() });
            }
        }
        rows.resize(rows.len().max(24), Row::default());
        ScreenView {
            rows,
            cols: 80,
            cursor,
            bracketed_paste: !self.unbracketed && !shell.running,
            bytes: self.bytes,
            unread: Some(self.unread.len() as u64),
            foreground: shell.told.then_some(!shell.running),
            ..ScreenView::default()
        }
    }

    pub fn view(&self) -> ScreenView {
        if let Some(shell) = &self.shell {
            return self.shell_view(shell);
        }
        let mut rows: Vec<Row> =
            self.rows.iter().map(|r| Row { text: r.clone(), ..Row::default() }).collect();
        let mut cursor;
        if self.busy {
            rows.push(Row { text: "✶ Working… (1s)".into(), ..Row::default() });
        }
        if self.dialog {
            for text in [
                "──────",
                " Bash command",
                " Do you want to proceed?",
                " ❯ 1. Yes",
                "   2. No",
                "",
                " Esc to cancel",
            ] {
                rows.push(Row { text: text.into(), ..Row::default() });
            }
            cursor = (rows.len() - 4, 1);
        } else {
            rows.push(Row { text: "──────────".into(), ..Row::default() });
            let shown = match &self.stand_in {
                Some(s) if !self.composer.is_empty() => s.clone(),
                _ if self.blind => String::new(),
                _ => self.composer.clone(),
            };
            for (i, line) in shown.split('\n').enumerate() {
                let text = if i == 0 { format!("❯\u{a0}{line}") } else { format!("  {line}") };
                rows.push(Row { text: text.trim_end().to_owned(), ..Row::default() });
            }
            cursor = (rows.len() - 1, 2);
            rows.push(Row { text: "──────────".into(), ..Row::default() });
            rows.push(Row { text: "  ? for shortcuts".into(), ..Row::default() });
        }
        if let Some(height) = self.alt {
            let over = rows.len().saturating_sub(height);
            rows.drain(..over);
            cursor.0 -= over;
        }
        ScreenView {
            rows,
            cols: if self.cols == 0 { 80 } else { self.cols },
            cursor,
            title: self.title.clone(),
            bracketed_paste: !self.unbracketed,
            alt_screen: self.alt.is_some(),
            bytes: self.bytes,
            unread: Some(self.unread.len() as u64),
            ..ScreenView::default()
        }
    }

    /// Takes bytes as the real programs do: pastes are text, in a dialog they are ignored; Enter
    /// submits, or approves.
    pub fn read(&mut self, text: &str) -> Option<String> {
        if self.frozen || self.slow {
            self.unread.push_str(text);
            return None;
        }
        self.bytes += 1;
        let mut submitted = None;
        let text = std::mem::take(&mut self.held) + text;
        let mut rest = text.as_str();
        for mark in ["\u{1b}[200~", "\u{1b}[201~"] {
            let cut = (1..mark.len()).rev().find(|n| rest.ends_with(&mark[..*n]));
            if let Some(n) = cut {
                self.held = rest[rest.len() - n..].to_owned();
                rest = &rest[..rest.len() - n];
            }
        }
        while !rest.is_empty() {
            if self.pasting {
                let end = rest.find("\u{1b}[201~");
                if !self.dialog {
                    self.composer.push_str(&rest[..end.unwrap_or(rest.len())]);
                }
                self.pasting = end.is_none();
                rest = end.map_or("", |end| &rest[end + 6..]);
                continue;
            }
            if let Some(r) = rest.strip_prefix("\u{1b}[200~") {
                self.pasting = true;
                rest = r;
                continue;
            }
            // The end of a paste that is not open is no key that does anything.
            if let Some(r) = rest.strip_prefix("\u{1b}[201~") {
                rest = r;
                continue;
            }
            let c = rest.chars().next().unwrap();
            rest = &rest[c.len_utf8()..];
            match c {
                '\r' if self.dialog => {
                    self.approvals += 1;
                    self.dialog = false;
                }
                '\r' if self.eats_enter > 0 => self.eats_enter -= 1,
                '\r' if !self.composer.is_empty() => {
                    submitted = Some(std::mem::take(&mut self.composer));
                }
                '\u{15}' => {
                    let cut = self.composer.rfind('\n').unwrap_or(0);
                    self.composer.truncate(cut);
                }
                '\r' => {}
                c if self.dialog && matches!(c, 'y' | 'p' | '1') => self.approvals += 1,
                c => self.composer.push(c),
            }
        }
        submitted
    }
}
