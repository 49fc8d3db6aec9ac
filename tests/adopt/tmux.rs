//! A pane of tmux, adopted.

use std::ffi::OsStr;
use std::time::Duration;

use serde_json::json;

use crate::common::term::Term;
use crate::common::tmux::Tmux;
use crate::editor::vars;
use crate::nvim::{TEXT, pasted, sweep};
use crate::world::{DemoAgent, World};

/// A tmux server whose only pane runs this.
fn server(w: &World, argv: &[String]) -> Tmux {
    let vars = vars(w);
    let env: Vec<(&str, &OsStr)> =
        vars.iter().filter(|(k, _)| *k != "TERM").map(|(k, v)| (k.as_str(), v.as_ref())).collect();
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    Tmux::start(&argv, &env, &w.site.work(), 30, 100)
}

fn adopt(w: &World, t: &Tmux, name: &str, more: &[&str]) {
    let socket = t.socket().display().to_string();
    let args = ["adopt", "--tmux", "%0", "-S", &socket, "--name", name];
    w.site.ok(&[&args, more].concat());
    w.wait_phase(name, "idle");
}

/// A demo agent in a pane, adopted, idle.
fn demo<'w>(w: &'w World, name: &str) -> (Tmux, DemoAgent<'w>) {
    let (argv, agent) = w.foreign_demo(name, &["--think", "100"]);
    let t = server(w, &argv);
    w.wait("the composer", || t.screen().contains("? for shortcuts").then_some(()));
    adopt(w, &t, name, &[]);
    (t, agent)
}

#[test]
fn what_is_routed_from_and_to_an_adopted_pane_arrives_byte_for_byte() {
    let w = World::new(&[]);
    let (ta, a) = demo(&w, "a");
    // The person's own buffer, and what they pipe elsewhere, stay as they are.
    ta.ask(&["set-buffer", "-b", "mine", "precious"]);
    let info = w.agent("a");
    assert_eq!((&info["adopted"], &info["place"]), (&json!("tmux"), &json!("tmux pane %0")));
    let hop = w.send("a", TEXT);
    let done = w.wait_state(hop, "answered");
    assert_eq!(pasted(&a), (TEXT.to_owned(), "\r".to_owned()), "{done}");
    assert_eq!(ta.ask(&["list-buffers", "-F", "#{buffer_name}"]), "mine");

    let (_tb, b) = demo(&w, "b");
    let options = json!({"trigger": "on-turn", "template": "got:\n{output}", "cooldown_ms": 1000});
    let route = w.connect("a", "b", options);
    w.send("a", "DEMO:say first line\\nsecond line");
    let hop = w.wait_route_hop(route, 1, "answered");
    assert_eq!(b.submits(), ["got:\nfirst line\nsecond line"], "{hop}");
    assert_eq!(pasted(&b).1, "\r");
    w.stop_and_replay();
}

#[test]
fn a_dialog_gets_nothing_and_one_between_text_and_enter_withholds_the_enter() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    a.control("ask");
    w.wait_phase("a", "asking");
    let before = a.bytes();
    let hop = w.send("a", "after the dialog");
    w.wait_reason(hop, "asks");
    w.never("a byte in the dialog", Duration::from_secs(1), || a.bytes() != before);
    t.keys(&["Escape"]);
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), ["after the dialog"]);

    let entered = a.bytes().iter().filter(|b| **b == b'\r').count();
    let hop = w.send("a", "text of the hop");
    w.wait("the text", || (a.draft() == "text of the hop").then_some(()));
    a.control("ask");
    w.wait_reason(hop, "asks");
    w.never("an Enter in the dialog", Duration::from_millis(800), || {
        a.bytes().iter().filter(|b| **b == b'\r').count() != entered
    });
    t.keys(&["Escape"]);
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), ["after the dialog", "text of the hop"]);
}

#[test]
#[ignore = "long: many dialogs at many moments"]
fn dialogs_swept_over_the_whole_delivery_are_not_answered_once_tmux_has_read_them() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    let answered = sweep(&w, &a, || t.keys(&["Escape"]));
    assert!(answered.iter().all(|ms| *ms < 50.0), "{answered:?}");
}

#[test]
fn text_that_a_person_types_meanwhile_withholds_the_enter() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    let lines: Vec<String> = (1..=12).map(|n| format!("line {n}")).collect();
    let hop = w.send("a", &lines.join("\n"));
    w.wait("the first lines", || a.draft().contains("line 3").then_some(()));
    t.text("x");
    let done = w.wait_hop(hop, "an end", |h| h["state"] == "failed" || h["state"] == "stopped");
    w.never("an Enter", Duration::from_millis(800), || a.bytes().contains(&b'\r'));
    assert!(a.draft().contains('x'), "{done}");
}

#[test]
fn a_client_that_is_used_while_mado_types_stops_the_hop() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    let socket = t.socket().display().to_string();
    let argv = ["tmux", "-u", "-S", &socket, "attach"];
    let client = Term::spawn(&argv, &vars(&w), &w.site.work(), 30, 100);
    w.wait("the client", || client.text().contains("? for shortcuts").then_some(()));
    w.wait_phase("a", "idle");
    // Activity is counted in seconds: the one of its start must be over.
    std::thread::sleep(Duration::from_millis(2100));
    let lines: Vec<String> = (1..=19).map(|n| format!("line {n}")).collect();
    let hop = w.send("a", &lines.join("\n"));
    w.wait("the first lines", || a.draft().contains("line 3").then_some(()));
    client.write("x");
    let stopped = w.wait_hop(hop, "an end", |h| h["state"] == "stopped" || h["state"] == "failed");
    assert_eq!(stopped["reason_code"], "human_took_over", "{stopped}");
    w.never("an Enter", Duration::from_millis(800), || a.bytes().contains(&b'\r'));
}

#[test]
fn copy_mode_holds_everything_back() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    t.ask(&["copy-mode"]);
    w.wait_phase("a", "unknown");
    let hop = w.send("a", "after copy mode");
    let before = a.bytes();
    w.never("a byte", Duration::from_secs(1), || a.bytes() != before);
    assert_eq!(w.hop(hop)["reason_code"], "not_foreground");
    t.ask(&["send-keys", "-X", "cancel"]);
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), ["after copy mode"]);
}

#[test]
fn a_stopped_agent_in_front_of_a_shell_gets_nothing() {
    let w = World::new(&[]);
    let (argv, a) = w.foreign_demo("a", &["--think", "0"]);
    let t = server(&w, &["bash".into(), "--norc".into(), "--noprofile".into(), "-i".into()]);
    t.text(&argv.join(" "));
    t.keys(&["Enter"]);
    w.wait("the composer", || t.screen().contains("? for shortcuts").then_some(()));
    adopt(&w, &t, "a", &[]);
    assert_ne!(w.pid("a").to_string(), t.ask(&["display-message", "-p", "#{pane_pid}"]));
    let stop = format!("-STOP {}", w.pid("a"));
    assert!(std::process::Command::new("kill").args(stop.split(' ')).status().unwrap().success());
    w.wait_phase("a", "unknown");
    let hop = w.send("a", "touch must-not-exist");
    let before = a.bytes();
    let screen = t.screen();
    w.never("a byte", Duration::from_secs(1), || a.bytes() != before || t.screen() != screen);
    assert_eq!(w.hop(hop)["reason_code"], "not_foreground");
}

#[test]
fn a_pane_that_is_killed_ends_the_agent_and_its_hops_with_the_reason() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    t.ask(&["new-window", "-d", "sleep 600"]);
    a.control("ask");
    w.wait_phase("a", "asking");
    let hop = w.send("a", "never to arrive");
    w.wait_reason(hop, "asks");
    t.ask(&["kill-pane", "-t", "%0"]);
    let failed = w.wait_state(hop, "failed");
    assert_eq!(failed["reason_code"], "target_exited");
    w.wait_phase("a", "exited");
}

#[test]
fn closing_releases_the_pane_and_a_pause_stops_every_byte() {
    let w = World::new(&[]);
    let (t, a) = demo(&w, "a");
    let lines: Vec<String> = (1..=15).map(|n| format!("line {n}")).collect();
    let hop = w.send("a", &lines.join("\n"));
    w.wait("the first lines", || a.draft().contains("line 3").then_some(()));
    w.ask("pause", json!({}));
    std::thread::sleep(Duration::from_millis(100));
    let before = a.bytes();
    w.never("a byte while paused", Duration::from_secs(1), || a.bytes() != before);
    w.ask("resume", json!({}));
    w.wait_state(hop, "answered");
    assert_eq!(a.submits(), [lines.join("\n")]);
    let said = w.site.ok(&["close", "a"]);
    assert!(said.contains("a is released; it runs on where it is"), "{said}");
    assert!(t.lives());
}

#[test]
fn panes_that_cannot_be_adopted_are_refused_in_one_sentence() {
    let w = World::new(&[]);
    let (t, _a) = demo(&w, "a");
    let socket = t.socket().display().to_string();
    let refused = |args: &[&str]| {
        let all = [&["adopt", "--json", "-S", &socket], args].concat();
        w.site.run(&all).error()
    };
    let twice = refused(&["--tmux", "%0"]);
    assert_eq!(twice["code"], "adopted_already", "{twice}");
    assert_eq!(refused(&["--tmux", "%99"])["code"], "no_pane");
    assert_eq!(refused(&["--tmux", "nowhere"])["code"], "no_pane");
    t.ask(&["new-window", "-d", "sleep 600"]);
    let unknown = refused(&["--tmux", "%1"]);
    assert_eq!(unknown["code"], "no_profile_fits");
    assert!(unknown["message"].as_str().unwrap().contains("sleep"), "{unknown}");
    assert_eq!(refused(&["--tmux", "%1", "--profile", "nonsense"])["code"], "unknown_profile");
    assert_eq!(refused(&["--tmux", "%1", "--profile", "claude"])["code"], "not_this_profile");
    let nobody = w.site.run(&["adopt", "--json", "-S", "/nowhere/s", "--tmux", "%0"]).error();
    assert_eq!(nobody["code"], "no_pane", "{nobody}");
}

#[test]
fn a_shell_in_a_pane_runs_a_line() {
    let w = World::new(&[]);
    let t = server(&w, &["bash".into(), "--norc".into(), "--noprofile".into(), "-i".into()]);
    w.wait("the prompt", || t.screen().starts_with('$').then_some(()));
    adopt(&w, &t, "sh", &["--profile", "shell"]);
    let marker = w.site.path().join("ran");
    let hop = w.send("sh", &format!("echo done > {}", marker.display()));
    w.wait_state(hop, "answered");
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "done\n");
    // A person's half-written line is left alone, and seen although its keys are not.
    std::thread::sleep(Duration::from_millis(1200));
    t.text("touch half");
    w.wait("the draft", || (w.agent("sh")["draft"] == true).then_some(()));
    let hop = w.send("sh", "echo two");
    w.wait_reason(hop, "draft");
    t.keys(&["C-u"]);
    w.wait_state(hop, "answered");
}
