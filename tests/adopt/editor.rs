//! A real Neovim in a terminal, in the project of a world.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::common;
use crate::common::term::Term;
use crate::world::{DemoAgent, PATIENCE, World};

/// An editor.
pub struct Editor<'w> {
    pub world: &'w World,
    pub term: Term,
    socket: PathBuf,
}

/// The variables that a program of this world is started with.
pub fn vars(world: &World) -> BTreeMap<String, String> {
    let command = world.site.command(&[]);
    let env = command
        .get_envs()
        .filter_map(|(k, v)| Some((k.to_str()?.to_owned(), v?.to_str()?.to_owned())));
    let mut env: BTreeMap<String, String> = env.collect();
    env.insert("TERM".into(), "xterm-256color".into());
    env
}

impl Editor<'_> {
    /// Starts one, with these variables beside the usual ones.
    pub fn start<'w>(world: &'w World, more: &BTreeMap<String, String>) -> Editor<'w> {
        let mut env = vars(world);
        env.extend(more.clone());
        env.insert("MADO_BIN".into(), env!("CARGO_BIN_EXE_mado").into());
        let socket = world.site.path().join("nvim.sock");
        let nvim = common::nvim().display().to_string();
        let runtime = concat!("set runtimepath^=", env!("CARGO_MANIFEST_DIR"));
        let at = socket.display().to_string();
        let argv = [nvim.as_str(), "--clean", "--listen", &at, "--cmd", runtime];
        let term = Term::spawn(&argv, &env, &world.site.work(), 40, 120);
        let editor = Editor { world, term, socket };
        editor.wait_lua("vim.v.vim_did_enter", "1");
        editor
    }

    fn try_lua(&self, expression: &str) -> Option<String> {
        let quoted = format!("luaeval('{}')", expression.replace('\'', "''"));
        // An editor that waits for a key at a message answers nothing.
        let output = Command::new("timeout")
            .arg("5")
            .arg(common::nvim())
            .args(["--clean", "--headless", "--server"])
            .arg(&self.socket)
            .args(["--remote-expr", &quoted])
            .env("NVIM_LOG_FILE", "/dev/null")
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    pub fn wait_lua(&self, expression: &str, wanted: &str) {
        let is = || self.try_lua(expression).as_deref() == Some(wanted);
        let until = Instant::now() + PATIENCE;
        while !is() {
            let screen = self.term.text();
            assert!(Instant::now() < until, "{expression} is not {wanted} in\n{screen}");
        }
    }

    /// Runs a command as a person does, from whatever mode the editor is in.
    pub fn command(&self, command: &str) {
        self.term.write("\x1c\x0e");
        self.wait_lua("vim.api.nvim_get_mode().mode:sub(1, 1)", "n");
        self.term.write(format!(":{command}\r"));
    }

    /// Waits for a message.
    pub fn wait_message(&self, text: &str) {
        let messages = "vim.fn.execute('messages')";
        let until = Instant::now() + PATIENCE;
        loop {
            let screen = self.term.text();
            if screen.contains("Press ENTER") && screen.contains(text) {
                return self.term.write("\r");
            } else if self.try_lua(messages).is_some_and(|m| m.contains(text)) {
                return;
            }
            assert!(Instant::now() < until, "no message {text} in\n{screen}");
        }
    }

    /// Runs a program in a `:terminal`, as a person or another plugin does.
    pub fn terminal(&self, argv: &[String]) {
        self.command(&format!("terminal {}", argv.join(" ")));
        self.wait_lua("vim.bo.buftype", "terminal");
    }

    /// A demo agent in a `:terminal`, adopted, idle.
    pub fn demo(&self, name: &str, args: &[&str]) -> DemoAgent<'_> {
        let (argv, agent) = self.world.foreign_demo(name, args);
        self.command("botright vnew");
        self.terminal(&argv);
        self.adopt(name, "");
        agent
    }

    /// Adopts the current terminal once its program shows its composer.
    pub fn adopt(&self, name: &str, more: &str) -> Value {
        self.command(&format!("Mado adopt name={name} {more}"));
        self.wait_lua("vim.b.mado_agent", name);
        self.world.wait_phase(name, "idle")
    }
}
