//! How long a route takes: from the end of the source's turn to the first byte typed into the target,
//! with `on-turn`.
//!
//! The target is a demo agent in both cases: its ledger holds the time of every read.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::Size;
use crate::common::{claude as real, epoch_ms, mock::Mock};
use crate::host::Host;
use crate::stats::{Row, Samples};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Samples of each.
const SAMPLES: usize = 25;

const PATIENCE: Duration = Duration::from_mins(1);

/// The shortest cooldown that a route may have.
const COOLDOWN: &str = "cooldown_ms=1000";

/// A demo agent's ledger.
struct Ledger(PathBuf);

impl Ledger {
    fn of(host: &Host, name: &str) -> Ledger {
        Ledger(host.dir().join(format!("{name}.jsonl")))
    }

    /// Entries with `key`, each with its time in milliseconds since the epoch.
    fn all(&self, key: &str) -> Vec<(Value, f64)> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let entry = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a JSON line");
            Some((line.get(key)?.clone(), line["at"].as_f64().expect("a time")))
        };
        whole.lines().filter_map(entry).collect()
    }
}

/// Waits for a value.
fn wait<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "never came: {what}");
        sleep(Duration::from_millis(2));
    }
}

fn open(host: &Host, profile: &str, name: &str, args: &[&str]) {
    let open = ["open", profile, "--name", name, "--rows", "40", "--cols", "120", "--"];
    host.mado(&[&open[..], args].concat());
    host.mado(&["wait", &format!("agent={name}"), "phase=idle", "--timeout", "60s"]);
}

fn open_target(host: &Host) -> Ledger {
    let ledger = Ledger::of(host, "target");
    let path = ledger.0.display().to_string();
    open(host, "demo", "target", &["--ledger", &path, "--think", "50", "--record-delay", "0"]);
    ledger
}

/// Sends one prompt to the source and returns when the first byte of the routed one was read.
fn hop(host: &Host, target: &Ledger, prompt: &str) -> f64 {
    let before = target.all("submit").len();
    let (_, since) = target.all("read").last().cloned().unwrap_or((Value::Null, 0.0));
    host.mado(&["send", "source", prompt]);
    wait("the routed prompt", || (target.all("submit").len() > before).then_some(()));
    let typed = |read: &Value| read.as_str().is_some_and(|bytes| bytes.contains("\x1b[200~"));
    let reads = target.all("read");
    let first = reads.iter().find(|(read, at)| *at > since && typed(read));
    first.expect("a paste before the submit").1
}

/// Between two prompts: the route's cooldown is over and both agents are idle.
fn rest(host: &Host) {
    sleep(Duration::from_millis(1100));
    for agent in ["source", "target"] {
        host.mado(&["wait", &format!("agent={agent}"), "phase=idle", "--timeout", "60s"]);
    }
}

fn row(what: &str, base: String, samples: &Samples, against: &str, limit: Option<f64>) -> Row {
    let p95 = samples.percentile(95.0);
    Row {
        what: format!("{what}: p50 / p95, ms"),
        base,
        mado: format!("{:.1} / {p95:.1}", samples.median()),
        against: against.to_owned(),
        wanted: limit.map(|limit| (format!("p95 ≤ {limit} ms"), p95 <= limit)),
    }
}

/// What the host's log says of the hops: how much of the time passed after the route had fired. The rest is
/// the source's, until the evidence of its turn's end is complete, and the way to it.
fn after_firing(host: &Host) -> String {
    let mut samples = Samples::default();
    for line in host.mado(&["log", "--json"]).lines() {
        let hop: Value = serde_json::from_str(line).expect("a JSON line");
        let at = |step: &str| hop["times"][step].as_f64();
        if let (Some(fired), Some(typing), false) =
            (at("fired"), at("typing"), hop["route"].is_null())
        {
            samples.push_number(typing - fired);
        }
    }
    format!("{:.0} / {:.0} after firing", samples.median(), samples.percentile(95.0))
}

/// From the demo agent's done line.
pub fn demo(size: Size) -> Vec<Row> {
    let mut rows = Vec::new();
    for (delay, limit) in [("0", Some(50.0)), ("50", None)] {
        let host = Host::new();
        let source = Ledger::of(&host, "source");
        let path = source.0.display().to_string();
        let target = open_target(&host);
        open(
            &host,
            "demo",
            "source",
            &["--ledger", &path, "--think", "150", "--record-delay", delay],
        );
        host.mado(&["connect", "source", "target", "trigger=on-turn", COOLDOWN]);
        let mut samples = Samples::default();
        for n in 0..size.of(SAMPLES, 3) {
            let typed = hop(&host, &target, &format!("prompt {n}"));
            let (_, done) = source.all("done").last().cloned().expect("the turn's end");
            samples.push_number(typed - done);
            rest(&host);
        }
        rows.push(row(
            &format!("demo agent, transcript {delay} ms after the screen"),
            "–".into(),
            &samples,
            &after_firing(&host),
            limit,
        ));
    }
    rows
}

/// From the last byte of the model's answer to Claude Code.
pub fn claude(size: Size) -> Vec<Row> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mock = runtime.block_on(Mock::start());
    let mut host = Host::new();
    let work = host.dir().join("work");
    fs::create_dir(&work).expect("a folder");
    let home = real::home(&[&work]);
    let mut env = real::claude_env(home.path(), &mock.url());
    env.retain(|name, _| !host.env().contains_key(name) || name == "HOME");
    host.set_env(env);
    host.profile("claude", &profile(&real::binary()));
    let target = open_target(&host);
    let cwd = work.display().to_string();
    let project = host.dir().display().to_string();
    host.mado(&[
        "open",
        "claude",
        "--name",
        "source",
        "--cwd",
        &cwd,
        "--project",
        &project,
        "--rows",
        "40",
        "--cols",
        "120",
        "--",
        "--permission-mode",
        "manual",
    ]);
    host.mado(&["wait", "agent=source", "phase=idle", "--timeout", "60s"]);
    host.mado(&["connect", "source", "target", "trigger=on-turn", COOLDOWN]);
    let (mut samples, mut evidence) = <(Samples, Samples)>::default();
    let seen = Arc::<Mutex<Evidence>>::default();
    {
        let (folder, seen) = (home.path().join(".claude"), Arc::clone(&seen));
        std::thread::spawn(move || watch(&folder, &seen));
    }
    for n in 0..size.of(SAMPLES, 3) {
        let typed = hop(&host, &target, &format!("MOCK:say answer {n}"));
        let request = mock.prompt_requests().into_iter().next_back().expect("the prompt");
        let last_byte = request.last_byte.expect("an answer");
        samples.push_number(typed - last_byte);
        let own = wait("the answer in the transcript and the idle status", || {
            let seen = seen.lock().expect("no panic elsewhere");
            let after = |times: &[f64]| times.iter().find(|at| **at >= last_byte).copied();
            Some(after(&seen.answers)?.max(after(&seen.idle)?))
        });
        evidence.push_number(own - last_byte);
        rest(&host);
    }
    let base = format!("{:.1} / {:.1}", evidence.median(), evidence.percentile(95.0));
    let what = "Claude Code (baseline: its own files say so)";
    vec![row(what, base, &samples, &after_firing(&host), Some(300.0))]
}

/// When a Claude Code wrote what it takes to know that a turn has ended and with which answer. No route
/// can fire before, so this is the agent's share of the time.
#[derive(Default)]
struct Evidence {
    /// An answer was written to its transcript.
    answers: Vec<f64>,
    /// Its status file began to say that it is idle.
    idle: Vec<f64>,
}

/// Watches the files in `.claude`. Ends with the program.
fn watch(folder: &Path, seen: &Mutex<Evidence>) {
    let mut known = BTreeMap::<PathBuf, Vec<u8>>::new();
    let has = |text: &[u8], part: &str| memchr::memmem::find(text, part.as_bytes()).is_some();
    loop {
        for file in files(&folder.join("projects")).iter().flat_map(|f| files(f)) {
            let before = known.get(&file).map_or(0, Vec::len);
            if file.metadata().map_or(0, |m| m.len() as usize) > before {
                let (at, text) = (epoch_ms(), fs::read(&file).unwrap_or_default());
                if has(text.get(before..).unwrap_or_default(), r#""type":"assistant""#) {
                    seen.lock().expect("no panic elsewhere").answers.push(at);
                }
                known.insert(file, text);
            }
        }
        for file in files(&folder.join("sessions")) {
            let (at, text) = (epoch_ms(), fs::read(&file).unwrap_or_default());
            let idle = r#""status":"idle""#;
            let was = known.get(&file).is_some_and(|before| has(before, idle));
            if has(&text, idle) && !was {
                seen.lock().expect("no panic elsewhere").idle.push(at);
            }
            known.insert(file, text);
        }
        sleep(Duration::from_millis(2));
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// What the built-in profile does not know: where the program is.
fn profile(binary: &Path) -> String {
    format!("[program]\ncommand = {:?}\n", binary.display().to_string())
}
