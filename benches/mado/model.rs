//! What the host can take in: the query filter and the screen model, on recorded sessions of real
//! agents (`scripts/record.sh`) and on the bulk output of the other measures.
//!
//! The baseline is the terminal emulator that the model is built on, alone: no filter, no rows
//! counted, nothing kept for viewers. Both sides take the same bytes in the pieces in which
//! a PTY gives them.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::Size;
use crate::child::{ansi_block, plain_block};
use crate::stats::{Row, Samples};
use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::term::Config;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::vte::ansi::Processor;
use mado::host::screen::{Colours, Screen};
use std::fs::{self, DirEntry};
use std::path::Path;
use std::time::{Duration, Instant};

/// Most that one read of a PTY gives.
const PIECE: usize = 4096;

const PAIRS: usize = 7;

struct Input {
    what: String,
    bytes: Vec<u8>,
    rows: u16,
    cols: u16,
}

fn entries(folder: &str) -> impl Iterator<Item = DirEntry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// The recordings in the repository.
fn recordings() -> Vec<Input> {
    let mut found: Vec<Input> = entries("tests/recordings")
        .filter_map(|entry| {
            let about = fs::read_to_string(entry.path().join("about")).ok()?;
            let number = |key: &str| {
                let line = about.lines().find_map(|line| line.strip_prefix(key));
                line.and_then(|n| n.trim().parse().ok())
            };
            Some(Input {
                what: format!("recording {}", entry.file_name().to_string_lossy()),
                bytes: fs::read(entry.path().join("output")).ok()?,
                rows: number("rows")?,
                cols: number("cols")?,
            })
        })
        .collect();
    // Those that the model's own tests use were made at 24 by 80.
    found.extend(entries("tests/fixtures/terminal").filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let what = format!("recording {}", name.strip_suffix(".bin")?);
        Some(Input { what, bytes: fs::read(entry.path()).ok()?, rows: 24, cols: 80 })
    }));
    found.sort_by(|a, b| a.what.cmp(&b.what));
    found
}

/// Takes the measure.
pub fn run(size: Size) -> Vec<Row> {
    let span = Duration::from_millis(size.of(400, 50) as u64);
    let mut inputs = recordings();
    for (what, bytes) in
        [("plain text", plain_block()), ("colours and repainted rows", ansi_block())]
    {
        inputs.push(Input { what: what.into(), bytes, rows: 40, cols: 120 });
    }
    inputs.iter().map(|input| compare(input, size.of(PAIRS, 3), span)).collect()
}

fn compare(input: &Input, pairs: usize, span: Duration) -> Row {
    let (mut base, mut own, mut ratios) = <(Samples, Samples, Samples)>::default();
    let bare = || emulator(input, span);
    let whole = || model(input, span);
    for pair in 0..pairs {
        // Neither side always comes first.
        let (bare, whole) = if pair % 2 == 0 {
            let first = bare();
            (first, whole())
        } else {
            let first = whole();
            (bare(), first)
        };
        base.push_number(bare);
        own.push_number(whole);
        ratios.push_number(whole / bare);
    }
    Row {
        what: format!("{}, MB/s", input.what),
        base: format!("{:.0}", base.median()),
        mado: format!("{:.0}", own.median()),
        against: format!("{:.2} ×", ratios.median()),
        wanted: None,
    }
}

/// Feeds the input over and over for a while. Returns MB/s.
fn rate(input: &Input, span: Duration, mut feed: impl FnMut(&[u8])) -> f64 {
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed() < span {
        for piece in input.bytes.chunks(PIECE) {
            feed(piece);
        }
        bytes += input.bytes.len();
    }
    bytes as f64 / f64::from(1 << 20) / start.elapsed().as_secs_f64()
}

fn emulator(input: &Input, span: Duration) -> f64 {
    let size = TermSize::new(input.cols.into(), input.rows.into());
    let config = Config { scrolling_history: 2000, ..Config::default() };
    let mut term = Term::new(config, &size, VoidListener);
    let mut parser: Processor = Processor::new();
    rate(input, span, |piece| parser.advance(&mut term, piece))
}

fn model(input: &Input, span: Duration) -> f64 {
    let mut screen = Screen::new(input.rows, input.cols, Colours::default());
    let mut viewers = Vec::new();
    rate(input, span, |piece| {
        viewers.clear();
        screen.feed(piece, Instant::now(), &mut viewers);
        // The host takes these after every read.
        drop(screen.take_replies());
        drop(screen.take_signals());
    })
}
