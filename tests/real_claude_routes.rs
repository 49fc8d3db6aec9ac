//! Routes between real agents through the whole host: the right turn's answer, wrapped, once; whatever
//! evidence there is; and nothing typed where it must not be.

#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/claudes.rs"]
mod claudes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/world.rs"]
mod world;

#[path = "routes/evidence.rs"]
mod evidence;
#[path = "routes/guarded.rs"]
mod guarded;
#[path = "routes/rounds.rs"]
mod rounds;
