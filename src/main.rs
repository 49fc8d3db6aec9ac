//! The command line: one call per command, and the only place with exit codes.

fn main() {}
