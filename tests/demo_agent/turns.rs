//! How turns end, what the records say, and how the program ends.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

use super::demo::{Demo, paste};

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["type"].as_str()).collect()
}

#[test]
fn the_transcript_comes_after_the_end_signal_and_in_order() {
    let demo = Demo::start(&["--think", "0", "--record-delay", "3000"]);
    demo.submit("first");
    demo.wait("the end", |s| s.has("✻ Cooked for 1s") && s.title == "✳ demo");
    let lines = demo.transcript_until(|t| !t.is_empty());
    assert_eq!(types(&lines), ["prompt"], "the answer is not recorded yet");
    assert_eq!(lines[0]["human"], true);
    assert_eq!(demo.control("write-transcript-late 0"), "ok");
    assert_eq!(demo.control("turn second"), "ok");
    demo.wait("the second end", |s| s.count("✻ Cooked for 1s") == 2);
    let lines = demo.transcript_until(|t| t.len() == 6);
    assert_eq!(types(&lines), ["prompt", "answer", "end", "prompt", "answer", "end"]);
    let turns: Vec<&Value> = lines.iter().map(|line| &line["turn"]).collect();
    assert_eq!(turns, ["t1", "t1", "t1", "t2", "t2", "t2"]);
    assert_eq!(lines[1]["text"], "Answer 1 from demo: first");
    assert_eq!(lines[3]["human"], false);
    assert_eq!(demo.submits(), ["first"]);
}

#[test]
fn a_denied_dialog_of_a_turn_ends_it() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:ask-after 0");
    demo.dialog();
    demo.write("\x1b");
    demo.wait("the end", |s| s.shows("Interrupted by user") && s.title == "✳ demo");
    let lines = demo.transcript_until(|t| t.len() == 2);
    assert_eq!(types(&lines), ["prompt", "interrupted"]);
}

#[test]
fn a_dialog_from_outside_holds_the_running_turn() {
    let demo = Demo::start(&["--think", "300"]);
    demo.submit("go");
    demo.control("ask");
    demo.dialog();
    assert_eq!(demo.control("ask"), "error: a dialog is already open");
    assert_eq!(demo.all("dialog").len(), 1);
    demo.write("y");
    demo.wait("the answer", |s| s.has("● Answer 1 from demo: go"));
    assert_eq!(types(&demo.transcript_until(|t| t.len() == 3)), ["prompt", "answer", "end"]);
}

#[test]
fn an_error_ends_the_turn_without_an_answer() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:error 529");
    demo.wait("it", |s| s.has("● API Error: 529 overloaded") && s.title == "✳ demo");
    let lines = demo.transcript_until(|t| t.len() == 2);
    assert_eq!(lines[1]["type"], "error");
    assert_eq!(lines[1]["code"], 529);
}

#[test]
fn a_crash_exits_in_the_turn_and_never_says_idle_again() {
    let mut demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:crash");
    assert_eq!(demo.exit().code(), Some(1));
    let raw = demo.screen().raw;
    let last = memchr::memmem::rfind(&raw, b"7501;state=").expect("a state");
    assert!(raw[last..].starts_with(b"7501;state=working"));
    assert_eq!(types(&demo.lines("transcript.jsonl")), ["prompt"]);
}

#[test]
fn a_background_task_keeps_the_turn_open_although_the_screen_looks_idle() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("start DEMO:background 1500");
    let screen = demo.wait("the first end", |s| s.has("✻ Cooked for 1s") && s.title == "✳ demo");
    let last = memchr::memmem::rfind(&screen.raw, b"7501;state=").expect("a state");
    assert!(screen.raw[last..].starts_with(b"7501;state=working"));
    assert!(screen.shows("1 background task running"));
    let lines = demo.transcript_until(|t| t.len() == 2);
    assert_eq!(types(&lines), ["prompt", "answer"]);
    let lines = demo.transcript_until(|t| t.len() == 4);
    assert_eq!(types(&lines), ["prompt", "answer", "answer", "end"]);
    demo.wait("the task's end", |s| s.has("● The background task finished."));
}

#[test]
fn a_silent_tool_writes_nothing_while_it_runs() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:silent 60000");
    let before = demo.wait("the tool", |s| s.has("● Bash(sleep)") && s.title == "⠂ demo");
    // Long enough for several spinner ticks: here the passing of time is what is tested.
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(demo.screen().raw.len(), before.raw.len());
}

#[test]
fn dangerous_answers_are_literal_in_the_transcript_and_harmless_on_the_screen() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:escape");
    let screen = demo.wait("the end", |s| s.shows("✻ Cooked"));
    assert!(!screen.sent("\x1b[201~") && !screen.sent("\x1b]52") && !screen.sent("\0"));
    let lines = demo.transcript_until(|t| t.len() == 3);
    let text = lines[1]["text"].as_str().expect("text");
    for part in ["\x1b[201~\r", "\x1b]52;c;", "\u{9b}", "\0", "\u{202e}"] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

#[test]
fn a_flood_reaches_the_terminal_whole_and_keys_are_read_after_it() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:flood 300000");
    let screen = demo.wait("the end", |s| s.shows("✻ Cooked"));
    assert!(screen.raw.len() > 300_000);
    demo.submit("after");
    demo.wait("the answer", |s| s.has("● Answer 2 from demo: after"));
}

#[test]
fn streamed_and_long_answers_end_up_whole_on_the_screen() {
    let demo = Demo::start(&["--think", "0"]);
    demo.submit("DEMO:slow 40 DEMO:gap 2");
    let screen = demo.wait("the end", |s| s.shows("✻ Cooked"));
    let first = screen.lines.iter().position(|l| l.starts_with("● Answer 1")).expect("it");
    let words: String = screen.lines[first..].join(" ");
    assert!(words.contains("word39") && words.contains("word40"));
    demo.submit("DEMO:lines 60");
    let screen = demo.wait("the end", |s| s.count("✻ Cooked for 1s") == 2);
    assert!(screen.has("● Answer 2 from demo, line 1 of 60"));
    assert!((2..=60).all(|n| screen.has(&format!("  Answer 2 from demo, line {n} of 60"))));
    demo.submit("DEMO:ansi");
    let screen = demo.wait("the colours", |s| s.shows("red, green and keyword, reversed"));
    assert!(screen.sent("key\x1b[34mword"));
}

#[test]
fn it_needs_no_answers_to_its_queries_and_reads_them_if_they_come() {
    let silent = Demo::start_in(&["--think", "0"], false);
    silent.submit("hello");
    silent.wait("an answer", |s| s.has("● Answer 1 from demo: hello"));
    assert_eq!(silent.all("reply").len(), 0);
    let talking = Demo::start(&[]);
    talking.until("answers", |d| d.all("reply").len() >= 2);
    assert_eq!(talking.all("draft").len(), 0);
}

#[test]
fn every_exit_gives_the_terminal_back() {
    let term = |demo: &Demo| {
        let pid = Pid::from_child(&demo.child);
        kill_process(pid, Signal::TERM).expect("a signal");
    };
    let hang_up = |demo: &Demo| {
        kill_process(Pid::from_child(&demo.child), Signal::HUP).expect("a signal");
    };
    let command = |demo: &Demo| {
        demo.write(paste("/exit"));
        demo.write("\r");
    };
    let twice = |demo: &Demo| {
        demo.write(paste("a draft"));
        demo.write("\x03");
        demo.wait("a cleared composer", |s| s.has("  Press Ctrl-C again to exit"));
        demo.write("\x03");
    };
    let control = |demo: &Demo| {
        let mut stream = UnixStream::connect(demo.dir.path().join("control")).expect("a socket");
        stream.write_all(b"exit 7\n").expect("it takes a line");
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).expect("a reply");
    };
    type Way<'a> = (&'a dyn Fn(&Demo), i32);
    let ways: [Way; 5] = [(&term, 143), (&hang_up, 129), (&command, 0), (&twice, 0), (&control, 7)];
    for (n, (leave, code)) in ways.into_iter().enumerate() {
        let mut demo = Demo::start(&[]);
        // Our end of the PTY shows the modes, also when the program has gone.
        let raw = tcgetattr(&*demo.pty).expect("modes").local_modes;
        assert!(!raw.contains(LocalModes::ECHO));
        leave(&demo);
        let status = demo.exit();
        assert_eq!(status.code(), Some(code), "way {n}, signal {:?}", status.signal());
        let after = tcgetattr(&*demo.pty).expect("modes").local_modes;
        assert!(after.contains(LocalModes::ECHO | LocalModes::ICANON), "way {n}");
        assert_eq!(demo.entry("exit")["exit"], code);
        assert!(!demo.dir.path().join("control").exists(), "way {n}");
    }
}

#[test]
fn planner_and_reviewer_read_naturally() {
    let demo = Demo::start(&["--role", "planner", "--think", "0", "--seed", "1"]);
    assert_eq!(demo.screen().lines[0], "mado demo agent · planner");
    demo.submit("add a dark mode");
    demo.wait("a plan", |s| s.shows("● 1. ") && s.shows("  2. ") && s.shows("  3. "));
    demo.wait("a done line", |s| s.has("✻ Baked for 1s"));
    let demo = Demo::start(&["--role", "reviewer", "--think", "0"]);
    demo.submit("one\ntwo\nthree");
    demo.wait("a review", |s| s.shows("● I read 3 lines, beginning with “one”."));
}
