//! The records of the real agent: two in one directory, each watched and read while it works, through
//! a dialog, an interruption, an error, `/clear`, and its end.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
// Outside of `#[test]` functions the lint does not know that this is a test.
#![allow(clippy::unwrap_used)]

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::claude;
use common::mock::{Mock, Reply};
use common::term::Term;
use mado::core::dialect::{NoAnswer, RecordEvent, StatusState};
use mado::core::profile::Dialect;
use mado::host::records::Subject;
use mado::host::records::opencode::Live;
use mado::host::records::watch::{RecordUpdate, watch};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const TURN: Duration = Duration::from_secs(30);

fn subject(term: &Term, cwd: &Path) -> Subject {
    Subject {
        dialect: Dialect::Claude,
        root: term.pid().try_into().unwrap(),
        names: vec!["claude".to_owned()],
        // Nothing of the agent's: its own process is asked.
        env: BTreeMap::new(),
        cwd: cwd.to_owned(),
        path: PathBuf::new(),
        live: Live::default(),
    }
}

struct Watched {
    term: Term,
    subject: Subject,
    updates: mpsc::Receiver<RecordUpdate>,
    stop: CancellationToken,
}

impl Watched {
    async fn start(binary: &Path, mode: &str, home: &Path, cwd: &Path, url: &str) -> Watched {
        let arguments = claude::argv(binary, &["--permission-mode", mode]);
        let term = Term::spawn(&arguments, &claude::claude_env(home, url), cwd, 40, 120);
        let subject = subject(&term, cwd);
        let (sender, updates) = mpsc::channel(64);
        let stop = CancellationToken::new();
        // The watch begins before the agent has written anything.
        tokio::spawn(watch(subject.clone(), sender, Arc::default(), stop.clone()));
        term.wait_for("the composer", claude::START, claude::ready).await;
        let mut watched = Watched { term, subject, updates, stop };
        watched.state(StatusState::Idle).await;
        watched
    }

    async fn next<T>(&mut self, what: &str, pick: impl Fn(RecordUpdate) -> Option<T>) -> T {
        let wait = async {
            loop {
                match self.updates.recv().await.unwrap() {
                    RecordUpdate::Problem(problem) => panic!("{problem}"),
                    update => {
                        if let Some(found) = pick(update) {
                            return found;
                        }
                    }
                }
            }
        };
        let Ok(found) = tokio::time::timeout(TURN, wait).await else {
            panic!("no {what}; the screen:\n{}", self.term.text())
        };
        found
    }

    async fn state(&mut self, wanted: StatusState) {
        let name = format!("status {wanted:?}");
        self.next(&name, |u| match u {
            RecordUpdate::Status(s) if s.state == Some(wanted) => Some(()),
            _ => None,
        })
        .await;
    }

    async fn event(&mut self) -> RecordEvent {
        self.next("record", |u| match u {
            RecordUpdate::Record(event) => Some(event),
            _ => None,
        })
        .await
    }

    /// The id of the turn that a prompt begins.
    async fn turn_of(&mut self, prompt: &str) -> String {
        match self.event().await {
            RecordEvent::Prompt { turn, text, human: true } if text == prompt => turn,
            other => panic!("{other:?} instead of the prompt {prompt:?}"),
        }
    }

    async fn say(&self, text: &str) {
        self.term.paste(text);
        self.term.wait_text(text, TURN).await;
        // Under load an Enter right after the start is lost.
        let typed = format!("❯\u{a0}{text}");
        let pressed = Cell::new(None::<Instant>);
        self.term
            .wait_for("the composer to be empty", TURN, |screen| {
                let there = screen.contains(&typed);
                if there && pressed.get().is_none_or(|at| at.elapsed() > Duration::from_secs(3)) {
                    pressed.set(Some(Instant::now()));
                    self.term.write("\r");
                }
                !there
            })
            .await;
    }

    /// A whole turn: its events, then its answer as the host reads it.
    async fn ask(&mut self, prompt: &str, answer: &str) {
        self.say(prompt).await;
        let turn = self.turn_of(prompt).await;
        let named = Some(turn.clone());
        match self.event().await {
            RecordEvent::Answer { turn, text, .. } => {
                assert_eq!((turn, text.as_str()), (named.clone(), answer));
            }
            other => panic!("{other:?} instead of the answer {answer:?}"),
        }
        assert_eq!(self.event().await, RecordEvent::TurnEnd { turn: named.clone() });
        let found = self.subject.extract().unwrap();
        assert_eq!((found.text.as_str(), found.prompt.as_deref()), (answer, Some(prompt)));
        assert!(found.ended && found.turn == named);
    }
}

async fn records_of_two_agents(binary: &Path, mode: &str) {
    let mock = Mock::start().await;
    let cwd = tempfile::tempdir().unwrap();
    let cwd = cwd.path().canonicalize().unwrap();
    let home = claude::home(&[&cwd]);
    let mut one = Watched::start(binary, mode, home.path(), &cwd, &mock.url_for("one")).await;
    let mut two = Watched::start(binary, mode, home.path(), &cwd, &mock.url_for("two")).await;
    assert!(matches!(one.subject.extract(), Err(NoAnswer::NoRecord(_) | NoAnswer::NotYet)));

    mock.script(vec!["the first answer".into()]);
    one.ask("to one", "the first answer").await;
    mock.script(vec!["the second answer".into()]);
    two.ask("to two", "the second answer").await;
    assert_eq!(one.subject.extract().unwrap().text, "the first answer");

    // A dialog: the status says so, and there is no answer while it waits.
    mock.script(vec![Reply::bash("touch started")]);
    one.say("use a tool").await;
    let turn = one.turn_of("use a tool").await;
    one.state(StatusState::Waiting).await;
    assert_eq!(one.subject.extract(), Err(NoAnswer::NotYet));
    claude::approve(&one.term, TURN).await;
    one.next("end", |u| {
        (u == RecordUpdate::Record(RecordEvent::TurnEnd { turn: Some(turn.clone()) })).then_some(())
    })
    .await;
    assert!(one.subject.extract().unwrap().text.starts_with("FINAL after tool"));

    // Esc: no end is recorded, but the interruption is.
    one.say("MOCK:slow 100").await;
    let turn = one.turn_of("MOCK:slow 100").await;
    one.term.wait_text("word2", TURN).await;
    one.term.write("\x1b");
    one.next("interruption", |u| {
        let wanted = RecordEvent::Interrupted { turn: Some(turn.clone()) };
        (u == RecordUpdate::Record(wanted)).then_some(())
    })
    .await;
    assert_eq!(one.subject.extract(), Err(NoAnswer::Interrupted));

    // An error of the service.
    two.say("MOCK:err 400").await;
    two.turn_of("MOCK:err 400").await;
    assert!(matches!(two.event().await, RecordEvent::ApiError { code: Some(400), .. }));
    assert!(matches!(two.subject.extract(), Err(NoAnswer::ApiError { code: Some(400), .. })));

    // `/clear` replaces the session in place.
    mock.script(vec!["the answer after".into()]);
    one.term.wait_text("Interrupted", TURN).await;
    one.term.write("\x15\x15");
    one.say("/clear").await;
    one.next("new session", |u| matches!(u, RecordUpdate::Session { .. }).then_some(())).await;
    one.ask("after it", "the answer after").await;

    // What it did before the host looked is found as well.
    let process = mado::host::procs::find_agent(one.subject.root, &one.subject.names).unwrap();
    let status = mado::host::records::claude::read_status(&home.path().join(".claude"), process);
    assert_eq!(status.unwrap().unwrap().proc_start, Some(process.start));
    one.stop.cancel();
    two.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn real_claude_records_are_read_and_followed() {
    records_of_two_agents(&claude::binary(), "manual").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_claude_records_of_the_older_version_are_read_and_followed() {
    records_of_two_agents(&claude::old_binary(), "default").await;
}
