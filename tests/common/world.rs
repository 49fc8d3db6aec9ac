//! A host with agents in it, as a test needs them: everything through the shell's socket, a trace of
//! every decision, and a report of what was there when a test fails.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::term::Term;
use crate::host::{Dialogue, Host, Site};

/// How long anything may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running host with folders of its own. When it is dropped everything in it is ended.
pub struct World {
    pub site: Site,
    host: RefCell<Option<Host>>,
    line: RefCell<Option<Dialogue>>,
    seq: Cell<u64>,
    trace: PathBuf,
    /// How long anything may take here.
    pub patience: Cell<Duration>,
}

/// How an agent is opened.
#[derive(Default)]
pub struct Open {
    pub env: BTreeMap<String, String>,
    pub args: Vec<String>,
    pub cwd: Option<PathBuf>,
    /// Keys that override the profile's own.
    pub profile: Option<Value>,
}

impl World {
    /// Starts a host with these variables beside the usual ones.
    pub fn new(vars: &[(&str, &str)]) -> World {
        let mut site = Site::new();
        let trace = site.path().join("trace.jsonl");
        site.set("MADO_TRACE", trace.display().to_string());
        for (name, value) in vars {
            site.set(name, *value);
        }
        let world = World {
            site,
            host: RefCell::new(None),
            line: RefCell::new(None),
            seq: Cell::new(0),
            trace,
            patience: Cell::new(PATIENCE),
        };
        world.serve();
        world
    }

    /// Starts the host (again) and says hello.
    pub fn serve(&self) {
        *self.host.borrow_mut() = Some(self.site.serve());
        let mut line = self.site.dial();
        let hello = json!({"seq": 0, "request": {"method": "hello", "params": {
            "protocol": mado::proto::PROTOCOL, "client": "shell",
            "version": env!("CARGO_PKG_VERSION"), "project": self.project(),
        }}});
        let reply = line.ask(&hello);
        assert!(reply.get("ok").is_some(), "{reply}");
        *self.line.borrow_mut() = Some(line);
    }

    /// The host's own handle, to kill it or to wait for its end.
    pub fn host<T>(&self, what: impl FnOnce(&mut Host) -> T) -> T {
        what(self.host.borrow_mut().as_mut().expect("a host"))
    }

    /// The project of everything here.
    pub fn project(&self) -> String {
        self.site.work().display().to_string()
    }

    /// Sends a request; the project is added. Gives the reply's value, or the error.
    pub fn try_ask(&self, method: &str, mut params: Value) -> Result<Value, Value> {
        if params.get("project").is_none() {
            params["project"] = self.project().into();
        }
        self.seq.set(self.seq.get() + 1);
        let request = json!({
            "seq": self.seq.get(), "request": {"method": method, "params": params}
        });
        let mut line = self.line.borrow_mut();
        let line = line.as_mut().expect("a connection");
        line.send(&request);
        loop {
            let mut reply = line.next();
            if reply["seq"] != self.seq.get() {
                continue;
            }
            return match reply.get_mut("error").map(Value::take) {
                Some(error) => Err(error),
                None => Ok(reply["ok"]["value"].take()),
            };
        }
    }

    /// A request that must work.
    pub fn ask(&self, method: &str, params: Value) -> Value {
        let said = params.to_string();
        self.try_ask(method, params)
            .unwrap_or_else(|error| panic!("{method} {said} was refused: {error}"))
    }

    /// Opens an agent in a terminal of 40x120.
    pub fn open(&self, profile: &str, name: &str, how: Open) -> Value {
        let cwd = how.cwd.unwrap_or_else(|| self.site.work());
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("HOME".to_owned(), self.site.path().join("home").display().to_string()),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ]);
        env.extend(how.env);
        let mut params = json!({
            "profile": profile, "name": name, "cwd": cwd, "env": env, "args": how.args,
            "rows": 40, "cols": 120,
        });
        if let Some(profile_keys) = how.profile {
            params["profiles"] = json!({ profile: profile_keys });
        }
        self.ask("open", params)
    }

    /// A demo agent with its ledger, transcript and control socket in a folder, once it is idle.
    pub fn demo(&self, name: &str, args: &[&str]) -> DemoAgent<'_> {
        let agent = self.starting_demo(name, args);
        self.wait_phase(name, "idle");
        agent
    }

    /// The same without waiting for it.
    pub fn starting_demo(&self, name: &str, args: &[&str]) -> DemoAgent<'_> {
        let dir = self.site.path().join(format!("demo-{name}"));
        fs::create_dir_all(&dir).unwrap();
        let path = |file: &str| dir.join(file).display().to_string();
        let mut all =
            vec!["--ledger".into(), path("ledger.jsonl"), "--control".into(), path("control")];
        all.extend(args.iter().map(|a| (*a).to_owned()));
        self.open("demo", name, Open { args: all, ..Open::default() });
        DemoAgent { world: self, name: name.to_owned(), dir }
    }

    /// The command line of a demo agent that somebody else starts, and the agent it will be.
    pub fn foreign_demo(&self, name: &str, args: &[&str]) -> (Vec<String>, DemoAgent<'_>) {
        let dir = self.site.path().join(format!("demo-{name}"));
        fs::create_dir_all(&dir).unwrap();
        let path = |file: &str| dir.join(file).display().to_string();
        let mut argv: Vec<String> =
            [env!("CARGO_BIN_EXE_mado"), "demo-agent", "--name", name].map(str::to_owned).into();
        argv.extend(["--ledger".into(), path("ledger.jsonl")]);
        argv.extend(["--control".into(), path("control")]);
        argv.extend(["--transcript".into(), path("transcript.jsonl")]);
        argv.extend(args.iter().map(|a| (*a).to_owned()));
        (argv, DemoAgent { world: self, name: name.to_owned(), dir })
    }

    /// What listings say of an agent.
    pub fn agent(&self, name: &str) -> Value {
        let agents = self.ask("agents", json!({}));
        let found = agents.as_array().unwrap().iter().find(|a| a["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no agent {name}: {agents}"))
    }

    /// The process id of an agent.
    pub fn pid(&self, name: &str) -> u32 {
        self.agent(name)["pid"].as_u64().unwrap() as u32
    }

    /// Starts an agent again and waits until its new process is idle.
    pub fn restart(&self, name: &str) {
        let pid = self.pid(name);
        self.ask("restart", json!({"agent": name}));
        self.wait("another process", || {
            let agent = self.agent(name);
            (agent["phase"] == "idle" && agent["pid"] != pid && agent["pid"] != 0).then_some(())
        });
    }

    /// Waits for an agent's phase.
    pub fn wait_phase(&self, name: &str, phase: &str) -> Value {
        self.wait(&format!("{name} to be {phase}"), || {
            Some(self.agent(name)).filter(|a| a["phase"] == phase)
        })
    }

    /// Makes a route and gives its id.
    pub fn connect(&self, source: &str, target: &str, options: Value) -> u64 {
        let params = json!({"source": source, "target": target, "options": options});
        self.ask("connect", params)[0]["id"].as_u64().unwrap()
    }

    /// A route.
    pub fn route(&self, id: u64) -> Value {
        let routes = self.ask("routes", json!({}));
        routes.as_array().unwrap().iter().find(|r| r["id"] == id).cloned().expect("the route")
    }

    /// Queues a text and gives its hop.
    pub fn send(&self, target: &str, text: &str) -> u64 {
        let hop = self.ask("send", json!({"target": target, "text": text}));
        hop["id"].as_u64().unwrap_or_else(|| panic!("no hop: {hop}"))
    }

    /// All hops, oldest first.
    pub fn hops(&self) -> Vec<Value> {
        self.ask("hops", json!({"limit": 1000})).as_array().unwrap().clone()
    }

    /// The hops of a route, oldest first.
    pub fn hops_of(&self, route: u64) -> Vec<Value> {
        self.hops().into_iter().filter(|h| h["route"] == route).collect()
    }

    /// One hop.
    pub fn hop(&self, id: u64) -> Value {
        let hops = self.ask("hops", json!({"hop": id}));
        hops[0].clone()
    }

    /// Waits until a hop fulfils something.
    pub fn wait_hop(&self, id: u64, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        self.wait(&format!("hop {id}: {what}"), || Some(self.hop(id)).filter(|h| check(h)))
    }

    /// Waits until a hop has this state.
    pub fn wait_state(&self, id: u64, state: &str) -> Value {
        self.wait_hop(id, state, |h| {
            let now = h["state"].as_str().unwrap();
            let last = ["answered", "unconfirmed", "failed", "stopped"].contains(&now);
            assert!(now == state || !last, "hop {id} is to be {state}: {h}");
            now == state
        })
    }

    /// Waits until a hop waits for this.
    pub fn wait_reason(&self, id: u64, code: &str) -> Value {
        self.wait_hop(id, code, |h| h["reason_code"] == code)
    }

    /// Waits for the `n`-th hop (from 1) of a route in this state.
    pub fn wait_route_hop(&self, route: u64, n: usize, state: &str) -> Value {
        let what = format!("hop {n} of route {route}");
        let hop = self.wait(&what, || self.hops_of(route).into_iter().nth(n - 1));
        self.wait_state(hop["id"].as_u64().unwrap(), state)
    }

    /// One turn of an agent fails (its model refuses the prompt `fail`), a person interrupts the next one, and the
    /// third is well. What waited for the first two, a send and a hop of the route each, ends with the reason.
    pub fn broken_turns_stop_their_hops(&self, source: &str, route: u64, why: &str) {
        let failed = self.wait_state(self.send(source, "fail"), "failed");
        assert!(failed["reason_text"].as_str().unwrap().contains(why), "{failed}");
        let hop = self.wait_route_hop(route, 1, "failed");
        assert!(hop["reason_text"].as_str().unwrap().contains(why), "{hop}");

        let sent = self.send(source, "MOCK:slow 100");
        self.wait_screen(source, "some words", |s| s.contains("word3"));
        let person = self.viewer(source);
        person.write("\x1b");
        let stopped = self.wait_state(sent, "stopped");
        assert_eq!(stopped["reason_code"], "interrupted", "{stopped}");
        assert_eq!(self.wait_route_hop(route, 2, "stopped")["reason_code"], "interrupted");

        // And then it goes on as if nothing had been.
        self.wait_state(self.send(source, "MOCK:say well again"), "answered");
        assert_eq!(self.wait_route_hop(route, 3, "answered")["answer"], "well again");
    }

    /// What an agent's screen shows.
    pub fn screen(&self, name: &str) -> String {
        let data = self.ask("screen", json!({"agent": name}));
        let rows = data["rows"].as_array().cloned().unwrap_or_default();
        let row = |r: &Value| r["text"].as_str().or(r.as_str()).unwrap_or_default().to_owned();
        rows.iter().map(|r| row(r) + "\n").collect()
    }

    /// Waits until an agent's screen shows something.
    pub fn wait_screen(&self, name: &str, what: &str, check: impl Fn(&str) -> bool) -> String {
        self.wait(what, || Some(self.screen(name)).filter(|s| check(s)))
    }

    /// A person in front of an agent: `mado attach` in a terminal. Keys are a person's keys.
    pub fn viewer(&self, name: &str) -> Term {
        let attached = || self.agent(name)["attached"].as_u64().unwrap();
        let before = attached();
        let command = self.site.command(&["attach", name]);
        let env = command
            .get_envs()
            .filter_map(|(k, v)| Some((k.to_str()?.to_owned(), v?.to_str()?.to_owned())));
        let mut env: BTreeMap<String, String> = env.collect();
        env.insert("TERM".into(), "xterm-256color".into());
        let argv = [env!("CARGO_BIN_EXE_mado"), "attach", name];
        let term = Term::spawn(&argv, &env, &self.site.work(), 40, 120);
        self.wait("the viewer", || (attached() > before).then_some(()));
        term
    }

    /// Waits until `check` gives something.
    pub fn wait<T>(&self, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
        let patience = self.patience.get();
        let until = Instant::now() + patience;
        loop {
            if let Some(value) = check() {
                return value;
            }
            assert!(Instant::now() < until, "waited {patience:?} for {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asserts that something stays untrue for a while.
    pub fn never(&self, what: &str, span: Duration, mut check: impl FnMut() -> bool) {
        let start = Instant::now();
        while start.elapsed() < span {
            assert!(!check(), "happened after {:?}: {what}", start.elapsed());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the host with everything, and repeats its decisions from the trace.
    pub fn stop_and_replay(&self) {
        self.site.ok(&["stop"]);
        self.replay();
    }

    /// Repeats the decisions of a host that has ended.
    pub fn replay(&self) {
        let said = self.site.ok(&["replay", self.trace.to_str().unwrap()]);
        assert!(said.contains("the same effects"), "{said}");
    }

    fn report(&self) {
        if let Ok(Ok(agents)) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.try_ask("agents", json!({"all": true}))
        })) {
            for hop in self.try_ask("hops", json!({"limit": 30})).iter().flat_map(Value::as_array) {
                hop.iter().for_each(|h| eprintln!("hop {h}"));
            }
            for route in self.try_ask("routes", json!({})).iter().flat_map(Value::as_array) {
                route.iter().for_each(|r| eprintln!("route {r}"));
            }
            for agent in agents.as_array().into_iter().flatten() {
                eprintln!("agent {agent}");
                if let Some(name) = agent["name"].as_str() {
                    eprintln!("{}", self.screen(name).trim_end());
                }
            }
        }
        let kept = std::env::temp_dir().join(format!("mado-trace-{}.jsonl", std::process::id()));
        if fs::copy(&self.trace, &kept).is_ok() {
            eprintln!("the trace: {}", kept.display());
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            self.report();
        }
    }
}

/// A demo agent of a world.
pub struct DemoAgent<'w> {
    world: &'w World,
    pub name: String,
    pub dir: PathBuf,
}

impl DemoAgent<'_> {
    /// Says something on its control socket.
    pub fn control(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.dir.join("control")).expect("its socket");
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }

    /// The ledger's entries that have `key`.
    pub fn all(&self, key: &str) -> Vec<Value> {
        let lines = lines(&self.dir.join("ledger.jsonl"));
        lines.into_iter().filter(|line| line.get(key).is_some()).collect()
    }

    /// What was submitted, in order.
    pub fn submits(&self) -> Vec<String> {
        let text = |line: &Value| line["submit"].as_str().unwrap().to_owned();
        self.all("submit").iter().map(text).collect()
    }

    /// The bytes of every read, in order, with the time of the read (milliseconds since 1970).
    pub fn reads(&self) -> Vec<(f64, Vec<u8>)> {
        let bytes = |line: &Value| {
            let chars = line["read"].as_str().unwrap().chars();
            (line["at"].as_f64().unwrap(), chars.map(|c| c as u8).collect())
        };
        self.all("read").iter().map(bytes).collect()
    }

    /// All bytes that were read.
    pub fn bytes(&self) -> Vec<u8> {
        self.reads().into_iter().flat_map(|(_, bytes)| bytes).collect()
    }

    /// The draft as the agent has it now.
    pub fn draft(&self) -> String {
        let last = self.all("draft").pop();
        last.map(|line| line["draft"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// Waits until it has submitted `n` prompts, and gives them.
    pub fn wait_submits(&self, n: usize) -> Vec<String> {
        self.world.wait(&format!("{n} submits of {}", self.name), || {
            Some(self.submits()).filter(|s| s.len() >= n)
        })
    }

    /// Waits until the ledger has an entry with this key.
    pub fn wait_entry(&self, key: &str) -> Value {
        self.world.wait(&format!("{key} in {}'s ledger", self.name), || self.all(key).pop())
    }
}

/// The whole lines of a file of JSON lines.
pub fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}
