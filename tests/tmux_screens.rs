//! `make demo` as a person sees it: tmux holds the terminal, types the keys, and reads the screens, which are
//! compared whole with those in `tests/golden/`. `UPDATE_GOLDEN=1` writes them anew; look at what changed.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::tmux::Tmux;
use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The whole demo takes about five seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Replaces what differs from run to run by what does not: times of day, how long a turn took.
fn normal(screen: &str) -> String {
    let mut text = screen.to_owned();
    for (pattern, with) in
        [(r"\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b", "HH:MM:SS"), (r"\bfor [0-9]+s\b", "for Ns")]
    {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

fn golden(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/golden").join(format!("{name}.txt"))
}

/// Waits until the screen is the golden one. With `UPDATE_GOLDEN`, it first waits until `is_it` and
/// until nothing moves, and writes it.
async fn shows(tmux: &Tmux, name: &str, is_it: impl Fn(&str) -> bool) {
    let path = golden(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| !v.is_empty()) {
        let mut screen = tmux.wait(name, PATIENCE, &is_it).await;
        loop {
            // Longer than any pause of the demo agents that is not their rest.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = tmux.screen();
            if now == screen && is_it(&now) {
                break;
            }
            screen = now;
        }
        std::fs::write(&path, normal(&screen)).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; make it with UPDATE_GOLDEN=1", path.display()));
    assert!(is_it(&expected), "{} does not show what it is to show", path.display());
    let what =
        format!("the screen of {} (UPDATE_GOLDEN=1 writes it anew):\n{expected}", path.display());
    tmux.wait(&what, PATIENCE, |screen| normal(screen) == expected).await;
}

#[tokio::test]
async fn a_person_sees_two_agents_then_the_hop_then_the_log() {
    let home = tempfile::tempdir().unwrap();
    let cache = std::env::var_os("MADO_DEV_CACHE").map(PathBuf::from);
    let cache =
        cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/mado-dev")));
    let nvim = common::nvim();
    // The very Neovim of the tests, whatever the script would find.
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", nvim.parent().unwrap().display());
    let env: [(&str, &OsStr); 5] = [
        ("HOME", home.path().as_os_str()),
        ("PATH", OsStr::new(&path)),
        ("MADO_BIN", OsStr::new(env!("CARGO_BIN_EXE_mado"))),
        ("MADO_DEV_CACHE", cache.as_ref().unwrap().as_os_str()),
        ("TMPDIR", OsStr::new("/tmp")),
    ];
    let script = Path::new(ROOT).join("scripts/demo.sh");
    let tmux = Tmux::start(&[script.to_str().unwrap()], &env, home.path(), 32, 110);

    shows(&tmux, "demo-start", |screen| {
        screen.matches("? for shortcuts").count() == 2 && screen.contains("planner")
    })
    .await;

    tmux.text("Plan a small release.");
    tmux.wait("the draft", PATIENCE, |screen| screen.contains("❯ Plan a small release.")).await;
    tmux.keys(&["Enter"]);
    shows(&tmux, "demo-answered", |screen| {
        screen.contains("Review this plan of planner:") && screen.contains("● I read 4 lines")
    })
    .await;

    // Out of the terminal, and a command as it is typed.
    tmux.keys(&["C-\\", "C-n"]);
    tmux.text(":Mado log");
    tmux.wait("the command", PATIENCE, |screen| screen.contains("\n:Mado log")).await;
    tmux.keys(&["Enter"]);
    shows(&tmux, "demo-log", |screen| {
        screen.contains("planner → reviewer  answered") && screen.contains("mado log")
    })
    .await;

    tmux.keys(&["M-q"]);
    common::wait_until("the demo to end with its Neovim", PATIENCE, || !tmux.lives()).await;
}
