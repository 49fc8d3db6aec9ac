//! Turns and dialogs: what an Enter, a paste and an Escape do while something is going on, and how
//! the screen tells.

use super::{PATIENCE, Subject};
use crate::common::assert_never;
use std::time::Duration;

const A_WHILE: Duration = Duration::from_millis(400);

/// Presses Enter until the dialog is gone: some agents ignore one that comes at once.
async fn approve(s: &Subject) {
    let start = std::time::Instant::now();
    while s.facts().dialog.is_some() {
        assert!(start.elapsed() < PATIENCE, "{}", s.term.describe());
        s.term.write("\r");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// In a dialog a paste is ignored, whatever it holds, and does not show up later; Enter approves.
pub async fn enter_approves_a_dialog_and_a_paste_does_nothing(s: &Subject) {
    let (before, approved) = (s.submits().len(), s.approvals());
    let prompt = s.asking_prompt("enter");
    s.paste(&prompt).await;
    s.enter().await;
    let facts = s.wait("the dialog", |f| f.dialog.is_some()).await;
    assert_eq!(facts.composer, None, "a dialog is no composer: {}", s.term.describe());
    // Later than an agent needs to take keys in its dialog.
    tokio::time::sleep(A_WHILE).await;
    for text in ["deploy now", "1", "yes\n", "y", "two\nlines"] {
        s.term.paste(text);
    }
    assert_never("a paste answers a dialog", A_WHILE, || s.facts().dialog.is_none()).await;
    assert_eq!(s.approvals(), approved);
    approve(s).await;
    s.until("the approval", || s.approvals() == approved + 1).await;
    s.idle().await;
    assert_eq!(s.submits().len(), before + 1);
}

/// A bare digit is an answer, too.
pub async fn a_digit_is_a_hotkey_in_a_dialog(s: &Subject) {
    let approved = s.approvals();
    let prompt = s.asking_prompt("digit");
    s.paste(&prompt).await;
    s.enter().await;
    s.wait("the dialog", |f| f.dialog.is_some()).await;
    tokio::time::sleep(A_WHILE).await;
    s.term.write("1");
    s.until("the approval", || s.approvals() == approved + 1).await;
    s.idle().await;
}

/// A dialog that opens over a draft hides it and gives it back, and Esc approves nothing.
pub async fn a_draft_survives_a_dialog(s: &Subject) {
    let (before, approved) = (s.submits().len(), s.approvals());
    s.long_turn("draft", true).await;
    s.paste("half a thought").await;
    s.open_dialog("draft").await;
    assert_eq!(s.facts().composer, None);
    tokio::time::sleep(A_WHILE).await;
    s.term.write("\x1b");
    s.shows("half a thought").await;
    assert_eq!((s.approvals(), s.submits().len()), (approved, before + 1));
    s.term.write(s.profile.composer.clear.repeat(2));
    // The demo agent's long turn goes on; Claude's ended with the refusal.
    s.wait("an empty composer", |f| f.composer.as_ref().is_some_and(|c| c.text.is_empty())).await;
    if s.works() {
        s.term.write("\x1b");
    }
    s.idle().await;
}

/// While a turn runs the screen and the title say so; a prompt submitted meanwhile waits; Esc ends
/// the turn and says so, without a done line of its own; then the queued prompt has its turn.
pub async fn busy_is_seen_and_prompts_wait(s: &Subject) {
    let before = s.submits().len();
    s.long_turn("busy", false).await;
    s.wait("a busy screen", |f| f.busy.is_some() && f.composer.is_some()).await;
    s.until("a busy title", || s.title_busy()).await;
    // A draft may hide the footer that says so.
    s.paste("queued").await;
    assert!(s.works(), "{}", s.term.describe());
    s.enter().await;
    s.wait("an empty composer", |f| f.composer.as_ref().is_some_and(|c| c.text.is_empty())).await;
    assert!(s.works(), "{}", s.term.describe());
    s.term.write("\x1b");
    s.until("the queued prompt", || s.submits().len() == before + 2).await;
    assert_eq!(s.submits()[before + 1], "queued");
    s.idle().await;
}

/// Esc ends a turn: the screen says so on a row that the profile knows.
pub async fn an_interrupted_turn_says_so(s: &Subject) {
    s.long_turn("interrupt", false).await;
    s.until("a sign of work", || s.works()).await;
    let said = |s: &Subject| s.rows_matching(&s.profile.screen.interrupted).len();
    let before = said(s);
    s.term.write("\x1b");
    s.until("the interruption's row", || said(s) == before + 1).await;
    s.idle().await;
}

/// An error of the model's service ends a turn, on a row that the profile knows.
pub async fn a_failed_turn_says_so(s: &Subject) {
    let prompt = s.failing_prompt();
    s.paste(&prompt).await;
    s.enter().await;
    s.until("the error's row", || !s.rows_matching(&s.profile.screen.error).is_empty()).await;
    s.idle().await;
}
