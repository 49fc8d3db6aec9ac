//! Runs a command as the tests run a real agent: with a fresh home, a cleaned environment and the scripted
//! model server. `scripts/record.sh` starts it; what the agent asked is listed at the end.
//!
//! What is typed to the agent may hold directives such as `MOCK:bash ls` or `MOCK:slow 20`; they are
//! listed in `tests/common/mock.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::{Command, ExitCode};

use common::{claude, mock::Mock};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((program, arguments)) = arguments.split_first() else {
        eprintln!("usage: mock COMMAND [ARGUMENTS…]");
        return ExitCode::from(2);
    };
    let mock = Mock::start().await;
    let cwd = std::env::current_dir().unwrap();
    let home = claude::home(&[&cwd]);
    let mut environment = claude::claude_env(home.path(), &mock.url());
    let agent = claude::binary();
    let path = environment.get_mut("PATH").unwrap();
    *path = format!("{}:{path}", agent.parent().unwrap().display());

    // A blocking wait is fine: the server has a thread of its own.
    let status = Command::new(program).args(arguments).env_clear().envs(environment).status();
    eprint!("{}", mock.describe());
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("{program}: {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cannot start {program}: {error}");
            ExitCode::FAILURE
        }
    }
}
