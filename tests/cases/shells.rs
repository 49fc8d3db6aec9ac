//! A real shell: what stands at its prompt and what only looks like one.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::world::{Open, PATIENCE, World};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// bash with these start-up commands.
fn bash(w: &World, name: &str, rc: &str) {
    let file = w.site.path().join(format!("{name}.rc"));
    fs::write(&file, rc).unwrap();
    let args =
        vec!["--noprofile".into(), "--rcfile".into(), file.display().to_string(), "-i".into()];
    let env = BTreeMap::from([("SHELL".to_owned(), "/bin/bash".to_owned())]);
    w.open("shell", name, Open { env, args, ..Open::default() });
    w.wait_phase(name, "idle");
}

const MARKS: &str = r#"PS1='\[\e]133;D\a\e]133;A\a\]> \[\e]133;B\a\]'; PS0='\e]133;C\a'"#;

async fn a_question(rc: &str) {
    let w = World::new(&[]);
    bash(&w, "sh", rc);
    let person = w.viewer("sh");
    person.write("read -p 'Delete all? ' answer; echo got $answer\r");
    person.wait_text("Delete all? ", PATIENCE).await;
    w.wait_phase("sh", "busy");
    let hop = w.send("sh", "echo from mado");
    w.wait_reason(hop, "busy");
    w.never("a key in the question", Duration::from_millis(1500), || {
        person.text().contains("from mado")
    });
    person.write("no\r");
    let done = w.wait_state(hop, "answered");
    assert!(done["answer"].is_null() || done["answer"] == "", "{done}");
    person.wait_text("got no", PATIENCE).await;
    person.wait_text("\nfrom mado", PATIENCE).await;
}

#[tokio::test]
async fn a_question_of_a_builtin_is_not_answered_by_a_hop() {
    a_question("PS1='> '").await;
}

#[tokio::test]
async fn a_shell_that_marks_its_commands_is_believed_without_bracketed_paste() {
    a_question(&format!("bind 'set enable-bracketed-paste off'; {MARKS}")).await;
}
