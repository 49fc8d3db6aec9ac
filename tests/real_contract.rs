//! The contract on the real Claude Code, both versions, on the real Codex and on OpenCode. A start takes
//! seconds, so several parts share one.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, reason = "helpers outside test functions may fail the test too")]

mod common;
mod suite;

use suite::{Subject, Which, checks, turns};

async fn composer(which: Which) {
    let s = Subject::start(which).await;
    checks::enter_submits_exactly_the_paste(&s).await;
    checks::lines_pasted_one_by_one_arrive_as_they_were(&s).await;
    checks::a_long_paste_has_a_stand_in_and_arrives_whole(&s).await;
    checks::text_with_enter_in_one_write_submits_only_when_short(&s).await;
}

async fn drafts(which: Which) {
    let s = Subject::start(which).await;
    checks::any_script_is_recognised_and_arrives_as_it_was(&s).await;
    checks::the_clearing_key_empties_any_draft(&s).await;
    checks::a_resize_changes_no_draft(&s).await;
}

async fn dialogs(which: Which) {
    let s = Subject::start(which).await;
    turns::enter_approves_a_dialog_and_a_paste_does_nothing(&s).await;
    turns::a_digit_is_a_hotkey_in_a_dialog(&s).await;
    turns::a_draft_survives_a_dialog(&s).await;
}

async fn busy(which: Which) {
    let s = Subject::start(which).await;
    turns::busy_is_seen_and_prompts_wait(&s).await;
    turns::an_interrupted_turn_says_so(&s).await;
    turns::a_failed_turn_says_so(&s).await;
}

#[tokio::test]
async fn real_claude_takes_prompts_as_the_demo_agent_does() {
    composer(Which::Claude).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_takes_prompts_as_the_demo_agent_does() {
    composer(Which::OldClaude).await;
}

#[tokio::test]
async fn real_claude_keeps_drafts_as_the_demo_agent_does() {
    drafts(Which::Claude).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_keeps_drafts_as_the_demo_agent_does() {
    drafts(Which::OldClaude).await;
}

#[tokio::test]
async fn real_claude_has_dialogs_as_the_demo_agent_does() {
    dialogs(Which::Claude).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_has_dialogs_as_the_demo_agent_does() {
    dialogs(Which::OldClaude).await;
}

#[tokio::test]
async fn real_claude_shows_its_turns_as_the_demo_agent_does() {
    busy(Which::Claude).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_shows_its_turns_as_the_demo_agent_does() {
    busy(Which::OldClaude).await;
}

#[tokio::test]
async fn real_codex_takes_prompts_as_the_demo_agent_does() {
    let s = Subject::start(Which::Codex).await;
    checks::enter_submits_exactly_the_paste(&s).await;
    checks::lines_pasted_one_by_one_arrive_as_they_were(&s).await;
    checks::a_long_paste_has_a_stand_in_and_arrives_whole(&s).await;
    checks::text_with_enter_in_one_write_never_submits(&s).await;
}

#[tokio::test]
async fn real_codex_keeps_drafts_as_the_demo_agent_does() {
    drafts(Which::Codex).await;
}

#[tokio::test]
async fn real_codex_has_dialogs_as_the_demo_agent_does() {
    dialogs(Which::Codex).await;
}

#[tokio::test]
async fn real_codex_shows_its_turns_as_the_demo_agent_does() {
    let s = Subject::start(Which::Codex).await;
    turns::an_interrupted_turn_says_so(&s).await;
    turns::a_failed_turn_says_so(&s).await;
}

/// Lines that are pasted one by one may change places in it, and Esc must be pressed twice, so it shares a
/// part of the contract alone.
#[tokio::test]
async fn real_opencode_takes_long_prompts_clears_drafts_and_has_dialogs_as_the_demo_agent_does() {
    let s = Subject::start(Which::Opencode).await;
    checks::a_long_paste_has_a_stand_in_and_arrives_whole(&s).await;
    checks::the_clearing_key_empties_any_draft(&s).await;
    turns::enter_approves_a_dialog_and_a_paste_does_nothing(&s).await;
}
