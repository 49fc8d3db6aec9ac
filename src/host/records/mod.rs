//! The agents' own records: where they are, and reading them as they grow.

pub mod tail;
