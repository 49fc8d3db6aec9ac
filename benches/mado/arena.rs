//! Neovim under load: how soon a key is echoed, and how soon the editor answers.
//!
//! One Neovim has two tab pages of two splits: native terminals in the one, agents in the other. In
//! each the left program echoes keys and the right one floods when it is let. The pages take turns.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::Size;
use crate::chunks::pid;
use crate::editor::{Editor, View};
use crate::host::Host;
use crate::stats::{Row, Samples};
use rustix::process::{Pid, Signal, kill_process};
use std::thread::sleep;
use std::time::{Duration, Instant};

struct Page {
    echo: View,
    flood: Pid,
}

struct Arena {
    editor: Editor,
    pages: [Page; 2],
    keys: u32,
    // Last, so that Neovim is gone before the host ends.
    _host: Host,
}

impl Arena {
    fn new() -> Arena {
        let host = Host::new();
        let mut editor = Editor::start(&host);
        let files = ["native.pid", "mado.pid"].map(|name| host.dir().join(name));
        let path = |n: usize| files[n].to_str().expect("UTF-8").to_owned();
        let echo = editor.native(&["echo"]);
        editor.native(&["flood", &path(0)]);
        editor.wait_screen("the flooding program", |g| g.shows("ready"));
        let native = Page { echo, flood: pid(&files[0]) };
        editor.tab();
        let echo = editor.mado("echo", &["echo"]);
        editor.mado("flood", &["flood", &path(1)]);
        editor.wait_screen("the flooding agent", |g| g.shows("ready"));
        let mado = Page { echo, flood: pid(&files[1]) };
        Arena { editor, pages: [native, mado], keys: 0, _host: host }
    }

    /// Goes to a page and lets it flood, or not.
    fn enter(&mut self, page: usize, flooded: bool) {
        self.editor.enter(self.pages[page].echo);
        if flooded {
            kill_process(self.pages[page].flood, Signal::CONT).expect("it lives");
            // The flood's lines are numbered; "ready" is none of them.
            self.editor.wait_screen("the flood", |g| !g.shows("ready") && g.shows("brown fox"));
        }
    }

    fn leave(&mut self, page: usize) {
        kill_process(self.pages[page].flood, Signal::STOP).expect("it lives");
        self.editor.wait_quiet();
    }

    /// Types a key and waits for its echo.
    fn key(&mut self) -> Duration {
        let key = char::from(b'a' + (self.keys % 26) as u8).to_string();
        self.keys += 1;
        // Neovim draws every 10 ms; keys come at any moment between.
        sleep(Duration::from_micros(u64::from(self.keys * 7919 % 23) * 1000 + 3000));
        let sent = self.editor.keys(&key);
        self.editor.wait_screen("the echo", |g| g.cell(0, 0) == key).duration_since(sent)
    }

    /// Asks Neovim for something that its main loop must answer.
    fn request(&mut self) -> Duration {
        sleep(Duration::from_millis(2));
        let sent = Instant::now();
        let (answered, _) = self.editor.timed("nvim_eval", vec!["1".into()]);
        answered.duration_since(sent)
    }

    /// Takes samples of both pages, in turns.
    fn sample(
        &mut self,
        turns: usize,
        count: usize,
        flooded: bool,
        one: fn(&mut Arena) -> Duration,
    ) -> [Samples; 2] {
        let mut samples = <[Samples; 2]>::default();
        for turn in 0..turns {
            for page in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                self.enter(page, flooded);
                for _ in 0..count {
                    let took = one(self);
                    samples[page].push(took);
                }
                self.leave(page);
            }
        }
        samples
    }
}

/// Keys and their echoes.
pub fn keys(size: Size) -> Vec<Row> {
    let mut arena = Arena::new();
    let mut rows = Vec::new();
    for (flooded, when) in [(false, "idle"), (true, "while the other split floods")] {
        let [base, own] = arena.sample(size.of(12, 2), size.of(25, 5), flooded, Arena::key);
        let added = own.median() - base.median();
        rows.push(Row {
            what: format!("{when}: p50 / p99, ms"),
            base: base.show(99.0),
            mado: own.show(99.0),
            against: format!("{added:+.2} / {:+.2}", own.percentile(99.0) - base.percentile(99.0)),
            wanted: None,
        });
    }
    rows
}

/// Requests and their answers.
pub fn requests(size: Size) -> Vec<Row> {
    let mut arena = Arena::new();
    let mut rows = Vec::new();
    for (flooded, when) in [(false, "idle"), (true, "while a split floods")] {
        let [base, own] = arena.sample(size.of(12, 2), size.of(150, 20), flooded, Arena::request);
        let ratio = own.percentile(99.0) / base.percentile(99.0);
        rows.push(Row {
            what: format!("{when}: p50 / p99, ms"),
            base: base.show(99.0),
            mado: own.show(99.0),
            against: format!("p99 {ratio:.2} ×"),
            wanted: flooded.then(|| ("p99 ≤ 1.25 ×".into(), ratio <= 1.25)),
        });
    }
    rows
}
