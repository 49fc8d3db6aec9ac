//! How fast bulk output gets onto the screen: a native `:terminal` and a mado split of the same Neovim, in
//! turns, each in a tab page of its own. A run ends when its last line is seen on Neovim's screen.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::Size;
use crate::child::marker;
use crate::editor::{Editor, View};
use crate::host::Host;
use crate::stats::{Row, Samples};
use std::time::Instant;

/// Pairs of runs.
const PAIRS: usize = 7;

/// Takes the measure.
pub fn run(size: Size) -> Vec<Row> {
    let host = Host::new();
    let mut editor = Editor::start(&host);
    let native = editor.native(&["dump"]);
    editor.wait_screen("the native child", |g| g.shows("ready"));
    editor.tab();
    let mado = editor.mado("dump", &["dump"]);
    editor.wait_screen("the agent", |g| g.shows("ready"));
    let mut runs = 0;
    let mut rows = Vec::new();
    for (kind, what, megabytes) in [
        ("plain", "plain text", size.of(50, 4)),
        ("ansi", "colours and repainted rows", size.of(20, 2)),
    ] {
        let mut once = |view: View, megabytes: usize| {
            editor.enter(view);
            runs += 1;
            let marker = marker(runs);
            let (start, before) = (Instant::now(), editor.cpu());
            editor.send(view, &format!("{runs} {kind} {megabytes}"));
            let end = editor.wait_screen("the last line", |g| g.starts_row(&marker));
            let megabytes = megabytes as f64;
            (
                megabytes / end.duration_since(start).as_secs_f64(),
                (editor.cpu() - before) / megabytes,
            )
        };
        // The first run fills the scrollback; from then on all are alike.
        for view in [native, mado] {
            once(view, 2);
        }
        let (mut base, mut own, mut ratios) = <(Samples, Samples, Samples)>::default();
        let mut costs = [Samples::default(), Samples::default()];
        for pair in 0..size.of(PAIRS, 3) {
            // Neither side always comes first.
            let (mut rates, order) = ([0.0; 2], if pair % 2 == 0 { [0, 1] } else { [1, 0] });
            for side in order {
                let (rate, cost) = once([native, mado][side], megabytes);
                rates[side] = rate;
                costs[side].push_number(cost);
            }
            base.push_number(rates[0]);
            own.push_number(rates[1]);
            ratios.push_number(rates[1] / rates[0]);
        }
        let ratio = ratios.median();
        rows.push(Row {
            what: format!("{megabytes} MB of {what}, MB/s"),
            base: format!("{:.1}", base.median()),
            mado: format!("{:.1}", own.median()),
            against: format!("{ratio:.2} ×"),
            wanted: Some(("≥ 0.9 ×".into(), ratio >= 0.9)),
        });
        let [base, own] = costs.map(|c| c.median());
        rows.push(Row {
            what: "of it Neovim's own processor time, ms/MB".into(),
            base: format!("{base:.0}"),
            mado: format!("{own:.0}"),
            against: format!("{:.2} ×", own / base),
            wanted: None,
        });
    }
    rows
}
