//! mado: runs coding agents in terminals it owns and routes their answers.
//!
//! The rooms, and the only directions in which they may use each other:
//! `proto ← core ← host ← main`. `tests/import_law.rs` holds it.
//! `demo` stands apart: it uses none of them and none of them uses it.

pub mod core;
pub mod demo;
pub mod host;
pub mod proto;
