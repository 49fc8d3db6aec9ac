//! What evidence opens and ends a turn, whose it is, and which answer is its own.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::core::Input;
use mado::core::dialect::{Answer, HookEvent, NoAnswer, OscState, RecordEvent, StatusState};
use mado::proto::*;
use sim::{ALL, Sim, on};

/// A source whose evidence the test tells, routed to an ordinary target.
fn manual(rungs: &str, trigger: Trigger) -> (Sim, AgentId, AgentId) {
    let mut sim = Sim::new();
    let a = sim.open("a", rungs);
    let b = sim.open("b", ALL);
    sim.fake(a).manual = true;
    let options = RouteOptions {
        template: Some("{output}".into()),
        pattern: Some("LGTM".into()),
        idle_ms: Some(500),
        ..on(trigger)
    };
    sim.connect("a", "b", options);
    (sim, a, b)
}

fn id(n: u32) -> Option<String> {
    Some(format!("t{n}"))
}

fn prompt(n: u32, text: &str) -> HookEvent {
    HookEvent::Prompt { session: "s".into(), turn: id(n), text: text.into() }
}

fn stop(n: u32, answer: &str, background: usize) -> HookEvent {
    HookEvent::Stop { session: "s".into(), turn: id(n), answer: Some(answer.into()), background }
}

fn answer(n: u32, prompt: &str, text: &str) -> Answer {
    Answer {
        text: text.into(),
        turn: id(n),
        prompt: Some(prompt.into()),
        message: format!("m{n}"),
        ended: true,
        changed: None,
    }
}

fn status(sim: &mut Sim, a: AgentId, state: StatusState) {
    sim.feed(Input::Status { agent: a, state });
}

fn record(sim: &mut Sim, a: AgentId, event: RecordEvent) {
    sim.feed(Input::Record { agent: a, event });
}

fn phase(sim: &mut Sim, name: &str) -> Phase {
    sim.info(name).phase
}

#[test]
fn a_stop_of_the_turn_before_does_not_end_the_next_one() {
    let (mut sim, a, _b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    sim.hook(a, prompt(1, "one"));
    sim.hook(a, prompt(2, "two"));
    sim.run(50);
    sim.hook(a, stop(1, "first", 0));
    sim.run(3_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Busy);
    sim.hook(a, stop(2, "second", 0));
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

#[test]
fn a_prompt_hook_that_comes_after_its_turn_ended_opens_nothing() {
    let (mut sim, a, _b) = manual(ALL, Trigger::OnTurn);
    sim.fake(a).extract = Some(Ok(answer(1, "one", "first")));
    status(&mut sim, a, StatusState::Busy);
    record(&mut sim, a, RecordEvent::Prompt { turn: "t1".into(), text: "one".into(), human: true });
    sim.run(500);
    sim.hook(a, stop(1, "first", 0));
    status(&mut sim, a, StatusState::Idle);
    record(&mut sim, a, RecordEvent::TurnEnd { turn: id(1) });
    sim.run(10);
    sim.hook(a, prompt(1, "one"));
    sim.run(10);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

#[test]
fn the_hooks_of_a_turn_in_the_wrong_order_leave_it_ended() {
    let (mut sim, a, _b) = manual(r#""hook", "status", "screen""#, Trigger::OnTurn);
    status(&mut sim, a, StatusState::Busy);
    sim.run(100);
    sim.hook(a, stop(1, "first", 0));
    sim.hook(a, prompt(1, "one"));
    sim.run(100);
    status(&mut sim, a, StatusState::Idle);
    sim.run(2_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

#[test]
fn a_prompt_that_was_refused_at_once_leaves_the_agent_idle() {
    // A user's own hook may block the prompt: the status is busy for a moment, no Stop follows.
    let (mut sim, a, _b) = manual(r#""hook", "status", "screen""#, Trigger::OnTurn);
    sim.hook(a, prompt(1, "one"));
    sim.run(40);
    status(&mut sim, a, StatusState::Busy);
    sim.run(40);
    status(&mut sim, a, StatusState::Idle);
    assert_eq!(phase(&mut sim, "a"), Phase::Busy, "it may be about the turn before");
    sim.run(3_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

#[test]
fn a_lagging_idle_status_of_the_turn_before_does_not_end_the_next_one() {
    let (mut sim, a, _b) = manual(r#""hook", "status", "screen""#, Trigger::OnTurn);
    status(&mut sim, a, StatusState::Busy);
    sim.hook(a, prompt(1, "one"));
    sim.run(2_000);
    sim.hook(a, stop(1, "first", 0));
    sim.hook(a, prompt(2, "two"));
    sim.run(65);
    status(&mut sim, a, StatusState::Idle);
    for _ in 0..12 {
        assert_eq!(phase(&mut sim, "a"), Phase::Busy);
        sim.run(10);
    }
    status(&mut sim, a, StatusState::Busy);
    sim.run(5_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Busy);
}

#[test]
fn an_error_line_of_the_turn_before_does_not_break_the_next_one() {
    let (mut sim, a, b) = manual(ALL, Trigger::OnTurn);
    sim.hook(a, prompt(1, "one"));
    record(&mut sim, a, RecordEvent::Prompt { turn: "t1".into(), text: "one".into(), human: true });
    sim.run(300);
    sim.hook(a, HookEvent::StopFailure { turn: id(1), error: "overloaded".into() });
    sim.hook(a, prompt(2, "two"));
    record(&mut sim, a, RecordEvent::ApiError { code: Some(529), text: "late".into() });
    record(&mut sim, a, RecordEvent::Prompt { turn: "t2".into(), text: "two".into(), human: true });
    sim.run(300);
    sim.fake(a).extract = Some(Ok(answer(2, "two", "second")));
    sim.hook(a, stop(2, "second", 0));
    sim.run(3_000);
    assert_eq!(sim.fake(b).submits, ["second"]);
}

#[test]
fn a_late_line_of_an_answer_is_no_output_of_the_next_turn() {
    let (mut sim, a, _b) = manual(ALL, Trigger::OnKeyword);
    sim.hook(a, prompt(1, "one"));
    sim.run(300);
    sim.hook(a, stop(1, "LGTM", 0));
    // The next turn shows itself by its title only, so far.
    sim.fake(a).title = "⠂ x".into();
    sim.show(a);
    let line =
        |n: u32| RecordEvent::Answer { turn: id(n), message: format!("m{n}"), text: "LGTM".into() };
    record(&mut sim, a, line(1));
    sim.hook(a, prompt(2, "two"));
    sim.run(100);
    record(&mut sim, a, line(2));
    sim.run(10);
    let hops = sim.hops();
    let turns: Vec<Option<&str>> = hops.iter().map(|h| h.turn.as_deref()).collect();
    assert_eq!(turns, [Some("t1"), Some("t2")], "one match in each turn");
}

#[test]
fn a_turn_that_a_queued_prompt_follows_at_once_is_answered_with_its_own_answer() {
    let (mut sim, a, b) = manual(ALL, Trigger::OnTurn);
    let hop = sim.send("a", "one");
    sim.run(700);
    sim.hook(a, prompt(1, "one"));
    status(&mut sim, a, StatusState::Busy);
    sim.run(500);
    // The record has the next prompt before its reader came for the answer.
    sim.fake(a).extract = Some(Err(NoAnswer::NotYet));
    sim.hook(a, stop(1, "first", 0));
    sim.hook(a, prompt(2, "typed by a person"));
    sim.run(6_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.answered_by.as_deref()), (HopState::Answered, Some("t1")));
    assert_eq!(sim.fake(b).submits, ["first"]);
}

#[test]
fn a_hop_whose_answer_was_not_read_before_the_next_turn_ended_is_not_forgotten() {
    let (mut sim, a, _b) = manual(ALL, Trigger::OnTurn);
    let hop = sim.send("a", "one");
    sim.run(700);
    sim.hook(a, prompt(1, "one"));
    sim.run(500);
    sim.fake(a).extract = Some(Err(NoAnswer::NotYet));
    sim.hook(a, HookEvent::Stop { session: "s".into(), turn: id(1), answer: None, background: 0 });
    sim.run(100);
    sim.hook(a, prompt(2, "two"));
    sim.run(100);
    sim.fake(a).extract = Some(Ok(answer(2, "two", "second")));
    sim.hook(a, stop(2, "second", 0));
    sim.run(10_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "no_answer"));
    let answer = sim.request(
        sim::SHELL,
        Request::Answer(AgentParams { project: sim::PROJECT.into(), agent: "a".into() }),
    );
    assert!(matches!(answer, Ok(Reply::Answer(a)) if a.text == "second"));
}

#[test]
fn a_reader_that_never_answers_does_not_hold_the_queue_for_ever() {
    let (mut sim, a, _b) = manual(ALL, Trigger::OnTurn);
    sim.fake(a).mute = true;
    sim.hook(a, prompt(1, "one"));
    sim.run(100);
    sim.hook(a, stop(1, "first", 0));
    sim.run(100);
    sim.send("a", "next");
    sim.run(20_000);
    assert_eq!(sim.fake(a).submits, ["next"]);
}

#[test]
fn the_old_answer_of_a_resumed_session_is_nobodys() {
    for same_prompt in [false, true] {
        let (mut sim, a, b) = manual(ALL, Trigger::OnTurn);
        sim.fake(a).extract = Some(Ok(answer(9, "continue", "old words")));
        if same_prompt {
            sim.hook(
                a,
                HookEvent::Prompt { session: "s".into(), turn: None, text: "continue".into() },
            );
        }
        status(&mut sim, a, StatusState::Busy);
        sim.run(300);
        status(&mut sim, a, StatusState::Idle);
        sim.run(20_000);
        assert!(sim.fake(b).writes.is_empty(), "{:?}", sim.fake(b).writes);
        assert_eq!(phase(&mut sim, "a"), Phase::Idle);
    }
}

#[test]
fn compacting_in_the_middle_of_a_turn_does_not_end_it() {
    let (mut sim, a, _b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    sim.hook(a, prompt(1, "one"));
    sim.run(5_000);
    sim.hook(a, HookEvent::SessionStart { session: "s".into(), transcript: None });
    sim.run(3_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Busy);
}

#[test]
fn the_turn_that_a_background_tasks_end_starts_goes_on_with_the_hops_turn() {
    let (mut sim, a, b) = manual(ALL, Trigger::OnTurn);
    let hop = sim.send("a", "one");
    sim.run(700);
    sim.hook(a, prompt(1, "one"));
    status(&mut sim, a, StatusState::Busy);
    sim.run(500);
    sim.fake(a).extract = Some(Ok(answer(1, "one", "started it")));
    sim.hook(a, stop(1, "started it", 1));
    status(&mut sim, a, StatusState::Background);
    sim.run(20_000);
    assert_eq!(sim.hop(hop).state, HopState::Accepted);
    sim.hook(a, prompt(2, "<task-notification>"));
    status(&mut sim, a, StatusState::Busy);
    sim.run(500);
    sim.fake(a).extract = Some(Ok(answer(2, "<task-notification>", "all done")));
    sim.hook(a, stop(2, "all done", 0));
    status(&mut sim, a, StatusState::Idle);
    sim.run(3_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.answered_by.as_deref()), (HopState::Answered, Some("t2")));
    assert_eq!(sim.fake(b).submits, ["all done"]);
}

#[test]
fn a_refused_permission_is_over_when_its_dialog_is_gone_from_the_screen() {
    let (mut sim, a, _b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    sim.hook(a, HookEvent::PermissionAsked { tool: "Bash".into() });
    sim.show(a);
    assert_eq!(phase(&mut sim, "a"), Phase::Asking, "announced, not drawn yet");
    sim.fake(a).dialog = true;
    sim.show(a);
    sim.run(500);
    sim.fake(a).dialog = false;
    sim.show(a);
    sim.run(2_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

#[test]
fn an_agent_is_not_idle_right_after_its_dialog_closed() {
    let (mut sim, a, _b) = manual(r#""screen""#, Trigger::OnIdle);
    sim.fake(a).dialog = true;
    sim.show(a);
    let hop = sim.send("a", "text");
    sim.run(30_000);
    // Approved: the tool runs, but the first sign of work comes a quarter of a second later.
    sim.fake(a).dialog = false;
    sim.show(a);
    sim.run(240);
    assert_eq!(phase(&mut sim, "a"), Phase::Unknown);
    sim.fake(a).busy = true;
    sim.show(a);
    sim.run(5_000);
    assert!(sim.fake(a).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "busy");
}

#[test]
fn an_answer_that_begins_like_an_error_is_an_answer() {
    let (mut sim, a, b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    sim.hook(a, prompt(1, "what does 529 mean?"));
    sim.run(300);
    for row in ["❯ what does 529 mean?", "● API Error 529 means: overloaded"] {
        sim.fake(a).rows.push(row.into());
    }
    sim.show(a);
    sim.hook(a, stop(1, "API Error 529 means: overloaded", 0));
    sim.run(3_000);
    assert_eq!(sim.fake(b).submits.len(), 1);
}

#[test]
fn a_program_that_ends_before_its_answer_was_read_leaves_no_hop_open() {
    let (mut sim, a, _b) = manual(ALL, Trigger::OnTurn);
    let hop = sim.send("a", "one");
    sim.run(700);
    sim.hook(a, prompt(1, "one"));
    sim.run(500);
    sim.fake(a).extract = Some(Err(NoAnswer::NotYet));
    sim.hook(a, HookEvent::Stop { session: "s".into(), turn: id(1), answer: None, background: 0 });
    sim.run(100);
    sim.feed(Input::Exited { agent: a, code: Some(0), signal: None });
    assert_eq!(sim.hop(hop).state, HopState::Failed);
}

#[test]
fn an_interrupt_that_only_the_screen_shows_ends_the_turn_without_further_input() {
    let (mut sim, a, _b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    sim.hook(a, prompt(1, "one"));
    sim.run(300);
    sim.fake(a).rows.push("❯ one".into());
    sim.fake(a).rows.push("  ⎿  Interrupted · What should Claude do instead?".into());
    sim.show(a);
    sim.run(5_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

#[test]
fn asking_for_the_answer_in_a_turn_does_not_make_the_old_one_fire() {
    let (mut sim, a, b) = manual(ALL, Trigger::OnIdle);
    sim.fake(a).extract = Some(Ok(answer(9, "before", "old words")));
    sim.hook(a, prompt(1, "one"));
    sim.run(300);
    let p = AgentParams { project: sim::PROJECT.into(), agent: "a".into() };
    sim.request(sim::SHELL, Request::Answer(p)).unwrap();
    sim.fake(a).extract = Some(Err(NoAnswer::NotYet));
    sim.hook(a, stop(1, "new words", 0));
    sim.run(3_000);
    assert!(sim.fake(b).submits.is_empty(), "{:?}", sim.fake(b).submits);
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["new words"]);
}

#[test]
fn an_enter_of_a_person_in_an_empty_composer_does_not_make_a_hops_turn_theirs() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.open("b", ALL);
    let options = RouteOptions { max_rounds: Some(1), ..on(Trigger::OnTurn) };
    let route = sim.connect("a", "b", options);
    sim.human_prompt(a, "p");
    sim.run(10_000);
    sim.send("a", "more");
    sim.run(10_000);
    sim.send("a", "and more");
    sim.run(10_000);
    assert_eq!(sim.route(route).state, RouteState::Active, "each send is a chain of its own");
    // The same chain again: the route stops at its limit.
    let hop = sim.hops().last().unwrap().clone();
    let p = SendParams {
        project: sim::PROJECT.into(),
        target: "a".into(),
        text: "from inside".into(),
        deliver: None,
    };
    let b = sim.names["b"];
    sim.request_with(sim::SHELL, Some(b), None, Request::Send(p.clone())).unwrap();
    sim.run(10_000);
    assert_eq!(sim.route(route).state, RouteState::Stopped, "{hop:?}");
    sim.feed(Input::Human { agent: a, submits: true, rest: false });
    sim.run(2_000);
    sim.request_with(sim::SHELL, Some(b), None, Request::Send(p)).unwrap();
    sim.run(10_000);
    assert_eq!(sim.fake(a).submits.last().unwrap(), "from inside");
    assert_eq!(sim.route(route).state, RouteState::Stopped);
    assert!(sim.notices("rearmed").is_empty());
}

#[test]
fn two_prompts_in_one_turn_are_both_answered_by_it() {
    let (mut sim, a, _b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    let one = sim.send("a", "one");
    let two = sim.send("a", "two");
    sim.run(700);
    assert_eq!(sim.fake(a).submits, ["one"]);
    sim.hook(a, prompt(1, "one"));
    sim.hook(a, stop(1, "", 0));
    sim.run(900);
    assert_eq!(sim.fake(a).submits, ["one", "two"]);
    // The program goes on in the same turn.
    sim.hook(a, prompt(1, "two"));
    sim.run(100);
    sim.hook(a, stop(1, "both", 0));
    sim.run(20_000);
    assert_eq!(sim.hop(one).state, HopState::Answered);
    assert!(sim.hop(two).state.is_final(), "{:?}", sim.hop(two));
}

#[test]
fn on_turn_says_so_when_only_a_weak_sign_ended_the_turn() {
    let (mut sim, a, b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    // The hooks are switched off in the program: only its screen speaks.
    sim.feed(Input::Human { agent: a, submits: true, rest: false });
    sim.fake(a).busy = true;
    sim.show(a);
    sim.run(500);
    sim.fake(a).busy = false;
    sim.fake(a).rows.extend(["❯ p".into(), "● words".into(), "✻ Baked for 1s".into()]);
    sim.show(a);
    sim.run(5_000);
    assert!(sim.fake(b).writes.is_empty());
    let h = sim.hops().pop().expect("nothing is dropped silently");
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "no_record"));
}

#[test]
fn a_prompt_line_that_comes_after_its_turn_was_seen_to_end_is_no_second_turn() {
    let (mut sim, a, b) = manual(ALL, Trigger::OnTurn);
    // Without hooks, and with a record that is read late.
    status(&mut sim, a, StatusState::Busy);
    sim.run(400);
    status(&mut sim, a, StatusState::Idle);
    sim.fake(a).extract = Some(Ok(answer(1, "one", "first")));
    sim.run(600);
    record(&mut sim, a, RecordEvent::Prompt { turn: "t1".into(), text: "one".into(), human: true });
    record(
        &mut sim,
        a,
        RecordEvent::Answer { turn: id(1), message: "m1".into(), text: "first".into() },
    );
    record(&mut sim, a, RecordEvent::TurnEnd { turn: id(1) });
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["first"]);
    assert!(sim.notices("repeated").is_empty());
}

#[test]
fn a_prompt_whose_acceptance_was_given_up_still_belongs_to_its_chain() {
    let (mut sim, a, _b) = manual(r#""hook", "screen""#, Trigger::OnTurn);
    // The agent belongs to another chain so far.
    sim.human_prompt(a, "before");
    sim.hook(a, prompt(7, "before"));
    sim.run(100);
    sim.hook(a, stop(7, "", 0));
    sim.run(3_000);
    let hop = sim.send("a", "slow");
    sim.run(30_000);
    let h = sim.hop(hop);
    assert_eq!(h.state, HopState::Unconfirmed);
    sim.hook(a, prompt(1, "slow"));
    sim.run(100);
    sim.hook(a, stop(1, "words", 0));
    sim.run(5_000);
    let routed = sim.hops().pop().filter(|h| h.route.is_some()).expect("it fires");
    assert_eq!((routed.chain, routed.depth), (h.chain, 1));
    assert_eq!(sim.hop(hop).state, HopState::Unconfirmed, "a final state is never left");
}

#[test]
fn a_target_without_records_is_not_answered_before_it_has_worked() {
    let mut sim = Sim::new();
    let a = sim.open("a", r#""screen", "title""#);
    let f = sim.fake(a);
    (f.manual, f.hooks, f.records, f.status) = (true, false, false, false);
    let hop = sim.send("a", "go");
    sim.run(800);
    assert_eq!(sim.fake(a).submits, ["go"]);
    assert_eq!(sim.hop(hop).state, HopState::Accepted);
    sim.run(200);
    sim.fake(a).busy = true;
    sim.fake(a).title = "⠂ x".into();
    sim.show(a);
    sim.run(5_000);
    assert_eq!(sim.hop(hop).state, HopState::Accepted);
    sim.fake(a).busy = false;
    sim.fake(a).title.clear();
    sim.fake(a).rows.extend(["● words".into(), "✻ Baked for 1s".into()]);
    sim.show(a);
    sim.run(3_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
}

#[test]
fn a_title_that_never_said_busy_completes_nothing() {
    let (mut sim, a, b) = manual(r#""title", "screen""#, Trigger::OnIdle);
    sim.feed(Input::Human { agent: a, submits: true, rest: false });
    sim.fake(a).busy = true;
    sim.show(a);
    sim.run(500);
    // Idle again without a done line: a command that ended nothing, or an error of another kind.
    sim.fake(a).busy = false;
    sim.fake(a).rows.push("● words".into());
    sim.show(a);
    sim.run(20_000);
    assert!(sim.fake(b).writes.is_empty());
}

#[test]
fn a_command_of_the_programs_own_that_nobody_prompted_is_no_failed_hop() {
    let (mut sim, a, b) = manual(r#""status", "record""#, Trigger::OnTurn);
    sim.fake(a).extract = Some(Err(NoAnswer::NotYet));
    // `/clear` makes the status file say busy for a moment; the record has neither prompt nor answer.
    status(&mut sim, a, StatusState::Busy);
    sim.run(300);
    status(&mut sim, a, StatusState::Idle);
    sim.run(20_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
    assert!(sim.hops().is_empty(), "{:?}", sim.hops());
    assert!(sim.fake(b).submits.is_empty());
}

#[test]
fn background_tasks_that_a_person_ended_are_over_when_the_status_says_so() {
    let (mut sim, a, _b) = manual(r#""hook", "status", "screen""#, Trigger::OnTurn);
    sim.hook(a, prompt(1, "one"));
    sim.hook(a, stop(1, "done", 1));
    status(&mut sim, a, StatusState::Background);
    sim.run(3_000);
    assert_eq!(sim.info("a").reason_code, "background");
    status(&mut sim, a, StatusState::Idle);
    sim.run(3_000);
    assert_eq!(phase(&mut sim, "a"), Phase::Idle);
}

fn osc(sim: &mut Sim, a: AgentId, state: OscState) {
    sim.feed(Input::Osc { agent: a, state });
}

/// As Codex is: it reports its state in the terminal, and its record tells the rest.
const REPORTS: &str = r#""osc", "record", "screen""#;

#[test]
fn work_at_a_programs_start_is_no_turn() {
    let (mut sim, a, b) = manual(REPORTS, Trigger::OnTurn);
    sim.run(200);
    osc(&mut sim, a, OscState::Working);
    sim.run(100);
    assert_eq!(sim.info("a").reason_code, "startup");
    osc(&mut sim, a, OscState::Idle);
    sim.run(200);
    let hop = sim.send("a", "one");
    sim.run(1_000);
    assert_eq!(sim.hop(hop).state, HopState::Submitted, "nothing is waited for");
    sim.run(3_000);
    assert_eq!(sim.hops().len(), 1, "the route had nothing to tell");
    assert!(sim.fake(b).submits.is_empty());
}

#[test]
fn a_reported_error_takes_its_reason_from_the_record() {
    let (mut sim, a, _b) = manual(REPORTS, Trigger::OnTurn);
    osc(&mut sim, a, OscState::Idle);
    sim.run(300);
    let hop = sim.send("a", "one");
    sim.run(1_000);
    osc(&mut sim, a, OscState::Working);
    record(&mut sim, a, RecordEvent::Prompt { turn: "t1".into(), text: "one".into(), human: true });
    sim.run(500);
    assert_eq!(sim.hop(hop).state, HopState::Accepted);
    sim.fake(a).extract = Some(Err(NoAnswer::NotYet));
    osc(&mut sim, a, OscState::Error);
    sim.run(20);
    assert_eq!(sim.hop(hop).state, HopState::Accepted, "the record does not say yet what it was");
    sim.fake(a).extract = Some(Err(NoAnswer::ApiError { code: Some(400), text: "refused".into() }));
    sim.run(200);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "api_error"));
    assert!(h.reason_text.contains("400: refused"), "{h:?}");
}
