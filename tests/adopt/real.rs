//! The real Claude Code in terminals that mado did not start.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::claudes::Claudes;
use crate::common::claude;
use crate::common::mock::Reply;
use crate::common::tmux::Tmux;
use crate::editor::{Editor, vars};

const ARGS: [&str; 2] = ["--permission-mode", "manual"];

/// What a person in front of the adopted agent does.
trait Person {
    fn keys(&self, keys: &str);
}

impl Person for Editor<'_> {
    fn keys(&self, keys: &str) {
        self.term.write(keys);
    }
}

impl Person for Tmux {
    fn keys(&self, keys: &str) {
        self.text(keys);
    }
}

/// Routed to and from, byte for byte; nothing typed into a dialog; a person's draft left alone.
fn serves(c: &Claudes, name: &str, person: &impl Person) {
    let w = &c.world;
    let (a, b) = (c.mock.agent(name), c.open("own", &[]));
    let text = "first line, two  blanks\n    indented 日本語\nlast line";
    a.script(vec![Reply::text("an answer\nof two lines")]);
    let options = json!({"trigger": "on-turn", "template": "<{output}>", "cooldown_ms": 1000});
    let route = w.connect(name, "own", options.clone());
    let sent = w.send(name, text);
    let done = w.wait_state(sent, "answered");
    assert_eq!(a.prompts(), [text], "{done}");
    let hop = w.wait_route_hop(route, 1, "answered");
    assert_eq!(hop["rung"], "record", "{hop}");
    assert_eq!(b.prompts(), ["<an answer\nof two lines>"]);
    w.ask("disconnect", json!({"route": route.to_string()}));

    let back = w.connect("own", name, options);
    b.script(vec![Reply::text("the other way")]);
    w.send("own", "now you");
    w.wait_route_hop(back, 1, "answered");
    assert_eq!(a.prompts().last().unwrap(), "<the other way>");
    w.ask("disconnect", json!({"route": back.to_string()}));

    // A permission dialog: what waits is not typed, and the dialog is answered by nobody.
    let marker = w.site.work().join(format!("approved-{name}"));
    a.script(vec![Reply::bash(&format!("touch {}", marker.display())), Reply::text("done")]);
    w.send(name, "run it");
    w.wait_phase(name, "asking");
    let screen = w.screen(name);
    let hop = w.send(name, "after the dialog");
    w.wait_reason(hop, "asks");
    w.never("an approval", Duration::from_secs(2), || marker.exists());
    assert_eq!(w.agent(name)["phase"], "asking", "{screen}\n{}", w.screen(name));
    person.keys("\x1b");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts().last().unwrap(), "after the dialog");
    assert!(!marker.exists());

    // A person's draft.
    person.keys("a draft of mine");
    w.wait("the draft", || (w.agent(name)["draft"] == true).then_some(()));
    let hop = w.send(name, "not into the draft");
    w.wait_reason(hop, "draft");
    let before = a.prompts().len();
    w.never("a prompt", Duration::from_secs(1), || a.prompts().len() > before);
    person.keys("\r");
    w.wait_state(hop, "answered");
    assert_eq!(a.prompts()[before..], ["a draft of mine", "not into the draft"]);
}

async fn in_neovim(binary: &Path) {
    let c = Claudes::new(binary, &[]).await;
    let e = Editor::start(&c.world, &c.env("a"));
    e.terminal(
        &[&["claude"], &ARGS[..]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>(),
    );
    let screen = || e.term.text();
    c.world.wait("the composer", || claude::ready(&screen()).then_some(()));
    let info = e.adopt("a", "");
    assert_eq!(info["profile"], "claude", "{info}");
    e.command("startinsert");
    e.wait_lua("vim.api.nvim_get_mode().mode", "t");
    serves(&c, "a", &e);
}

async fn in_tmux(binary: &Path) {
    let c = Claudes::new(binary, &[]).await;
    let w = &c.world;
    let mut env: BTreeMap<String, String> = vars(w);
    env.extend(c.env("a"));
    env.remove("TERM");
    let env: Vec<(&str, &OsStr)> = env.iter().map(|(k, v)| (k.as_str(), v.as_ref())).collect();
    let argv = [&["claude"], &ARGS[..]].concat();
    let t = Tmux::start(&argv, &env, &w.site.work(), 40, 120);
    w.wait("the composer", || claude::ready(&t.screen()).then_some(()));
    let socket = t.socket().display().to_string();
    w.site.ok(&["adopt", "--tmux", "%0", "-S", &socket, "--name", "a"]);
    let info = w.wait_phase("a", "idle");
    assert_eq!(info["profile"], "claude", "{info}");
    serves(&c, "a", &t);
}

#[tokio::test]
async fn real_claude_adopted_from_a_terminal_of_neovim() {
    in_neovim(&claude::binary()).await;
}

#[tokio::test]
async fn real_claude_adopted_from_a_pane_of_tmux() {
    in_tmux(&claude::binary()).await;
}
