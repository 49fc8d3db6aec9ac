//! The commands: what they take, and one call each.

mod args;
mod attach;
mod client;
mod graph;
mod health;
mod hook;
mod load;
mod out;
mod serve;
mod stop_frame;
mod table;
mod verbs;
mod wait;

use args::{Cli, Command};
use clap::Parser;
use mado::host::paths::Paths;
use mado::host::trace::{Replayed, replay};
use mado::host::{options, server};
use mado::proto::ErrorInfo;
use serde_json::json;
use std::process::ExitCode;

/// Runs the command line.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let as_json = cli.command.is_json();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(e) => {
            if as_json {
                eprintln!("{}", json!(e));
            } else {
                eprintln!("mado: {}", e.message);
                if !e.remedy.is_empty() {
                    eprintln!("      {}", e.remedy);
                }
            }
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, ErrorInfo> {
    match command {
        Command::Serve(a) => serve::serve(a.mode(), a.json)?,
        Command::Hook { event } => hook::run(&event),
        Command::Stop { json: _ } => serve::stop(&Paths::from_env()?)?,
        Command::DemoAgent(args) => return demo(args),
        Command::Replay { trace } => return run_replay(&trace),
        Command::Health { json } => health::run(json)?,
        Command::Version { json } => version(json),
        Command::Wait(a) => wait::wait(&a)?,
        Command::Events(a) => wait::events(&a)?,
        other => return verbs::run(other),
    }
    Ok(ExitCode::SUCCESS)
}

fn version(as_json: bool) {
    let version = env!("CARGO_PKG_VERSION");
    if as_json {
        out::json(&json!({"version": version, "protocol": mado::proto::PROTOCOL}));
    } else {
        out::line(&format!("mado {version} (protocol {})", mado::proto::PROTOCOL));
    }
}

/// The demo agent speaks as a program of its own.
fn demo(args: mado::demo::DemoArgs) -> Result<ExitCode, ErrorInfo> {
    match mado::demo::run(args) {
        Ok(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        Err(e) => Err(ErrorInfo::new("demo_agent", e.to_string(), "")),
    }
}

fn run_replay(trace: &std::path::Path) -> Result<ExitCode, ErrorInfo> {
    let make = |timing: &serde_json::Value| {
        let timing = options::timing(&timing.to_string())?;
        Ok(server::make_hub(&timing))
    };
    match replay(trace, make)? {
        Replayed::Same { steps } => {
            out::line(&format!("{steps} steps, the same effects"));
            Ok(ExitCode::SUCCESS)
        }
        Replayed::Differs { line, input, recorded, now, secrets } => {
            let show = |e: Option<String>| e.unwrap_or_else(|| "nothing".to_owned());
            out::line(&format!("{}:{line}: other effects", trace.display()));
            out::line(&format!("input:    {input}"));
            out::line(&format!("recorded: {}", show(recorded)));
            out::line(&format!("now:      {}", show(now)));
            if secrets {
                out::line("note:     secrets were blacked out in the trace, which may be why");
            }
            Ok(ExitCode::FAILURE)
        }
    }
}
