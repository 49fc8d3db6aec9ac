//! Transforms with a model through the whole host: what reaches the service, what reaches the target, what
//! is called off, and that a key is nowhere.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

mod common;
#[path = "common/host.rs"]
mod host;
#[path = "common/llm.rs"]
mod service;
#[path = "common/world.rs"]
mod world;

use serde_json::{Value, json};
use service::{Say, Service, anthropic, openai};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use world::{Open, World};

const KEY: &str = "sk-nowhere-to-be-found-77e1";

/// A provider at the service, as an editor would send it.
fn local(service: &Service) -> Value {
    json!({"local": {"kind": "openai", "base_url": service.url, "model": "m1"}})
}

fn connect(w: &World, options: Value, providers: Value) -> Result<u64, Value> {
    let mut all = json!({"trigger": "on-turn", "transform": "ai-routing", "cooldown_ms": 1000});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let params = json!({"source": "a", "target": "b", "options": all, "providers": providers});
    w.try_ask("connect", params).map(|r| r[0]["id"].as_u64().unwrap())
}

fn hop(w: &World, route: u64, n: usize) -> u64 {
    let hop = w.wait("the hop", || w.hops_of(route).into_iter().nth(n - 1));
    hop["id"].as_u64().unwrap()
}

#[test]
fn an_answer_goes_through_the_model_to_the_target() {
    let service = Service::start();
    let w = World::new(&[]);
    let (_a, b) = (w.demo("a", &[]), w.demo("b", &[]));
    let route = connect(&w, json!({}), local(&service)).unwrap();
    service.script([Say::Stream(openai("Please review src/auth/mod.rs", "stop"))]);
    w.send("a", "refactor src/auth");
    let done = w.wait_route_hop(route, 1, "answered");
    assert_eq!(b.submits(), ["Please review src/auth/mod.rs"]);
    assert_eq!(done["usage"], json!({"input": 100, "cached": 90, "output": 12}));
    assert_eq!((&done["provider"], &done["model"]), (&json!("local"), &json!("m1")));
    let asked = service.seen()[0].json();
    let given = asked["messages"][1]["content"].as_str().unwrap();
    assert!(given.contains("refactor src/auth"), "{given}");
    assert!(given.contains(done["answer"].as_str().unwrap()), "{given}");
    let input = done["input"].as_str().unwrap();
    assert!(input.starts_with(asked["messages"][0]["content"].as_str().unwrap()));
    assert!(input.ends_with(given));
    let info = w.route(route);
    assert_eq!((&info["provider"], &info["on_error"]), (&json!("local"), &json!("stop")));
    w.stop_and_replay();
}

#[test]
fn the_hosts_own_configuration_serves_the_shell() {
    let service = Service::start();
    service.otherwise(Say::Stream(anthropic("In short: done.", "end_turn")));
    let w = World::new(&[("MADO_TEST_HOST_KEY", KEY)]);
    let config = w.site.path().join("config");
    fs::create_dir_all(&config).unwrap();
    let text = format!(
        "provider = 'api'\n[providers.api]\nkind = 'anthropic'\nbase_url = '{}'\nmodel = 'm2'\n\
         key_env = 'MADO_TEST_HOST_KEY'\n[providers.other]\nkind = 'command'\ncommand = ['cat']\n\
         [templates]\nsummary = 'Say it to {{target}} in one sentence.'\n",
        service.url
    );
    fs::write(config.join("config.toml"), &text).unwrap();
    let (_a, b) = (w.demo("a", &[]), w.demo("b", &[]));
    w.site.ok(&["connect", "a", "b", "transform=summary", "trigger=on-turn"]);
    w.send("a", "hello");
    b.wait_submits(1);
    assert_eq!(b.submits(), ["In short: done."]);
    let seen = service.seen().remove(0);
    assert_eq!(seen.header("x-api-key"), Some(KEY), "the host's own environment");
    let system = seen.json()["system"][0]["text"].as_str().unwrap().to_owned();
    assert!(system.contains("Say it to b in one sentence."), "{system}");

    fs::write(config.join("config.toml"), text.replace("model =", "modell =")).unwrap();
    let ran = w.site.run(&["connect", "b", "a", "transform=summary", "--json"]);
    let error = ran.error()["message"].as_str().unwrap().to_owned();
    assert!(error.contains("config.toml:5: unknown field `modell`"), "{error}");
}

#[test]
fn what_cannot_be_asked_is_refused_at_the_connect() {
    let service = Service::start();
    let w = World::new(&[]);
    let (_a, _b) = (w.demo("a", &[]), w.demo("b", &[]));
    let refused = |options: Value, providers: Value, parts: &[&str]| {
        let e = connect(&w, options, providers).expect_err("it is refused").to_string();
        for part in parts {
            assert!(e.contains(part), "{part:?} is not in {e}");
        }
    };
    let three = ["no provider is configured", "'claude', '-p'", "11434", "ANTHROPIC_API_KEY"];
    refused(json!({}), json!({}), &three);
    refused(json!({"provider": "x"}), local(&service), &["no provider", "x", "local"]);
    let keyed = json!({"api": {"kind": "anthropic", "model": "m", "key_env": "MADO_NO_SUCH_KEY"}});
    refused(json!({}), keyed, &["provider api", "MADO_NO_SUCH_KEY is not set"]);
    let odd = json!({"api": {"kind": "antropic", "model": "m"}});
    refused(json!({}), odd, &["connect.providers.api.kind", "antropic", "anthropic"]);
    let odd = json!({"api": {"kind": "openai", "modle": "m"}});
    refused(json!({}), odd, &["connect.providers.api", "modle"]);
    let odd = json!({"api": {"kind": "openai", "base_url": "http://127.0.0.1:1"}});
    refused(json!({}), odd, &["provider api: model is missing"]);
    let long = "x".repeat(1 << 20);
    refused(
        json!({"template": long}),
        local(&service),
        &["1048576 characters; the most is 100000"],
    );
    assert!(w.ask("routes", json!({})).as_array().unwrap().is_empty());
    assert!(service.seen().is_empty());
}

/// Every file below a folder that holds a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(text.len()).any(|w| w == text.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_key_is_written_nowhere_even_when_the_service_repeats_it() {
    let service = Service::start();
    let w = World::new(&[("RUST_LOG", "trace"), ("MADO_LOG", "trace")]);
    let env = || BTreeMap::from([("MADO_TEST_MY_KEY".to_owned(), KEY.to_owned())]);
    for name in ["a", "b"] {
        let dir = w.site.path().join(format!("demo-{name}"));
        fs::create_dir_all(&dir).unwrap();
        let ledger = dir.join("ledger.jsonl").display().to_string();
        let args = vec!["--ledger".to_owned(), ledger];
        w.open("demo", name, Open { env: env(), args, ..Open::default() });
        w.wait_phase(name, "idle");
    }
    let headers = json!({"x-team": "hidden-header-value"});
    let providers = json!({"api": {"kind": "anthropic", "base_url": service.url, "model": "m",
        "key_env": "MADO_TEST_MY_KEY", "retries": 1, "headers": headers}});
    let route = connect(&w, json!({}), providers).unwrap();
    let echo = format!("{{\"error\": {{\"message\": \"bad key {KEY}\"}}}}");
    service.script([Say::status(500, &echo), Say::status(401, &echo)]);
    w.send("a", "one");
    let failed = w.wait_route_hop(route, 1, "failed");
    assert_eq!(failed["reason_code"], "unauthorized");
    let said = failed["reason_text"].as_str().unwrap();
    assert!(said.contains("bad key …") && said.contains("MADO_TEST_MY_KEY"), "{said}");
    service.script([Say::Stream(anthropic(&format!("your key is {KEY} !"), "end_turn"))]);
    w.send("a", "two");
    w.wait_route_hop(route, 2, "answered");
    let seen = service.seen();
    assert!(seen.iter().all(|s| s.header("x-api-key") == Some(KEY)), "it was sent, and sent there");
    assert_eq!(seen[0].header("x-team"), Some("hidden-header-value"));
    let pid = w.ask("host_status", json!({}))["pid"].as_u64().unwrap();
    let argv = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!argv.contains(KEY));
    for secret in [KEY, "hidden-header-value"] {
        assert_eq!(holding(w.site.path(), secret), Vec::<String>::new());
        assert!(!w.ask("hops", json!({})).to_string().contains(secret));
        assert!(!w.ask("routes", json!({})).to_string().contains(secret));
    }
    w.site.ok(&["stop"]);
    assert_eq!(holding(w.site.path(), KEY), Vec::<String>::new());
    // Would it be found if it were there?
    assert!(!holding(w.site.path(), "MADO_TEST_MY_KEY").is_empty());
    w.replay();
}

#[test]
fn a_pause_hangs_up_and_a_resume_asks_again() {
    let service = Service::start();
    let w = World::new(&[]);
    let (_a, b) = (w.demo("a", &[]), w.demo("b", &[]));
    let route = connect(&w, json!({}), local(&service)).unwrap();
    service.script([Say::Silence, Say::Stream(openai("at last", "stop"))]);
    w.send("a", "one");
    service.wait_seen(1);
    let hop = hop(&w, route, 1);
    assert_eq!(w.wait_reason(hop, "model")["reason_text"], "asks m1 of local");
    w.ask("pause", json!({}));
    service.wait_gone(1);
    assert_eq!(w.hop(hop)["reason_code"], "paused");
    w.ask("resume", json!({}));
    service.wait_seen(2);
    w.wait_state(hop, "answered");
    assert_eq!(b.submits(), ["at last"]);
    w.stop_and_replay();
}

#[test]
fn a_newer_answer_a_disconnect_and_a_close_hang_up() {
    let service = Service::start();
    service.otherwise(Say::Silence);
    let w = World::new(&[]);
    let (_a, b) = (w.demo("a", &[]), w.demo("b", &[]));
    let route = connect(&w, json!({}), local(&service)).unwrap();
    w.send("a", "one");
    service.wait_seen(1);
    w.send("a", "two");
    service.wait_seen(2);
    service.wait_gone(1);
    assert_eq!(w.hop(hop(&w, route, 1))["reason_code"], "replaced");
    w.ask("disconnect", json!({"route": route.to_string()}));
    service.wait_gone(2);
    connect(&w, json!({}), local(&service)).unwrap();
    w.send("a", "three");
    service.wait_seen(3);
    w.ask("close", json!({"agent": "b"}));
    service.wait_gone(3);
    assert!(b.submits().is_empty());
}

#[test]
fn a_program_is_ended_by_a_pause_and_with_the_host() {
    let w = World::new(&[]);
    let (_a, _b) = (w.demo("a", &[]), w.demo("b", &[]));
    let file = w.site.path().join("pids");
    let script = format!("sleep 1000 & echo $! >> {0}; wait", file.display());
    let providers = json!({"cli": {"kind": "command", "command": ["sh", "-c", script]}});
    let route = connect(&w, json!({}), providers).unwrap();
    w.send("a", "one");
    let pid = |n: usize| {
        w.wait("the program", || {
            let text = fs::read_to_string(&file).ok()?;
            text.lines().nth(n - 1).map(str::to_owned)
        })
    };
    let gone = |pid: &str| {
        w.wait("it to be gone", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z")).then_some(())
        });
    };
    let first = pid(1);
    let said = w.hop(hop(&w, route, 1))["reason_text"].clone();
    assert_eq!(said, "asks sh of cli");
    w.ask("pause", json!({}));
    gone(&first);
    w.ask("resume", json!({}));
    let second = pid(2);
    w.site.ok(&["stop"]);
    gone(&second);
}

#[test]
fn a_failure_falls_back_where_the_route_says_so() {
    let service = Service::start();
    let w = World::new(&[]);
    let (_a, b) = (w.demo("a", &[]), w.demo("b", &[]));
    let route = connect(&w, json!({"on_error": "prompt-wrap"}), local(&service)).unwrap();
    service.script([Say::status(404, "no such model")]);
    w.send("a", "one");
    let done = w.wait_route_hop(route, 1, "answered");
    let notes = done["notes"].to_string();
    assert!(notes.contains("no such model") && notes.contains("prompt-wrap"), "{notes}");
    assert!(
        b.submits()[0]
            .starts_with("[from a (demo), round 1 of 5; written by that agent, not by your user]"),
        "{:?}",
        b.submits()
    );
}

#[test]
fn an_agent_whose_record_names_no_edits_gets_the_directorys_changes_without_a_name() {
    let service = Service::start();
    service.otherwise(Say::Stream(openai("look at it", "stop")));
    let w = World::new(&[]);
    let work = w.site.work();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
        let done = git.current_dir(&work).env("HOME", &work).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    fs::write(work.join("seen.rs"), "one\n").unwrap();
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "x"]);
    fs::write(work.join("seen.rs"), "two\nthree\n").unwrap();
    let (_a, _b) = (w.demo("a", &[]), w.demo("b", &[]));
    let route = connect(&w, json!({}), local(&service)).unwrap();
    w.send("a", "one");
    let done = w.wait_route_hop(route, 1, "answered");
    let input = done["input"].as_str().unwrap();
    assert!(input.contains("not_attributed>\nseen.rs (+2 -1 lines"), "{input}");
}
