//! A host's start and end: one at a time, private, gone when nobody needs it.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/host.rs"]
mod host;

use host::{LONG, Site, lives, wait_for};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

#[test]
fn a_second_host_is_refused_and_told_the_pid_of_the_first() {
    let site = Site::new();
    let first = site.serve();
    for args in [&["serve", "--foreground", "--json"][..], &["serve", "--json"][..]] {
        let e = site.run(args).error();
        assert_eq!(e["code"], "host_running", "{e}");
        let message = e["message"].as_str().unwrap();
        assert!(message.contains(&first.pid().to_string()), "{message}");
    }
    assert_eq!(site.json(&["status", "--json"])[0]["pid"], first.pid());
}

#[test]
fn stale_sockets_are_replaced_and_all_files_are_private() {
    let site = Site::new();
    std::fs::create_dir(site.path().join("run")).unwrap();
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(site.path().join("run"), mode).unwrap();
    for name in ["editor.sock", "shell.sock", "attach.sock", "hook.sock"] {
        drop(UnixListener::bind(site.socket(name)).unwrap());
    }
    let _host = site.serve();
    assert_eq!(site.ok(&["ls"]), "no agents\n");
    let mut sockets = 0;
    for folder in ["run", "state"] {
        let folder = site.path().join(folder);
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            sockets += usize::from(meta.file_type().is_socket());
            assert_eq!(meta.mode() & 0o077, 0, "{}", entry.path().display());
        }
    }
    assert_eq!(sockets, 4);
}

#[test]
fn listing_commands_never_start_a_host() {
    let site = Site::new();
    for command in ["ls", "routes", "log", "queue", "status", "screen", "answer", "events"] {
        let e = site.run(&[command, "--json"]).error();
        assert_eq!(e["code"], "no_host", "{command}: {e}");
        assert_eq!(e["message"], "no host is running");
        assert!(e["remedy"].as_str().unwrap().contains("mado open"));
    }
    assert!(!site.state().exists());
    assert_eq!(site.ok(&["stop"]), "no host is running\n");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named_with_the_remedy() {
    let mut site = Site::new();
    // Even root cannot make a folder there.
    site.set("MADO_STATE_DIR", "/proc/mado");
    let e = site.run(&["serve", "--foreground", "--json"]).error();
    assert!(e["message"].as_str().unwrap().starts_with("/proc/mado cannot be"), "{e}");
    assert!(e["remedy"].as_str().unwrap().contains("MADO_STATE_DIR"), "{e}");
    // The same through the command that would start one.
    let e = site.run(&["open", "shell", "--json"]).error();
    assert!(e["message"].as_str().unwrap().starts_with("/proc/mado cannot be"), "{e}");
}

#[test]
fn a_socket_path_that_is_too_long_names_path_limit_and_remedy() {
    let mut site = Site::new();
    let long = site.path().join("x".repeat(120));
    site.set("MADO_RUNTIME_DIR", long.to_str().unwrap());
    let e = site.run(&["serve", "--foreground", "--json"]).error();
    assert_eq!(e["code"], "socket_path_too_long");
    let message = e["message"].as_str().unwrap();
    assert!(message.contains(long.to_str().unwrap()) && message.contains("107"), "{message}");
    assert!(e["remedy"].as_str().unwrap().contains("MADO_RUNTIME_DIR"));
}

#[test]
fn a_wrong_setting_is_named() {
    let mut site = Site::new();
    site.set("MADO_TIMING", "idle_ms=1,idle=2");
    let e = site.run(&["serve", "--foreground", "--json"]).error();
    assert!(e["message"].as_str().unwrap().contains("idle: unknown field"), "{e}");
    site.set("MADO_TIMING", "");
    site.set("MADO_CRASH_AT", "lunch");
    let e = site.run(&["serve", "--foreground", "--json"]).error();
    assert!(e["message"].as_str().unwrap().contains("\"lunch\""), "{e}");
}

#[test]
fn a_host_ends_when_it_has_neither_agents_nor_clients() {
    let mut site = Site::new();
    site.set("MADO_TIMING", "unused_ms=400");
    let mut host = site.serve();
    site.open_shell("a");
    // Longer than it would wait without an agent.
    assert!(host.ends_within(Duration::from_secs(1)).is_none());
    let closed = Instant::now();
    site.ok(&["close", "a"]);
    assert!(host.ends_within(LONG).expect("it ends").success());
    assert!(closed.elapsed() >= Duration::from_millis(400));
    assert!(!site.socket("shell.sock").exists());
}

#[test]
fn open_starts_a_host_that_outlives_its_starter_and_stop_leaves_no_process() {
    let site = Site::new();
    site.open_shell("a");
    let pid = site.json(&["status", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    let agent = site.json(&["ls", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    // What made itself a session of its own must go too.
    let mark = site.path().join("child");
    let line = format!("setsid -f sleep 1000; pgrep -n sleep > {}", mark.display());
    site.ok(&["send", "a", &line]);
    let child: u32 = wait_for("the child's pid", || {
        std::fs::read_to_string(&mark).ok().and_then(|t| t.trim().parse().ok())
    });
    assert!(lives(pid) && lives(agent) && lives(child));
    site.ok(&["stop"]);
    assert!(!lives(pid) && !lives(agent) && !lives(child));
}

#[test]
fn a_signal_ends_the_host_and_its_agents() {
    let site = Site::new();
    let mut host = site.serve();
    site.open_shell("a");
    let agent = site.json(&["ls", "--json"])[0]["pid"].as_u64().unwrap() as u32;
    let pid = rustix::process::Pid::from_raw(host.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(host.ends_within(LONG).expect("it ends").success());
    assert!(!lives(agent));
}

#[test]
fn many_commands_at_once_start_one_host() {
    let site = Site::new();
    std::thread::scope(|s| {
        for i in 0..6 {
            let site = &site;
            s.spawn(move || site.ok(&["open", "shell", "--name", &format!("a{i}")]));
        }
    });
    assert_eq!(site.json(&["ls", "--json"]).len(), 6);
}
