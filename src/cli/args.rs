//! What each command takes.

use super::serve::Mode;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs coding agents in Neovim splits and routes the answers between them.
#[derive(Debug, Parser)]
#[command(name = "mado", version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where a command looks.
#[derive(Debug, Clone, Default, Args)]
pub struct Scope {
    /// The project; the git root above the current directory when it is left out
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Where a listing looks.
#[derive(Debug, Clone, Default, Args)]
pub struct ListScope {
    #[command(flatten)]
    pub scope: Scope,
    /// Every project
    #[arg(long)]
    pub all: bool,
}

/// `mado serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Be the host here, until it is stopped
    #[arg(long)]
    pub foreground: bool,
    /// Start a host on its own (what happens without this flag too)
    #[arg(long, conflicts_with = "foreground")]
    pub daemon: bool,
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub detached: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl ServeArgs {
    pub fn mode(&self) -> Mode {
        if self.foreground {
            Mode::Foreground
        } else if self.detached {
            Mode::Detached
        } else {
            Mode::Start
        }
    }
}

/// `mado open`.
#[derive(Debug, Args)]
pub struct OpenArgs {
    /// The profile: claude, shell, demo or one of your own
    #[arg(default_value = "claude")]
    pub profile: String,
    /// Its name; made from the profile's when it is left out
    #[arg(long)]
    pub name: Option<String>,
    /// Its working directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Height of its terminal until a view sets it
    #[arg(long)]
    pub rows: Option<u16>,
    /// Width of its terminal until a view sets it
    #[arg(long)]
    pub cols: Option<u16>,
    /// Show it here
    #[arg(long)]
    pub attach: bool,
    #[command(flatten)]
    pub scope: Scope,
    /// Arguments of its program
    #[arg(last = true)]
    pub args: Vec<String>,
}

/// `mado attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The agent; may be left out when there is only one
    #[arg(default_value = "")]
    pub agent: String,
    /// The project; the git root above the current directory when it is left out
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Show only: keys are not sent on
    #[arg(long)]
    pub read_only: bool,
    /// The host's socket for this, if it is known
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `mado wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// agent=NAME phase=PHASE, or hop=N, or hop=N state=STATE
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub what: Vec<String>,
    /// How long at most, such as 500ms, 30s or 2m
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub timeout: std::time::Duration,
    #[command(flatten)]
    pub scope: Scope,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the host (`mado open` does it by itself)
    Serve(ServeArgs),
    /// Start an agent
    Open(OpenArgs),
    /// List agents
    #[command(visible_alias = "agents")]
    Ls(ListScope),
    /// Show an agent in this terminal
    Attach(AttachArgs),
    /// Queue text for an agent
    Send {
        /// The agent
        agent: String,
        /// The text; `-` reads standard input
        #[arg(required = true)]
        text: Vec<String>,
        /// `lines` or `paste`
        #[arg(long)]
        deliver: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Route an agent's answers to another
    Connect {
        /// Whose answers
        source: String,
        /// Who gets them
        target: String,
        /// Options: trigger, pattern, transform, template, when, join, `max_rounds`, `cooldown_ms`, …
        #[arg(value_name = "KEY=VALUE")]
        options: Vec<String>,
        /// The way back too
        #[arg(long)]
        both: bool,
        #[command(flatten)]
        scope: Scope,
    },
    /// Remove a route
    Disconnect {
        /// Its number, or `source->target`; may be left out when there is only one
        #[arg(default_value = "")]
        route: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// Change when a route fires
    Trigger {
        /// The route
        route: String,
        /// on-idle, on-keyword, always or on-turn
        trigger: String,
        /// The regular expression of on-keyword
        pattern: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Change how a route makes its prompt
    Transform {
        /// The route
        route: String,
        /// prompt-wrap, full-output, raw, ai-routing or summary
        transform: String,
        /// The template of prompt-wrap, or the instructions of ai-routing and summary
        template: Option<String>,
        /// Whom ai-routing and summary ask
        #[arg(long)]
        provider: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// List routes
    Routes(ListScope),
    /// List hops, oldest first
    #[command(visible_alias = "hops")]
    Log {
        /// Only hops of this route
        route: Option<String>,
        /// One hop, all of it
        #[arg(long)]
        hop: Option<u64>,
        /// At most the newest so many
        #[arg(long, default_value_t = 200)]
        limit: usize,
        #[command(flatten)]
        list: ListScope,
    },
    /// List what waits for its target
    Queue(ListScope),
    /// Print an agent's last answer
    Answer {
        /// The agent; may be left out when there is only one
        #[arg(default_value = "")]
        agent: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// Pause a route, or everything of the project
    Pause {
        /// The route
        route: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Resume a route, a held hop, or everything of the project
    Resume {
        /// The route
        route: Option<String>,
        /// A held hop, or one that waits for a person
        #[arg(long, conflicts_with = "route")]
        hop: Option<u64>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Pause or resume everything of the project
    Toggle {
        /// The route
        route: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Fire a route now
    Fire {
        /// The route
        #[arg(default_value = "")]
        route: String,
        /// Let a person say yes before it is typed
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        scope: Scope,
    },
    /// Say yes to a hop that waits for it, as it is or with a text of your own
    Approve {
        /// The hop
        hop: u64,
        /// The prompt instead of the one that was made; `-` reads standard input
        text: Vec<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Take a hop that has not been submitted out of its queue, for good
    Drop {
        /// The hop
        hop: u64,
        #[command(flatten)]
        scope: Scope,
    },
    /// Send an agent's last answer to another, once
    Handoff {
        /// Whose answer
        source: String,
        /// Who gets it
        target: String,
        /// What goes before it, or a template with {output}
        text: Option<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Name an agent
    Rename {
        /// The agent
        agent: String,
        /// Its new name
        name: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// End an agent, children included
    Close {
        /// The agent
        agent: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// End an agent and start it again
    Restart {
        /// The agent
        agent: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// Take a project's file over: start its agents, make its routes
    Load {
        /// The file; .mado/routes.json of the project when it is left out
        file: Option<PathBuf>,
        #[command(flatten)]
        scope: Scope,
    },
    /// Print the project's agents and routes as such a file
    Save(Scope),
    /// Print the agent that has waited longest for a person
    Next(Scope),
    /// Wait for an agent's phase or a hop's end
    Wait(WaitArgs),
    /// Print what happens, as it happens
    Events(ListScope),
    /// Print an agent's screen
    Screen {
        /// The agent; may be left out when there is only one
        #[arg(default_value = "")]
        agent: String,
        #[command(flatten)]
        scope: Scope,
    },
    /// Print what the host is and holds
    Status(Scope),
    /// End the host and every agent
    Stop {
        /// Print errors as JSON
        #[arg(long)]
        json: bool,
    },
    /// Called by agents
    #[command(hide = true)]
    Hook {
        /// The event's name
        #[arg(default_value = "")]
        event: String,
    },
    /// A deterministic stand-in for a coding agent, for trying mado without an account
    DemoAgent(mado::demo::DemoArgs),
    /// Repeat the decisions of a trace and compare
    Replay {
        /// A file that `MADO_TRACE` wrote
        trace: PathBuf,
    },
    /// Print versions
    Version {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what is there and what is missing
    Health {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Whether errors are to be printed as JSON.
    pub fn is_json(&self) -> bool {
        match self {
            Command::Serve(a) => a.json,
            Command::Open(a) => a.scope.json,
            Command::Wait(a) => a.scope.json,
            Command::Ls(l) | Command::Routes(l) | Command::Queue(l) | Command::Events(l) => {
                l.scope.json
            }
            Command::Log { list, .. } => list.scope.json,
            Command::Next(s) | Command::Save(s) | Command::Status(s) => s.json,
            Command::Send { scope, .. }
            | Command::Connect { scope, .. }
            | Command::Load { scope, .. }
            | Command::Disconnect { scope, .. }
            | Command::Trigger { scope, .. }
            | Command::Transform { scope, .. }
            | Command::Answer { scope, .. }
            | Command::Pause { scope, .. }
            | Command::Resume { scope, .. }
            | Command::Toggle { scope, .. }
            | Command::Fire { scope, .. }
            | Command::Approve { scope, .. }
            | Command::Drop { scope, .. }
            | Command::Handoff { scope, .. }
            | Command::Rename { scope, .. }
            | Command::Close { scope, .. }
            | Command::Restart { scope, .. }
            | Command::Screen { scope, .. } => scope.json,
            Command::Stop { json } | Command::Version { json } | Command::Health { json } => *json,
            Command::Attach(_)
            | Command::Hook { .. }
            | Command::DemoAgent(_)
            | Command::Replay { .. } => false,
        }
    }
}

/// Reads `500ms`, `30s`, `2m`, or a bare number of seconds.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let scale = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{text:?} is not a time such as 500ms, 30s or 2m")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a time"))?;
    Ok(std::time::Duration::from_millis(number.saturating_mul(scale)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("250ms").unwrap().as_millis(), 250);
        assert_eq!(duration("3").unwrap().as_secs(), 3);
        assert_eq!(duration("2m").unwrap().as_secs(), 120);
        assert!(duration("soon").is_err());
    }
}
