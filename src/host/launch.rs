//! From a [`Spawn`] to a command line and an environment: placeholders, injection, checks.
//!
//! Decides nothing of the agent's: what is started is what profile and request say. It refuses
//! what cannot be started with an error that names it.

mod opencode;

use super::paths::{Paths, make_folder, private_file, state_error};
use super::records::opencode::Live;
use crate::core::Spawn;
use crate::core::profile::Profile;
use crate::proto::{ErrorInfo, Rung};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program (an absolute path) and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The agent's own folder.
    pub agent_dir: PathBuf,
    /// Path of the transcript, for dialects that name one.
    pub records_path: String,
    /// What was to be injected could not be: what, and why.
    pub hooks_left_out: Option<String>,
    /// For OpenCode: its server and its session, as far as they are known.
    pub live: Live,
}

/// What the host knows and the request does not.
#[derive(Debug, Clone)]
pub struct LaunchSite<'a> {
    /// The host's folders.
    pub paths: &'a Paths,
    /// The host's own binary.
    pub mado: &'a str,
    /// The value of `MADO_AGENT_ID`.
    pub mark: &'a str,
}

/// Variables of the terminal or the editor that the request came from. They tell a program of
/// something it is not in, and go stale when that ends.
const STRIPPED: &[&str] = &[
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "NVIM_LOG_FILE",
    "VIM",
    "VIMRUNTIME",
    "MYVIMRC",
    "COLUMNS",
    "LINES",
    "TERMCAP",
    "COLORFGBG",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "KITTY_PID",
    "WEZTERM_PANE",
    "WT_SESSION",
    "ITERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "STY",
    // Of an agent that opens another one (seen: claude 2.1.332, in its hooks and its shell).
    "CLAUDECODE",
    "CLAUDE_PID",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_PROJECT_DIR",
    "AI_AGENT",
    // The same (seen: codex 0.171.0, in its shell).
    "CODEX_CI",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "CODEX_VERSION",
    // The same of opencode 1.18.33.
    "AGENT",
    "OPENCODE",
    "OPENCODE_PID",
    "MADO_TRACE",
    "MADO_CRASH_AT",
];

/// Works out what to start.
pub fn prepare(spawn: &Spawn, site: &LaunchSite) -> Result<Launch, ErrorInfo> {
    let cwd = PathBuf::from(&spawn.cwd);
    check_directory(&cwd)?;
    let agent_dir = site.paths.agent_dir(spawn.agent.0);
    make_folder(&agent_dir)?;
    let fill = |text: &str| {
        fill(text, |key| match key {
            "mado" => Some(site.mado.to_owned()),
            "shell" => Some(
                spawn
                    .env
                    .get("SHELL")
                    .filter(|s| !s.is_empty())
                    .cloned()
                    .unwrap_or("/bin/sh".into()),
            ),
            "agent_dir" => Some(agent_dir.display().to_string()),
            "name" => Some(spawn.name.clone()),
            "session" => Some(spawn.resume.clone().unwrap_or_default()),
            _ => None,
        })
    };
    let env = environment(spawn, site, &agent_dir, &fill);
    let program = &spawn.profile.program;
    let command = find_program(&fill(&program.command), &env, &cwd, &spawn.profile)?;
    let mut args: Vec<String> = program.args.iter().map(|a| fill(a)).collect();
    if spawn.resume.is_some() {
        args.extend(program.resume.iter().map(|a| fill(a)));
    }
    let mut user_args = spawn.args.clone();
    let mut hooks_left_out = None;
    if program.inject.as_deref() == Some("claude-hooks") {
        match claude_settings(&mut user_args, &cwd, site.mado) {
            Ok(settings) => {
                let file = agent_dir.join("settings.json");
                write_private(&file, &settings)?;
                args.push("--settings".to_owned());
                args.push(file.display().to_string());
            }
            Err(why) => hooks_left_out = Some(format!("mado's hooks: {why}")),
        }
    }
    let mut env = env;
    let mut live = Live::default();
    if program.inject.as_deref() == Some("opencode-server") {
        let session = spawn.resume.clone().or_else(|| opencode::session_of(&user_args));
        if spawn.env.contains_key("OPENCODE_PID") {
            // Opened from inside of another one, whose password is not this one's.
            env.remove(opencode::PASSWORD);
        }
        match opencode::server(&user_args, &mut env) {
            Ok((server, more)) => {
                args.extend(more);
                live = Live::new(Some(server), session);
            }
            Err(why) => {
                hooks_left_out = Some(format!("its server's events: {why}"));
                live = Live::new(None, session);
            }
        }
    }
    args.extend(user_args);
    let mut argv = vec![command];
    argv.extend(args);
    let records_path = fill(&spawn.profile.records.path);
    Ok(Launch { argv, env, cwd, agent_dir, records_path, hooks_left_out, live })
}

/// The profile with the rungs that this launch can have.
#[must_use]
pub fn effective_profile(profile: &Profile, launch: &Launch) -> Profile {
    let mut profile = profile.clone();
    if launch.hooks_left_out.is_some() {
        // OpenCode's status comes from where its hooks come from; Claude's has a file of its own.
        let status = profile.program.inject.as_deref() != Some("opencode-server");
        profile.evidence.rungs.retain(|r| *r != Rung::Hook && (status || *r != Rung::Status));
    }
    profile
}

/// Refuses a working directory that is not there.
pub fn check_directory(cwd: &Path) -> Result<(), ErrorInfo> {
    let refuse = |why: &str| {
        Err(ErrorInfo::new(
            "no_directory",
            format!("the working directory {} {why}", cwd.display()),
            "give the absolute path of an existing directory as cwd",
        ))
    };
    match std::fs::metadata(cwd) {
        _ if !cwd.is_absolute() => refuse("is not an absolute path"),
        Err(e) => refuse(&format!("cannot be used: {e}")),
        Ok(meta) if !meta.is_dir() => refuse("is not a directory"),
        Ok(_) => Ok(()),
    }
}

fn environment(
    spawn: &Spawn,
    site: &LaunchSite,
    agent_dir: &Path,
    fill: &dyn Fn(&str) -> String,
) -> BTreeMap<String, String> {
    let mut env = spawn.env.clone();
    for name in STRIPPED {
        env.remove(*name);
    }
    env.insert("TERM".into(), "xterm-256color".into());
    env.insert("COLORTERM".into(), "truecolor".into());
    for (name, value) in &spawn.profile.program.env {
        env.insert(name.clone(), fill(value));
    }
    let own = [
        ("MADO_AGENT_ID", site.mark.to_owned()),
        ("MADO_AGENT", spawn.name.clone()),
        ("MADO_AGENT_DIR", agent_dir.display().to_string()),
        // So that `mado …` inside the agent reaches this host, whatever started it.
        ("MADO_STATE_DIR", site.paths.state.display().to_string()),
        ("MADO_RUNTIME_DIR", site.paths.runtime.display().to_string()),
    ];
    env.extend(own.map(|(k, v)| (k.to_owned(), v)));
    env
}

/// Replaces `{key}` where `value` knows the key; other braces stay.
fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let known = from.find('}').and_then(|close| Some((value(&from[1..close])?, close + 1)));
        let (text, used) = known.unwrap_or(("{".to_owned(), 1));
        out.push_str(&text);
        rest = &from[used..];
    }
    out.push_str(rest);
    out
}

/// Finds a program as a shell would, in the agent's own `PATH`.
fn find_program(
    command: &str,
    env: &BTreeMap<String, String>,
    cwd: &Path,
    profile: &Profile,
) -> Result<String, ErrorInfo> {
    let found = which(command, env.get("PATH").map(String::as_str), cwd);
    found.map(|p| p.display().to_string()).ok_or_else(|| {
        let wanted = &profile.name;
        let remedy = match profile.program.install.as_str() {
            "" => format!("install it, or set program.command in the profile {wanted}"),
            install => format!("install it: {install}; or set program.command in {wanted}.toml"),
        };
        let place = if command.contains('/') { "" } else { " in the PATH of this editor or shell" };
        ErrorInfo::new(
            "program_not_found",
            format!("the program {command:?} of the profile {wanted} was not found{place}"),
            remedy,
        )
    })
}

/// Looks a program up in a `PATH`; relative entries are relative to `cwd`.
#[must_use]
pub fn which(command: &str, path: Option<&str>, cwd: &Path) -> Option<PathBuf> {
    let executable = |p: &Path| {
        std::fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if command.is_empty() {
        return None;
    }
    if command.contains('/') {
        let path = cwd.join(command);
        return executable(&path).then_some(path);
    }
    let path = path.unwrap_or("/usr/local/bin:/usr/bin:/bin");
    path.split(':').map(|dir| cwd.join(dir).join(command)).find(|p| executable(p))
}

fn write_private(path: &Path, content: &Value) -> Result<(), ErrorInfo> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    private_file(&mut options, path)
        .and_then(|mut f| f.write_all(content.to_string().as_bytes()))
        .map_err(|e| state_error(path, &e))
}

/// The hooks that mado wants, with Claude Code's names. `PostToolUse*` and `PermissionRequest`
/// only pass; none of them ever answers anything.
const CLAUDE_HOOKS: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
];

/// Settings with mado's hooks. A `--settings` among the user's arguments is merged and taken out
/// of them; one that cannot be read is left alone and the reason returned.
fn claude_settings(args: &mut Vec<String>, cwd: &Path, mado: &str) -> Result<Value, String> {
    // What follows `--` are not options.
    let end = args.iter().position(|a| a == "--").unwrap_or(args.len());
    let given = find_settings(&args[..end])?;
    let mut settings = match given.last() {
        None => Map::new(),
        Some((_, text)) => {
            let content = if text.trim_start().starts_with('{') {
                text.clone()
            } else {
                std::fs::read_to_string(cwd.join(text))
                    .map_err(|e| format!("--settings {text} cannot be read: {e}"))?
            };
            match serde_json::from_str(&content) {
                Ok(Value::Object(map)) => map,
                Ok(_) => return Err("--settings is not a JSON object".to_owned()),
                Err(e) => return Err(format!("--settings is not JSON: {e}")),
            }
        }
    };
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        return Err("--settings turns all hooks off".to_owned());
    }
    let hooks = settings.entry("hooks").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(hooks) = hooks else {
        return Err("the hooks in --settings are not an object".to_owned());
    };
    for event in CLAUDE_HOOKS {
        let command = format!("{} hook {event}", quote(mado));
        let group = json!({"hooks": [{"type": "command", "command": command, "timeout": 5}]});
        match hooks.entry(*event).or_insert_with(|| json!([])) {
            Value::Array(groups) => groups.push(group),
            _ => return Err(format!("hooks.{event} in --settings is not a list")),
        }
    }
    // Of several the last one wins entirely (seen: claude 2.1.332), so all of them can go.
    for (range, _) in given.into_iter().rev() {
        args.drain(range);
    }
    Ok(Value::Object(settings))
}

/// Where `--settings` stands, with its value.
fn find_settings(args: &[String]) -> Result<Vec<(Range<usize>, String)>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let from = at;
        at += 1;
        if let Some(value) = arg.strip_prefix("--settings=") {
            found.push((from..at, value.to_owned()));
        } else if arg == "--settings" {
            let value = args.get(at).ok_or("--settings has no value")?;
            at += 1;
            found.push((from..at, value.clone()));
        }
    }
    Ok(found)
}

/// Quotes for a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::profiles;
    use crate::proto::AgentId;

    struct Case {
        dir: tempfile::TempDir,
        paths: Paths,
    }

    impl Case {
        fn new() -> Case {
            let dir = tempfile::tempdir().unwrap();
            let paths = Paths {
                state: dir.path().join("state"),
                runtime: dir.path().join("run"),
                config: dir.path().join("config"),
            };
            std::fs::write(dir.path().join("claude"), "").unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(dir.path().join("claude"), mode).unwrap();
            Case { dir, paths }
        }

        fn prepare(&self, profile: &str, args: &[&str]) -> Result<Launch, ErrorInfo> {
            let profile = profiles::load(&self.paths, profile, &BTreeMap::new()).unwrap();
            let path = self.dir.path().display().to_string();
            let spawn = Spawn {
                adopt: None,
                agent: AgentId(7),
                name: "n".into(),
                project: "/p".into(),
                profile,
                args: args.iter().map(ToString::to_string).collect(),
                cwd: path.clone(),
                env: [("PATH", path.as_str()), ("NVIM", "/old"), ("SHELL", "/bin/sh")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
                size: (24, 80),
                resume: None,
            };
            prepare(&spawn, &LaunchSite { paths: &self.paths, mado: "/o'b/mado", mark: "m-7" })
        }
    }

    fn settings(launch: &Launch) -> Value {
        let at = launch.argv.iter().position(|a| a == "--settings").unwrap();
        serde_json::from_slice(&std::fs::read(&launch.argv[at + 1]).unwrap()).unwrap()
    }

    #[test]
    fn an_agent_gets_its_marks_and_nothing_stale() {
        let launch = Case::new().prepare("shell", &["-l"]).unwrap();
        assert_eq!(launch.argv, ["/bin/sh", "-l"]);
        assert_eq!(launch.env["MADO_AGENT_ID"], "m-7");
        assert_eq!(launch.env["TERM"], "xterm-256color");
        assert!(!launch.env.contains_key("NVIM"));
    }

    #[test]
    fn claude_gets_hooks_that_call_this_binary() {
        let case = Case::new();
        let launch = case.prepare("claude", &["--model", "x"]).unwrap();
        let command = &settings(&launch)["hooks"]["Stop"][0]["hooks"][0]["command"];
        assert_eq!(command, r"'/o'\''b/mado' hook Stop");
        assert_eq!(launch.argv[3..], ["--model", "x"]);
    }

    #[test]
    fn a_users_own_settings_are_merged_from_text_and_from_a_file() {
        let case = Case::new();
        let own = r#"{"env":{"A":"1"},"hooks":{"Stop":[{"hooks":[]}]}}"#;
        let launch = case.prepare("claude", &["--settings", own, "x"]).unwrap();
        let merged = settings(&launch);
        assert_eq!(merged["env"]["A"], "1");
        assert_eq!(merged["hooks"]["Stop"].as_array().unwrap().len(), 2);
        assert_eq!(launch.argv[3..], ["x"]);
        // Claude takes the last one only.
        let launch =
            case.prepare("claude", &["--settings", "{}", "-c", "--settings", own]).unwrap();
        assert_eq!(settings(&launch), merged);
        assert_eq!(launch.argv[3..], ["-c"]);
        std::fs::write(case.dir.path().join("s.json"), own).unwrap();
        let launch = case.prepare("claude", &["--settings=s.json"]).unwrap();
        assert_eq!(settings(&launch), merged);
        assert_eq!(std::fs::read_to_string(case.dir.path().join("s.json")).unwrap(), own);
    }

    #[test]
    fn settings_that_cannot_be_read_are_left_alone_and_the_hook_rung_is_absent() {
        let launch = Case::new().prepare("claude", &["--settings", "none.json"]).unwrap();
        assert_eq!(launch.argv[1..], ["--settings", "none.json"]);
        assert!(launch.hooks_left_out.as_ref().unwrap().contains("none.json"));
        let case = Case::new();
        let profile = profiles::load(&case.paths, "claude", &BTreeMap::new()).unwrap();
        assert!(profile.evidence.rungs.contains(&Rung::Hook));
        assert!(!effective_profile(&profile, &launch).evidence.rungs.contains(&Rung::Hook));
    }

    #[test]
    fn opencode_gets_a_port_on_loopback_and_a_password_that_no_list_of_processes_shows() {
        let case = Case::new();
        std::fs::copy(case.dir.path().join("claude"), case.dir.path().join("opencode")).unwrap();
        let launch = case.prepare("opencode", &["-s", "ses_1"]).unwrap();
        assert_eq!(launch.argv[1], "--port");
        assert_eq!(launch.argv[3..], ["--hostname", "127.0.0.1", "-s", "ses_1"]);
        let password = &launch.env["OPENCODE_SERVER_PASSWORD"];
        assert!(password.len() >= 32 && !launch.argv.contains(password));
        let server = launch.live.server.as_ref().unwrap();
        assert_eq!(launch.argv[2], server.port.to_string());
        assert_eq!(launch.live.session().as_deref(), Some("ses_1"));
        assert!(!format!("{:?}", launch.live).contains(password.as_str()));
        // A person's own port has no password that others would not know.
        let launch = case.prepare("opencode", &["--port=4096"]).unwrap();
        assert_eq!(launch.argv[1..], ["--port=4096"]);
        let server = launch.live.server.unwrap();
        assert!(server.port == 4096 && server.password.is_none());
        for args in [&["--port", "0"][..], &["--hostname", "0.0.0.0"], &["run", "x"]] {
            let launch = case.prepare("opencode", args).unwrap();
            assert_eq!(&launch.argv[1..], args);
            assert!(launch.live.server.is_none() && launch.hooks_left_out.is_some());
            let profile = profiles::load(&case.paths, "opencode", &BTreeMap::new()).unwrap();
            let rungs = effective_profile(&profile, &launch).evidence.rungs;
            assert_eq!(rungs, [Rung::Record, Rung::Screen]);
        }
    }

    #[test]
    fn a_missing_program_is_named_with_the_way_to_get_it() {
        let case = Case::new();
        std::fs::remove_file(case.dir.path().join("claude")).unwrap();
        let e = case.prepare("claude", &[]).unwrap_err();
        assert_eq!(e.code, "program_not_found");
        assert!(e.message.contains("\"claude\"") && e.remedy.contains("npm install"), "{e}");
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let f = |t: &str| fill(t, |k| (k == "name").then(|| "{mado}".to_owned()));
        assert_eq!(f("a {name} {other} {"), "a {mado} {other} {");
    }
}
