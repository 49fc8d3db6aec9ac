//! A Neovim as a user interface sees it: `nvim --embed` with this program as its screen of 40 rows and 120
//! columns.
//!
//! What Neovim draws is what its user sees, so every end of a measurement is taken here; nothing runs inside
//! Neovim to measure it, since watching a terminal buffer from there alone halves its speed.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::child;
use crate::common;
use crate::grid::Grid;
use crate::host::Host;
use rmpv::Value;
use rmpv::decode::read_value;
use rmpv::encode::write_value;
use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Nothing takes longer, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug, Default)]
struct State {
    grid: Grid,
    /// When the last batch of redraw events arrived.
    drawn: Option<Instant>,
    answers: BTreeMap<u64, (Instant, Value, Value)>,
    ended: bool,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

/// A running Neovim. Dropping it ends it.
#[derive(Debug)]
pub struct Editor {
    child: Child,
    stdin: ChildStdin,
    shared: Shared,
    seq: u64,
}

/// A terminal buffer in a window.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub window: u64,
    pub job: u64,
}

impl Editor {
    /// Starts Neovim with this repository as a plugin, and `host`'s folders.
    pub fn start(host: &Host) -> Editor {
        let mut child = Command::new(common::nvim())
            .args(["--clean", "--embed", "--cmd"])
            .arg(format!("set runtimepath^={}", env!("CARGO_MANIFEST_DIR")))
            .args([
                "--cmd",
                "set noswapfile shada= noruler noshowcmd noshowmode laststatus=0 showtabline=0",
            ])
            .env_clear()
            .envs(host.env())
            .current_dir(host.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Neovim starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = child.stdout.take().expect("a pipe");
        let shared = Shared::default();
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || listen(stdout, &theirs));
        let mut editor = Editor { child, stdin, shared, seq: 0 };
        let options = Value::from(vec![
            (Value::from("rgb"), Value::from(true)),
            (Value::from("ext_linegrid"), Value::from(true)),
        ]);
        editor.call("nvim_ui_attach", vec![120.into(), 40.into(), options]);
        editor
    }

    /// Processor time that Neovim has used so far, in ms. Linux alone says it.
    pub fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields = after.split_whitespace().skip(11).take(2);
        // In ticks of 10 ms, everywhere.
        fields.filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() * 10.0
    }

    /// Sends a request and waits for its answer. Returns when the answer arrived.
    pub fn timed(&mut self, method: &str, args: Vec<Value>) -> (Instant, Value) {
        self.seq += 1;
        let seq = self.seq;
        let message = Value::from(vec![0.into(), seq.into(), method.into(), Value::from(args)]);
        let mut bytes = Vec::new();
        write_value(&mut bytes, &message).expect("memory");
        self.stdin.write_all(&bytes).expect("Neovim reads");
        let (at, error, value) = self.wait(method, |state| state.answers.remove(&seq));
        assert!(error.is_nil(), "{method}: {error}");
        (at, value)
    }

    /// Sends a request and waits for its answer.
    pub fn call(&mut self, method: &str, args: Vec<Value>) -> Value {
        self.timed(method, args).1
    }

    /// Runs Lua code with arguments.
    pub fn lua(&mut self, code: &str, args: Vec<Value>) -> Value {
        self.call("nvim_exec_lua", vec![code.into(), Value::from(args)])
    }

    /// Types keys. Returns when they were sent.
    pub fn keys(&mut self, keys: &str) -> Instant {
        let sent = Instant::now();
        self.call("nvim_input", vec![keys.into()]);
        sent
    }

    /// Waits until the screen fulfils `check`. Returns when it was drawn.
    pub fn wait_screen(&self, what: &str, check: impl Fn(&Grid) -> bool) -> Instant {
        self.wait(what, |state| state.drawn.filter(|_| check(&state.grid)))
    }

    /// Waits until nothing was drawn for a while.
    pub fn wait_quiet(&self) {
        let quiet = Duration::from_millis(150);
        let start = Instant::now();
        loop {
            let drawn = lock(&self.shared).drawn.unwrap_or(start);
            if drawn.max(start).elapsed() >= quiet {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "Neovim never stops drawing");
            std::thread::sleep(quiet / 10);
        }
    }

    /// Opens a tab page. What is opened next replaces its empty window.
    pub fn tab(&mut self) {
        self.call("nvim_command", vec!["tabnew".into()]);
    }

    /// Opens a split at the right with a native terminal that runs a child.
    pub fn native(&mut self, child: &[&str]) -> View {
        let code = "
            vim.cmd('botright vsplit')
            vim.api.nvim_win_set_buf(0, vim.api.nvim_create_buf(true, false))
            vim.wo.number, vim.wo.signcolumn = false, 'no'
            local job = vim.fn.jobstart(..., { term = true })
            return { vim.api.nvim_get_current_win(), job }";
        let view = view(&self.lua(code, vec![list(&child::command(child))]));
        self.settle();
        view
    }

    /// Opens a split at the right with an agent that runs a child, by mado's own Lua function.
    pub fn mado(&mut self, name: &str, child: &[&str]) -> View {
        let code = "
            local name, args = ...
            vim.cmd('botright vsplit')
            require('mado').open({ profile = 'bench', name = name, args = args },
              function(_, err) vim.g.bench_error = err and tostring(err) or '' end)
            local opened = vim.api.nvim_get_current_win()
            vim.cmd('wincmd p')
            vim.cmd('close')
            vim.api.nvim_set_current_win(opened)";
        self.lua(code, vec![name.into(), list(child)]);
        self.settle();
        let code = "
            for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
              local buf = vim.api.nvim_win_get_buf(win)
              if vim.b[buf].mado_agent == ... then
                return { win, vim.b[buf].terminal_job_id or 0 }
              end
            end
            return vim.g.bench_error or vim.NIL";
        let start = Instant::now();
        loop {
            let found = self.lua(code, vec![name.into()]);
            if found.is_array() {
                return view(&found);
            }
            let error = found.as_str().unwrap_or_default();
            assert!(error.is_empty(), "{name} cannot be opened: {error}");
            assert!(start.elapsed() < PATIENCE, "{name} was never opened:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes the empty window of a new tab page, and makes the others equally wide.
    fn settle(&mut self) {
        let code = "
            for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
              local buf = vim.api.nvim_win_get_buf(win)
              if vim.bo[buf].buftype == '' then vim.api.nvim_win_close(win, true) end
            end
            vim.cmd('wincmd =')";
        self.lua(code, vec![]);
    }

    /// Goes to a window and into its terminal, as whoever types there would.
    pub fn enter(&mut self, view: View) {
        self.call("nvim_set_current_win", vec![view.window.into()]);
        self.call("nvim_command", vec!["startinsert".into()]);
        self.wait_quiet();
    }

    /// Sends a line to a view's program.
    pub fn send(&mut self, view: View, line: &str) {
        self.call("nvim_chan_send", vec![view.job.into(), format!("{line}\r").into()]);
    }

    /// Neovim's screen, for messages.
    pub fn text(&self) -> String {
        lock(&self.shared).grid.text()
    }

    fn wait<T>(&self, what: &str, mut take: impl FnMut(&mut State) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut state = lock(&self.shared);
        loop {
            if let Some(value) = take(&mut state) {
                return value;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let screen = || state.grid.text();
            assert!(!left.is_zero() && !state.ended, "never came: {what}\n{}", screen());
            state = self.shared.1.wait_timeout(state, left).expect("no panic elsewhere").0;
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.0.lock().expect("no panic elsewhere")
}

fn list<S: AsRef<str>>(items: &[S]) -> Value {
    Value::from(items.iter().map(|i| Value::from(i.as_ref())).collect::<Vec<_>>())
}

fn view(value: &Value) -> View {
    let number = |at: usize| value[at].as_u64().unwrap_or_else(|| panic!("no terminal: {value}"));
    View { window: number(0), job: number(1) }
}

fn listen(stdout: ChildStdout, shared: &Shared) {
    let mut stdout = BufReader::with_capacity(1 << 16, stdout);
    while let Ok(message) = read_value(&mut stdout) {
        let now = Instant::now();
        let Value::Array(message) = message else { continue };
        let mut state = lock(shared);
        match message.as_slice() {
            [kind, seq, error, value] if kind.as_u64() == Some(1) => {
                let seq = seq.as_u64().unwrap_or(0);
                state.answers.insert(seq, (now, error.clone(), value.clone()));
            }
            [kind, name, Value::Array(batch)]
                if kind.as_u64() == Some(2) && name.as_str() == Some("redraw") =>
            {
                state.grid.redraw(batch);
                state.drawn = Some(now);
            }
            _ => continue,
        }
        drop(state);
        shared.1.notify_all();
    }
    lock(shared).ended = true;
    shared.1.notify_all();
}
