//! What the product must get right, on demo agents through the real host and real terminals. What the
//! core alone can show is in `core_*.rs`; here it is the bytes that reach an agent and what a
//! person sees.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/world.rs"]
mod world;

#[path = "cases/dialogs.rs"]
mod dialogs;
#[path = "cases/people.rs"]
mod people;
#[path = "cases/shells.rs"]
mod shells;
#[path = "cases/texts.rs"]
mod texts;
#[path = "cases/turns.rs"]
mod turns;
