//! The real OpenCode, run as a stranger to this machine: a fresh home, a cleaned environment, nothing
//! but the mock model to talk to.
//!
//! Seen with 1.18.33: a start takes 8 to 10 seconds, on a loaded machine more; the bash tool asks only
//! where the configuration says so; without its own switches it looks for updates and for a list of
//! models at its start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

/// The pinned version.
pub fn binary() -> PathBuf {
    super::program("MADO_TEST_OPENCODE")
}

/// A fresh home folder. Keep it alive longer than the agents: it is deleted when dropped.
pub fn home() -> tempfile::TempDir {
    let home = tempfile::Builder::new().prefix("mado-home-").tempdir().expect("a temporary folder");
    std::fs::create_dir(home.path().join("tmp")).expect("create the temporary folder");
    home
}

/// The configuration of an agent whose model is at `mock_url`, and who asks before it runs anything.
fn config(mock_url: &str) -> String {
    let model = json!({
        "name": "Mock Model", "tool_call": true, "limit": { "context": 200_000, "output": 8_192 },
    });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "Mock",
        "options": { "baseURL": format!("{mock_url}/v1"), "apiKey": "mock-key" },
        "models": { "mock-model": model },
    });
    json!({
        "autoupdate": false, "share": "disabled", "enabled_providers": ["mock"],
        "model": "mock/mock-model", "small_model": "mock/mock-model",
        "permission": { "bash": "ask", "edit": "ask" },
        "provider": { "mock": provider },
    })
    .to_string()
}

/// The whole environment of an agent, with nothing of the caller's in it. Agents of one home share its
/// database, as a person's do.
pub fn env(home: &Path, mock_url: &str) -> BTreeMap<String, String> {
    let mut env = super::stranger(home);
    let config = config(mock_url);
    let own = [
        ("OPENCODE_CONFIG_CONTENT", config.as_str()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_SHARE", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    env.extend(own);
    env
}
