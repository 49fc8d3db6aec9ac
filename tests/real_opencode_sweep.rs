//! The race that mado must never lose, on the real OpenCode: see `common/sweep.rs`. Nothing may have been
//! approved.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/opencodes.rs"]
mod opencodes;
#[path = "common/sweep.rs"]
mod sweep;
#[path = "common/world.rs"]
mod world;

use std::path::PathBuf;

use common::mock::{Kind, Matcher, Reply, Request, View};
use opencodes::Opencodes;
use regex::Regex;
use serde_json::json;
use sweep::{Arena, How, Ring, TARGET, Trigger};
use world::World;

struct Opencode {
    c: Opencodes,
    hit: PathBuf,
}

impl Ring for Opencode {
    fn world(&self) -> &World {
        &self.c.world
    }

    fn mock(&self) -> &View {
        &self.c.mock
    }

    fn asks(&self, screen: &str) -> bool {
        screen.contains("△ Permission required")
    }

    /// A prompt to its own server, as another client of it would send one, answered with a tool call.
    fn load(&self, n: usize) -> Trigger {
        let prompt = self.c.outside_prompt(TARGET, &format!("OPEN-A-DIALOG, {n}"));
        Box::new(move || prompt.send())
    }

    fn stands_in(&self) -> bool {
        true
    }

    fn approved(&self) -> bool {
        // A refusal is a result as well, but the model is not told of it.
        let results = |r: &Request| r.kind == Kind::ToolResult;
        self.hit.exists() || self.c.mock.requests().iter().any(results)
    }
}

async fn arena(how: How, vars: &[(&str, &str)]) -> Arena<Opencode> {
    let c = Opencodes::new(vars).await;
    let bash = || Reply::bash("touch hit");
    c.mock.on("OPEN-A-DIALOG", bash());
    // A person's `x` behind whatever the composer holds.
    c.mock.on(Matcher::Matches(Regex::new("x$").unwrap()), bash());
    // A turn is told a second before its dialog stands there. The Enter comes later than that here, or no
    // dialog could come close to it.
    c.open_with(TARGET, &[], Some(json!({"submit": {"wait_ms": 2300}})));
    let hit = c.world.site.work().join("hit");
    Arena::new(Opencode { c, hit }, how).await
}

#[tokio::test]
async fn real_opencode_no_dialog_around_an_enter_is_approved() {
    sweep::short(arena(How::Peer, &[]).await, &[-600, -300, -50, 0, 50, 400]).await;
}

#[tokio::test]
async fn real_opencode_no_dialog_of_an_agent_stopped_around_an_enter_is_approved() {
    sweep::short(arena(How::Stopped, &[]).await, &[-150, -50, 0, 100]).await;
}

#[tokio::test]
async fn real_opencode_without_the_gate_a_dialog_is_approved() {
    let arena = arena(How::Peer, &[("MADO_UNSAFE_NO_GATE", "1")]).await;
    sweep::approves(arena, &[-350, -600, -250, -900, -450, -200, -1200, -700]).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_opencode_no_dialog_at_any_moment_around_an_enter_is_approved() {
    sweep::long(arena(How::Peer, &[]).await).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_opencode_no_dialog_of_a_stopped_agent_is_approved() {
    sweep::long(arena(How::Stopped, &[]).await).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_opencode_no_dialog_that_a_person_opens_is_approved() {
    sweep::long(arena(How::Person, &[]).await).await;
}
