//! Delivery rules, with simulated time: what is typed, when, and above all when nothing is.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::core::Input;
use mado::core::dialect::{HookEvent, StatusState};
use mado::proto::*;
use sim::{ALL, Sim};

#[test]
fn a_send_to_an_idle_agent_is_typed_at_once_and_answered() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "hello\nworld");
    sim.run(3_000);
    let h = sim.hop(hop);
    assert_eq!(h.state, HopState::Answered, "{h:?}");
    assert_eq!(h.answered_by.as_deref(), Some("t1"));
    assert_eq!(sim.fake(a).submits, ["hello\nworld"]);
    assert_eq!(sim.fake(a).writes.iter().filter(|w| w.1 == "\r").count(), 1);
}

#[test]
fn lines_are_typed_50_to_80_ms_apart_as_pastes_with_their_newline_inside() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.send("a", "one\n\nthree");
    sim.run(3_000);
    let writes = sim.fake(a).writes.clone();
    let texts: Vec<&str> = writes.iter().map(|w| w.1.as_str()).collect();
    let p = |s: &str| format!("\u{1b}[200~{s}\u{1b}[201~");
    assert_eq!(texts, [p("one\n").as_str(), &p("\n"), &p("three"), "\r"]);
    for pair in writes[..3].windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!((50..=80).contains(&gap), "{gap}");
    }
    assert!(writes[3].0 - writes[2].0 >= 500);
}

#[test]
fn nothing_is_typed_while_a_dialog_waits_and_it_goes_after_it() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).dialog = true;
    sim.show(a);
    let hop = sim.send("a", "deploy now");
    sim.run(20_000);
    assert!(sim.fake(a).writes.is_empty());
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Queued, "asks"));
    assert!(h.reason_text.contains("Do you want to proceed"), "{}", h.reason_text);
    assert_eq!(sim.notices("asks").len(), 1);
    sim.fake(a).dialog = false;
    sim.show(a);
    sim.run(3_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
    assert_eq!(sim.fake(a).approvals, 0);
}

#[test]
fn enter_is_withheld_when_a_dialog_opens_between_text_and_enter_at_any_moment() {
    for at in (0..900).step_by(7) {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        let hop = sim.send("a", "one\ntwo\nthree");
        sim.after(at, move |s| {
            // As in a turn that began from outside: the dialog simply stands there.
            s.fake(a).dialog = true;
            s.show(a);
        });
        sim.run(5_000);
        let submitted = !sim.fake(a).submits.is_empty();
        assert_eq!(sim.fake(a).approvals, 0, "dialog at {at} ms");
        if !submitted {
            assert_eq!(sim.hop(hop).reason_code, "asks", "dialog at {at} ms");
            sim.fake(a).dialog = false;
            sim.show(a);
            sim.run(5_000);
            let h = sim.hop(hop);
            assert_eq!(h.state, HopState::Answered, "dialog at {at} ms: {h:?}");
        }
        assert_eq!(sim.fake(a).submits, ["one\ntwo\nthree"], "dialog at {at} ms");
    }
}

#[test]
fn a_hook_that_announces_a_dialog_withholds_enter_before_it_is_drawn() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "text");
    sim.after(450, move |s| s.hook(a, HookEvent::PermissionAsked { tool: "Bash".into() }));
    sim.run(3_000);
    assert!(sim.fake(a).submits.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "asks");
}

#[test]
fn text_sent_right_after_the_start_waits_for_the_composer() {
    let mut sim = Sim::new();
    let a = sim.open_blank("a", ALL);
    let hop = sim.send("a", "early");
    sim.run(5_000);
    assert!(sim.fake(a).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "starting");
    sim.show(a);
    sim.run(3_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
}

#[test]
fn a_draft_is_never_touched_and_the_hop_waits() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.feed(Input::Human { agent: a, submits: false, rest: true });
    sim.fake(a).composer = "half a li".into();
    sim.show(a);
    sim.run(2_000);
    let hop = sim.send("a", "text");
    sim.run(10_000);
    assert!(sim.fake(a).writes.is_empty());
    assert_eq!(sim.fake(a).composer, "half a li");
    assert_eq!(sim.hop(hop).reason_code, "draft");
    assert!(sim.info("a").draft);
    sim.fake(a).composer.clear();
    sim.show(a);
    sim.run(3_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
}

#[test]
fn two_hops_and_a_send_for_one_target_are_three_turns_in_order() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    for text in ["one", "two\nlines", "three"] {
        sim.send("a", text);
    }
    sim.run(15_000);
    assert_eq!(sim.fake(a).submits, ["one", "two\nlines", "three"]);
    assert!(sim.hops().iter().all(|h| h.state == HopState::Answered));
}

#[test]
fn a_key_of_a_person_during_typing_stops_the_hop_for_good() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "one\ntwo\nthree\nfour");
    sim.after(250, move |s| s.feed(Input::Human { agent: a, submits: false, rest: true }));
    sim.run(10_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Stopped, "human_took_over"));
    assert!(sim.fake(a).submits.is_empty());
}

#[test]
fn pause_stops_at_once_and_resume_clears_what_it_left_and_types_again() {
    for at in (100..800).step_by(13) {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        let hop = sim.send("a", "one\ntwo\nthree");
        sim.run(at);
        let before = sim.fake(a).writes.len();
        let entered = sim.fake(a).writes.iter().any(|w| w.1 == "\r");
        sim.pause();
        sim.run(5_000);
        assert_eq!(sim.fake(a).writes.len(), before, "paused at {at} ms");
        sim.resume();
        sim.run(5_000);
        let h = sim.hop(hop);
        assert_eq!(h.state, HopState::Answered, "paused at {at} ms (entered {entered}): {h:?}");
        assert_eq!(sim.fake(a).submits, ["one\ntwo\nthree"], "paused at {at} ms");
    }
}

#[test]
fn after_a_pause_a_composer_that_holds_more_than_mado_typed_is_left_alone() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "one\ntwo\nthree");
    sim.run(200);
    sim.pause();
    sim.fake(a).composer.push_str(" and mine");
    sim.show(a);
    sim.resume();
    sim.run(5_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Stopped, "residue_left"));
    assert!(sim.fake(a).composer.ends_with(" and mine"));
    assert!(sim.fake(a).submits.is_empty());
}

#[test]
fn a_second_enter_only_when_the_text_still_stands_there_and_never_a_third() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).eats_enter = 1;
    let hop = sim.send("a", "text");
    sim.run(3_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
    assert_eq!(sim.fake(a).writes.iter().filter(|w| w.1 == "\r").count(), 2);

    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).eats_enter = 9;
    let hop = sim.send("a", "text");
    sim.run(30_000);
    assert_eq!(sim.hop(hop).state, HopState::Unconfirmed);
    assert_eq!(sim.fake(a).writes.iter().filter(|w| w.1 == "\r").count(), 2);
}

#[test]
fn a_stopped_agent_gets_one_enter_because_its_screen_is_no_fresh_evidence() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.send("a", "text");
    // Frozen after the text was rendered and before Enter is read.
    sim.after(400, move |s| s.fake(a).frozen = true);
    sim.run(30_000);
    assert_eq!(sim.fake(a).writes.iter().filter(|w| w.1 == "\r").count(), 1);
}

#[test]
fn a_slow_agent_that_draws_but_has_not_read_the_enter_gets_no_second_one() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.send("a", "text");
    sim.after(400, move |s| s.fake(a).slow = true);
    for at in (500..3_000).step_by(50) {
        sim.after(at, move |s| s.show(a));
    }
    sim.run(30_000);
    assert_eq!(sim.fake(a).writes.iter().filter(|w| w.1 == "\r").count(), 1);
}

#[test]
fn text_that_never_appears_in_the_composer_is_not_submitted() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).blind = true;
    let hop = sim.send("a", "text");
    sim.run(20_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "text_not_seen"));
    assert!(sim.fake(a).submits.is_empty());
}

#[test]
fn the_programs_own_stand_in_counts_as_the_text() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).stand_in = Some("[Pasted text #1 +24 lines]".into());
    let text: Vec<String> = (0..25).map(|n| format!("line {n}")).collect();
    let hop = sim.send("a", &text.join("\n"));
    sim.run(5_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
    assert_eq!(sim.fake(a).writes.len(), 2, "one paste, one Enter");
}

#[test]
fn a_trailing_newline_does_not_submit_twice() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.send("a", "one\ntwo\n\n");
    sim.run(5_000);
    assert_eq!(sim.fake(a).submits, ["one\ntwo"]);
}

#[test]
fn command_like_tokens_are_defused_and_control_bytes_removed_with_a_note() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "/exit \u{1b}[201~\rrm -rf x\u{7f}\u{9b}31m\u{202e} see @file");
    sim.run(5_000);
    assert_eq!(sim.fake(a).submits, [" /exit rm -rf x see @file "]);
    let notes = sim.hop(hop).notes.join("; ");
    assert!(notes.contains("2 escape sequences"), "{notes}");
    assert!(notes.contains("defused"), "{notes}");
}

#[test]
fn background_tasks_keep_an_agent_busy() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.hook(a, HookEvent::Stop { session: "s".into(), turn: None, answer: None, background: 2 });
    sim.feed(Input::Status { agent: a, state: StatusState::Background });
    sim.show(a);
    let hop = sim.send("a", "text");
    sim.run(60_000);
    assert_eq!(sim.hop(hop).reason_code, "background");
    assert!(sim.fake(a).writes.is_empty());
}

#[test]
fn a_full_disk_stops_the_hop_before_its_first_byte_and_says_so() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.store_fails = true;
    let hop = sim.send("a", "text");
    sim.run(5_000);
    assert!(sim.fake(a).writes.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "store");
    assert!(!sim.notices("store").is_empty());
    sim.store_fails = false;
    sim.resume();
    sim.run(5_000);
    let h = sim.hop(hop);
    assert!(matches!(h.state, HopState::Answered | HopState::Failed), "{h:?}");
}

#[test]
fn a_target_that_ends_fails_what_waits_for_it() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).dialog = true;
    sim.show(a);
    let hop = sim.send("a", "text");
    sim.run(100);
    sim.feed(Input::Exited { agent: a, code: Some(1), signal: None });
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Failed, "target_exited"));
}

#[test]
fn every_hop_ends_in_exactly_one_final_state() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.send("a", "one");
    sim.send("a", "two");
    sim.after(900, move |s| s.feed(Input::Human { agent: a, submits: false, rest: true }));
    sim.run(60_000);
    let mut finals = std::collections::BTreeMap::new();
    for (hop, _) in &sim.records {
        if hop.state.is_final() {
            *finals.entry(hop.id).or_insert(0) += 1;
        }
    }
    assert_eq!(finals.len(), 2);
    assert!(finals.values().all(|n| *n == 1), "{finals:?}");
}

#[test]
fn an_enter_that_the_terminal_refused_is_decided_anew() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).refuse_enter = 1;
    let hop = sim.send("a", "text");
    sim.run(3_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
    assert_eq!(sim.fake(a).submits, ["text"]);
    let intents: Vec<Option<bool>> = sim.records.iter().map(|(_, enter)| *enter).collect();
    let entered = |e: &&Option<bool>| **e == Some(true);
    assert_eq!(intents.iter().filter(entered).count(), 2, "{intents:?}");
    // Between the two the store must not believe in an Enter that was never sent.
    let first = intents.iter().position(|e| *e == Some(true)).unwrap();
    assert_eq!(intents[first + 1], Some(false), "{intents:?}");
}

#[test]
fn a_dialog_that_made_the_terminal_refuse_the_enter_keeps_it_back() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).refuse_enter = 1;
    let hop = sim.send("a", "text");
    while sim.fake(a).refuse_enter > 0 {
        sim.run(10);
    }
    sim.fake(a).dialog = true;
    sim.show(a);
    sim.run(5_000);
    assert!(sim.fake(a).submits.is_empty());
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Queued, "asks"));
    sim.fake(a).dialog = false;
    sim.show(a);
    sim.run(10_000);
    assert_eq!(sim.fake(a).submits, ["text"]);
}

#[test]
fn no_second_enter_once_paused_or_once_a_person_typed() {
    for pause in [true, false] {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        sim.fake(a).eats_enter = 9;
        sim.send("a", "text");
        while !sim.fake(a).writes.iter().any(|w| w.1 == "\r") {
            sim.run(10);
        }
        if pause {
            sim.pause();
        } else {
            sim.feed(Input::Human { agent: a, submits: false, rest: true });
        }
        sim.run(30_000);
        assert_eq!(sim.fake(a).writes.iter().filter(|w| w.1 == "\r").count(), 1, "pause {pause}");
    }
}

#[test]
fn an_enter_that_has_not_reached_the_terminal_is_taken_back_by_a_pause() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "text");
    sim.run(400);
    sim.fake(a).clogged = true;
    sim.run(400);
    assert_eq!(sim.fake(a).pending.len(), 1, "the Enter waits");
    sim.pause();
    assert!(sim.fake(a).pending.is_empty());
    sim.unclog(a);
    sim.run(5_000);
    assert!(sim.fake(a).submits.is_empty());
    assert_eq!(sim.hop(hop).reason_code, "paused");
    sim.resume();
    sim.run(5_000);
    assert_eq!(sim.fake(a).submits, ["text"]);
}

#[test]
fn a_program_that_does_not_read_gives_the_hop_back_and_nothing_arrives_late() {
    for takes in 0..24 {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        sim.fake(a).clogged = true;
        sim.fake(a).takes = takes;
        let hop = sim.send("a", "some words\nand more");
        sim.run(8_000);
        let h = sim.hop(hop);
        assert_eq!(h.state, HopState::Queued, "takes {takes}: {h:?}");
        let dirty = !sim.fake(a).composer.is_empty();
        sim.unclog(a);
        sim.show(a);
        sim.run(8_000);
        assert_eq!(sim.fake(a).submits, ["some words\nand more"], "takes {takes}, dirty {dirty}");
        assert!(!sim.fake(a).pasting);
    }
}

#[test]
fn an_enter_that_does_not_get_through_is_decided_anew() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "text");
    sim.run(400);
    sim.fake(a).clogged = true;
    sim.run(300);
    assert_eq!(sim.fake(a).pending.len(), 1);
    sim.run(7_000);
    assert_eq!(sim.fake(a).pending.len(), 1, "looked at and tried again");
    sim.fake(a).dialog = true;
    sim.show(a);
    assert!(sim.fake(a).pending.is_empty(), "it must not go into the dialog later");
    sim.unclog(a);
    sim.run(10_000);
    assert_eq!(sim.fake(a).approvals, 0);
    assert_eq!(sim.hop(hop).state, HopState::Queued);
}

#[test]
fn a_look_that_is_never_answered_is_asked_again() {
    for deaf_at in [0, 700] {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        sim.fake(a).deaf = u32::from(deaf_at == 0);
        let hop = sim.send("a", "text");
        if deaf_at > 0 {
            sim.run(400);
            sim.fake(a).deaf = 1;
        }
        sim.run(15_000);
        assert_eq!(sim.hop(hop).state, HopState::Answered);
        assert_eq!(sim.fake(a).submits, ["text"]);
    }
}

#[test]
fn a_paste_that_was_cut_off_gets_its_end_before_a_person_types_into_it() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).clogged = true;
    let hop = sim.send("a", "some words");
    sim.run(10);
    // The terminal gives up what a key made outdated, then tells the key.
    let (token, text) = sim.fake(a).pending.remove(0);
    sim.fake(a).clogged = false;
    sim.fake(a).read(&text[..10]);
    assert!(sim.fake(a).pasting);
    sim.feed(Input::WriteDropped { agent: a, token, written: 10 });
    sim.feed(Input::Human { agent: a, submits: false, rest: true });
    sim.run(50);
    assert!(!sim.fake(a).pasting);
    sim.run(5_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Stopped, "human_took_over"));
    assert!(sim.fake(a).submits.is_empty());
}

#[test]
fn after_a_pause_nothing_is_typed_again_before_the_program_has_shown_what_it_got() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).frozen = true;
    let hop = sim.send("a", "one\ntwo");
    sim.run(130);
    assert_eq!(sim.fake(a).writes.len(), 2, "both lines are in the terminal");
    sim.pause();
    sim.resume();
    let other = sim.send("a", "other");
    sim.run(20_000);
    assert_eq!(sim.fake(a).writes.len(), 2, "it cannot know what the composer holds");
    assert_eq!(sim.hop(hop).reason_code, "leftover");
    sim.thaw(a);
    sim.run(10_000);
    assert_eq!(sim.fake(a).submits, ["one\ntwo", "other"]);
    assert_eq!(sim.hop(other).state, HopState::Answered);
}

#[test]
fn a_full_disk_at_the_enter_keeps_it_back_and_the_hop_waits() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "text");
    sim.run(400);
    sim.store_fails = true;
    sim.run(5_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Queued, "store"));
    assert!(sim.fake(a).submits.is_empty());
    assert_eq!(sim.notices("store").len(), 1);
    sim.store_fails = false;
    sim.resume();
    sim.run(5_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
    assert_eq!(sim.fake(a).submits, ["text"]);
}

#[test]
fn a_full_disk_after_the_enter_does_not_call_a_submitted_hop_failed() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "text");
    while sim.fake(a).submits.is_empty() {
        sim.run(5);
    }
    sim.feed(Input::StoreFailed { error: "No space left on device".into() });
    sim.run(5_000);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
}

#[test]
fn a_program_that_switches_bracketed_paste_off_gets_no_text() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "one\ntwo\nthree");
    sim.run(100);
    let before = sim.fake(a).writes.len();
    sim.fake(a).unbracketed = true;
    sim.run(10_000);
    assert!(sim.fake(a).writes.len() <= before + 1);
    assert_eq!(sim.fake(a).submits.len(), 0);
    let h = sim.hop(hop);
    assert!(h.reason_code == "no_bracketed_paste" || h.reason_code == "text_not_seen", "{h:?}");
}

#[test]
fn what_mado_left_in_a_composer_is_no_draft_of_a_person() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.send("a", "one\ntwo\nthree");
    sim.run(200);
    sim.pause();
    assert!(!sim.info("a").draft);
    sim.fake(a).composer.push('!');
    sim.show(a);
    assert!(sim.info("a").draft);
}

#[test]
fn clearing_that_a_dialog_interrupted_goes_on_after_it() {
    for at in (0..300).step_by(9) {
        let mut sim = Sim::new();
        let a = sim.open("a", ALL);
        let hop = sim.send("a", "one\ntwo\nthree\nfour");
        sim.run(330);
        sim.pause();
        sim.resume();
        sim.run(at);
        sim.fake(a).dialog = true;
        sim.show(a);
        sim.run(2_000);
        sim.fake(a).dialog = false;
        sim.show(a);
        sim.run(8_000);
        assert_eq!(sim.fake(a).submits, ["one\ntwo\nthree\nfour"], "dialog at {at} ms");
        assert_eq!(sim.hop(hop).state, HopState::Answered);
        assert_eq!(sim.fake(a).approvals, 0);
    }
}

#[test]
fn a_text_that_stands_on_the_screen_already_is_no_acceptance() {
    for alt in [None, Some(24)] {
        let mut sim = Sim::new();
        let a = sim.open("a", r#""screen""#);
        let f = sim.fake(a);
        (f.manual, f.alt) = (true, alt);
        f.rows.extend(["❯ continue".into(), "● done".into(), "✻ Baked for 1s".into()]);
        sim.show(a);
        sim.run(1_000);
        let hop = sim.send("a", "continue");
        sim.run(400);
        // The Enter clears the composer (a menu took it), but no turn begins.
        sim.fake(a).eats_enter = 1;
        sim.run(100);
        sim.fake(a).composer.clear();
        sim.show(a);
        sim.run(20_000);
        assert_eq!(sim.hop(hop).state, HopState::Unconfirmed, "alternate screen: {alt:?}");
        // And when it does, the second copy tells.
        let hop = sim.send("a", "continue");
        sim.run(1_500);
        assert_eq!(sim.hop(hop).state, HopState::Accepted, "alternate screen: {alt:?}");
    }
}

#[test]
fn a_target_that_is_restarted_while_it_is_typed_into_gets_the_text_again() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "one\ntwo\nthree");
    sim.run(150);
    let p = AgentParams { project: sim::PROJECT.into(), agent: "a".into() };
    sim.fake(a).composer.clear();
    sim.request(sim::SHELL, Request::Restart(p)).unwrap();
    sim.run(100);
    sim.show(a);
    sim.run(5_000);
    assert_eq!(sim.fake(a).submits, ["one\ntwo\nthree"]);
    assert_eq!(sim.hop(hop).state, HopState::Answered);
}

#[test]
fn a_target_that_cannot_be_started_again_fails_what_waits_for_it() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.fake(a).dialog = true;
    sim.show(a);
    let hop = sim.send("a", "text");
    let p = AgentParams { project: sim::PROJECT.into(), agent: "a".into() };
    sim.request(sim::SHELL, Request::Restart(p)).unwrap();
    let error = ErrorInfo::new("spawn", "no such program", "install it");
    sim.feed(Input::SpawnFailed { agent: a, error });
    assert_eq!(sim.hop(hop).state, HopState::Failed);
}

#[test]
fn rows_that_the_program_hides_are_a_draft_too() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let mut view = sim.fake(a).view();
    let rule = view.rows.iter().position(|r| r.text.starts_with("──")).unwrap();
    view.rows[rule].text = "─── ↑ 3 more ───".into();
    view.rows[rule + 1].text = String::new();
    view.bytes = 99;
    sim.feed(Input::Screen { agent: a, view: Box::new(view) });
    sim.send("a", "text");
    assert!(sim.info("a").draft);
}

#[test]
fn blanks_that_were_left_and_cannot_be_seen_are_cleared_too() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let fake = sim.fake(a);
    (fake.clogged, fake.takes) = (true, 8);
    sim.send("a", "    indented");
    sim.run(6_000);
    assert_eq!(sim.fake(a).composer, "  ");
    sim.unclog(a);
    sim.show(a);
    sim.run(5_000);
    assert_eq!(sim.fake(a).submits, ["    indented"]);
}

#[test]
fn what_a_person_submits_of_a_hop_that_was_taken_back_is_not_typed_again() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "one\ntwo");
    sim.run(500);
    assert_eq!(sim.fake(a).composer, "one\ntwo");
    sim.pause();
    sim.run(100);
    // The person sends it after all.
    sim.feed(Input::Human { agent: a, submits: true, rest: false });
    let prompt = std::mem::take(&mut sim.fake(a).composer);
    sim.show(a);
    sim.begin(a, &prompt);
    sim.run(5_000);
    sim.resume();
    sim.run(10_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Stopped, "human_took_over"));
    assert!(sim.fake(a).writes.iter().all(|w| w.1 != "\r"), "{:?}", sim.fake(a).writes);
}

#[test]
fn a_key_that_makes_the_terminal_refuse_the_enter_stops_the_hop() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    let hop = sim.send("a", "text");
    sim.fake(a).clogged = false;
    while sim.fake(a).composer != "text" {
        sim.run(5);
    }
    // The Enter is decided, but does not reach the terminal before the key does.
    sim.fake(a).clogged = true;
    sim.run(700);
    assert!(sim.fake(a).pending.iter().any(|(_, text)| text == "\r"), "{:?}", sim.fake(a).pending);
    sim.feed(Input::Human { agent: a, submits: false, rest: true });
    let token = sim.fake(a).pending.remove(0).0;
    sim.feed(Input::WriteDropped { agent: a, token, written: 0 });
    sim.fake(a).clogged = false;
    sim.run(10_000);
    let h = sim.hop(hop);
    assert_eq!((h.state, h.reason_code.as_str()), (HopState::Stopped, "human_took_over"));
    assert!(sim.fake(a).submits.is_empty());
}
