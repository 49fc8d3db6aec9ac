//! The editor side with nothing played: a real Neovim in a terminal, driven by keys as a person drives
//! it, with the real host and demo agents.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
// Outside of `#[test]` functions the lint does not know that this is a test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::term::Term;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MADO: &str = env!("CARGO_BIN_EXE_mado");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Nothing takes longer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A host of its own, with folders of its own; dropping it ends the host and its agents.
struct Case {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
}

impl Case {
    fn new() -> Case {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["home", "project"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let mut env: BTreeMap<String, String> = [
            ("HOME", at("home")),
            ("LANG", "C.UTF-8".to_owned()),
            ("MADO_BIN", MADO.to_owned()),
            ("MADO_CONFIG", at("config")),
            ("MADO_RUNTIME_DIR", at("run")),
            ("MADO_STATE_DIR", at("state")),
            ("SHELL", "/bin/sh".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into();
        if let Ok(path) = std::env::var("PATH") {
            env.insert("PATH".to_owned(), path);
        }
        Case { dir, env }
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn run(&self, program: &Path, args: &[&str]) -> Output {
        Command::new(program)
            .args(args)
            .env_clear()
            .envs(&self.env)
            .current_dir(self.project())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn mado(&self, args: &[&str]) -> Output {
        self.run(Path::new(MADO), args)
    }

    /// A listing of `mado`, a JSON object for each line; empty while no host runs.
    fn list(&self, what: &str) -> Vec<Value> {
        let output = self.mado(&[what, "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn agent(&self, name: &str) -> Value {
        let named = |a: &Value| a["name"] == name;
        self.list("ls").into_iter().find(named).unwrap_or(Value::Null)
    }

    /// Opens an editor in the project.
    fn editor(&self, name: &'static str) -> Editor<'_> {
        let nvim = common::nvim();
        let socket = self.dir.path().join(name);
        let runtime = format!("set runtimepath^={ROOT}");
        let socket_arg = socket.display().to_string();
        let argv = [nvim.to_str().unwrap(), "--clean", "--listen", &socket_arg, "--cmd", &runtime];
        let term = Term::spawn(&argv, &self.env, &self.project(), 40, 120);
        Editor { case: self, term, socket }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = self.mado(&["stop"]);
    }
}

/// A Neovim in a terminal.
struct Editor<'a> {
    case: &'a Case,
    term: Term,
    socket: PathBuf,
}

impl Editor<'_> {
    /// Evaluates a Lua expression in the editor, over a connection of its own.
    fn try_lua(&self, expression: &str) -> Option<String> {
        let quoted = format!("luaeval('{}')", expression.replace('\'', "''"));
        let socket = self.socket.display().to_string();
        let args = ["--clean", "--headless", "--server", &socket, "--remote-expr", &quoted];
        let output = self.case.run(&common::nvim(), &args);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn lua(&self, expression: &str) -> String {
        self.try_lua(expression).unwrap_or_else(|| panic!("cannot evaluate {expression}"))
    }

    async fn wait_lua(&self, expression: &str, wanted: &str) {
        let what = format!("{expression} to be {wanted}");
        let check = || self.try_lua(expression).as_deref() == Some(wanted);
        self.term.wait_until(&what, PATIENCE, check).await;
    }

    async fn started(&self) {
        self.wait_lua("vim.v.vim_did_enter", "1").await;
    }

    /// Runs a command as a person does, from whatever mode the editor is in.
    async fn command(&self, command: &str) {
        self.term.write("\x1c\x0e");
        self.wait_lua("vim.api.nvim_get_mode().mode:sub(1, 1)", "n").await;
        self.term.write(format!(":{command}\r"));
    }

    /// Opens a demo agent and waits until it can be used.
    async fn open(&self, name: &str, split: &str) {
        self.command(&format!(
            "Mado open demo name={name} split={split} -- --role {name} --think 100"
        ))
        .await;
        self.wait_lua("vim.b.mado_agent", name).await;
        let what = format!("{name} to be idle");
        let idle = || self.case.agent(name)["phase"] == "idle";
        self.term.wait_until(&what, PATIENCE, idle).await;
    }

    /// Two agents, the first routed into the second, with the cursor in the first.
    async fn pair(&self) {
        self.open("reviewer", "right").await;
        self.open("planner", "left").await;
        self.command("Mado connect planner reviewer trigger=on-turn template=\"Review: {output}\"")
            .await;
        let connected = || self.case.list("routes").len() == 1;
        self.term.wait_until("the route", PATIENCE, connected).await;
        self.term.write("i");
        self.wait_lua("vim.api.nvim_get_mode().mode", "t").await;
    }

    /// Waits until the newest hop is answered.
    async fn hop_answered(&self) -> Value {
        let newest = || self.case.list("log").pop().unwrap_or(Value::Null);
        self.term.wait_until("an answered hop", PATIENCE, || newest()["state"] == "answered").await;
        newest()
    }
}

/// The pids of everything that runs with this case's state folder in its environment.
fn processes(case: &Case) -> Vec<i32> {
    let mark = format!("MADO_STATE_DIR={}", case.env["MADO_STATE_DIR"]);
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|b| *b == 0).any(|var| var == mark.as_bytes()) {
            found.push(pid);
        }
    }
    found
}

#[tokio::test]
async fn two_agents_are_opened_connected_and_routed_and_the_log_shows_the_hop() {
    let case = Case::new();
    let editor = case.editor("nvim.sock");
    editor.started().await;
    editor.pair().await;
    editor.term.write("plan a release\r");
    let hop = editor.hop_answered().await;
    assert_eq!(hop["source"], "planner");
    assert_eq!(hop["target"], "reviewer");
    assert!(hop["prompt"].as_str().unwrap().starts_with("Review: "), "{hop}");
    editor.term.wait_text("Review: ", PATIENCE).await;

    editor.command("Mado log").await;
    editor.wait_lua("vim.bo.buftype", "quickfix").await;
    editor.term.wait_text("planner → reviewer  answered", PATIENCE).await;
    editor.term.write("\r");
    editor.wait_lua("vim.b.mado_hop", &hop["id"].to_string()).await;
    let text = editor.lua("table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')");
    assert!(text.contains("## Decided (parameters)"), "{text}");
    assert!(text.contains("## Came out (results)"), "{text}");

    editor.command("Mado answer reviewer").await;
    editor.wait_lua("vim.api.nvim_buf_get_name(0)", "mado://answer/reviewer").await;
    let answer = case.mado(&["answer", "reviewer"]);
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(editor.lua("vim.fn.getreg('\"')").trim(), answer.trim());
}

/// Quits with `command`, then finds everything as it was in the next editor.
async fn quit_and_come_back(command: &str) {
    let case = Case::new();
    let editor = case.editor("first.sock");
    editor.started().await;
    editor.pair().await;
    editor.term.write("plan a release\r");
    editor.hop_answered().await;
    let (planner, reviewer) = (case.agent("planner"), case.agent("reviewer"));
    editor.command(command).await;
    let status = editor.term.wait_exit(PATIENCE).await;
    let screen = String::from_utf8_lossy(&editor.term.raw()).into_owned();
    assert!(!screen.contains("E948"), "{screen}");
    assert!(status.success(), "{status}");
    drop(editor);

    for before in [planner, reviewer] {
        let now = case.agent(before["name"].as_str().unwrap());
        assert_eq!(now["pid"], before["pid"], "the agent lives on");
        assert_eq!(now["phase"], "idle");
    }
    let detached = || case.agent("planner")["attached"] == 0;
    common::wait_until("the views to be gone", PATIENCE, detached).await;

    let editor = case.editor("second.sock");
    editor.term.wait_text("reviewer (idle), planner (idle) run here", PATIENCE).await;
    editor.command("Mado attach planner").await;
    editor.term.wait_text("plan a release", PATIENCE).await;
    editor.wait_lua("vim.bo.buftype", "terminal").await;
    // The keyboard is the agent's again.
    editor.wait_lua("vim.api.nvim_get_mode().mode", "t").await;
    editor.term.write("and another\r");
    editor.term.wait_text("and another", PATIENCE).await;

    assert!(case.mado(&["stop"]).status.success());
    editor.command("qall!").await;
    editor.term.wait_exit(PATIENCE).await;
    drop(editor);
    let none = || processes(&case).is_empty();
    common::wait_until("every process to be gone", PATIENCE, none).await;
}

#[tokio::test]
async fn qa_detaches_and_the_next_editor_shows_the_same_agents() {
    quit_and_come_back("qa").await;
}

#[tokio::test]
async fn wqa_detaches_and_the_next_editor_shows_the_same_agents() {
    quit_and_come_back("wqa").await;
}

/// Where the user is, and what every window shows.
const PLACE: &str = "(function() \
    local at = { vim.api.nvim_get_mode().mode, vim.api.nvim_get_current_win() } \
    for _, win in ipairs(vim.api.nvim_list_wins()) do \
      local buf = vim.api.nvim_win_get_buf(win) \
      table.insert(at, { win, buf, vim.api.nvim_win_get_width(win), vim.api.nvim_win_get_height(win) }) \
      if vim.bo[buf].buftype ~= 'terminal' then \
        table.insert(at, vim.api.nvim_win_call(win, vim.fn.winsaveview)) \
      end \
    end \
    return vim.inspect(at) end)()";

#[tokio::test]
async fn what_happens_in_the_background_leaves_cursor_focus_mode_view_and_sizes_alone() {
    let case = Case::new();
    let editor = case.editor("nvim.sock");
    editor.started().await;
    editor.pair().await;
    editor.command("Mado log").await;
    editor.wait_lua("vim.bo.buftype", "quickfix").await;
    // In the middle of writing, in a window that is scrolled.
    editor.command("topleft new").await;
    editor.command("call setline(1, range(1, 200))").await;
    editor.command("normal! 100Gztll").await;
    editor.term.write("a");
    editor.wait_lua("vim.api.nvim_get_mode().mode", "i").await;
    let before = editor.lua(PLACE);
    let size = |name: &str| {
        let output = case.mado(&["screen", name, "--json"]);
        let screen: Value = serde_json::from_slice(&output.stdout).unwrap();
        (screen["rows"].as_array().unwrap().len(), screen["cols"].clone())
    };
    let sizes = (size("planner"), size("reviewer"));

    assert!(case.mado(&["send", "planner", "plan a release"]).status.success());
    let routed =
        || case.list("log").iter().any(|h| h["route"] != Value::Null && h["state"] == "answered");
    editor.term.wait_until("the routed hop", PATIENCE, routed).await;
    editor.wait_lua("#require('mado').hops()", "2").await;
    editor.wait_lua("vim.fn.getqflist({ size = 0 }).size", "2").await;
    // A dialog, and a notice about it.
    assert!(case.mado(&["send", "reviewer", "DEMO:ask"]).status.success());
    let asks = || case.agent("reviewer")["phase"] == "asking";
    editor.term.wait_until("reviewer to ask", PATIENCE, asks).await;
    editor.wait_lua("vim.fn.execute('messages'):find('reviewer') ~= nil", "true").await;

    assert_eq!(editor.lua(PLACE), before);
    assert_eq!((size("planner"), size("reviewer")), sizes);
    // The typing goes on where it was.
    editor.term.write("xyz");
    editor.wait_lua("vim.api.nvim_buf_get_lines(0, 99, 100, false)[1]", "100xyz").await;
}

/// The recipe of the help file, as it stands there.
fn recipe() -> String {
    let help = std::fs::read_to_string(Path::new(ROOT).join("doc/mado.txt")).unwrap();
    let (_, rest) = help.split_once("A recipe: >lua\n").unwrap();
    let (recipe, _) = rest.split_once("\n<").unwrap();
    recipe.to_owned()
}

#[tokio::test]
async fn the_keys_of_the_recipe_work_while_the_cursor_is_in_an_agent() {
    let case = Case::new();
    let editor = case.editor("nvim.sock");
    editor.started().await;
    let file = case.dir.path().join("recipe.lua");
    std::fs::write(&file, recipe()).unwrap();
    editor.command(&format!("luafile {}", file.display())).await;
    editor.pair().await;
    let state = || case.list("routes")[0]["state"].clone();
    editor.term.write("\x1bp");
    editor.term.wait_until("the pause", PATIENCE, || state() == "paused").await;
    editor.wait_lua("vim.api.nvim_get_mode().mode", "t").await;
    editor.term.write("\x1bp");
    editor.term.wait_until("the resumption", PATIENCE, || state() == "active").await;

    assert!(case.mado(&["send", "reviewer", "DEMO:ask"]).status.success());
    let asks = || case.agent("reviewer")["phase"] == "asking";
    editor.term.wait_until("reviewer to ask", PATIENCE, asks).await;
    editor.term.write("\x1bn");
    editor.wait_lua("vim.b.mado_agent", "reviewer").await;
    editor.wait_lua("vim.api.nvim_get_mode().mode", "t").await;
    editor.term.write("\x1bl");
    editor.wait_lua("vim.bo.buftype", "quickfix").await;
}

#[tokio::test]
async fn an_agent_that_is_started_again_is_shown_again_in_its_split() {
    let case = Case::new();
    let editor = case.editor("nvim.sock");
    editor.started().await;
    editor.open("planner", "left").await;
    let before = case.agent("planner")["pid"].clone();
    editor.command("Mado restart planner").await;
    let again = || {
        let now = case.agent("planner");
        now["pid"] != before && now["phase"] == "idle" && now["attached"] == 1
    };
    editor.term.wait_until("the agent and its view again", PATIENCE, again).await;
    assert_eq!(editor.lua("vim.b.mado_agent"), "planner");
    assert_eq!(editor.lua("#vim.api.nvim_list_wins()"), "2");
    editor.term.write("ihello again");
    editor.term.wait_text("hello again", PATIENCE).await;
}

#[tokio::test]
async fn the_death_of_the_host_is_one_message_and_the_next_open_starts_another() {
    let case = Case::new();
    let editor = case.editor("nvim.sock");
    editor.started().await;
    editor.open("planner", "left").await;
    let status = case.mado(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let pid = rustix::process::Pid::from_raw(status["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let said = format!("the host (pid {}) has ended, and with it planner", status["pid"]);
    let messages = "vim.fn.execute('messages')";
    let check = || editor.try_lua(messages).is_some_and(|m| m.contains(&said));
    editor.term.wait_until("the message", PATIENCE, check).await;
    assert_eq!(editor.lua(messages).matches("has ended").count(), 1);
    editor.open("reviewer", "right").await;
    assert_eq!(case.list("ls").len(), 1);
}

#[tokio::test]
async fn start_up_with_a_host_elsewhere_stays_silent_and_keeps_nothing_alive() {
    let case = Case::new();
    let other = case.dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.display().to_string();
    assert!(case.mado(&["open", "demo", "--name", "far", "--cwd", &other]).status.success());
    let editor = case.editor("nvim.sock");
    editor.started().await;
    let editors = || {
        let status = case.mado(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        status["editors"].clone()
    };
    // It greets, finds nothing of its project, and leaves.
    let loaded = "package.loaded['mado.greet'] ~= nil and require('mado.rpc').session(vim.fn.getcwd()) == nil";
    editor.wait_lua(loaded, "true").await;
    editor.term.wait_until("no editor", PATIENCE, || editors() == 0).await;
    assert_eq!(editor.lua("vim.fn.execute('messages')").trim(), "");
    let start = Instant::now();
    editor.command("qa").await;
    editor.term.wait_exit(PATIENCE).await;
    assert!(start.elapsed() < PATIENCE);
}

#[tokio::test]
async fn health_names_program_version_socket_neovim_profiles_and_provider() {
    let case = Case::new();
    let editor = case.editor("nvim.sock");
    editor.started().await;
    editor.open("planner", "left").await;
    editor.command("checkhealth mado").await;
    editor.wait_lua("vim.bo.filetype", "checkhealth").await;
    let report = "table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')";
    let full = || editor.try_lua(report).is_some_and(|r| r.contains("only needed for ai-routing"));
    editor.term.wait_until("the whole report", PATIENCE, full).await;
    let report = editor.lua(report);
    let version = env!("CARGO_PKG_VERSION");
    let socket = format!("{}/editor.sock (host version {version}", case.env["MADO_RUNTIME_DIR"]);
    let program = format!("program: {MADO} (from $MADO_BIN)");
    for part in ["Neovim 0.", &program, version, &socket, "demo: ", "claude: ", "shell: "] {
        assert!(report.contains(part), "{part} in\n{report}");
    }
    assert!(!report.contains("ERROR"), "{report}");
}

#[test]
fn the_scripted_demo_is_answered_and_leaves_nothing_behind() {
    let case = Case::new();
    let nvim = common::nvim();
    let path = format!("{}:{}", nvim.parent().unwrap().display(), case.env["PATH"]);
    let output = Command::new(Path::new(ROOT).join("scripts/demo.sh"))
        .arg("--headless")
        .env_clear()
        .env("HOME", &case.env["HOME"])
        .env("LANG", "C.UTF-8")
        .env("MADO_BIN", MADO)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let hops: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let routed: Vec<_> = hops.iter().filter(|h| h["route"] != Value::Null).collect();
    assert_eq!(routed.len(), 1, "{hops:?}");
    assert_eq!(routed[0]["state"], "answered");
    let folder = Path::new(routed[0]["project"].as_str().unwrap()).parent().unwrap();
    assert!(!folder.exists(), "{} is left", folder.display());
}
