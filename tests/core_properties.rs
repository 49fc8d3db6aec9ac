//! Properties that hold for any schedule: random graphs of routes, prompts, dialogs, lags, freezes,
//! pauses, keys and exits, in simulated time.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

#[path = "properties/check.rs"]
mod check;
#[path = "properties/graphs.rs"]
mod graphs;
#[path = "properties/texts.rs"]
mod texts;
#[path = "properties/world.rs"]
mod world;

use check::check;
use world::{World, kind, link, op};

use mado::core::dialect::StatusState;
use mado::core::redact::redact;
use mado::core::text::{self, Holds};
use mado::core::{Hub, Input, Timing};
use mado::proto::*;
use proptest::prelude::*;
use sim::{ALL, EDITOR, PROJECT, SHELL, Sim, on};
use std::collections::BTreeMap;

/// `PROPTEST_CASES` overrides the number of cases, for a longer hunt.
fn config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(cases),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn whatever_happens_the_promise_holds(
        kinds in prop::collection::vec(kind(), 3),
        links in prop::collection::vec(link(), 0..4),
        ops in prop::collection::vec((op(), prop_oneof![1 => Just(0_u64), 2 => 0..200_u64, 2 => 200..3_000_u64]), 1..14),
    ) {
        let mut w = World::new(&kinds, &links);
        for (op, wait) in &ops {
            w.apply(op);
            w.sim.run(*wait);
        }
        w.calm();
        check(&mut w)?;
    }
}
