//! A state folder that fills up: nothing is typed that was not recorded first, and it goes on once there
//! is room.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{Site, wait_for};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A host whose state folder is a file system of 400 KiB, in a mount namespace of its own.
fn small_disk(site: &Site) -> Child {
    let state = site.state();
    std::fs::create_dir(&state).unwrap();
    let serve = site.command(&["serve", "--foreground"]);
    let script =
        r#"mount -t tmpfs -o size=400k,mode=700 tmpfs "$1" && exec "$2" serve --foreground"#;
    let mut command = Command::new("unshare");
    let user = if rustix::process::getuid().is_root() { "-m" } else { "-rm" };
    command.args([user, "sh", "-c", script, "sh", state.to_str().unwrap()]);
    command.arg(serve.get_program()).env_clear().current_dir(site.work());
    command.envs(serve.get_envs().filter_map(|(k, v)| Some((k, v?))));
    // The host's own process keeps the pid: every step is an exec.
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().expect("unshare of util-linux");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("host "), "{line:?} {:?}", child.wait_with_output());
    child
}

#[test]
fn a_full_disk_withholds_what_could_not_be_recorded_and_names_the_remedy() {
    let mut site = Site::new();
    let mut child = small_disk(&site);
    // The host's files, as seen from outside of its mount namespace.
    let inside = format!("/proc/{}/root{}", child.id(), site.state().display());
    site.set("MADO_STATE_DIR", &inside);
    site.open_shell("a");
    let ran = site.path().join("ran");
    let fill = format!("{inside}/fill");
    // As `dd` to the last byte: writes until the disk says no.
    let mut file = std::fs::File::create(&fill).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 512]).is_ok() {}
    drop(file);
    site.run(&["send", "a", &format!("touch {}", ran.display())]);
    let reason = wait_for("a hop that waits for the store", || {
        let hop = site.json(&["log", "--json"]).first()?.clone();
        let text = hop["reason_text"].as_str()?.to_owned();
        text.contains("hops.jsonl").then_some(text)
    });
    assert!(reason.contains("cannot be written") && reason.contains("MADO_STATE_DIR"), "{reason}");
    assert!(!ran.exists());
    assert!(!site.ok(&["screen", "a"]).contains("touch"), "it was typed but not recorded");
    // Other things go on, and a new hop does once there is room.
    std::fs::remove_file(&fill).unwrap();
    site.ok(&["resume"]);
    site.ok(&["send", "a", &format!("touch {}", ran.display())]);
    wait_for("the command to run", || ran.exists().then_some(()));
    site.ok(&["stop"]);
    wait_for("the host's end", || child.try_wait().unwrap());
}
