//! A plain `:terminal`, adopted.

use std::collections::BTreeMap;
use std::time::Duration;

use mado::core::keys::{Keys, Kind, Piece};
use serde_json::json;

use crate::common::term::Term;
use crate::editor::{Editor, vars};
use crate::world::{DemoAgent, World};

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// Text beyond ASCII, with a tab, blanks, what shells and tmux would expand, and several lines.
pub const TEXT: &str = "one  two\n\tindented — 日本語\n  'quotes' \"and\" $(things) %3 #{x}\nlast";

/// What was pasted, and the keys that were no part of a paste. What the terminal answered is neither.
pub fn pasted(agent: &DemoAgent<'_>) -> (String, String) {
    let human = |p: &Piece| p.kind == Kind::Human;
    let pieces = Keys::default().feed(&agent.bytes()).into_iter().filter(human);
    let text = String::from_utf8(pieces.flat_map(|p| p.bytes).collect()).unwrap();
    let (mut pastes, mut keys) = (String::new(), String::new());
    let mut rest = text.as_str();
    while let Some((before, from)) = rest.split_once("\x1b[200~") {
        keys.push_str(before);
        let (inside, after) = from.split_once("\x1b[201~").expect("a whole paste");
        pastes.push_str(inside);
        rest = after;
    }
    keys.push_str(rest);
    (pastes, keys)
}

#[test]
fn what_is_routed_from_and_to_an_adopted_terminal_arrives_byte_for_byte() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "100"]);
    let b = e.demo("b", &["--think", "100"]);
    let info = w.agent("a");
    assert_eq!(info["adopted"], "nvim", "{info}");
    assert_eq!(info["profile"], "demo");
    assert!(info["limits"].as_array().unwrap().contains(&json!("no hooks")), "{info}");
    let listed = w.site.ok(&["ls"]);
    assert!(listed.contains("adopted from nvim, buffer"), "{listed}");

    let hop = w.send("a", TEXT);
    let done = w.wait_state(hop, "answered");
    assert_eq!(pasted(&a), (TEXT.to_owned(), "\r".to_owned()), "{done}");
    // It draws a tab as four blanks, and keeps them.
    assert_eq!(a.submits(), [TEXT.replace('\t', "    ")]);

    // From it, to it and to an agent of mado's own.
    let own = w.demo("own", &["--think", "0"]);
    let options = json!({"trigger": "on-turn", "template": "got:\n{output}", "cooldown_ms": 1000});
    let there = w.connect("a", "b", options.clone());
    let on = w.connect("b", "own", options);
    w.send("a", "DEMO:say first line\\nsecond line");
    let hop = w.wait_route_hop(there, 1, "answered");
    assert_eq!(b.submits(), ["got:\nfirst line\nsecond line"], "{hop}");
    let hop = w.wait_route_hop(on, 1, "answered");
    assert_eq!(own.submits(), [hop["prompt"].as_str().unwrap()]);
    assert_eq!(pasted(&b).1, "\r");
    w.stop_and_replay();
}

#[test]
fn nothing_is_typed_into_a_dialog_and_the_rest_comes_after_it() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    a.control("ask");
    w.wait_phase("a", "asking");
    let before = a.bytes();
    let hop = w.send("a", "after the dialog");
    w.wait_reason(hop, "asks");
    w.never("a byte in the dialog", Duration::from_secs(1), || a.bytes() != before);
    e.term.write("i\x1b");
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), ["after the dialog"]);
}

#[test]
fn a_dialog_between_text_and_enter_withholds_the_enter() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    let hop = w.send("a", "text of the hop");
    w.wait("the text", || (a.draft() == "text of the hop").then_some(()));
    a.control("ask");
    w.wait_reason(hop, "asks");
    w.never("an Enter in the dialog", Duration::from_millis(800), || a.bytes().contains(&b'\r'));
    assert_eq!(a.submits(), [""; 0]);
    // A person refuses; what was typed is cleared and typed again.
    e.term.write("i\x1b");
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), ["text of the hop"]);
    assert!(!a.all("approved").iter().any(|v| v["approved"] == true));
}

/// Opens dialogs at many moments of a delivery, dense around its Enter, and says which of them an Enter of
/// mado's answered: how long each had stood when that was read, in milliseconds.
pub fn sweep(w: &World, a: &DemoAgent<'_>, refuse: impl Fn()) -> Vec<f64> {
    let mut answered = Vec::new();
    let (mut before, mut withheld) = (0, 0);
    for step in 0..40 {
        let text = format!("text number {step}");
        let hop = w.send("a", &text);
        w.wait("the text", || (a.draft() == text).then_some(()));
        std::thread::sleep(Duration::from_millis(430 + 5 * step));
        let (approvals, denials) = (a.all("approve").len(), a.all("deny").len());
        let submits = a.submits().len();
        a.control("ask");
        let opened = a.all("dialog").pop().unwrap()["at"].as_f64().unwrap();
        std::thread::sleep(Duration::from_millis(400));
        if a.submits().len() > submits {
            before += 1;
        } else if a.all("approve").len() == approvals {
            withheld += 1;
        }
        if let Some(hit) = a.all("approve").get(approvals) {
            answered.push(hit["at"].as_f64().unwrap() - opened);
        } else {
            refuse();
            w.wait("the refusal", || (a.all("deny").len() > denials).then_some(()));
        }
        w.wait_hop(hop, "its end", |h| {
            ["answered", "unconfirmed", "failed", "stopped"].contains(&h["state"].as_str().unwrap())
        });
        w.wait("it to be idle and empty", || {
            let now = w.agent("a");
            (now["phase"] == "idle" && now["draft"] == false).then_some(())
        });
    }
    println!(
        "40 dialogs: {before} came after the Enter, before {withheld} it was withheld, \
         {answered:?} ms had those stood that it answered"
    );
    answered
}

#[test]
#[ignore = "long: many dialogs at many moments"]
fn dialogs_swept_over_the_whole_delivery_are_not_answered_once_neovim_has_drawn_them() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    e.term.write("i");
    e.wait_lua("vim.api.nvim_get_mode().mode", "t");
    // What a program draws is on Neovim's screen 10 ms after it came; a busy machine takes its time too.
    let answered = sweep(&w, &a, || e.term.write("\x1b"));
    assert!(answered.iter().all(|ms| *ms < 50.0), "{answered:?}");
}

#[test]
fn a_persons_key_while_mado_types_stops_the_hop_and_no_enter_follows() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    e.term.write("i");
    e.wait_lua("vim.api.nvim_get_mode().mode", "t");
    let lines: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let hop = w.send("a", &lines.join("\n"));
    w.wait("the first lines", || a.draft().contains("line 3").then_some(()));
    e.term.write("x");
    let stopped = w.wait_state(hop, "stopped");
    assert_eq!(stopped["reason_code"], "human_took_over", "{stopped}");
    w.never("an Enter", Duration::from_millis(800), || a.bytes().contains(&b'\r'));
}

#[test]
fn leaving_terminal_mode_is_no_key_and_a_draft_is_left_alone() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    e.term.write("ia draft of mine");
    w.wait("the draft", || (a.draft() == "a draft of mine").then_some(()));
    w.wait("it to be seen", || (w.agent("a")["draft"] == true).then_some(()));
    let hop = w.send("a", "text of the hop");
    w.wait_reason(hop, "draft");
    let before = a.bytes();
    w.never("a byte", Duration::from_millis(700), || a.bytes() != before);
    e.term.write("\r");
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), ["a draft of mine", "text of the hop"]);
    // Of the person's own prompt: a new chain. Of leaving the mode: nothing.
    let lines: Vec<String> = (1..=12).map(|n| format!("line {n}")).collect();
    let hop = w.send("a", &lines.join("\n"));
    w.wait("the first lines", || a.draft().contains("line 2").then_some(()));
    e.term.write("\x1c\x0e");
    w.wait_state(hop, "answered");
    assert_eq!(a.submits()[2], lines.join("\n"));
}

#[test]
fn a_buffer_that_is_wiped_ends_the_agent_and_its_hops_with_the_reason() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    a.control("ask");
    w.wait_phase("a", "asking");
    let hop = w.send("a", "never to arrive");
    w.wait_reason(hop, "asks");
    e.command("bwipeout!");
    let failed = w.wait_state(hop, "failed");
    assert_eq!(failed["reason_code"], "target_exited");
    let text = failed["reason_text"].as_str().unwrap();
    assert!(text.contains("its buffer was closed"), "{text}");
    assert_eq!(w.agent("a")["phase"], "exited");
    w.ask("close", json!({"agent": "a"}));
    assert_eq!(w.ask("agents", json!({})), json!([]));
}

#[test]
fn an_editor_that_goes_ends_its_agents_and_the_host_lives_on() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    e.demo("a", &["--think", "0"]);
    let own = w.demo("own", &["--think", "0"]);
    e.command("qa!");
    let gone = w.wait_phase("a", "exited");
    let text = gone["reason_text"].as_str().unwrap();
    assert!(
        text.contains("its editor is gone") || text.contains("its buffer was closed"),
        "{text}"
    );
    let hop = w.send("own", "still here");
    w.wait_state(hop, "answered");
    assert_eq!(own.submits(), ["still here"]);
}

#[test]
fn a_pause_in_the_middle_of_typing_stops_every_byte() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    let a = e.demo("a", &["--think", "0"]);
    let lines: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let hop = w.send("a", &lines.join("\n"));
    w.wait("the first lines", || a.draft().contains("line 3").then_some(()));
    w.ask("pause", json!({}));
    // What Neovim had been handed before the pause is read within this time.
    std::thread::sleep(Duration::from_millis(100));
    let before = a.bytes();
    w.never("a byte while paused", Duration::from_secs(1), || a.bytes() != before);
    w.ask("resume", json!({}));
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), [lines.join("\n")]);
}

#[test]
fn closing_releases_and_restarting_and_attaching_are_refused() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    e.demo("a", &["--think", "0"]);
    let pid = w.pid("a");
    let refused = w.try_ask("restart", json!({"agent": "a"})).unwrap_err();
    assert_eq!(refused["code"], "not_ours", "{refused}");
    let mado = env!("CARGO_BIN_EXE_mado");
    let attach = Term::spawn(&[mado, "attach", "a"], &vars(&w), &w.site.work(), 10, 100);
    w.wait("the refusal", || attach.text().contains("shown where it is: buffer").then_some(()));
    let said = w.site.ok(&["close", "a"]);
    assert!(said.contains("a is released; it runs on where it is"), "{said}");
    assert_eq!(w.ask("agents", json!({})), json!([]));
    e.wait_lua("vim.b.mado_agent == nil", "true");
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    // And again, under another name.
    e.adopt("again", "");
    let hop = w.send("again", "hello");
    w.wait_state(hop, "answered");
}

#[test]
fn what_cannot_be_adopted_is_refused_in_one_sentence() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    e.command("Mado adopt");
    e.wait_message("this buffer is no terminal");
    e.terminal(&["sleep".into(), "600".into()]);
    e.command("Mado adopt");
    e.wait_message("no profile knows what runs in buffer 1: sleep");
    e.command("Mado adopt nonsense");
    e.wait_message("there is no profile \"nonsense\"");
    e.command("Mado adopt claude");
    e.wait_message("no claude runs in buffer");
    e.command("enew | terminal true");
    e.wait_lua("vim.bo.buftype", "terminal");
    w.wait("its end", || e.term.text().contains("Process exited").then_some(()));
    e.command("Mado adopt");
    e.wait_message("the program of this terminal has ended");
    e.demo("a", &[]);
    e.command("Mado adopt");
    e.wait_message("this terminal is the agent a already");
    e.command("Mado open demo name=own");
    e.wait_lua("vim.b.mado_agent", "own");
    e.command("Mado adopt");
    e.wait_message("this terminal is the agent own already");
}

#[test]
fn a_shell_in_a_terminal_runs_a_line_after_a_yes_and_gets_no_second_line() {
    let w = World::new(&[]);
    let e = Editor::start(&w, &none());
    e.command("terminal bash --norc --noprofile");
    e.wait_lua("vim.bo.buftype", "terminal");
    e.adopt("sh", "profile=shell");
    let marker = w.site.path().join("ran");
    let hop = w.send("sh", &format!("echo done > {}", marker.display()));
    w.wait_state(hop, "answered");
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "done\n");
    let hop = w.send("sh", "echo one\necho two");
    w.wait_reason(hop, "no_bracketed_paste");
    w.ask("close", json!({"agent": "sh"}));
}
