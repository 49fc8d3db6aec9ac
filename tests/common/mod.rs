//! Shared by the integration tests: waiting on conditions, a scripted model server, a terminal, and
//! the real agent.
//!
//! Everything here panics with what was expected and what was seen; nothing skips.

// Every test program compiles this module and uses a part of it; helpers may panic like tests.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

pub mod claude;
pub mod codex;
pub mod mock;
pub mod opencode;
pub mod term;
pub mod tmux;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a condition is looked at. Short against everything that tests measure in.
const POLL: Duration = Duration::from_millis(5);

/// Waits until `check` gives a value. After `timeout` it panics with `what` was waited for and with
/// what `seen` says of the present state.
pub async fn wait_value<T>(
    what: &str,
    timeout: Duration,
    mut check: impl FnMut() -> Option<T>,
    seen: impl FnOnce() -> String,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < timeout, "waited {timeout:?} for {what}; seen:\n{}", seen());
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until `check` is true, or panics after `timeout`.
pub async fn wait_until(what: &str, timeout: Duration, mut check: impl FnMut() -> bool) {
    wait_value(what, timeout, || check().then_some(()), String::new).await;
}

/// Asserts that `check` stays false for `span`: for things that must *not* happen. It costs its
/// whole span when all is well, so keep the span short, and pair it with a test in which the same
/// condition does come true.
pub async fn assert_never(what: &str, span: Duration, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(!check(), "happened after {:?}: {what}", start.elapsed());
        tokio::time::sleep(POLL).await;
    }
}

/// Milliseconds since the epoch, with their fractions.
pub fn epoch_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_secs_f64()
        * 1000.0
}

/// The program that an environment variable of `scripts/test.sh` names. Panics where it is missing:
/// a test that needs a real program never skips itself.
pub fn program(variable: &str) -> PathBuf {
    let path = PathBuf::from(
        std::env::var_os(variable)
            .unwrap_or_else(|| panic!("{variable} is not set: run the tests with `make test`")),
    );
    assert!(path.is_file(), "{variable}={} is not a file", path.display());
    path
}

/// The environment of a stranger to this machine with this home, for a terminal of 256 colours and more.
pub fn stranger(home: &Path) -> BTreeMap<String, String> {
    let home = home.to_str().expect("a UTF-8 path");
    [
        ("HOME", home),
        ("TMPDIR", &format!("{home}/tmp")),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("SHELL", "/bin/bash"),
        ("USER", "mado"),
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm-256color"),
        ("COLORTERM", "truecolor"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The Neovim that the tests drive.
pub fn nvim() -> PathBuf {
    program("MADO_TEST_NVIM")
}
