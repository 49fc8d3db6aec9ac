//! The Claude profile reads every state of two recorded sessions, one of each version, as what it was.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

#[path = "common/replay.rs"]
mod replay;

use mado::core::profile::Profile;
use mado::core::screen::Facts;
use mado::core::text::{self, Holds};
use mado::proto::screen::{Row, ScreenView};
use replay::{any_row, is_quotation, marks};

const SESSIONS: [(&str, &str); 2] = [
    ("2.1.197", include_str!("fixtures/claude/session-2.1.197.jsonl")),
    ("2.1.332", include_str!("fixtures/claude/session-2.1.332.jsonl")),
];

fn profile() -> Profile {
    toml::from_str(include_str!("../profiles/claude.toml")).expect("a valid profile")
}

#[test]
fn every_state_of_a_recorded_session_is_read_as_what_it_was() {
    let profile = profile();
    for (version, recording) in SESSIONS {
        let marks = marks(recording);
        for (mark, view) in &marks {
            let facts = Facts::read(view, &profile, None);
            let shown = || format!("{version} {mark}: {facts:?}\n{}", view.text());
            let title_busy = profile.evidence.title_busy.as_ref().expect("a rule");
            let busy = mark.starts_with("busy") || mark == "queued";
            assert_eq!(facts.dialog.is_some(), mark == "dialog", "{}", shown());
            assert_eq!(facts.composer.is_none(), mark == "dialog", "{}", shown());
            assert_eq!(facts.busy.is_some(), busy, "{}", shown());
            assert_eq!(title_busy.is_match(&view.title), busy, "{}", shown());
            let text = facts.composer.as_ref().map_or("", |c| c.text.as_str());
            let draft = match mark.as_str() {
                "draft" => "hello there",
                // Recorded before it was drawn.
                "busy with draft" if version == "2.1.197" => "",
                "busy with draft" => "queued one",
                "placeholder" => "[Pasted text #1 +11 lines]",
                "multi-line draft" => {
                    assert!(text.ends_with("line 10\nline 11"), "{}", shown());
                    continue;
                }
                // Hints of the empty composer are no text.
                _ => "",
            };
            assert_eq!(text, draft, "{}", shown());
        }
        assert!(marks.len() >= 19, "{version}");
    }
}

#[test]
fn the_title_of_a_dialog_is_that_of_an_idle_agent() {
    let profile = profile();
    for (version, recording) in SESSIONS {
        let marks = marks(recording);
        let (idle, dialog) = (&marks["done"].title, &marks["dialog"].title);
        assert!(dialog.starts_with("✳ "), "{version}: {dialog}");
        assert_eq!(idle, dialog, "{version}");
        assert!(profile.evidence.title_idle.is_none());
    }
}

#[test]
fn done_interrupted_and_error_rows_of_both_versions_are_seen() {
    let profile = profile();
    for (version, recording) in SESSIONS {
        let marks = marks(recording);
        let done = |mark: &str| any_row(&marks[mark], &profile.screen.done);
        assert!(done("done") && done("background") && done("done after tools"), "{version}");
        assert!(!done("idle") && !done("draft"), "{version}");
        for mark in ["rejected", "interrupted"] {
            assert!(any_row(&marks[mark], &profile.screen.interrupted), "{version} {mark}");
        }
        assert!(!any_row(&marks["done"], &profile.screen.interrupted), "{version}");
        assert!(any_row(&marks["api error"], &profile.screen.error), "{version}");
        assert!(!any_row(&marks["done"], &profile.screen.error), "{version}");
    }
    let done = |row: &str| profile.screen.done.iter().any(|p| p.is_match(row));
    for row in [
        "✻ Baked for 1s · done 8:50 AM",
        "✻ Worked for 12s",
        "✻ Sautéed for 1m 3s",
        "✻ Churned for 1s · done 10:46 AM · 1 shell still running",
        "✻ Crunched for 1s · 1 shell still running",
    ] {
        assert!(done(row), "{row}");
    }
    for row in [
        "✻ Forming…",
        "✻ Waiting for 3s… (3s · ↓ 5 tokens)",
        "● ✻ Baked for 1s",
        "  ✻ Baked for 1s",
        "❯ ✻ Worked for 12s",
    ] {
        assert!(!done(row), "{row}");
    }
}

#[test]
fn a_composer_that_hides_rows_holds_what_was_typed() {
    let profile = profile();
    let typed =
        format!("a\nb\nc\n{}", (0..12).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n"));
    for (version, recording) in SESSIONS {
        let view = &marks(recording)["multi-line draft"];
        let composer = Facts::read(view, &profile, None).composer.expect("a composer");
        assert_eq!(composer.hidden > 0, version == "2.1.332", "{version}");
        let holds = text::holds(&composer.text, composer.hidden, &typed, None);
        assert_eq!(holds, Holds::Ours, "{version}: {composer:?}");
    }
}

#[test]
fn dialogs_of_other_kinds_are_dialogs() {
    let profile = profile();
    let rule = "────────────────────";
    for rows in [
        // Trust.
        vec![
            rule,
            " Accessing workspace:",
            "",
            " ❯ No, exit",
            "   Yes, I trust this folder",
            "",
            " Enter to confirm · Esc to cancel",
        ],
        // API key.
        vec![
            "  Do you want to use this API key?",
            "",
            "    Yes",
            "  ❯ No (recommended)",
            "",
            "  Enter to confirm · Esc to cancel",
        ],
        // A question of the model.
        vec![
            rule,
            " ☐ Way",
            "",
            "Which way?",
            "",
            "❯ 1. Left",
            "     go left",
            rule,
            "  4. Chat about this",
            "",
            "Enter to select · ↑/↓ to navigate · Esc to cancel",
        ],
        // Plan approval, which has no footer.
        vec![
            "▔▔▔▔▔▔▔▔",
            "",
            "  ─────────",
            "   Exit plan mode?",
            "",
            "   Claude wants to exit plan mode",
            "",
            "   ❯ 1. Yes, and switch to default (ask each time) for this session",
            "     2. No",
        ],
        // Model picker, help.
        vec![
            "▔▔▔▔▔▔▔▔",
            "  Select model",
            "",
            "  ❯ 1. Default (recommended) ✔",
            "",
            "  s to use this session only · Enter to save · Esc to cancel",
        ],
        vec!["▔▔▔▔▔▔▔▔", "  Help  General   Commands", "", "  ←/→ to switch · Esc to close"],
    ] {
        let mut view = ScreenView { cols: 80, ..ScreenView::default() };
        view.cursor = (rows.iter().position(|r| r.contains('❯')).unwrap_or(0), 2);
        view.rows = rows.iter().map(|r| Row { text: (*r).to_owned(), ..Row::default() }).collect();
        let facts = Facts::read(&view, &profile, None);
        assert!(facts.dialog.is_some() && facts.composer.is_none(), "{facts:?}\n{}", view.text());
    }
}

#[test]
fn an_answer_that_quotes_a_dialog_is_no_dialog() {
    let profile = profile();
    let (_, recording) = SESSIONS[1];
    let rows = ["● Do you want to proceed?", "  ❯ 1. Yes", "    2. No", "  Esc to cancel"];
    assert!(is_quotation(&profile, marks(recording)["done"].clone(), &rows));
}

#[test]
fn what_the_program_would_take_as_a_command_is_defused() {
    let rules = profile().defuse;
    for (text, defused) in [
        // Each was sent to both versions; the right side arrives as text.
        ("/exit", "\\/exit"),
        (" /help me", "\\ /help me"),
        ("\n/clear", "\\\n/clear"),
        ("\u{200b}/help", "\\\u{200b}/help"),
        ("!rm -rf x", " !rm -rf x"),
        ("exit", "\\exit"),
        (":wq", "\\:wq"),
        ("see @src/main.rs", "see @src/main.rs "),
        ("nice :smi", "nice :smi "),
        ("a path C:\\", "a path C:\\ "),
        ("/x @y", "\\/x @y "),
    ] {
        assert_eq!(text::defuse(text, &rules).0, defused);
    }
    for text in [
        "run /help",
        "text\n/help",
        "#note",
        "exit now",
        "mail me@example.com",
        "a !b",
        "see @x please",
        "time 10:30",
    ] {
        assert_eq!(text::defuse(text, &rules), (text.to_owned(), None));
    }
}
