//! The race that mado must never lose, on the real Claude Code: see `common/sweep.rs`. Nothing may have been
//! approved.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/claudes.rs"]
mod claudes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/sweep.rs"]
mod sweep;
#[path = "common/world.rs"]
mod world;

use std::path::PathBuf;

use claudes::Claudes;
use common::claude;
use common::mock::{Kind, Matcher, Reply, Request, View};
use regex::Regex;
use serde_json::json;
use sweep::{Arena, How, Ring, TARGET, Trigger};
use world::World;

struct Claude {
    c: Claudes,
    hit: PathBuf,
}

impl Ring for Claude {
    fn world(&self) -> &World {
        &self.c.world
    }

    fn mock(&self) -> &View {
        &self.c.mock
    }

    fn asks(&self, screen: &str) -> bool {
        screen.contains("Do you want to proceed?")
    }

    /// A prompt from outside the terminal, answered with a tool call.
    fn load(&self, n: usize) -> Trigger {
        // The agent drops a message that is the same as the one before.
        let message = self.c.peer_message(TARGET, &format!("OPEN-A-DIALOG, {n}"));
        Box::new(move || message.send())
    }

    fn approved(&self) -> bool {
        let results = |r: &Request| r.kind == Kind::ToolResult;
        self.hit.exists() || self.c.mock.requests().iter().any(results)
    }
}

async fn arena(how: How, vars: &[(&str, &str)]) -> Arena<Claude> {
    let c = Claudes::new(&claude::binary(), vars).await;
    let bash = || Reply::bash("touch hit");
    c.mock.on("OPEN-A-DIALOG", bash());
    // A person's `x` behind whatever the composer holds.
    c.mock.on(Matcher::Matches(Regex::new("x$").unwrap()), bash());
    // 2.1.332 opens no dialog in the first 1.5 s after a key in its composer. The Enter comes later than
    // that here, or no dialog could come close to it.
    let late = json!({"submit": {"wait_ms": 2300}});
    c.begin(TARGET, &["--permission-mode", "manual"], Some(late));
    let hit = c.world.site.work().join("hit");
    Arena::new(Claude { c, hit }, how).await
}

#[tokio::test]
async fn real_claude_no_dialog_around_an_enter_is_approved() {
    sweep::short(arena(How::Peer, &[]).await, &[-600, -300, -50, 0, 50, 400]).await;
}

#[tokio::test]
async fn real_claude_no_dialog_of_an_agent_stopped_around_an_enter_is_approved() {
    sweep::short(arena(How::Stopped, &[]).await, &[-150, -50, 0, 100]).await;
}

#[tokio::test]
async fn real_claude_no_dialog_that_a_person_opens_around_an_enter_is_approved() {
    sweep::short(arena(How::Person, &[]).await, &[-400, -100, 0, 100]).await;
}

#[tokio::test]
async fn real_claude_without_the_gate_a_dialog_is_approved() {
    let arena = arena(How::Peer, &[("MADO_UNSAFE_NO_GATE", "1")]).await;
    sweep::approves(arena, &[-350, -300, -250, -400, -200, -450, -500]).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_claude_no_dialog_at_any_moment_around_an_enter_is_approved() {
    sweep::long_and_close(arena(How::Peer, &[]).await).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_claude_no_dialog_of_a_stopped_agent_is_approved() {
    sweep::long(arena(How::Stopped, &[]).await).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_claude_no_dialog_that_a_person_opens_is_approved() {
    sweep::long(arena(How::Person, &[]).await).await;
}
