//! The race that mado must never lose: a permission dialog that opens around the Enter of a delivery,
//! on the real Claude Code. Each run proves that its dialog opened; nothing may have been approved.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/claudes.rs"]
mod claudes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/world.rs"]
mod world;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use claudes::Claudes;
use common::claude;
use common::mock::{Kind, Matcher, Reply};
use common::term::Term;
use common::{assert_never, epoch_ms};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Who opens the dialog, and what else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// A prompt from outside the terminal, answered with a tool call.
    Peer,
    /// The same, while the agent is stopped from before mado's last look to after its Enter.
    Stopped,
    /// A person's own Enter in a view.
    Person,
}

/// When the dialog was seen, against the delivery's Enter: the one that was sent, or the one that would have
/// been sent had the delivery gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Window {
    BeforeTyping,
    Over300Before,
    Within300Before,
    Within100Before,
    Within100After,
    Within300After,
    Over300After,
}

impl Window {
    /// `late` is from the Enter to the dialog, in milliseconds.
    fn of(late: f64) -> Window {
        match late {
            ..-300.0 => Window::Over300Before,
            ..-100.0 => Window::Within300Before,
            ..0.0 => Window::Within100Before,
            ..100.0 => Window::Within100After,
            ..300.0 => Window::Within300After,
            _ => Window::Over300After,
        }
    }
}

#[derive(Debug, Default)]
struct Row {
    runs: usize,
    approved: usize,
    states: BTreeMap<String, usize>,
}

/// An agent, a person in front of it, and how long things take.
struct Arena {
    c: Claudes,
    person: Term,
    hit: PathBuf,
    runs: Cell<usize>,
    /// From a prompt of this kind to its dialog, as it was lately.
    opens: Cell<Duration>,
    /// From a send to its Enter.
    enters: Duration,
    /// From its first byte to its Enter, in milliseconds.
    types: f64,
    how: How,
}

/// Long enough that the dialog can come between two lines.
fn text(n: usize) -> String {
    format!("delivery {n}\nsecond line\n    third\n\nfifth line\nend {n}")
}

impl Arena {
    async fn new(how: How, vars: &[(&str, &str)]) -> Arena {
        let c = Claudes::new(&claude::binary(), vars).await;
        let bash = || Reply::bash("touch hit");
        c.mock.on("OPEN-A-DIALOG", bash());
        // A person's `x` behind whatever the composer holds.
        c.mock.on(Matcher::Matches(Regex::new("x$").unwrap()), bash());
        // 2.1.332 opens no dialog in the first 1.5 s after a key in its composer. The Enter comes later than
        // that here, or no dialog could come close to it.
        let late = json!({"submit": {"wait_ms": 2300}});
        c.begin("t", &["--permission-mode", "manual"], Some(late));
        c.world.wait_phase("t", "idle");
        let person = c.world.viewer("t");
        let hit = c.world.site.work().join("hit");
        let mut arena = Arena {
            c,
            person,
            hit,
            runs: Cell::new(0),
            opens: Cell::new(Duration::ZERO),
            enters: Duration::ZERO,
            types: 0.0,
            how,
        };
        arena.calibrate().await;
        arena
    }

    async fn calibrate(&mut self) {
        let w = &self.c.world;
        let sent = epoch_ms();
        let hop = w.send("t", &text(0));
        let hop = w.wait_state(hop, "answered");
        let submitted = hop["times"]["submitted"].as_f64().unwrap();
        self.enters = Duration::from_secs_f64((submitted - sent) / 1000.0);
        self.types = submitted - hop["times"]["typing"].as_f64().unwrap();
        w.wait_phase("t", "idle");
        for n in 0..3 {
            let start = Instant::now();
            self.c.peer_message("t", &format!("OPEN-A-DIALOG, {n}")).send();
            self.dialog().await;
            // The first one is slow.
            self.opens.set(start.elapsed());
            self.close().await;
        }
        println!(
            "an Enter comes {:?} after its send, a dialog {:?} after its prompt",
            self.enters,
            self.opens.get()
        );
    }

    fn shows_dialog(&self) -> bool {
        self.person.text().contains("Do you want to proceed?")
    }

    /// Waits for the dialog: the proof of each run.
    async fn dialog(&self) {
        let what = "the dialog that this run is about";
        self.person.wait_until(what, Duration::from_secs(30), || self.shows_dialog()).await;
    }

    /// Waits for the dialog, and says when it came against the Enter of this hop. A delivery that is
    /// interrupted forgets when it began, so it is watched all the while.
    async fn dialog_against(&self, hop: u64) -> (Window, Value) {
        let typing = Cell::new(None::<f64>);
        let what = "the dialog that this run is about";
        self.person
            .wait_until(what, Duration::from_secs(30), || {
                if let Some(at) = self.c.world.hop(hop)["times"]["typing"].as_f64() {
                    typing.set(typing.get().or(Some(at)));
                }
                self.shows_dialog()
            })
            .await;
        let opened = epoch_ms();
        let then = self.c.world.hop(hop);
        let submitted = then["times"]["submitted"].as_f64().filter(|at| *at <= opened);
        let enter = submitted.or(typing.get().filter(|at| *at <= opened).map(|at| at + self.types));
        (enter.map_or(Window::BeforeTyping, |at| Window::of(opened - at)), then)
    }

    /// The person says no. Two Escapes in a row would open another dialog.
    async fn close(&self) {
        let pressed = Cell::new(None::<Instant>);
        self.person
            .wait_until("the dialog to close", Duration::from_secs(30), || {
                let due = pressed.get().is_none_or(|at| at.elapsed() > Duration::from_secs(5));
                if self.shows_dialog() && due {
                    pressed.set(Some(Instant::now()));
                    self.person.write("\x1b");
                }
                !self.shows_dialog()
            })
            .await;
        self.c.world.wait_phase("t", "idle");
    }

    fn approved(&self) -> bool {
        let results = |r: &common::mock::Request| r.kind == Kind::ToolResult;
        self.hit.exists() || self.c.mock.requests().iter().any(results)
    }

    /// One delivery with a dialog that is to open `offset` ms after its Enter is due.
    async fn run(&self, offset: i64) -> (Window, bool, String) {
        let (w, how) = (&self.c.world, self.how);
        self.runs.set(self.runs.get() + 1);
        let n = self.runs.get();
        w.wait_phase("t", "idle");
        let ms = |d: Duration| d.as_millis() as i64;
        // Everything relative to the send, in milliseconds; then shifted so that nothing is past.
        let enter = ms(self.enters);
        let prompt = enter + offset - ms(self.opens.get());
        let (send, prompt) = (0.max(-prompt), 0.max(prompt));
        let start = Instant::now();
        let until = move |at: i64| {
            let at = start + Duration::from_millis(at as u64);
            thread::sleep(at.saturating_duration_since(Instant::now()));
        };
        // The agent drops a message that is the same as the one before.
        let message = self.c.peer_message("t", &format!("OPEN-A-DIALOG for run {n}"));
        let pid = Pid::from_raw(w.pid("t") as i32).unwrap();
        let hop = thread::scope(|scope| {
            let (person, message) = (&self.person, &message);
            scope.spawn(move || {
                until(prompt);
                match how {
                    How::Person => person.write("x\r"),
                    How::Peer | How::Stopped => message.send(),
                }
            });
            if how == How::Stopped {
                scope.spawn(move || {
                    until(send + enter - 120);
                    kill_process(pid, Signal::STOP).unwrap();
                    until(send + enter + 350);
                    kill_process(pid, Signal::CONT).unwrap();
                });
            }
            until(send);
            w.send("t", &text(n))
        });
        let (window, then) = self.dialog_against(hop).await;
        let took = start.elapsed().saturating_sub(Duration::from_millis(prompt as u64));
        if how == How::Peer && then["times"]["submitted"].is_null() {
            self.opens.set((self.opens.get() * 2 + took) / 3);
        }
        // A second Enter would be due within a second.
        until(send + enter + 1300);
        let standing = assert_never_closes(self).await;
        let approved = self.approved();
        if !approved {
            assert!(standing, "the dialog went away by itself: {}", self.person.describe());
            self.close().await;
        }
        let last = w.wait_hop(hop, "its end", ended);
        if !approved {
            self.settle(n, &last);
        }
        let state = format!("{}/{}", last["state"], last["reason_code"]).replace('"', "");
        (window, approved, state)
    }

    /// After a run: the text arrived at most once, and exactly once where its hop says so.
    fn settle(&self, n: usize, hop: &Value) {
        let how = self.how;
        let arrived = self.c.mock.prompts().iter().filter(|p| **p == text(n)).count();
        assert!(arrived <= 1, "arrived {arrived} times: {hop}");
        if hop["state"] == "answered" {
            assert_eq!(arrived, 1, "{hop}");
        } else {
            // A dialog in the delivery's own turn, refused by the person; or the person's own key.
            let code = hop["reason_code"].as_str().unwrap();
            let fine = code == "interrupted" || how == How::Person && code == "human_took_over";
            assert!(fine, "{hop}");
        }
        self.tidy();
    }

    /// Clears what stands in the composer: a draft that a person's key left with the text is theirs to
    /// clear, and an Escape gives back what steered the turn.
    fn tidy(&self) {
        let w = &self.c.world;
        w.wait("an idle agent without a draft", || {
            let agent = w.agent("t");
            if agent["phase"] == "idle" && agent["draft"] == true {
                self.person.write("\x15");
                thread::sleep(Duration::from_millis(100));
            }
            (agent["phase"] == "idle" && agent["draft"] == false).then_some(())
        });
    }

    async fn sweep(&self, offsets: impl Iterator<Item = i64>) -> BTreeMap<Window, Row> {
        let (mut table, how) = (BTreeMap::<Window, Row>::new(), self.how);
        for offset in offsets {
            let (window, approved, state) = self.run(offset).await;
            let row = table.entry(window).or_default();
            row.runs += 1;
            row.approved += usize::from(approved);
            *row.states.entry(state).or_default() += 1;
            if approved {
                println!("{how:?} {offset:+} ms, dialog {window:?}: APPROVED");
                break;
            }
        }
        for (window, row) in &table {
            println!(
                "{how:?} | dialog {window:?} | {} runs | {} approved | {:?}",
                row.runs, row.approved, row.states
            );
        }
        table
    }
}

/// Whether the dialog still stands a moment later.
async fn assert_never_closes(arena: &Arena) -> bool {
    if !arena.approved() {
        let gone = || !arena.shows_dialog() && !arena.approved();
        assert_never("the dialog closes", Duration::from_millis(100), gone).await;
    }
    arena.shows_dialog()
}

fn ended(hop: &Value) -> bool {
    ["answered", "unconfirmed", "failed", "stopped"].contains(&hop["state"].as_str().unwrap())
}

fn approvals(table: &BTreeMap<Window, Row>) -> usize {
    table.values().map(|row| row.approved).sum()
}

/// Every 10 ms from 600 ms before to 600 ms after the Enter.
fn all() -> impl Iterator<Item = i64> {
    (-60..=60).map(|n| n * 10)
}

/// The dialogs that came within 100 ms of an Enter, and those that came later.
fn near_and_late(table: &BTreeMap<Window, Row>) -> (usize, usize) {
    let hits = |windows: &[Window]| -> usize {
        windows.iter().filter_map(|w| table.get(w)).map(|row| row.runs).sum()
    };
    let near = hits(&[Window::Within100Before, Window::Within100After]);
    (near, hits(&[Window::Within300After, Window::Over300After]))
}

async fn short(how: How, offsets: &[i64]) {
    let arena = Arena::new(how, &[]).await;
    assert_eq!(approvals(&arena.sweep(offsets.iter().copied()).await), 0);
}

async fn long(how: How) -> BTreeMap<Window, Row> {
    let table = Arena::new(how, &[]).await.sweep(all()).await;
    assert_eq!(approvals(&table), 0);
    assert_eq!(table.values().map(|r| r.runs).sum::<usize>(), 121);
    table
}

#[tokio::test]
async fn real_claude_no_dialog_around_an_enter_is_approved() {
    short(How::Peer, &[-600, -300, -50, 0, 50, 400]).await;
}

#[tokio::test]
async fn real_claude_no_dialog_of_an_agent_stopped_around_an_enter_is_approved() {
    short(How::Stopped, &[-150, -50, 0, 100]).await;
}

#[tokio::test]
async fn real_claude_no_dialog_that_a_person_opens_around_an_enter_is_approved() {
    short(How::Person, &[-400, -100, 0, 100]).await;
}

#[tokio::test]
async fn real_claude_without_the_gate_a_dialog_is_approved() {
    let arena = Arena::new(How::Peer, &[("MADO_UNSAFE_NO_GATE", "1")]).await;
    let offsets = [-350, -300, -250, -400, -200, -450, -500];
    let table = arena.sweep(offsets.into_iter()).await;
    assert!(approvals(&table) > 0, "the sweep could not fail, so it proves nothing: {table:?}");
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_claude_no_dialog_at_any_moment_around_an_enter_is_approved() {
    let (near, late) = near_and_late(&long(How::Peer).await);
    assert!(near >= 10 && late >= 10, "the Enter was missed: {near} near it, {late} later");
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_claude_no_dialog_of_a_stopped_agent_is_approved() {
    long(How::Stopped).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_claude_no_dialog_that_a_person_opens_is_approved() {
    long(How::Person).await;
}
