//! The contract on the demo agent, the stand-in of most other tests. `real_contract` holds the real
//! agents to the very same.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, reason = "helpers outside test functions may fail the test too")]

mod common;
mod suite;

use suite::{Subject, Which, checks, turns};

async fn demo() -> Subject {
    Subject::start(Which::Demo).await
}

#[tokio::test]
async fn enter_submits_exactly_the_paste() {
    checks::enter_submits_exactly_the_paste(&demo().await).await;
}

#[tokio::test]
async fn lines_pasted_one_by_one_arrive_as_they_were() {
    checks::lines_pasted_one_by_one_arrive_as_they_were(&demo().await).await;
}

#[tokio::test]
async fn any_script_is_recognised_and_arrives_as_it_was() {
    checks::any_script_is_recognised_and_arrives_as_it_was(&demo().await).await;
}

#[tokio::test]
async fn a_long_paste_has_a_stand_in_and_arrives_whole() {
    checks::a_long_paste_has_a_stand_in_and_arrives_whole(&demo().await).await;
}

#[tokio::test]
async fn text_with_enter_in_one_write_submits_only_when_short() {
    checks::text_with_enter_in_one_write_submits_only_when_short(&demo().await).await;
}

#[tokio::test]
async fn the_clearing_key_empties_any_draft() {
    checks::the_clearing_key_empties_any_draft(&demo().await).await;
}

#[tokio::test]
async fn a_resize_changes_no_draft() {
    checks::a_resize_changes_no_draft(&demo().await).await;
}

#[tokio::test]
async fn enter_approves_a_dialog_and_a_paste_does_nothing() {
    turns::enter_approves_a_dialog_and_a_paste_does_nothing(&demo().await).await;
}

#[tokio::test]
async fn a_digit_is_a_hotkey_in_a_dialog() {
    turns::a_digit_is_a_hotkey_in_a_dialog(&demo().await).await;
}

#[tokio::test]
async fn a_draft_survives_a_dialog() {
    turns::a_draft_survives_a_dialog(&demo().await).await;
}

#[tokio::test]
async fn busy_is_seen_and_prompts_wait() {
    turns::busy_is_seen_and_prompts_wait(&demo().await).await;
}

#[tokio::test]
async fn an_interrupted_turn_says_so() {
    turns::an_interrupted_turn_says_so(&demo().await).await;
}

#[tokio::test]
async fn a_failed_turn_says_so() {
    turns::a_failed_turn_says_so(&demo().await).await;
}
