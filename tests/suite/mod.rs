//! One contract for every agent that mado types into: what its composer, its dialogs and its signs
//! do. It runs in a bare terminal, without the host, on the demo agent and on the real ones, so
//! that the stand-in cannot be kinder than reality; and what the terminal shows is read by the
//! core with the agent's own profile, so that the profile cannot be wrong about reality either.

#[path = "checks.rs"]
pub mod checks;
#[path = "turns.rs"]
pub mod turns;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use mado::core::profile::Profile;
use mado::core::screen::Facts;
use mado::core::text::Holds;
use serde_json::Value;
use tempfile::TempDir;
use unicode_normalization::UnicodeNormalization;

use super::common::mock::{Kind, Matcher, Mock, Reply};
use super::common::term::Term;
use super::common::wait_value;
use super::common::{claude, codex, opencode};

/// No step takes longer, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How many rows and columns its terminal has at the start.
pub const SIZE: (u16, u16) = (40, 100);

/// A running agent and the ways to make it do things.
pub struct Subject {
    pub which: Which,
    pub term: Term,
    pub profile: Profile,
    inner: Inner,
}

enum Inner {
    Demo { dir: TempDir },
    Real { mock: Mock, cwd: TempDir, _home: TempDir },
}

/// Which agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each program of tests makes only its own")]
pub enum Which {
    Demo,
    Claude,
    OldClaude,
    Codex,
    Opencode,
}

impl Subject {
    /// Starts one and waits until the core would call it idle.
    pub async fn start(which: Which) -> Subject {
        let (rows, cols) = SIZE;
        let subject = match which {
            Which::Demo => {
                let dir = TempDir::new().unwrap();
                let path = |name: &str| dir.path().join(name).display().to_string();
                let (ledger, control) = (path("ledger.jsonl"), path("control"));
                let mado = env!("CARGO_BIN_EXE_mado");
                let argv = [mado, "demo-agent", "--ledger", &ledger, "--control", &control];
                let env = BTreeMap::from([("TERM".to_owned(), "xterm-256color".to_owned())]);
                let term = Term::spawn(&argv, &env, dir.path(), rows, cols);
                let profile = toml::from_str(include_str!("../../profiles/demo.toml")).unwrap();
                Subject { which, term, profile, inner: Inner::Demo { dir } }
            }
            Which::Claude | Which::OldClaude => {
                let (binary, mode) = match which {
                    Which::OldClaude => (claude::old_binary(), "default"),
                    _ => (claude::binary(), "manual"),
                };
                let mock = Mock::start().await;
                let cwd = TempDir::new().unwrap();
                let home = claude::home(&[cwd.path()]);
                let argv = claude::argv(&binary, &["--permission-mode", mode]);
                let env = claude::claude_env(home.path(), &mock.url());
                let term = Term::spawn(&argv, &env, cwd.path(), rows, cols);
                let profile = toml::from_str(include_str!("../../profiles/claude.toml")).unwrap();
                Subject { which, term, profile, inner: Inner::Real { mock, cwd, _home: home } }
            }
            Which::Codex => {
                let mock = Mock::start().await;
                let cwd = TempDir::new().unwrap();
                let home = codex::home(&[cwd.path()]);
                let argv = codex::argv(&codex::binary(), &mock.url());
                let term = Term::spawn(&argv, &codex::env(home.path()), cwd.path(), rows, cols);
                let profile = toml::from_str(include_str!("../../profiles/codex.toml")).unwrap();
                Subject { which, term, profile, inner: Inner::Real { mock, cwd, _home: home } }
            }
            Which::Opencode => {
                let mock = Mock::start().await;
                let cwd = TempDir::new().unwrap();
                let home = opencode::home();
                let env = opencode::env(home.path(), &mock.url());
                let argv = [opencode::binary().display().to_string()];
                let term = Term::spawn(&argv, &env, cwd.path(), rows, cols);
                let profile = toml::from_str(include_str!("../../profiles/opencode.toml")).unwrap();
                Subject { which, term, profile, inner: Inner::Real { mock, cwd, _home: home } }
            }
        };
        subject.idle().await;
        subject
    }

    /// What the core reads from the screen now.
    pub fn facts(&self) -> Facts {
        Facts::read(&self.term.view(), &self.profile, None)
    }

    /// Waits until the facts fulfil `check`.
    pub async fn wait(&self, what: &str, check: impl Fn(&Facts) -> bool) -> Facts {
        let look = || Some(self.facts()).filter(|f| check(f));
        wait_value(what, PATIENCE, look, || self.describe()).await
    }

    /// Waits for something else, or panics with the screen.
    pub async fn until(&self, what: &str, check: impl Fn() -> bool) {
        wait_value(what, PATIENCE, || check().then_some(()), || self.describe()).await;
    }

    /// Waits for an empty composer with the keyboard, and nothing that says otherwise.
    pub async fn idle(&self) -> Facts {
        self.wait("an idle agent with an empty composer", |f| {
            f.dialog.is_none()
                && f.busy.is_none()
                && f.composer.as_ref().is_some_and(|c| c.text.trim().is_empty())
                && !self.title_busy()
                && !self.title_asks()
                // Codex shows its composer before it is ready.
                && (self.which != Which::Codex || !self.term.title().is_empty())
        })
        .await
    }

    /// Whether the title says that it works.
    pub fn title_busy(&self) -> bool {
        let title = self.term.title();
        self.profile.evidence.title_busy.as_ref().is_some_and(|p| p.is_match(&title))
    }

    /// Whether the title says that a dialog waits.
    pub fn title_asks(&self) -> bool {
        let title = self.term.title();
        self.profile.evidence.title_asking.as_ref().is_some_and(|p| p.is_match(&title))
    }

    /// Whether the screen or the title says that it works.
    pub fn works(&self) -> bool {
        self.facts().busy.is_some() || self.title_busy()
    }

    /// How the composer compares with `text`, as before an Enter. `None`: there is no composer.
    pub fn holds(&self, text: &str) -> Option<Holds> {
        self.holds_pieces(&[text])
    }

    /// The same for a text that was pasted in pieces: a stand-in stands for a whole one.
    pub fn holds_pieces(&self, pieces: &[&str]) -> Option<Holds> {
        let composer = self.facts().composer?;
        Some(composer.holds(pieces, self.profile.composer.placeholder.as_ref()))
    }

    /// Types a text as mado does, line by line, and waits until the composer holds it.
    pub async fn type_lines(&self, text: &str) {
        for line in text.split_inclusive('\n') {
            self.term.paste(line);
            tokio::time::sleep(Duration::from_millis(self.profile.submit.line_gap_ms)).await;
        }
        self.shows(text).await;
    }

    /// Pastes a text at once and waits until the composer holds it.
    pub async fn paste(&self, text: &str) {
        self.term.paste(text);
        self.shows(text).await;
    }

    /// Waits until the composer holds exactly `text`, or the program's stand-in for it.
    pub async fn shows(&self, text: &str) {
        self.shows_pieces(&[text]).await;
    }

    /// Waits until the composer holds what was pasted in these pieces.
    pub async fn shows_pieces(&self, pieces: &[&str]) {
        let what = format!("the composer to hold {pieces:?}");
        self.until(&what, || self.holds_pieces(pieces) == Some(Holds::Ours)).await;
    }

    /// Presses the submitting key after the profile's wait, as mado does.
    pub async fn enter(&self) {
        tokio::time::sleep(Duration::from_millis(self.profile.submit.wait_ms)).await;
        self.term.write(&self.profile.submit.key);
    }

    /// Pastes, submits, and waits until exactly this has been submitted as the `n`-th prompt.
    pub async fn submit(&self, text: &str) {
        let before = self.submits().len();
        self.paste(text).await;
        self.enter().await;
        self.submitted(before, text).await;
    }

    /// Waits until there is one prompt more than `before`, and compares it.
    pub async fn submitted(&self, before: usize, text: &str) {
        self.until("the prompt's arrival", || self.submits().len() > before).await;
        let submits = self.submits();
        assert_eq!(submits.len(), before + 1, "{submits:?}");
        assert_eq!(self.arrives(&submits[before]), self.arrives(text));
    }

    /// A prompt as the agent takes it. Claude composes accents (NFC) and turns tabs into blanks, as the demo
    /// agent does; Codex and OpenCode leave both, and OpenCode puts a blank after a stand-in.
    fn arrives(&self, text: &str) -> String {
        match self.which {
            Which::Demo => text.replace('\t', "    "),
            Which::Claude | Which::OldClaude => text.replace('\t', "    ").nfc().collect(),
            Which::Codex => text.to_owned(),
            Which::Opencode => text.trim_end().to_owned(),
        }
    }

    /// What the agent took as prompts, in order: by the demo's ledger, by what the real one's model got.
    pub fn submits(&self) -> Vec<String> {
        match &self.inner {
            Inner::Demo { dir } => texts(dir.path(), "submit"),
            Inner::Real { mock, .. } => {
                let prompts = mock.prompts().into_iter();
                prompts.map(|p| claude::unwrap_pasted(&p).to_owned()).collect()
            }
        }
    }

    /// How many dialogs were approved: by the demo's ledger, by what the real one's tools did.
    pub fn approvals(&self) -> usize {
        match &self.inner {
            Inner::Demo { dir } => texts(dir.path(), "approve").len(),
            Inner::Real { mock, cwd, .. } => {
                let touched = fs::read_dir(cwd.path()).unwrap().count();
                let results = mock.requests().iter().filter(|r| r.kind == Kind::ToolResult).count();
                touched.max(results)
            }
        }
    }

    /// Submits a prompt whose turn goes on until [`Subject::open_dialog`], [`Subject::finish`] or an
    /// interrupt.
    pub async fn long_turn(&self, gate: &str, then_ask: bool) {
        match &self.inner {
            Inner::Demo { .. } => self.submit("work DEMO:slow 100000").await,
            Inner::Real { mock, .. } => {
                let rest = if then_ask {
                    Reply::bash(&format!("touch approved-{gate}"))
                } else {
                    Reply::text("the long turn's answer")
                };
                // A turn interrupted before it said anything is undone: Claude gives the prompt back
                // to the composer and shows no row.
                let start = Reply::text(format!("it begins, {gate}\n\nand goes on "));
                mock.script(vec![Reply::Seq(vec![start, Reply::Gate(gate.into()), rest])]);
                self.submit("work").await;
                mock.wait_gate(gate, PATIENCE).await;
                self.term.wait_text(&format!("it begins, {gate}"), PATIENCE).await;
            }
        }
    }

    /// Opens a dialog from outside during a long turn that asks.
    pub async fn open_dialog(&self, gate: &str) {
        match &self.inner {
            Inner::Demo { .. } => assert_eq!(self.control("ask"), "ok"),
            Inner::Real { mock, .. } => mock.open(gate),
        }
        self.wait("the dialog", |f| f.dialog.is_some()).await;
    }

    /// A prompt whose turn asks for permission at once.
    pub fn asking_prompt(&self, name: &str) -> String {
        match &self.inner {
            Inner::Demo { .. } => "please DEMO:ask".to_owned(),
            Inner::Real { mock, .. } => {
                mock.script(vec![Reply::bash(&format!("touch approved-{name}"))]);
                "please ask".to_owned()
            }
        }
    }

    /// A prompt whose turn fails with an error of the model's service.
    pub fn failing_prompt(&self) -> String {
        match &self.inner {
            Inner::Demo { .. } => "fail DEMO:error 400".to_owned(),
            Inner::Real { mock, .. } => {
                // The first one is tried again.
                let reply = Reply::Error { status: 400, times: u32::MAX };
                mock.on(Matcher::Equals("fail".into()), reply);
                "fail".to_owned()
            }
        }
    }

    /// Says something on the demo agent's control socket.
    fn control(&self, line: &str) -> String {
        let Inner::Demo { dir } = &self.inner else { panic!("only the demo agent has one") };
        let mut stream = UnixStream::connect(dir.path().join("control")).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }

    /// Rows of the screen that match one of the profile's patterns.
    pub fn rows_matching(&self, patterns: &[mado::core::profile::Pattern]) -> Vec<String> {
        let rows = self.term.view().rows.into_iter().map(|r| r.text);
        rows.filter(|r| patterns.iter().any(|p| p.is_match(r))).collect()
    }

    fn describe(&self) -> String {
        let seen = match &self.inner {
            Inner::Demo { dir } => {
                let ledger = fs::read_to_string(dir.path().join("ledger.jsonl"));
                let ledger = ledger.unwrap_or_default();
                let last = ledger.lines().rev().take(20);
                last.map(|l| l.chars().take(200).collect::<String>() + "\n").collect()
            }
            Inner::Real { mock, .. } => mock.describe(),
        };
        format!("{}\n{:?}\n{seen}", self.term.describe(), self.facts())
    }
}

/// The values of the ledger's entries that have `key`.
fn texts(dir: &Path, key: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join("ledger.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    lines.filter_map(|l| l.get(key).map(|v| v.as_str().unwrap_or_default().to_owned())).collect()
}
