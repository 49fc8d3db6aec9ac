//! A shell as a target: a command line executes what it gets.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::core::Input;
use mado::core::dialect::CommandMark;
use mado::proto::*;
use sim::{ALL, Sim, on};

#[test]
fn a_command_is_run_accepted_and_answered_by_its_output() {
    for builtin in [true, false] {
        let mut sim = Sim::new();
        let s = sim.open_shell("sh");
        let hop = sim.send("sh", "make test");
        while sim.fake(s).submits.is_empty() {
            sim.run(5);
        }
        if !builtin {
            sim.fake(s).shell.as_mut().unwrap().running = true;
            sim.show(s);
        }
        sim.run(20);
        assert_eq!(sim.hop(hop).state, HopState::Accepted, "builtin {builtin}");
        sim.fake(s).rows.push("all good".into());
        sim.fake(s).shell.as_mut().unwrap().running = false;
        sim.show(s);
        sim.run(5_000);
        assert_eq!(sim.hop(hop).state, HopState::Answered, "builtin {builtin}");
        let p = AgentParams { project: sim::PROJECT.into(), agent: "sh".into() };
        let Ok(Reply::Answer(a)) = sim.request(sim::SHELL, Request::Answer(p)) else { panic!() };
        assert_eq!(a.text, "all good");
    }
}

#[test]
fn nothing_is_typed_while_a_command_runs_or_while_nobody_says_what_runs() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    sim.fake(s).shell.as_mut().unwrap().running = true;
    sim.show(s);
    let hop = sim.send("sh", "ls");
    sim.run(60_000);
    assert!(sim.fake(s).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "busy");
    // Silence alone is never idle.
    let shell = sim.fake(s).shell.as_mut().unwrap();
    (shell.running, shell.told) = (false, false);
    sim.show(s);
    sim.run(60_000);
    assert!(sim.fake(s).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "no_foreground");
}

#[test]
fn nothing_is_typed_into_a_builtin_that_reads_the_terminal() {
    for marks in [true, false] {
        let mut sim = Sim::new();
        let s = sim.open_shell("sh");
        // `read -p "Delete all? "`: the shell itself has the foreground, and it is quiet.
        sim.fake(s).shell.as_mut().unwrap().prompt = "Delete all? ".into();
        if marks {
            sim.feed(Input::Command { agent: s, mark: CommandMark::Runs });
        } else {
            sim.fake(s).unbracketed = true;
        }
        sim.show(s);
        let hop = sim.send("sh", "yes");
        sim.run(60_000);
        assert!(sim.fake(s).writes.is_empty(), "marks {marks}");
        assert_eq!(sim.hop(hop).reason_code, "busy");
        sim.fake(s).shell.as_mut().unwrap().prompt = "$ ".into();
        sim.feed(Input::Command { agent: s, mark: CommandMark::Done });
        sim.fake(s).unbracketed = false;
        sim.show(s);
        sim.run(5_000);
        assert_eq!(sim.fake(s).submits, ["yes"]);
    }
}

#[test]
fn a_prompt_that_comes_in_pieces_or_is_drawn_again_is_no_draft() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    for prompt in ["ma", "main ", "main 10:59 $ ", "main 11:00 $ "] {
        sim.fake(s).shell.as_mut().unwrap().prompt = prompt.into();
        sim.show(s);
        sim.run(10);
    }
    assert!(!sim.info("sh").draft);
    let hop = sim.send("sh", "ls");
    sim.run(3_000);
    assert_eq!(sim.fake(s).submits, ["ls"]);
    assert!(sim.hop(hop).state.is_final());
}

#[test]
fn what_a_person_typed_at_the_prompt_is_a_draft() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    sim.feed(Input::Human { agent: s, submits: false, rest: true });
    sim.fake(s).composer = "rm -rf ".into();
    sim.show(s);
    let hop = sim.send("sh", "ls");
    sim.run(20_000);
    assert!(sim.fake(s).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "draft");
}

#[test]
fn what_an_interrupted_hop_left_at_the_prompt_never_becomes_part_of_it() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    let hop = sim.send("sh", "echo one\necho two\necho three");
    sim.run(130);
    assert!(!sim.fake(s).composer.is_empty());
    sim.pause();
    for _ in 0..5 {
        sim.show(s);
        sim.run(500);
    }
    let other = sim.send("sh", "ls");
    sim.resume();
    sim.run(5_000);
    let submits = sim.fake(s).submits.clone();
    for text in &submits {
        assert!(text == "echo one\necho two\necho three" || text == "ls", "{submits:?}");
    }
    for hop in [hop, other] {
        let h = sim.hop(hop);
        assert!(h.state.is_final(), "{h:?}, composer {:?}", sim.fake(s).composer);
    }
}

#[test]
fn a_tab_or_a_newline_is_not_typed_as_a_key() {
    for text in ["one\ttwo", "one\ntwo"] {
        let mut sim = Sim::new();
        let s = sim.open_shell_with("sh", false);
        let hop = sim.send("sh", text);
        sim.run(5_000);
        assert!(sim.fake(s).writes.is_empty());
        assert_eq!(sim.hop(hop).reason_code, "no_bracketed_paste");
    }
}

#[test]
fn a_route_into_a_shell_waits_for_a_persons_yes() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let s = sim.open_shell("sh");
    sim.connect(
        "a",
        "sh",
        RouteOptions { template: Some("{output}".into()), ..on(Trigger::OnTurn) },
    );
    sim.human_prompt(a, "p");
    sim.run(10_000);
    assert!(sim.fake(s).writes.is_empty());
    let hop = sim.hops().pop().unwrap();
    assert_eq!(hop.reason_code, "confirm");
    assert!(hop.reason_text.contains(":Mado resume hop="), "{}", hop.reason_text);
    // A yes while everything is paused is kept, and says that it is not enough.
    sim.pause();
    let p = PauseParams { project: sim::PROJECT.into(), route: None, hop: Some(hop.id) };
    let said = sim.request(sim::EDITOR, Request::Resume(p)).unwrap();
    assert!(
        matches!(&said, Reply::Said(text) if text.contains("not yet: paused; :Mado resume")),
        "{said:?}"
    );
    sim.run(5_000);
    assert!(sim.fake(s).writes.is_empty());
    sim.resume();
    sim.run(2_000);
    assert_eq!(sim.fake(s).submits, ["ECHO p"]);
}

#[test]
fn what_a_person_typed_after_their_enter_is_a_draft() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    // `ls`, Enter and the next command came in one piece.
    sim.feed(Input::Human { agent: s, submits: true, rest: true });
    sim.fake(s).composer = "rm -rf ".into();
    sim.show(s);
    let hop = sim.send("sh", "build");
    sim.run(20_000);
    assert!(sim.fake(s).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "draft");
}

#[test]
fn nothing_is_typed_into_the_rest_of_a_command() {
    for prompt in ["> ", "for> ", "dquote> ", ""] {
        let mut sim = Sim::new();
        let s = sim.open_shell("sh");
        sim.feed(Input::Human { agent: s, submits: true, rest: false });
        sim.fake(s).shell.as_mut().unwrap().prompt = prompt.into();
        sim.fake(s).rows.push("$ for i in 1 2; do".into());
        sim.show(s);
        let hop = sim.send("sh", "ls");
        sim.run(20_000);
        assert!(sim.fake(s).writes.is_empty(), "{prompt:?}");
        assert_eq!(sim.hop(hop).reason_code, "unfinished_command");
        sim.fake(s).shell.as_mut().unwrap().prompt = "$ ".into();
        sim.show(s);
        sim.run(5_000);
        assert_eq!(sim.fake(s).submits, ["ls"]);
    }
}

#[test]
fn a_shell_whose_prompt_looks_like_the_rest_of_a_command_is_idle_at_it() {
    let mut sim = Sim::new();
    let s = sim.open_shell_at("sh", true, "> ");
    sim.send("sh", "ls");
    sim.run(5_000);
    assert_eq!(sim.fake(s).submits, ["ls"]);
}

#[test]
fn marks_of_a_prompt_end_no_command_of_a_shell_that_marks_their_end() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    let mark = |sim: &mut Sim, mark| sim.feed(Input::Command { agent: s, mark });
    mark(&mut sim, CommandMark::Done);
    mark(&mut sim, CommandMark::Runs);
    // The prompt of fish's `read`.
    mark(&mut sim, CommandMark::Prompt);
    sim.show(s);
    let hop = sim.send("sh", "yes");
    sim.run(20_000);
    assert!(sim.fake(s).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "busy");
    mark(&mut sim, CommandMark::Done);
    sim.run(5_000);
    assert_eq!(sim.fake(s).submits, ["yes"]);
}

#[test]
fn a_mark_of_a_shell_elsewhere_ends_with_the_program_that_wrote_it() {
    let mut sim = Sim::new();
    let s = sim.open_shell("sh");
    // `ssh`: the shell over there begins a command, and the connection is cut.
    sim.fake(s).shell.as_mut().unwrap().running = true;
    sim.show(s);
    sim.feed(Input::Command { agent: s, mark: CommandMark::Runs });
    sim.run(1_000);
    sim.fake(s).shell.as_mut().unwrap().running = false;
    sim.show(s);
    sim.send("sh", "ls");
    sim.run(5_000);
    assert_eq!(sim.fake(s).submits, ["ls"]);
}

#[test]
fn a_batch_joins_none_that_waits_for_a_yes() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""screen", "title""#);
    let f = sim.fake(a);
    (f.hooks, f.records, f.status, f.manual) = (false, false, false, true);
    sim.open_shell("sh");
    let options = RouteOptions { template: Some("{output}".into()), ..on(Trigger::Always) };
    let route = sim.connect("a", "sh", options);
    sim.human_prompt(a, "p");
    sim.fake(a).busy = true;
    sim.show(a);
    for text in ["● first", "● second", "● third"] {
        sim.fake(a).rows.push(text.into());
        sim.show(a);
        sim.run(5_000);
    }
    let hops: Vec<_> = sim.hops().into_iter().filter(|h| h.route == Some(route)).collect();
    assert!(hops.len() >= 2, "{hops:?}");
    assert!(hops.iter().all(|h| h.reason_code == "confirm"), "{hops:?}");
}
