//! The race that mado must never lose, on the real Codex: see `common/sweep.rs`. The dialog is a subagent's,
//! which opens over its idle parent.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/codexes.rs"]
mod codexes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/sweep.rs"]
mod sweep;
#[path = "common/world.rs"]
mod world;

use std::path::PathBuf;

use codexes::Codexes;
use common::mock::{Matcher, Outcome, Reply, Request, View};
use regex::Regex;
use serde_json::json;
use sweep::{Arena, How, Ring, TARGET, Trigger};
use world::World;

struct Codex {
    c: Codexes,
    hit: PathBuf,
}

impl Codex {
    /// The id of the subagent, once there is one.
    fn subagent(&self) -> Option<String> {
        let id = Regex::new(r#"agent_id\W+([0-9a-f-]{36})"#).unwrap();
        let in_body = |r: &Request| Some(id.captures(&r.body.to_string())?[1].to_owned());
        self.c.mock.requests().iter().rev().find_map(in_body)
    }
}

impl Ring for Codex {
    fn world(&self) -> &World {
        &self.c.world
    }

    fn mock(&self) -> &View {
        &self.c.mock
    }

    fn asks(&self, screen: &str) -> bool {
        screen.contains("Would you like to run the following command?")
    }

    /// The subagent gets a task, and its model is held back before it asks for the tool.
    fn load(&self, n: usize) -> Trigger {
        let (task, gate) = (format!("OPEN-A-DIALOG {n}."), format!("dialog {n}"));
        let held = Reply::Seq(vec![Reply::Gate(gate.clone()), Reply::bash("touch hit")]);
        self.c.mock.on(Matcher::Contains(task.clone()), held);
        let (name, input) = match self.subagent() {
            None => ("spawn_agent", json!({"message": task})),
            Some(id) => ("send_input", json!({"target": id, "message": task})),
        };
        let tool = Reply::Tool { name: format!("multi_agent_v1.{name}"), input };
        self.c.mock.on(Matcher::Equals(format!("arm {n}")), tool);
        let w = self.world();
        let armed = w.send(TARGET, &format!("arm {n}"));
        w.wait_state(armed, "answered");
        let waits = |r: &Request| r.text.contains(&task) && r.outcome == Outcome::Pending;
        w.wait("the subagent's model", || self.c.mock.requests().iter().any(waits).then_some(()));
        let mock = View::clone(&self.c.mock);
        Box::new(move || mock.open(&gate))
    }

    /// A paste: an Enter right behind a typed letter would be a newline.
    fn keys(&self) -> &'static str {
        "\x1b[200~x\x1b[201~\r"
    }

    fn approved(&self) -> bool {
        self.hit.exists()
    }
}

async fn arena(how: How, vars: &[(&str, &str)]) -> Arena<Codex> {
    let c = Codexes::new(vars).await;
    // A person's `x` behind whatever the composer holds.
    c.mock.on(Matcher::Matches(Regex::new("x$").unwrap()), Reply::bash("touch hit"));
    // 0.171.0 opens no dialog in the first second after a key in its composer. The Enter comes later than that
    // here, or no dialog could come close to it.
    c.begin(TARGET, Some(json!({"submit": {"wait_ms": 1800}})));
    let hit = c.world.site.work().join("hit");
    Arena::new(Codex { c, hit }, how).await
}

#[tokio::test]
async fn real_codex_no_dialog_around_an_enter_is_approved() {
    sweep::short(arena(How::Peer, &[]).await, &[-600, -300, -50, 0, 50, 400]).await;
}

#[tokio::test]
async fn real_codex_no_dialog_of_an_agent_stopped_around_an_enter_is_approved() {
    sweep::short(arena(How::Stopped, &[]).await, &[-150, -50, 0, 100]).await;
}

#[tokio::test]
async fn real_codex_no_dialog_that_a_person_opens_around_an_enter_is_approved() {
    sweep::short(arena(How::Person, &[]).await, &[-400, -100, 0, 100]).await;
}

#[tokio::test]
async fn real_codex_without_the_gate_a_dialog_is_approved() {
    let arena = arena(How::Peer, &[("MADO_UNSAFE_NO_GATE", "1")]).await;
    sweep::approves(arena, &[-350, -300, -250, -400, -200, -450, -500]).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_codex_no_dialog_at_any_moment_around_an_enter_is_approved() {
    sweep::long_and_close(arena(How::Peer, &[]).await).await;
}

#[tokio::test]
#[ignore = "long: 121 dialogs"]
async fn real_codex_no_dialog_of_a_stopped_agent_is_approved() {
    sweep::long(arena(How::Stopped, &[]).await).await;
}
