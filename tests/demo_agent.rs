//! The demo agent, driven in a real terminal. What it received is read from its ledger.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

#[path = "common/demo.rs"]
mod demo;
#[path = "common/pty.rs"]
mod pty;
#[path = "demo_agent/turns.rs"]
mod turns;

use demo::{Demo, paste};

#[test]
fn a_paste_and_enter_submit_once_and_the_answer_follows() {
    let demo = Demo::start(&["--name", "ann"]);
    demo.write(paste("plan the change"));
    demo.wait("the text in the composer", |s| s.has("❯ plan the change"));
    assert_eq!(demo.submits(), [""; 0]);
    demo.write("\r");
    let screen = demo.wait("the answer", |s| s.has("● Answer 1 from ann: plan the change"));
    assert!(screen.has("❯ plan the change"));
    demo.wait("the done line", |s| s.has("✻ Cooked for 1s"));
    demo.write("\r");
    demo.entry("empty_enter");
    assert_eq!(demo.submits(), ["plan the change"]);
}

#[test]
fn lines_pasted_one_by_one_arrive_byte_identical_as_one_prompt() {
    let demo = Demo::start(&[]);
    let lines = ["fn main() {", "    日本語 \u{1f469}\u{200d}\u{1f4bb} e\u{301}", "", "}", "end  "];
    for (n, line) in lines.iter().enumerate() {
        let newline = if n + 1 < lines.len() { "\n" } else { "" };
        demo.write(paste(&format!("{line}{newline}")));
    }
    demo.wait("all lines", |s| s.has("  end") && s.has("❯ fn main() {"));
    demo.write("\r");
    demo.entry("submit");
    demo.write("\r");
    demo.entry("empty_enter");
    assert_eq!(demo.submits(), [lines.join("\n")]);
}

#[test]
fn enter_approves_an_open_dialog() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("do it DEMO:ask");
    let screen = demo.dialog();
    assert!(screen.has("❯ 1. Yes") && screen.has("  2. No") && screen.has("Esc to cancel"));
    assert!(!screen.rows().iter().any(|row| row.starts_with("❯ T")), "the composer is hidden");
    assert_eq!(screen.cursor, None);
    demo.wait("blocked", |s| s.title == "✳ demo" && s.sent("\x1b]7501;state=blocked:app=demo\x07"));
    demo.write("\r");
    assert_eq!(demo.entry("approve")["approve"], "enter");
    demo.wait("the answer", |s| s.has("● Answer 1 from demo: do it"));
}

#[test]
fn a_dialog_that_opens_over_a_draft_ignores_pastes_and_gives_the_draft_back() {
    let demo = Demo::start(&[]);
    demo.write(paste("half a thought"));
    demo.wait("the draft", |s| s.has("❯ half a thought"));
    assert_eq!(demo.control("ask"), "ok");
    let screen = demo.dialog();
    assert!(!screen.shows("half a thought"), "the draft is hidden");
    demo.write(paste("yes please\r1"));
    assert_eq!(demo.entry("ignored_paste")["ignored_paste"], "yes please\n1");
    demo.write("\x1b");
    assert_eq!(demo.entry("deny")["deny"], "esc");
    demo.wait("the draft again", |s| s.has("❯ half a thought"));
    assert_eq!(demo.all("approve").len(), 0);
    assert_eq!(demo.submits(), [""; 0]);
}

#[test]
fn raw_letters_and_digits_are_hotkeys_in_a_dialog() {
    for (typed, key, left) in [("deploy now", "p", "loy now"), ("try it", "y", " it")] {
        let demo = Demo::start(&[]);
        demo.control("ask");
        demo.dialog();
        demo.write(typed);
        assert_eq!(demo.entry("approve")["approve"], key);
        demo.wait("the rest in the composer", |s| s.has(format!("❯ {left}").trim_end()));
    }
    let demo = Demo::start(&[]);
    demo.control("ask");
    demo.dialog();
    demo.write("2");
    assert_eq!(demo.entry("deny")["deny"], "2");
}

#[test]
fn a_short_write_with_return_submits_and_a_long_one_does_not() {
    let demo = Demo::start(&[]);
    let short = "x".repeat(51);
    demo.write(format!("{short}\r"));
    demo.entry("submit");
    let long = "y".repeat(64);
    demo.write(format!("{long}\r"));
    assert_eq!(demo.entry("burst")["burst"], format!("{long}\r"));
    demo.wait("it in the composer", |s| s.has(&format!("❯ {long}")));
    assert_eq!(demo.submits(), [short.as_str()]);
    demo.write("\r");
    demo.until("the second submit", |d| d.submits().len() == 2);
    assert_eq!(demo.submits(), [short, long]);
}

#[test]
fn prompts_typed_while_busy_wait_and_run_in_order() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("one DEMO:slow 1000");
    demo.wait("busy", |s| s.shows("✶ Working… (") && s.has("  esc to interrupt"));
    demo.submit("two");
    demo.submit("three");
    let screen = demo.wait("the queue", |s| s.has("❯ two") && s.has("❯ three"));
    assert!(screen.faint.contains("❯ two"));
    demo.write("\x1b");
    demo.wait("both answers", |s| s.has("● Answer 3 from demo: three"));
    assert_eq!(demo.all("submit")[1]["queued"], true);
    let prompts: Vec<String> = demo
        .transcript_until(|t| t.iter().filter(|l| l["type"] == "end").count() == 2)
        .iter()
        .filter(|line| line["type"] == "prompt")
        .map(|line| line["text"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(prompts, ["one DEMO:slow 1000", "two", "three"]);
}

#[test]
fn escape_interrupts_without_an_answer_or_a_done_line() {
    let demo = Demo::start(&["--think", "60000"]);
    demo.submit("never");
    demo.wait("busy", |s| s.title == "⠂ demo" && s.sent("state=working:app=demo"));
    demo.write("\x1b");
    assert_eq!(demo.entry("interrupt")["interrupt"], "t1");
    let screen = demo.wait("idle", |s| s.title == "✳ demo" && s.has("  ? for shortcuts"));
    assert!(screen.shows("Interrupted by user"));
    assert!(!screen.shows("✻ Cooked"));
    let lines = demo.transcript_until(|t| t.len() == 2);
    assert_eq!(lines[1]["type"], "interrupted");
}

#[test]
fn a_resize_redraws_composer_and_answers_for_the_new_width() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:say the quick brown fox jumps over the lazy dog and is not tired");
    demo.wait("the answer", |s| s.shows("✻ Cooked"));
    demo.write(paste("some words that do not fit into thirty cells"));
    demo.wait("the draft", |s| s.has("❯ some words that do not fit into thirty cells"));
    for (cols, rows) in [(30, 20), (100, 30), (24, 12), (80, 24)] {
        demo.resize(cols, rows);
        let rule = "─".repeat(cols.into());
        let screen = demo.wait("the new width", |s| {
            s.rows().iter().filter(|row| **row == rule).count() == 2
                && s.rows().iter().all(|row| row.chars().count() <= usize::from(cols))
        });
        let top = screen.rows().iter().position(|row| *row == rule).expect("a rule");
        let bottom = screen.rows().iter().rposition(|row| *row == rule).expect("a rule");
        let rows = screen.rows()[top + 1..bottom].iter();
        let draft: Vec<&str> =
            rows.map(|row| row.trim_start_matches(['❯', ' ']).trim_end()).collect();
        assert_eq!(draft.join(" "), "some words that do not fit into thirty cells");
        assert_eq!(screen.rows()[bottom + 1], "  ? for shortcuts");
        assert_eq!(screen.rows().iter().filter(|row| row.contains("❯ some")).count(), 1);
    }
    demo.wait("the answer in one row", |s| {
        s.rows()
            .iter()
            .any(|r| r == "● the quick brown fox jumps over the lazy dog and is not tired")
    });
}

#[test]
fn a_long_paste_shows_a_placeholder_and_arrives_whole() {
    let demo = Demo::start(&[]);
    let text = (1..=500).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    demo.write(paste(&text));
    demo.wait("the placeholder", |s| s.has("❯ [Pasted text #1 +499 lines]"));
    demo.write("\r");
    demo.entry("submit");
    assert_eq!(demo.submits(), [text]);
}

#[test]
fn a_long_draft_shows_a_window_and_says_how_much_it_hides() {
    let demo = Demo::start(&[]);
    for n in 1..=20 {
        demo.write(paste(&format!("line {n}{}", if n < 20 { "\n" } else { "" })));
    }
    let screen = demo.wait("the end of it", |s| s.has("  line 20") && s.has("  line 14"));
    assert!(screen.shows("─── ↑ 13 more ───"));
    assert!(!screen.shows("line 13"));
    demo.write("\r");
    demo.entry("submit");
    assert_eq!(demo.submits()[0].lines().count(), 20);
}

#[test]
fn an_empty_composer_shows_a_faint_placeholder_and_the_cursor_before_it() {
    let demo = Demo::start(&[]);
    let screen = demo.screen();
    let row = screen.rows().iter().position(|r| r == "❯ Try \"plan the change\"").expect("a row");
    assert_eq!(screen.faint.trim(), "Try \"plan the change\"");
    assert_eq!(screen.cursor, Some((row, 2)));
    assert!(screen.bracketed_paste);
    assert_eq!(screen.lines[0], "mado demo agent · echo");
    demo.write("ab\x1b\rc");
    let screen = demo.wait("the text", |s| s.has("❯ ab") && s.has("  c"));
    assert_eq!(screen.faint, "");
    assert_eq!(screen.cursor, Some((row + 1, 3)));
    demo.write("\x15\x15");
    demo.wait("the joined line", |s| s.has("❯ ab") && s.cursor == Some((row, 4)));
    assert_eq!(demo.all("draft").last().expect("a draft")["draft"], "ab");
}

#[test]
fn a_final_name_completes_first_and_other_marks_are_commands() {
    let demo = Demo::start(&["--think", "0"]);
    demo.write(paste("look at @file"));
    demo.write("\r");
    assert_eq!(demo.entry("complete")["complete"], "look at @file ");
    assert_eq!(demo.submits(), [""; 0]);
    demo.write("\r");
    demo.entry("submit");
    demo.write(paste("!rm -rf x"));
    demo.write("\r");
    assert_eq!(demo.entry("shell")["shell"], "rm -rf x");
    demo.write(paste("/nonsense"));
    demo.write("\r");
    demo.wait("an error", |s| s.shows("Unknown command: /nonsense"));
    demo.submit(" /exit");
    demo.wait("an answer", |s| s.has("● Answer 2 from demo: /exit"));
    assert_eq!(demo.submits(), ["look at @file ", " /exit"]);
}
