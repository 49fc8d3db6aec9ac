//! The command line: one call per command, and the only place with exit codes.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
