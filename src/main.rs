//! The command line: one call per command, and the only place with exit codes.

use std::process::ExitCode;

use clap::Parser;
use mado::demo::{self, DemoArgs};

/// Runs coding agents in Neovim splits and routes the answers between them.
#[derive(Debug, Parser)]
#[command(name = "mado", version)]
enum Cli {
    /// A deterministic stand-in for a coding agent, for trying mado without an account
    DemoAgent(DemoArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse() {
        Cli::DemoAgent(args) => demo::run(args),
    };
    match result {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(e) => {
            eprintln!("mado: {e}");
            ExitCode::FAILURE
        }
    }
}
