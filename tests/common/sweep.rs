//! The race that mado must never lose, for any agent: a permission dialog that opens around the Enter of
//! a delivery. Each run proves that its dialog opened, and says when it did against the Enter.
//!
//! What differs between agents (how a dialog is brought up at a chosen moment, how it looks, what shows that
//! it was approved) is a [`Ring`]; the rest is here.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::mock::View;
use crate::common::term::Term;
use crate::common::{assert_never, epoch_ms};
use crate::world::World;

/// The name of the agent that is swept.
pub const TARGET: &str = "t";

/// What opens a dialog when it is called, from any thread.
pub type Trigger = Box<dyn FnOnce() + Send>;

/// An agent named [`TARGET`] in a world, and the ways to make it ask.
pub trait Ring {
    /// Its host.
    fn world(&self) -> &World;

    /// Its model.
    fn mock(&self) -> &View;

    /// Whether a screen shows the permission dialog.
    fn asks(&self, screen: &str) -> bool;

    /// Gets a dialog ready (which may take turns of the agent; it must be idle again after them) and gives
    /// what opens it without a key in its terminal. `n` differs in each call.
    fn load(&self, n: usize) -> Trigger;

    /// The keys with which a person opens the dialog, whatever the composer holds.
    fn keys(&self) -> &'static str {
        "x\r"
    }

    /// The key that clears a row of a draft.
    fn clear(&self) -> &'static str {
        "\x15"
    }

    /// Whether it shows a stand-in for the delivery's text. What stands there when a person has pressed a
    /// key since, in the dialog, is left alone, and its hop says so.
    fn stands_in(&self) -> bool {
        false
    }

    /// Whether anything shows that a dialog was approved.
    fn approved(&self) -> bool;
}

/// Who opens the dialog, and what else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Something outside the terminal.
    Peer,
    /// The same, while the agent is stopped from before mado's last look to after its Enter.
    Stopped,
    /// A person's own Enter in a view.
    Person,
}

/// When the dialog was seen, against the delivery's Enter: the one that was sent, or the one that would have
/// been sent had the delivery gone on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Window {
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
pub struct Row {
    pub runs: usize,
    pub approved: usize,
    pub states: BTreeMap<String, usize>,
}

/// What a sweep found, by when its dialogs came.
pub type Table = BTreeMap<Window, Row>;

/// An agent, a person in front of it, and how long things take.
pub struct Arena<R: Ring> {
    pub ring: R,
    person: Term,
    loads: Cell<usize>,
    /// From a trigger to its dialog, as it was lately.
    opens: Cell<Duration>,
    /// From a send to its Enter.
    enters: Duration,
    /// From its first byte to its Enter, in milliseconds.
    types: f64,
    how: How,
    /// The gate is off: a text may end up anywhere.
    ungated: bool,
}

/// Long enough that the dialog can come between two lines.
fn text(n: usize) -> String {
    format!("delivery {n}\nsecond line\n    third\n\nfifth line\nend {n}")
}

impl<R: Ring> Arena<R> {
    /// Takes an idle agent and finds out how fast it is.
    pub async fn new(ring: R, how: How) -> Arena<R> {
        let w = ring.world();
        w.wait_phase(TARGET, "idle");
        let person = w.viewer(TARGET);
        let mut arena = Arena {
            ring,
            person,
            loads: Cell::new(0),
            opens: Cell::new(Duration::ZERO),
            enters: Duration::ZERO,
            types: 0.0,
            how,
            ungated: false,
        };
        arena.calibrate().await;
        arena
    }

    fn load(&self) -> Trigger {
        self.loads.set(self.loads.get() + 1);
        let trigger = self.ring.load(self.loads.get());
        self.ring.world().wait_phase(TARGET, "idle");
        trigger
    }

    async fn calibrate(&mut self) {
        let w = self.ring.world();
        // The first one also waits for the start.
        let first = w.send(TARGET, "are you there?");
        w.wait_state(first, "answered");
        w.wait_phase(TARGET, "idle");
        let sent = epoch_ms();
        let hop = w.send(TARGET, &text(0));
        let hop = w.wait_state(hop, "answered");
        let submitted = hop["times"]["submitted"].as_f64().unwrap();
        self.enters = Duration::from_secs_f64((submitted - sent) / 1000.0);
        self.types = submitted - hop["times"]["typing"].as_f64().unwrap();
        w.wait_phase(TARGET, "idle");
        for _ in 0..3 {
            let trigger = self.load();
            let start = Instant::now();
            trigger();
            self.dialog().await;
            // The first one is slow.
            self.opens.set(start.elapsed());
            self.close().await;
        }
        println!(
            "an Enter comes {:?} after its send, a dialog {:?} after its trigger",
            self.enters,
            self.opens.get()
        );
    }

    fn shows_dialog(&self) -> bool {
        self.ring.asks(&self.person.text())
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
                if let Some(at) = self.ring.world().hop(hop)["times"]["typing"].as_f64() {
                    typing.set(typing.get().or(Some(at)));
                }
                self.shows_dialog()
            })
            .await;
        let opened = epoch_ms();
        let then = self.ring.world().hop(hop);
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
        self.ring.world().wait_phase(TARGET, "idle");
    }

    /// One delivery with a dialog that is to open `offset` ms after its Enter is due.
    async fn run(&self, offset: i64) -> (Window, bool, String) {
        let (w, how) = (self.ring.world(), self.how);
        let trigger = self.load();
        let n = self.loads.get();
        let ms = |d: Duration| d.as_millis() as i64;
        // Everything relative to the send, in milliseconds; then shifted so that nothing is past.
        let enter = ms(self.enters);
        let fire = enter + offset - ms(self.opens.get());
        let (send, fire) = (0.max(-fire), 0.max(fire));
        let start = Instant::now();
        let until = move |at: i64| {
            let at = start + Duration::from_millis(at as u64);
            thread::sleep(at.saturating_duration_since(Instant::now()));
        };
        let pid = Pid::from_raw(w.pid(TARGET) as i32).unwrap();
        let hop = thread::scope(|scope| {
            let (person, keys) = (&self.person, self.ring.keys());
            scope.spawn(move || {
                until(fire);
                match how {
                    How::Person => person.write(keys),
                    How::Peer | How::Stopped => trigger(),
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
            w.send(TARGET, &text(n))
        });
        let (window, then) = self.dialog_against(hop).await;
        let took = start.elapsed().saturating_sub(Duration::from_millis(fire as u64));
        if how == How::Peer && then["times"]["submitted"].is_null() {
            self.opens.set((self.opens.get() * 2 + took) / 3);
        }
        // A second Enter would be due within a second.
        until(send + enter + 1300);
        let standing = assert_never_closes(self).await;
        let approved = self.ring.approved();
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
        let (w, how) = (self.ring.world(), self.how);
        let arrived = self.ring.mock().prompts().iter().filter(|p| p.trim_end() == text(n)).count();
        assert!(arrived <= 1, "arrived {arrived} times: {hop}");
        if hop["state"] == "answered" {
            assert_eq!(arrived, 1, "{hop}");
        } else {
            // A dialog in the delivery's own turn, refused by the person; or the person's own key.
            let code = hop["reason_code"].as_str().unwrap();
            let fine = self.ungated
                || code == "interrupted"
                || self.ring.stands_in() && code == "residue_left"
                || how == How::Person && code == "human_took_over";
            assert!(fine, "{hop}");
            if code == "residue_left" {
                // It is no draft to mado, which knows that it typed it.
                self.person.write(self.ring.clear());
                w.wait("the residue to go", || {
                    let composer = w.ask("screen", json!({"agent": TARGET}))["composer"].take();
                    (composer["text"] == "").then_some(())
                });
            }
        }
        self.tidy();
    }

    /// Clears what stands in the composer: a draft that a person's key left with the text is theirs to
    /// clear, and an Escape gives back what steered the turn.
    fn tidy(&self) {
        let w = self.ring.world();
        w.wait("an idle agent without a draft", || {
            let agent = w.agent(TARGET);
            if agent["phase"] == "idle" && agent["draft"] == true {
                self.person.write(self.ring.clear());
                thread::sleep(Duration::from_millis(100));
            }
            (agent["phase"] == "idle" && agent["draft"] == false).then_some(())
        });
    }

    pub async fn sweep(&self, offsets: impl Iterator<Item = i64>) -> Table {
        let (mut table, how) = (Table::new(), self.how);
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
async fn assert_never_closes<R: Ring>(arena: &Arena<R>) -> bool {
    if !arena.ring.approved() {
        let gone = || !arena.shows_dialog() && !arena.ring.approved();
        assert_never("the dialog closes", Duration::from_millis(100), gone).await;
    }
    arena.shows_dialog()
}

fn ended(hop: &Value) -> bool {
    ["answered", "unconfirmed", "failed", "stopped"].contains(&hop["state"].as_str().unwrap())
}

/// How many dialogs were approved.
pub fn approvals(table: &Table) -> usize {
    table.values().map(|row| row.approved).sum()
}

/// Every 10 ms from 600 ms before to 600 ms after the Enter.
pub fn all() -> impl Iterator<Item = i64> {
    (-60..=60).map(|n| n * 10)
}

/// The dialogs that came within 100 ms of an Enter, and those that came later.
pub fn near_and_late(table: &Table) -> (usize, usize) {
    let hits = |windows: &[Window]| -> usize {
        windows.iter().filter_map(|w| table.get(w)).map(|row| row.runs).sum()
    };
    let near = hits(&[Window::Within100Before, Window::Within100After]);
    (near, hits(&[Window::Within300After, Window::Over300After]))
}

/// A few dialogs around the Enter: none may be approved.
pub async fn short<R: Ring>(arena: Arena<R>, offsets: &[i64]) {
    assert_eq!(approvals(&arena.sweep(offsets.iter().copied()).await), 0);
}

/// One at every moment of [`all`].
pub async fn long<R: Ring>(arena: Arena<R>) -> Table {
    let table = arena.sweep(all()).await;
    assert_eq!(approvals(&table), 0);
    assert_eq!(table.values().map(|r| r.runs).sum::<usize>(), all().count());
    table
}

/// The same, when enough of the dialogs must have come close to the Enter.
pub async fn long_and_close<R: Ring>(arena: Arena<R>) {
    let (near, late) = near_and_late(&long(arena).await);
    assert!(near >= 10 && late >= 10, "the Enter was missed: {near} near it, {late} later");
}

/// With the gate off: a sweep that approves nothing then could not fail, so it would prove nothing.
pub async fn approves<R: Ring>(mut arena: Arena<R>, offsets: &[i64]) {
    arena.ungated = true;
    let table = arena.sweep(offsets.iter().copied()).await;
    assert!(approvals(&table) > 0, "no dialog was approved: {table:?}");
}
