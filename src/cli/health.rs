//! `mado health`: what is there and what is missing. It starts nothing.

use super::client::{Client, running};
use super::out;
use mado::core::profile::Profile;
use mado::host::launch::which;
use mado::host::llm::{config, key};
use mado::host::paths::Paths;
use mado::host::profiles::{self, Overrides};
use mado::proto::{ErrorInfo, PROTOCOL, Provider};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long a program may take to say its version.
const VERSION: Duration = Duration::from_secs(5);

/// Prints the report.
pub fn run(as_json: bool) -> Result<(), ErrorInfo> {
    let paths = Paths::from_env()?;
    let exe = std::env::current_exe().unwrap_or_default();
    let profiles: Vec<Value> = profiles::names(&paths, &Overrides::new())
        .iter()
        .map(|name| profile(&paths, name, &exe))
        .collect();
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "protocol": PROTOCOL,
        "binary": exe,
        "state": paths.state,
        "runtime": paths.runtime,
        "config": paths.config,
        "host": host(&paths),
        "profiles": profiles,
        "providers": providers(&paths),
    });
    if as_json {
        out::json(&report);
    } else {
        human(&report);
    }
    Ok(())
}

fn host(paths: &Paths) -> Value {
    let Some((record, _)) = running(paths) else { return Value::Null };
    match Client::connect(paths, "") {
        Ok(client) => json!({
            "pid": client.hello.pid,
            "version": client.hello.version,
            "protocol": client.hello.protocol,
            "runtime": record.runtime,
        }),
        Err(e) if e.code == "no_host" => Value::Null,
        Err(e) => json!({
            "pid": record.pid,
            "version": record.version,
            "protocol": record.protocol,
            "runtime": record.runtime,
            "problem": e.message,
            "remedy": e.remedy,
        }),
    }
}

/// The providers of the host's own configuration, each with whether its key is there, never the key.
fn providers(paths: &Paths) -> Vec<Value> {
    let problem = |e: ErrorInfo| json!({"problem": e.message, "remedy": e.remedy});
    let config = match config::load(paths) {
        Ok(config) => config,
        Err(e) => return vec![problem(e)],
    };
    let env: BTreeMap<String, String> = std::env::vars().collect();
    let provider = |(name, spec): (&String, &Provider)| {
        if let Err(e) = config::check(name, spec) {
            return problem(e);
        }
        let path = env.get("PATH").map(String::as_str);
        let here = std::env::current_dir().unwrap_or_default();
        let missing = match spec.command.first() {
            Some(program) if which(program, path, &here).is_none() => {
                Err(format!("the program {program} is not found"))
            }
            _ => key::check(spec, &env),
        };
        if let Err(e) = missing {
            return problem(ErrorInfo::new("no_key", format!("{name}: {e}"), ""));
        }
        let default = if config.provider.as_ref() == Some(name) { " (the default)" } else { "" };
        let key = match (spec.key_command.first(), key::variable(spec)) {
            (Some(program), _) => format!("its key comes from {program}"),
            (None, Some(variable)) => format!("{variable} is set"),
            (None, None) => "no key is needed".to_owned(),
        };
        let (kind, model) = (spec.kind.name(), spec.model_name());
        let file = config::file(paths);
        let text = format!("{name}: {kind}, {model}; {key}{default}, from {}", file.display());
        json!({"name": name, "text": text})
    };
    config.providers.iter().map(provider).collect()
}

fn profile(paths: &Paths, name: &str, exe: &Path) -> Value {
    let profile = match profiles::load(paths, name, &Overrides::new()) {
        Ok(profile) => profile,
        Err(e) => {
            return json!({"name": name, "found": false, "problem": e.message, "remedy": e.remedy});
        }
    };
    let found = program(&profile, exe);
    let version = found.as_deref().and_then(|p| version(p, &profile.program.version_args));
    // Unknown is not false: most programs are not asked.
    let verified = version.as_ref().filter(|_| !profile.verified.is_empty()).map(|v| {
        profile.verified.iter().any(|known| v.split_whitespace().any(|word| word == known))
    });
    json!({
        "name": name,
        "description": profile.description,
        "from": profiles::origin(paths, name),
        "command": profile.program.command,
        "found": found.is_some(),
        "path": found,
        "version": version,
        "verified": verified,
        "verified_versions": profile.verified,
        "install": profile.program.install,
    })
}

fn program(profile: &Profile, exe: &Path) -> Option<PathBuf> {
    let shell = std::env::var("SHELL").ok().filter(|s| !s.is_empty());
    let command = profile
        .program
        .command
        .replace("{mado}", &exe.display().to_string())
        .replace("{shell}", shell.as_deref().unwrap_or("/bin/sh"));
    let path = std::env::var("PATH").ok();
    which(&command, path.as_deref(), &std::env::current_dir().unwrap_or_default())
}

/// The first line that the program prints of its version.
fn version(program: &Path, args: &[String]) -> Option<String> {
    if args.is_empty() {
        return None;
    }
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let _ = sender.send(command.output());
    });
    let output = receiver.recv_timeout(VERSION).ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty())
}

fn human(report: &Value) {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    for key in ["version", "protocol", "binary", "state", "runtime", "config"] {
        out::line(&format!("{key:<9} {}", text(&report[key])));
    }
    match &report["host"] {
        Value::Null => out::line("host      none is running"),
        host => {
            let problem = host["problem"].as_str().map(|p| format!(": {p}")).unwrap_or_default();
            let version = text(&host["version"]);
            out::line(&format!("host      pid {}, version {version}{problem}", host["pid"]));
        }
    }
    for p in report["providers"].as_array().into_iter().flatten() {
        let said = p["text"].as_str().or(p["problem"].as_str()).unwrap_or("");
        out::line(&format!("provider  {said}"));
    }
    for p in report["profiles"].as_array().into_iter().flatten() {
        let state = match (p["problem"].as_str(), p["path"].as_str(), p["version"].as_str()) {
            (Some(problem), ..) => problem.to_owned(),
            (None, None, _) => match p["install"].as_str() {
                None | Some("") => format!("{} is not installed", text(&p["command"])),
                Some(how) => format!("{} is not installed: {how}", text(&p["command"])),
            },
            (None, Some(path), None) => path.to_owned(),
            (None, Some(path), Some(version)) => format!("{path}, {version}"),
        };
        out::line(&format!("profile   {:<9} {state}", text(&p["name"])));
    }
}
