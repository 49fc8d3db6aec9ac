//! The command line of `mado demo-agent`, and what the environment adds to it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What the demo agent answers like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Role {
    /// Answers any prompt with a plan of three lines.
    Planner,
    /// Answers with a review of two lines that names how many lines it got.
    Reviewer,
    /// Repeats the first line of the prompt behind the number of the answer.
    #[default]
    Echo,
}

impl Role {
    /// The word a person reads in the header.
    pub fn label(self) -> &'static str {
        match self {
            Role::Planner => "planner",
            Role::Reviewer => "reviewer",
            Role::Echo => "echo",
        }
    }
}

/// Options of `mado demo-agent`. All durations are milliseconds.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// How to answer
    #[arg(long, value_enum, default_value_t = Role::Echo)]
    pub role: Role,
    /// Name used in answers
    #[arg(long, default_value = "demo")]
    pub name: String,
    /// Busy time before each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 600)]
    pub think: u64,
    /// Chooses among equivalent wordings
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Write turns to this file as JSON lines [env: `MADO_DEMO_TRANSCRIPT`]
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,
    /// Write everything received to this file as JSON lines [env: `MADO_DEMO_LEDGER`]
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Time between the end of a turn on the screen and its transcript lines, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50)]
    pub record_delay: u64,
    /// Listen on this unix socket for `ask`, `turn TEXT`, `write-transcript-late MS`, `exit N`
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Do not report the state with OSC 7501
    #[arg(long)]
    pub no_osc: bool,
    /// Time before the composer exists, in milliseconds; the terminal still echoes until then
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub startup: u64,
}

impl DemoArgs {
    /// Fills what the flags left open from the environment, read through `var` so that a test can
    /// give its own.
    #[must_use]
    pub fn with_env(mut self, var: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        self.transcript = self
            .transcript
            .or_else(|| path("MADO_DEMO_TRANSCRIPT"))
            .or_else(|| path("MADO_AGENT_DIR").map(|dir| dir.join("transcript.jsonl")));
        self.ledger = self.ledger.or_else(|| path("MADO_DEMO_LEDGER"));
        self
    }

    /// Busy time before each answer.
    pub fn think(&self) -> Duration {
        Duration::from_millis(self.think)
    }
}
