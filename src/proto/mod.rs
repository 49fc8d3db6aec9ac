//! Every type that crosses a border: editor, shell, hook, trace.
//!
//! Architecture invariant: nothing here decides anything, and nothing here depends on another
//! room of the house.

pub mod screen;
