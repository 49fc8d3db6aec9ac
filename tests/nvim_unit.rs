//! Runs the Lua tests of `tests/nvim/` in a real Neovim, a process for each file, and holds what the
//! plugin and the program must agree on.
//!
//! `MADO_TEST_NVIM` names the Neovim; without it the tests fail, since a test that skips itself proves
//! nothing.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mado::proto::{
    AgentInfo, AnswerReply, Dispatch, ErrorInfo, HelloReply, HopId, HopInfo, HopStep, HopTimes,
    Notice, OnError, QueueItem, RouteId, RouteInfo, RouteOptions, RouteState, Shadow, Transform,
    Trigger, Usage,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn nvim() -> String {
    std::env::var("MADO_TEST_NVIM").expect(
        "MADO_TEST_NVIM must name a Neovim, as `make test` does: scripts/neovim.sh prints one",
    )
}

fn run(file: &str) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(nvim())
        .args(["--clean", "--headless", "-l"])
        .arg(Path::new(ROOT).join("tests/nvim").join(file))
        .current_dir(&dir)
        .env("XDG_STATE_HOME", dir.path())
        .env("XDG_CACHE_HOME", dir.path())
        .env("XDG_DATA_HOME", dir.path())
        .env("TMPDIR", dir.path())
        .env_remove("NVIM")
        .env_remove("MADO_BIN")
        .env_remove("MADO_STATE_DIR")
        .env_remove("MADO_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{file} failed: {}", output.status);
}

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { run(concat!(stringify!($name), ".lua")); })*

        #[test]
        fn every_lua_test_file_is_run() {
            let mut found: Vec<String> = std::fs::read_dir(Path::new(ROOT).join("tests/nvim"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with("_test.lua"))
                .collect();
            found.sort();
            let mut run = vec![$(concat!(stringify!($name), ".lua")),*];
            run.sort_unstable();
            assert_eq!(found, run);
        }
    };
}

files!(
    commands_test,
    config_test,
    events_test,
    help_test,
    preview_test,
    projectfile_test,
    shadow_test,
    window_test
);

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

#[test]
fn plugin_and_program_speak_the_same_protocol_and_have_one_version() {
    let rpc = read("lua/mado/rpc.lua");
    let line = format!("M.PROTOCOL = {}\n", mado::proto::PROTOCOL);
    assert!(rpc.contains(&line), "lua/mado/rpc.lua must say {line}");
    let version = read("lua/mado/version.lua");
    let line = format!("return '{}'\n", env!("CARGO_PKG_VERSION"));
    assert!(version.contains(&line), "lua/mado/version.lua must say {line}");
}

/// A wait would stop every agent's screen in the editor, and the host.
#[test]
fn no_lua_of_the_plugin_waits() {
    for entry in std::fs::read_dir(Path::new(ROOT).join("lua/mado")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for banned in ["vim.wait", "uv.sleep", "rpcrequest", "vim.fn.system(", "):wait("] {
            // The health report is asked for and read at once, so it may wait for a version.
            if banned == "):wait(" && path.ends_with("health.lua") {
                continue;
            }
            assert!(!text.contains(banned), "{} uses {banned}", path.display());
        }
    }
}

/// The fields of a class in `lua/mado/types.lua`.
fn lua_fields(types: &str, class: &str) -> BTreeSet<String> {
    let head = format!("---@class mado.{class}");
    let mut lines = types.lines().skip_while(|l| l.split(" milli").next() != Some(&head)).skip(1);
    let fields: BTreeSet<String> = lines
        .by_ref()
        .map_while(|l| l.strip_prefix("---@field "))
        .map(|l| l.split(' ').next().unwrap().to_owned())
        .collect();
    assert!(!fields.is_empty(), "lua/mado/types.lua has no class {class}");
    fields
}

/// The keys that a value has in JSON when nothing is absent.
fn json_keys(value: &impl serde::Serialize) -> BTreeSet<String> {
    let value = serde_json::to_value(value).unwrap();
    value.as_object().expect("a map").keys().cloned().collect()
}

#[test]
fn the_lua_types_have_the_fields_that_the_host_sends() {
    let types = read("lua/mado/types.lua");
    let text = || Some(String::new());
    let agent = AgentInfo { session: text(), exit: Some(0), ..AgentInfo::default() };
    assert_eq!(lua_fields(&types, "AgentInfo"), json_keys(&agent));
    let times = HopTimes {
        fired: Some(1),
        extracted: Some(1),
        transformed: Some(1),
        typing: Some(1),
        submitted: Some(1),
        accepted: Some(1),
        answered: Some(1),
    };
    assert_eq!(lua_fields(&types, "HopTimes"), json_keys(&times));
    let hop = HopInfo {
        answer: text(),
        prompt: text(),
        turn: text(),
        answered_by: text(),
        accepted_as: text(),
        shadow: Some(Shadow { turn: text(), ..Shadow::default() }),
        steps: vec![HopStep::default()],
        steps_lost: 1,
        input: text(),
        provider: text(),
        model: text(),
        usage: Some(Usage::default()),
        joined: vec![HopId(1)],
        notes: vec![String::new()],
        ..HopInfo::default()
    };
    assert_eq!(lua_fields(&types, "HopInfo"), json_keys(&hop));
    let shadow = Shadow { turn: text(), ..Shadow::default() };
    assert_eq!(lua_fields(&types, "Shadow"), json_keys(&shadow));
    let answer = AnswerReply { turn: text(), ..AnswerReply::default() };
    assert_eq!(lua_fields(&types, "AnswerReply"), json_keys(&answer));
    assert_eq!(lua_fields(&types, "HelloReply"), json_keys(&HelloReply::default()));
    let notice = Notice { agent: text(), ..Notice::default() };
    assert_eq!(lua_fields(&types, "Notice"), json_keys(&notice));
    let error = ErrorInfo::new("", "", "");
    assert_eq!(lua_fields(&types, "Error"), json_keys(&error));
    let item = QueueItem {
        source: String::new(),
        hop: HopId(1),
        target: String::new(),
        project: String::new(),
        waiting_for: String::new(),
        age_ms: 1,
    };
    assert_eq!(lua_fields(&types, "QueueItem"), json_keys(&item));
    let options = RouteOptions {
        trigger: Some(Trigger::OnIdle),
        pattern: text(),
        transform: Some(Transform::Raw),
        template: text(),
        provider: text(),
        on_error: Some(OnError::Stop),
        task: text(),
        dispatch: Some(Dispatch::Madoagent),
        max_rounds: Some(1),
        cooldown_ms: Some(1),
        stop_keyword: text(),
        idle_ms: Some(1),
        deliver: text(),
        confirm: Some(true),
        route_detached: Some(true),
        when: text(),
        join: text(),
        join_timeout_ms: Some(1),
        header: Some(true),
        redact: Some(true),
        chain_tokens: Some(1),
        day_tokens: Some(1),
    };
    assert_eq!(lua_fields(&types, "RouteOptions"), json_keys(&options));
    let route = RouteInfo {
        id: RouteId(1),
        source: String::new(),
        target: String::new(),
        project: String::new(),
        trigger: Trigger::OnIdle,
        pattern: text(),
        transform: Transform::Raw,
        template: text(),
        provider: text(),
        model: text(),
        on_error: OnError::Stop,
        task: text(),
        dispatch: Dispatch::Madoagent,
        state: RouteState::Active,
        round: 1,
        max_rounds: 1,
        cooldown_ms: 1,
        stop_keyword: text(),
        when: text(),
        join: text(),
        header: true,
        redact: true,
        reason_code: String::new(),
        reason_text: String::new(),
    };
    assert_eq!(lua_fields(&types, "RouteInfo"), json_keys(&route));
}
