//! Recorded sessions of real programs on a screen of 24x80, and what they showed at their marks.
//!
//! A recording is a header, then one JSON list a line: `["o", seconds, base64 of output]` or
//! `["m", seconds, name of the state]`.
#![allow(dead_code, clippy::expect_used, clippy::pedantic)]

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::Processor;
use mado::core::profile::{Pattern, Profile};
use mado::core::screen::Facts;
use mado::proto::screen::{Row, ScreenView};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, Default)]
struct Title(Rc<RefCell<String>>);

impl EventListener for Title {
    fn send_event(&self, event: Event) {
        match event {
            Event::Title(title) => *self.0.borrow_mut() = title,
            Event::ResetTitle => self.0.borrow_mut().clear(),
            _ => {}
        }
    }
}

fn view(term: &Term<Title>, title: &Title) -> ScreenView {
    let grid = term.grid();
    let row = |line: i32| {
        let cells = &grid[alacritty_terminal::index::Line(line)];
        let mut row = Row::default();
        for cell in cells {
            if cell.flags.intersects(Flags::WIDE_CHAR_SPACER) {
                continue;
            }
            let n = row.text.chars().count();
            row.text.push(cell.c);
            row.text.extend(cell.zerowidth().into_iter().flatten());
            if cell.flags.contains(Flags::DIM) {
                row.faint.push((n, n + 1));
            }
        }
        row.text = row.text.trim_end_matches(' ').to_owned();
        row
    };
    let cursor = grid.cursor.point;
    ScreenView {
        rows: (0..24).map(row).collect(),
        cols: 80,
        cursor: (cursor.line.0 as usize, cursor.column.0),
        title: title.0.borrow().clone(),
        cursor_visible: term.mode().contains(TermMode::SHOW_CURSOR),
        alt_screen: term.mode().contains(TermMode::ALT_SCREEN),
        ..ScreenView::default()
    }
}

/// The screen at every mark of a recording.
pub fn marks(recording: &str) -> BTreeMap<String, ScreenView> {
    let mut lines = recording.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let header = lines.next().expect("a header");
    assert_eq!((&header["rows"], &header["cols"]), (&Value::from(24), &Value::from(80)));
    let title = Title::default();
    let mut term = Term::new(Config::default(), &TermSize::new(80, 24), title.clone());
    let mut parser: Processor = Processor::new();
    let mut marks = BTreeMap::new();
    for line in lines {
        let data = line[2].as_str().expect("a string");
        match line[0].as_str() {
            Some("o") => parser.advance(&mut term, &base64(data)),
            Some("m") => {
                parser.stop_sync(&mut term);
                marks.insert(data.to_owned(), view(&term, &title));
            }
            _ => {}
        }
    }
    marks
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut n) = (0u32, 0);
    for c in text.bytes().take_while(|c| *c != b'=') {
        let digit = DIGITS.iter().position(|d| *d == c).expect("a base64 digit");
        bits = (bits << 6) | digit as u32;
        n += 6;
        if n >= 8 {
            n -= 8;
            bytes.push((bits >> n) as u8);
        }
    }
    bytes
}

/// Whether any row matches one of the patterns.
pub fn any_row(view: &ScreenView, patterns: &[Pattern]) -> bool {
    view.rows.iter().any(|r| patterns.iter().any(|p| p.is_match(&r.text)))
}

/// An answer that quotes these rows of a dialog, on a screen with a composer, is no dialog and no work.
pub fn is_quotation(profile: &Profile, mut view: ScreenView, rows: &[&str]) -> bool {
    for (row, text) in rows.iter().enumerate() {
        view.rows[row].text = (*text).to_owned();
    }
    let facts = Facts::read(&view, profile, None);
    facts.dialog.is_none() && facts.busy.is_none() && facts.composer.is_some()
}
