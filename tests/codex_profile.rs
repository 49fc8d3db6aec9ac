//! The Codex profile reads every state of a recorded session as what it was.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

#[path = "common/replay.rs"]
mod replay;

use mado::core::profile::Profile;
use mado::core::screen::Facts;
use mado::core::text::{self, Holds};
use mado::proto::screen::{Row, ScreenView};
use replay::{any_row, is_quotation, marks};
use std::collections::BTreeMap;

const SESSION: &str = include_str!("fixtures/codex/session-0.171.0.jsonl");

fn profile() -> Profile {
    toml::from_str(include_str!("../profiles/codex.toml")).expect("a valid profile")
}

fn session() -> BTreeMap<String, ScreenView> {
    marks(SESSION)
}

#[test]
fn every_state_of_a_recorded_session_is_read_as_what_it_was() {
    let profile = profile();
    let marks = session();
    for (mark, view) in &marks {
        let facts = Facts::read(view, &profile, None);
        let shown = || format!("{mark}: {facts:?} {:?}\n{}", view.cursor, view.text());
        let title_busy = profile.evidence.title_busy.as_ref().expect("a rule");
        let title_asks = profile.evidence.title_asking.as_ref().expect("a rule");
        let busy = mark.starts_with("busy");
        let asks = ["dialog", "browsing", "picker"].contains(&mark.as_str());
        assert_eq!(facts.dialog.is_some(), asks, "{}", shown());
        assert_eq!(facts.composer.is_none(), asks || mark == "shell", "{}", shown());
        // While an answer streams in, the title alone says so.
        assert_eq!(facts.busy.is_some(), busy && mark != "busy streaming", "{}", shown());
        assert_eq!(title_busy.is_match(&view.title), busy, "{}", shown());
        assert_eq!(title_asks.is_match(&view.title), mark == "dialog", "{}", shown());
        let Some(composer) = &facts.composer else { continue };
        let draft = match mark.as_str() {
            "draft" => "hello there",
            "multi-line draft" => "fn main() {\n    let x;\n\n        deeper\nend · of · it",
            "long draft" => {
                assert!(composer.hidden > 0, "{}", shown());
                assert!(composer.text.ends_with("line 39\n\nlast"), "{}", shown());
                continue;
            }
            "stand-in" => "[Pasted Content 1250 chars]",
            "completion" => "see @",
            "busy with draft" => "queued",
            // The placeholder of an empty composer is no text.
            _ => "",
        };
        assert_eq!(composer.text, draft, "{}", shown());
        assert_eq!(composer.filled(), !draft.is_empty() || mark == "blanks", "{}", shown());
    }
    assert!(marks.len() >= 21, "{:?}", marks.keys());
}

#[test]
fn done_interrupted_and_error_rows_are_seen() {
    let (profile, marks) = (profile(), session());
    let screen = &profile.screen;
    assert!(any_row(&marks["done"], &screen.done) && any_row(&marks["done again"], &screen.done));
    assert!(!any_row(&marks["idle"], &screen.done));
    assert!(any_row(&marks["interrupted"], &screen.interrupted));
    assert!(any_row(&marks["rejected"], &screen.interrupted));
    assert!(!any_row(&marks["interrupted"], &screen.error));
    assert!(any_row(&marks["api error"], &screen.error));
    assert!(!any_row(&marks["done"], &screen.error));
    let done = |row: &str| screen.done.iter().any(|p| p.is_match(row));
    for row in ["  Worked for <1s • 17:30", "  Worked for 4s • 17:31", "  Worked for 1m 3s • 9:01"]
    {
        assert!(done(row), "{row}");
    }
    for row in ["• Worked for 4s • 17:31", "  Worked for hours", "› Worked for 4s"] {
        assert!(!done(row), "{row}");
    }
}

#[test]
fn a_draft_that_is_longer_than_the_screen_holds_what_was_typed() {
    let profile = profile();
    let mut lines: Vec<String> = (0..40).map(|n| format!("line {n}\n")).collect();
    lines.push("\nlast".to_owned());
    let composer = Facts::read(&session()["long draft"], &profile, None).composer.expect("one");
    assert_eq!(text::holds_pieces(&composer.text, composer.hidden, &lines, None), Holds::Ours);
    lines.push("more".to_owned());
    assert_eq!(text::holds_pieces(&composer.text, composer.hidden, &lines, None), Holds::Other);
}

#[test]
fn a_stand_in_is_for_a_paste_of_its_length_alone() {
    let profile = profile();
    let mark = profile.composer.placeholder.as_ref();
    let text = "x".repeat(1250);
    for (shown, holds) in [
        ("[Pasted Content 1250 chars]", Holds::Ours),
        ("[Pasted Content 1250 chars] #2", Holds::Ours),
        ("[Pasted Content 1251 chars]", Holds::Other),
        ("[Pasted Content 1250 chars] and more", Holds::Other),
    ] {
        assert_eq!(text::holds(shown, 0, &text, mark), holds, "{shown}");
    }
}

/// A screen with these rows at its bottom.
fn screen(rows: &[&str], cursor: Option<(usize, usize)>) -> ScreenView {
    let mut view =
        ScreenView { cols: 80, cursor_visible: cursor.is_some(), ..ScreenView::default() };
    view.rows = (rows.len()..24).map(|_| Row::default()).collect();
    let first = view.rows.len();
    view.rows.extend(rows.iter().map(|r| Row { text: (*r).to_owned(), ..Row::default() }));
    view.cursor = cursor.map_or((23, 10), |(row, col)| (first + row, col));
    view
}

#[test]
fn dialogs_of_other_kinds_are_dialogs() {
    let profile = profile();
    for rows in [
        vec![
            "  Folder access",
            "  Trust this folder? Codex can read, edit, and run files here, subject to your",
            "› 1. Trust and continue",
            "  enter continue · esc back",
        ],
        vec![
            "  Hooks need review",
            "  1 hook is new or changed.",
            "› 1. Review hooks",
            "  2. Trust all and continue",
            "  enter confirm · esc skip",
        ],
        vec!["  Would you like to make the following edits?", "", "› 1. Yes, proceed (y)"],
        vec!["  Do you trust the contents of this directory?", "› 1. Yes"],
        vec!["  Update available! 0.171.0 -> 0.172.0", "› 1. Update now"],
        vec![
            "  Approaching rate limits",
            "› 1. Switch",
            "  Press enter to confirm or esc to go back",
        ],
        vec!["  Warnings · 1 of 1 · Startup", "  k keep & next · esc dismiss & close · ^o copy"],
        vec!["  Press enter to confirm or esc to cancel or o to open thread"],
    ] {
        let facts = Facts::read(&screen(&rows, None), &profile, None);
        let known = facts.dialog.is_some() || rows[0].contains("Warnings");
        assert!(known && facts.composer.is_none(), "{facts:?}\n{rows:?}");
    }
}

#[test]
fn a_footer_is_no_text_and_text_is_no_footer() {
    let profile = profile();
    let composer = |rows: &[&str], cursor| {
        Facts::read(&screen(rows, Some(cursor)), &profile, None).composer.map(|c| c.text)
    };
    let status = "  mock-model · /home/dev/proj";
    let with_status = ["", "› a", "", status, "  tab to queue message"];
    assert_eq!(composer(&with_status, (1, 3)).as_deref(), Some("a"));
    // Its owner has turned the status line off.
    assert_eq!(composer(&["", "› a", "  b", "", "  hints"], (2, 3)).as_deref(), Some("a\nb"));
    // Too long for a footer: what looks like one is above the cursor.
    let long = ["", "› a", "", status, ""];
    assert_eq!(
        composer(&long, (3, 9)).as_deref(),
        Some(format!("a\n\n{}", status.trim()).as_str())
    );
    // Whoever has the keyboard, it is not the composer.
    assert_eq!(composer(&with_status, (3, 3)), None);
    let hidden = Facts::read(&screen(&with_status, None), &profile, None);
    assert_eq!(hidden.composer, None);
}

#[test]
fn an_answer_that_quotes_a_dialog_is_no_dialog() {
    let profile = profile();
    let rows =
        ["• Would you like to run it?", "  › 1. Yes", "  Press enter to confirm", "esc back"];
    assert!(is_quotation(&profile, session()["done"].clone(), &rows));
}

#[test]
fn what_the_program_would_take_as_a_command_is_defused() {
    let rules = profile().defuse;
    for (text, defused) in [
        // Each was sent to 0.171.0; both sides arrive as the left one.
        ("/new", " /new"),
        ("!rm -rf x", " !rm -rf x"),
        ("see @src/main.rs", "see @src/main.rs "),
        ("$skill", "$skill "),
        ("line\n@", "line\n@ "),
        ("/x @y", " /x @y "),
    ] {
        assert_eq!(text::defuse(text, &rules).0, defused);
    }
    for text in
        [" /new", "run /new", "text\n/new", "exit", "a !b", "see @x please", "costs 5$", "a@b.c"]
    {
        assert_eq!(text::defuse(text, &rules), (text.to_owned(), None));
    }
}
