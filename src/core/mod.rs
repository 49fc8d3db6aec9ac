//! All decisions. No tokio, no files, no clock, no randomness: `now` is a parameter.
//!
//! Architecture invariant: the core does no IO and so cannot fail. Everything it knows came in as
//! an [`Input`], everything it wants goes out as an [`Effect`], and the same inputs at the same
//! times give the same effects: that is what makes a trace replayable.

mod acceptance;
mod agent;
mod asking;
mod audit;
mod commands;
mod consent;
mod delivery;
pub mod dialect;
mod evidence;
mod firing;
mod guards;
pub mod handover;
mod hop;
mod hub;
mod io;
mod join;
pub mod keys;
mod legacy;
mod lifecycle;
mod links;
mod listings;
mod looks;
mod panel;
mod phase;
pub mod profile;
mod project;
pub mod question;
pub mod redact;
mod route;
pub mod screen;
mod sends;
pub mod text;
mod timing;
mod turns;
mod watch;
mod writes;

pub use hub::Hub;
pub use io::{Effect, Evidence, Input, Now, RestoredHop, Spawn};
pub use timing::Timing;
