//! The real Claude Code, run as a stranger to this machine: a fresh home, a cleaned environment, nothing
//! but the mock model to talk to.
//!
//! Seen with 2.1.197 and 2.1.332:
//! - With this `.claude.json` it starts without the onboarding, the key question and the trust question.
//! - 2.1.332 draws on the alternate screen with the composer at the bottom and takes the mouse;
//!   2.1.197 draws below the prompt. `CLAUDE_CODE_NO_FLICKER=0` (or `1`) in the environment makes
//!   either do it the older (or newer) way.
//! - Without `--permission-mode`, 2.1.332 starts in auto mode, which asks nobody; its asking mode is
//!   named `manual`, in 2.1.197 it is `default`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::term::Term;

/// A key that looks like one. Its last 20 characters are what Claude stores of an approved key.
pub const API_KEY: &str = "sk-ant-api03-mock-key-for-tests-0000000000000000";

/// A start takes about two seconds; a loaded machine gets more.
pub const START: Duration = Duration::from_secs(40);

/// The current version.
pub fn binary() -> PathBuf {
    super::program("MADO_TEST_CLAUDE")
}

/// The older version that must keep working.
pub fn old_binary() -> PathBuf {
    super::program("MADO_TEST_CLAUDE_OLD")
}

/// A fresh home folder in which the working directories `cwds` are trusted. Keep it alive longer
/// than the agent: it is deleted when dropped.
pub fn home(cwds: &[&Path]) -> tempfile::TempDir {
    let home = tempfile::Builder::new().prefix("mado-home-").tempdir().expect("a temporary folder");
    let trusted: Map<String, Value> = cwds
        .iter()
        .map(|cwd| {
            // Claude keys projects by the resolved path.
            let cwd = cwd.canonicalize().expect("the working directory exists");
            let trust =
                json!({ "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true });
            (cwd.to_str().expect("a UTF-8 path").to_owned(), trust)
        })
        .collect();
    let config = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": { "approved": [&API_KEY[API_KEY.len() - 20..]], "rejected": [] },
        "projects": trusted,
    });
    std::fs::write(home.path().join(".claude.json"), config.to_string()).expect("write the config");
    std::fs::create_dir(home.path().join("tmp")).expect("create the temporary folder");
    home
}

/// The whole environment of an agent, with nothing of the caller's in it. `mock_url` is the model's base
/// URL.
pub fn claude_env(home: &Path, mock_url: &str) -> BTreeMap<String, String> {
    let mut env = super::stranger(home);
    let own = [
        ("ANTHROPIC_BASE_URL", mock_url),
        ("ANTHROPIC_API_KEY", API_KEY),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    env.extend(own);
    env
}

/// The command line of the program at `binary` with further arguments.
pub fn argv(binary: &Path, arguments: &[&str]) -> Vec<String> {
    let program = binary.to_str().expect("a UTF-8 path").to_owned();
    std::iter::once(program).chain(arguments.iter().map(ToString::to_string)).collect()
}

/// Starts an agent in a terminal of 40x120 and waits until its composer is there.
pub async fn start(
    binary: &Path,
    arguments: &[&str],
    home: &Path,
    cwd: &Path,
    mock_url: &str,
) -> Term {
    let term = Term::spawn(&argv(binary, arguments), &claude_env(home, mock_url), cwd, 40, 120);
    term.wait_for("the composer", START, ready).await;
    term
}

/// The composer is drawn and no dialog covers it.
pub fn ready(screen: &str) -> bool {
    screen.lines().any(|line| line.starts_with('❯')) && !screen.contains("Esc to cancel")
}

/// Waits for a permission dialog and approves it. 2.1.332 ignores an Enter in about
/// the first 100 ms after it drew the dialog (2.1.197 takes it at once), so it is repeated while the dialog stands.
pub async fn approve(term: &Term, timeout: Duration) {
    let pressed = Cell::new(None::<Instant>);
    term.wait_for("a permission dialog to open and close", timeout, |screen| {
        if !screen.contains("Do you want to") {
            return pressed.get().is_some();
        }
        if pressed.get().is_none_or(|at| at.elapsed() > Duration::from_millis(500)) {
            pressed.set(Some(Instant::now()));
            term.write("\r");
        }
        false
    })
    .await;
}

/// What a person pasted, from the text that the model got. A paste that Claude shows as a placeholder (more
/// than 800 characters, or more than two newlines) reaches the model as it is in 2.1.197, and inside
/// `<pasted_content id="…">` with newlines around it in 2.1.332. Other text is returned unchanged.
pub fn unwrap_pasted(text: &str) -> &str {
    let inner = || {
        let (id, rest) =
            text.trim_start().strip_prefix("<pasted_content id=\"")?.split_once("\">\n")?;
        rest.trim_end().strip_suffix(&format!("\n</pasted_content id=\"{id}\">"))
    };
    inner().unwrap_or(text)
}
