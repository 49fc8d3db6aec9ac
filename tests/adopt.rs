//! Terminals that mado did not start, adopted: a `:terminal` of a real Neovim, a pane of a real tmux. What
//! reached the program is read in its own ledger.

#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/claudes.rs"]
mod claudes;
mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/world.rs"]
mod world;

#[path = "adopt/editor.rs"]
mod editor;
#[path = "adopt/nvim.rs"]
mod nvim;
#[path = "adopt/real.rs"]
mod real;
#[path = "adopt/tmux.rs"]
mod tmux;
