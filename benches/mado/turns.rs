//! How long a route takes: from the end of the source's turn to the first byte typed into the target,
//! with `on-turn`.
//!
//! The target is a demo agent in both cases: its ledger holds the time of every read.

use crate::Size;
use crate::common::{claude as real, mock::Mock};
use crate::host::Host;
use crate::stats::{Row, Samples};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Samples of each.
const SAMPLES: usize = 25;

const PATIENCE: Duration = Duration::from_secs(60);

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

fn row(what: &str, samples: &Samples, against: &str, limit: Option<f64>) -> Row {
    let p95 = samples.percentile(95.0);
    Row {
        what: format!("{what}: p50 / p95, ms"),
        base: "–".into(),
        mado: format!("{:.1} / {p95:.1}", samples.median()),
        against: against.to_owned(),
        wanted: limit.map(|limit| (format!("p95 ≤ {limit} ms"), p95 <= limit)),
    }
}

/// From the demo agent's done line.
pub fn demo(size: Size) -> Vec<Row> {
    let mut rows = Vec::new();
    for (delay, against, limit) in
        [("0", "", Some(50.0)), ("50", "50 ms are the agent's own", None)]
    {
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
            &samples,
            against,
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
    let mut samples = Samples::default();
    for n in 0..size.of(SAMPLES, 3) {
        let typed = hop(&host, &target, &format!("MOCK:say answer {n}"));
        let request = mock.prompt_requests().into_iter().next_back().expect("the prompt");
        samples.push_number(typed - request.last_byte.expect("an answer"));
        rest(&host);
    }
    drop(host);
    vec![row("Claude Code", &samples, "", Some(300.0))]
}

/// What the built-in profile does not know: where the program is.
fn profile(binary: &Path) -> String {
    format!("[program]\ncommand = {:?}\n", binary.display().to_string())
}
