//! Routes as a graph: conditions, fan-out, fan-in, guards over all of it, and what is said of a text's
//! origin; with simulated time.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

#[path = "graph/conditions.rs"]
mod conditions;
#[path = "graph/guards.rs"]
mod guards;
#[path = "graph/join.rs"]
mod join;
#[path = "graph/labels.rs"]
mod labels;

use mado::proto::*;
use sim::{ALL, EDITOR, PROJECT, Sim, on};

/// A world of agents with these names.
fn world<const N: usize>(names: [&str; N]) -> (Sim, [AgentId; N]) {
    let mut sim = Sim::new();
    let ids = names.map(|n| sim.open(n, ALL));
    (sim, ids)
}

/// `on-turn` with the answer alone as the prompt.
fn plain() -> RouteOptions {
    RouteOptions { template: Some("{output}".into()), ..on(Trigger::OnTurn) }
}

/// The same, joined.
fn joined() -> RouteOptions {
    RouteOptions { join: Some("all".into()), ..plain() }
}

fn try_connect(sim: &mut Sim, from: &str, to: &str, options: RouteOptions) -> RequestResult {
    let p = ConnectParams {
        project: PROJECT.into(),
        source: from.into(),
        target: to.into(),
        options,
        ..ConnectParams::default()
    };
    sim.request(EDITOR, Request::Connect(p))
}

fn pause(sim: &mut Sim, route: RouteId) {
    let p = PauseParams {
        project: PROJECT.into(),
        route: Some(route.to_string()),
        ..PauseParams::default()
    };
    sim.request(EDITOR, Request::Pause(p)).unwrap();
}

fn resume(sim: &mut Sim, route: RouteId) {
    let p = PauseParams {
        project: PROJECT.into(),
        route: Some(route.to_string()),
        ..PauseParams::default()
    };
    sim.request(EDITOR, Request::Resume(p)).unwrap();
}

fn fire(sim: &mut Sim, route: RouteId) -> RequestResult {
    let p = FireParams { project: PROJECT.into(), route: route.to_string(), confirm: false };
    sim.request(EDITOR, Request::Fire(p))
}

fn queue(sim: &mut Sim) -> Vec<QueueItem> {
    let p = ListParams { project: PROJECT.into(), all: false };
    match sim.request(EDITOR, Request::Queue(p)).unwrap() {
        Reply::Queue(items) => items,
        other => panic!("{other:?}"),
    }
}

/// The hops with this reason.
fn because(sim: &mut Sim, code: &str) -> Vec<HopInfo> {
    sim.hops().into_iter().filter(|h| h.reason_code == code).collect()
}
