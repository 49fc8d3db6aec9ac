//! A fake agent: renders a composer and dialogs in Claude's manner, takes keys as the real programs do.

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
    /// Everything that was written to it, with times.
    pub writes: Vec<(u64, String)>,
    pub submits: Vec<String>,
    pub approvals: u32,
    pub record: Vec<(String, String, Option<String>)>,
    pub turn: u64,
    /// The answer given to each prompt; `None`: echoes.
    pub answer: Option<String>,
    pub unread: String,
    /// Nothing happens by itself after a submit: the test tells the evidence.
    pub manual: bool,
    /// What its record gives instead of its own.
    pub extract: Option<Result<Answer, NoAnswer>>,
    /// Readings of its record are never answered.
    pub mute: bool,
}

impl Fake {
    pub fn view(&self) -> ScreenView {
        let mut rows: Vec<Row> =
            self.rows.iter().map(|r| Row { text: r.clone(), ..Row::default() }).collect();
        let cursor;
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
        ScreenView {
            rows,
            cols: if self.cols == 0 { 80 } else { self.cols },
            cursor,
            title: self.title.clone(),
            bracketed_paste: true,
            bytes: self.bytes,
            ..ScreenView::default()
        }
    }

    /// Takes bytes as the real programs do: pastes are text, in a dialog they are ignored; Enter
    /// submits, or approves.
    pub fn read(&mut self, text: &str) -> Option<String> {
        if self.frozen {
            self.unread.push_str(text);
            return None;
        }
        self.bytes += 1;
        let mut submitted = None;
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(r) = rest.strip_prefix("\u{1b}[200~") {
                let end = r.find("\u{1b}[201~").expect("a paste has an end");
                if !self.dialog {
                    self.composer.push_str(&r[..end]);
                }
                rest = &r[end + 6..];
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
