//! The real Codex, run as a stranger to this machine: a fresh home, a cleaned environment, nothing but the
//! mock model to talk to.
//!
//! Seen with 0.171.0:
//! - With this `config.toml` it starts without login, trust question and update check. Its model's address
//!   comes by `-c`, so that agents with one home can have one each.
//! - Without `-a on-request` a request to leave the sandbox is refused without a question.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The program.
pub fn binary() -> PathBuf {
    super::program("MADO_TEST_CODEX")
}

/// A fresh home folder in which the working directories `cwds` are trusted. Keep it alive longer than the
/// agent: it is deleted when dropped.
pub fn home(cwds: &[&Path]) -> tempfile::TempDir {
    let home = tempfile::Builder::new().prefix("mado-home-").tempdir().expect("a temporary folder");
    let mut config = "model = \"mock-model\"\nmodel_provider = \"mock\"\n\
        check_for_update_on_startup = false\n\
        [model_providers.mock]\nname = \"mock\"\nenv_key = \"MOCK_KEY\"\n\
        wire_api = \"responses\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
        request_max_retries = 1\nstream_max_retries = 1\n\
        [analytics]\nenabled = false\n\
        [tui]\nscreen_reader_detection_done = true\n"
        .to_owned();
    for cwd in cwds {
        let cwd = cwd.canonicalize().expect("the working directory exists");
        let cwd = cwd.display().to_string();
        writeln!(config, "[projects.{cwd:?}]\ntrust_level = \"trusted\"")
            .expect("a text takes all");
    }
    for folder in ["tmp", ".codex"] {
        std::fs::create_dir(home.path().join(folder)).expect("create a folder");
    }
    std::fs::write(home.path().join(".codex/config.toml"), config).expect("write the config");
    home
}

/// The whole environment of an agent, with nothing of the caller's in it.
pub fn env(home: &Path) -> BTreeMap<String, String> {
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
        ("MOCK_KEY", "sk-mock"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The arguments behind `--no-daemon`: it asks before it leaves the sandbox, and its model is at `mock_url`.
pub fn args(mock_url: &str) -> Vec<String> {
    let url = format!("model_providers.mock.base_url={:?}", format!("{mock_url}/v1"));
    ["-a", "on-request", "-s", "workspace-write", "-c", &url].map(str::to_owned).into()
}

/// The command line in a bare terminal.
pub fn argv(binary: &Path, mock_url: &str) -> Vec<String> {
    let program = binary.to_str().expect("a UTF-8 path").to_owned();
    [program, "--no-daemon".to_owned()].into_iter().chain(args(mock_url)).collect()
}
