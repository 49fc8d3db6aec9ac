//! `make bench`: measures the host against Neovim's own `:terminal`, in one run and side by side.
//!
//! Every figure stands beside a baseline that was taken in turns with it, so that a busy machine
//! slows both down alike; ratios of such pairs can be compared between machines, absolute figures
//! cannot. Nothing here fails because it was slow: a figure that misses what is wanted is printed as
//! missed, and a person judges.
//!
//! The names of measures given as arguments choose among them; `--quick` uses small sizes, for
//! trying the program out.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
// Like a test, it ends with a message where something it relies on is missing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arena;
mod bulk;
mod child;
mod chunks;
mod editor;
mod grid;
mod host;
mod model;
mod stats;
mod turns;

#[path = "../../tests/common/mod.rs"]
mod common;

use stats::Row;
use std::time::Instant;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    quick: bool,
}

impl Size {
    /// `full`, or `quick` when the program is only tried out.
    fn of(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// A measure's name, what it answers, and the function that takes it.
type Measure = (&'static str, &'static str, fn(Size) -> Vec<Row>);

const MEASURES: &[Measure] = &[
    ("model", "What the query filter and the screen model take in", model::run),
    ("bulk", "Bulk output, shown in a split of 40 rows and 120 columns", bulk::run),
    ("chunks", "From a program's write to a viewer's read, 1 KB every 4 ms", chunks::run),
    ("keys", "From a key in Neovim to its echo on Neovim's screen", arena::keys),
    ("requests", "Neovim's answer to a request while an agent in a split floods", arena::requests),
    ("turns", "From the end of a turn to the first byte typed into the next agent", turns::demo),
    ("claude", "The same after the last byte of Claude Code's model", turns::claude),
];

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "--child") {
        return child::run(&args[1..]);
    }
    // Cargo adds `--bench`.
    args.retain(|a| a != "--bench");
    let quick = args.iter().position(|a| a == "--quick").map(|at| args.remove(at)).is_some();
    for name in &args {
        let known: Vec<_> = MEASURES.iter().map(|m| m.0).collect();
        assert!(known.contains(&name.as_str()), "{name:?} is not --quick or one of {known:?}");
    }
    println!("{}\n", stats::machine());
    if quick {
        println!("Small sizes: these figures only show that the program runs.\n");
    }
    for (name, what, measure) in MEASURES {
        if !args.is_empty() && !args.iter().any(|a| a == name) {
            continue;
        }
        let (start, load) = (Instant::now(), stats::load());
        let rows = measure(Size { quick });
        println!("### {what}\n\n{}", stats::table(&rows));
        println!(
            "`{name}` took {:.0} s; load average before {load}, after {}.\n",
            start.elapsed().as_secs_f64(),
            stats::load()
        );
    }
}
