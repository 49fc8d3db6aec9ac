//! All decisions. No tokio, no files, no clock, no randomness: `now` is a parameter.
//!
//! Architecture invariant: the core does no IO and so cannot fail. Everything it knows came in as
//! an [`Input`], everything it wants goes out as an [`Effect`], and the same inputs at the same
//! times give the same effects: that is what makes a trace replayable.

pub mod dialect;
mod io;
pub mod keys;
pub mod profile;

pub use io::{Effect, Evidence, Input, Now, RestoredHop, Spawn};

/// The core: agents, routes, hops, queues. One owner, no locks.
#[derive(Debug, Default)]
pub struct Hub {}

impl Hub {
    /// Takes one input and says what to do.
    pub fn step(&mut self, _now: Now, _input: Input) -> Vec<Effect> {
        Vec::new()
    }

    /// The monotonic time (milliseconds) at which the hub wants an [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        None
    }
}
