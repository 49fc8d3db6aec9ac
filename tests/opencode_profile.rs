//! The OpenCode profile reads screens of 1.18.33 as what they were.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

use mado::core::profile::Profile;
use mado::core::screen::{Composer, Facts};
use mado::core::text::{Holds, defuse};
use mado::proto::screen::{Row, ScreenView};

fn profile() -> Profile {
    toml::from_str(include_str!("../profiles/opencode.toml")).expect("a valid profile")
}

/// A screen of these rows with the cursor at a row and a column; `None`: it is hidden.
fn facts(rows: &[&str], cursor: Option<(usize, usize)>) -> Facts {
    let rows = rows.iter().map(|r| Row { text: (*r).to_owned(), ..Row::default() }).collect();
    let view = ScreenView {
        rows,
        cols: 120,
        cursor: cursor.unwrap_or((0, 0)),
        cursor_visible: cursor.is_some(),
        alt_screen: true,
        ..ScreenView::default()
    };
    Facts::read(&view, &profile(), None)
}

const EDGE: &str = "  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀";
const STATUS: &str = "  ┃  Build · Mock Model Mock";

/// A session's screen with this in its composer, the cursor in its first row.
fn session<'a>(composer: &[&'a str], status: &'a str, footer: &'a str) -> Vec<&'a str> {
    let mut rows = vec!["  ┃", "  ┃  the prompt", "  ┃", "", "     its answer", ""];
    rows.extend(["     ▣  Build · Mock Model · 3.8s", "", "  ┃"]);
    rows.extend(composer);
    rows.extend(["  ┃", status, EDGE, footer]);
    rows
}

fn composer(facts: &Facts) -> &Composer {
    facts.composer.as_ref().unwrap_or_else(|| panic!("a composer: {facts:?}"))
}

#[test]
fn an_empty_composer_is_idle_and_its_hint_is_no_draft() {
    let idle =
        facts(&session(&["  ┃"], STATUS, "   /work   120 (0%)  ctrl+p commands"), Some((9, 5)));
    assert!(!composer(&idle).filled() && idle.busy.is_none() && idle.dialog.is_none());
    let home = [
        "                       ┃",
        "                       ┃  Ask anything… \"Fix broken tests\"",
        "                       ┃",
        "                       ┃  Build · Mock Model Mock",
        "                       ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀",
        "                                        tab agents  ctrl+p commands",
        "",
        "    ● Tip Press ctrl+x y to copy the assistant's last message to clipboard",
        "  /work                                                              1.18.33",
    ];
    assert!(!composer(&facts(&home, Some((1, 26)))).filled());
    // The same words, typed: the cursor stands behind them.
    let typed = facts(&home, Some((1, 59)));
    assert_eq!(composer(&typed).text, "Ask anything… \"Fix broken tests\"");
}

#[test]
fn a_draft_of_blanks_is_a_draft() {
    let newline = facts(&session(&["  ┃", "  ┃"], STATUS, "   /work"), Some((10, 5)));
    assert!(composer(&newline).filled());
    let above = facts(&session(&["  ┃", "  ┃"], STATUS, "   /work"), Some((9, 5)));
    assert!(composer(&above).filled());
    let blanks = facts(&session(&["  ┃"], STATUS, "   /work"), Some((9, 7)));
    assert!(composer(&blanks).filled());
}

#[test]
fn a_draft_is_read_without_bar_side_bar_and_menu() {
    let beside = |text: &str, width: usize| format!("{text}{}Context", " ".repeat(60 - width));
    let (one, two) = (beside("  ┃  half 日本語 🙂", 19), beside("  ┃    indented", 15));
    let facts_ = facts(&session(&[&one, &two], STATUS, "   /work"), Some((10, 8)));
    assert_eq!(composer(&facts_).text, "half 日本語 🙂\n  indented");
    let menu = [
        "  ┃  the prompt",
        "  ┃ /models       Switch model            ┃",
        "  ┃",
        "  ┃  /mod",
        "  ┃",
        STATUS,
        EDGE,
    ];
    assert_eq!(composer(&facts(&menu, Some((3, 9)))).text, "/mod");
}

#[test]
fn without_the_keyboard_there_is_no_composer() {
    let rows = session(&["  ┃"], STATUS, "   /work");
    assert_eq!(facts(&rows, None).composer, None, "the cursor is hidden");
    assert_eq!(facts(&rows, Some((2, 5))).composer, None, "it is in a menu");
    // A menu over the screen says what it is.
    let mut menu = rows.clone();
    menu[4] = "     I wil    Commands                                         esc";
    let facts_ = facts(&menu, Some((5, 14)));
    assert!(facts_.dialog.as_deref().is_some_and(|d| d.contains("Commands")), "{facts_:?}");
}

#[test]
fn the_shells_mode_is_no_composer() {
    let rows = session(&["  ┃"], "  ┃  Shell", "   /work                  esc exit shell mode");
    assert_eq!(facts(&rows, Some((9, 5))).composer, None);
}

#[test]
fn dialogs_ask_and_busy_footers_are_busy() {
    let permission = [
        "     $ touch hit",
        "",
        "  ┃",
        "  ┃  △ Permission required",
        "  ┃    # Shell command",
        "  ┃",
        "  ┃  $ touch hit",
        "  ┃",
        "  ┃   Allow once   Allow always   Reject          ctrl+f fullscreen  ⇆ select  enter confirm",
        "  ┃",
    ];
    let asks = facts(&permission, None);
    assert_eq!(asks.composer, None);
    assert_eq!(asks.dialog.as_deref(), Some("┃  △ Permission required"));
    for footer in [
        "   ⬝⬝⬝⬝⬝⬝⬝⬝  esc interrupt                   tab agents  ctrl+p commands",
        "   ■■■■⬝⬝⬝⬝  esc again to interrupt                   ctrl+p commands",
        "   ⬝⬝⬝⬝⬝⬝⬝⬝ mock 529 [retrying in 7s attempt #3]             esc interrupt",
    ] {
        assert!(facts(&session(&["  ┃"], STATUS, footer), Some((9, 5))).busy.is_some(), "{footer}");
    }
}

#[test]
fn rows_that_end_a_turn_are_told_apart() {
    let profile = profile();
    let done = |row: &str| profile.screen.done.iter().any(|p| p.is_match(row));
    let interrupted = |row: &str| profile.screen.interrupted.iter().any(|p| p.is_match(row));
    for row in [
        "     ▣  Build · Mock Model · 3.8s",
        "     ▣  Plan · X · 509ms",
        "     ▣  Build · X · 1m 3s",
    ] {
        assert!(done(row) && !interrupted(row), "{row}");
    }
    assert!(!done("     ▣  Build · Mock Model") && !done("  ┃  ▣  Build · Mock Model · 3.8s"));
    let row = "     ▣  Build · Mock Model · interrupted";
    assert!(interrupted(row) && !done(row));
}

#[test]
fn a_long_draft_may_have_scrolled_and_a_stand_in_stands_for_its_piece() {
    let stand_in = profile().composer.placeholder;
    let pieces: Vec<String> = (1..=9).map(|n| format!("row {n}\n")).collect();
    let shown: Vec<String> = (4..=9).map(|n| format!("  ┃  row {n}")).collect();
    let mut shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    shown.push("  ┃");
    let facts_ = facts(&session(&shown, STATUS, "   /work"), Some((15, 5)));
    assert_eq!(composer(&facts_).holds(&pieces, stand_in.as_ref()), Holds::Ours);
    assert_eq!(composer(&facts_).holds(&["row 9\n"], stand_in.as_ref()), Holds::Other);
    let facts_ = facts(&session(&["  ┃  [Pasted ~30 lines]"], STATUS, "   /work"), Some((9, 24)));
    let paste = "a line\n".repeat(29) + "the last";
    assert_eq!(composer(&facts_).holds(&[paste], stand_in.as_ref()), Holds::Ours);
    assert_eq!(composer(&facts_).holds(&["two\nlines"], stand_in.as_ref()), Holds::Other);
}

#[test]
fn texts_that_it_would_run_complete_or_quit_on_are_defused() {
    let rules = profile().defuse;
    for (text, arrives) in [
        ("/models", "\\/models"),
        ("\n  /review", "\\\n  /review"),
        (" quit ", "\\ quit "),
        (":q", "\\:q"),
        ("!ls", " !ls"),
        ("see @file", "see @file "),
    ] {
        assert_eq!(defuse(text, &rules).0, arrives);
    }
    for text in ["plain", "a/b", "exit now", "see @file there", "a ! b"] {
        assert_eq!(defuse(text, &rules).0, text);
    }
}
