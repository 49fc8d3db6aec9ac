//! Providers as users configure them: in `config.toml` of the host's configuration folder, and in
//! the editor, whose entries replace those of the same name.

use super::http::is_local;
use super::key;
use crate::host::paths::Paths;
use crate::proto::{ErrorInfo, Provider, ProviderKind, Transform};
use reqwest::Url;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Bounds of `timeout_ms`.
const TIMEOUT_MS: RangeInclusive<u64> = 100..=3_600_000;
/// The most `retries`.
const RETRIES: u32 = 10;
/// Bounds of `max_tokens`.
const MAX_TOKENS: RangeInclusive<u32> = 1..=1_000_000;

/// What `config.toml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The provider that is asked where a route names none.
    pub provider: Option<String>,
    /// Providers by name.
    pub providers: BTreeMap<String, Provider>,
    /// Instructions by transform, where a route has none of its own.
    pub templates: BTreeMap<Transform, String>,
}

/// The file.
#[must_use]
pub fn file(paths: &Paths) -> PathBuf {
    paths.config.join("config.toml")
}

/// Reads `config.toml`; without one nothing is configured.
pub fn load(paths: &Paths) -> Result<Config, ErrorInfo> {
    let file = file(paths);
    let bad = |what: String| ErrorInfo::new("bad_config", what, "correct the file");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Config::default()),
        Err(e) => return Err(bad(format!("{} cannot be read: {e}", file.display()))),
    };
    toml::from_str(&text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        let line = text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
        let why = e.message().trim().replace('\n', ", ");
        bad(format!("{}:{line}: {why}", file.display()))
    })
}

/// The providers that a route may ask: the one that is wished for, else the one that is set as the
/// default, else all.
pub fn choose(
    config: &Config,
    editor: BTreeMap<String, Provider>,
    wish: Option<&str>,
) -> Result<BTreeMap<String, Provider>, ErrorInfo> {
    let mut all = config.providers.clone();
    all.extend(editor);
    let wish = wish.or(config.provider.as_deref());
    if let Some(wish) = wish
        && let Some(spec) = all.remove(wish)
    {
        all = BTreeMap::from([(wish.to_owned(), spec)]);
    }
    // One that is wished for and not there is named by the core, with those that are.
    for (name, spec) in &all {
        check(name, spec)?;
    }
    Ok(all)
}

/// Checks a provider; the error names it and the key that is wrong.
pub fn check(name: &str, spec: &Provider) -> Result<(), ErrorInfo> {
    let bad = |what: String, remedy: &str| {
        Err(ErrorInfo::new("bad_provider", format!("provider {name}: {what}"), remedy))
    };
    if spec.timeout_ms.is_some_and(|n| !TIMEOUT_MS.contains(&n)) {
        return bad(
            "timeout_ms is out of range".to_owned(),
            "give milliseconds from 100 to 3600000",
        );
    }
    if spec.silence_ms.is_some_and(|n| !TIMEOUT_MS.contains(&n)) {
        return bad(
            "silence_ms is out of range".to_owned(),
            "give milliseconds from 100 to 3600000",
        );
    }
    if spec.retries.is_some_and(|n| n > RETRIES) {
        return bad("retries is more than 10".to_owned(), "give a number from 0 to 10");
    }
    if spec.max_tokens.is_some_and(|n| !MAX_TOKENS.contains(&n)) {
        return bad("max_tokens is out of range".to_owned(), "give a number from 1 to 1000000");
    }
    for header in spec.headers.keys() {
        if ["authorization", "x-api-key"].iter().any(|h| header.eq_ignore_ascii_case(h)) {
            let what = format!("the header {header} would hold a key in a configuration");
            return bad(what, "name where the key is: key_env or key_command");
        }
    }
    if spec.kind == ProviderKind::Command {
        let program = spec.command.first().is_some_and(|p| !p.is_empty());
        if !program || !spec.base_url.is_empty() {
            let remedy =
                "kind command takes a program: command = ['claude', '-p'], and no base_url";
            return bad("command is empty or base_url is given".to_owned(), remedy);
        }
        return Ok(());
    }
    if !spec.command.is_empty() {
        return bad("command is given".to_owned(), "set kind to command, or leave command out");
    }
    if spec.model.is_empty() {
        return bad("model is missing".to_owned(), "name the model that is to be asked");
    }
    if spec.base_url.is_empty() {
        return Ok(());
    }
    let url = match Url::parse(&spec.base_url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() => url,
        _ => {
            // What it holds may be a key that was put into the wrong place.
            let what = "base_url is no URL of a service".to_owned();
            return bad(what, "give one such as http://127.0.0.1:11434/v1");
        }
    };
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        let what = "base_url holds a name, a password or a query".to_owned();
        return bad(what, "name where the key is: key_env or key_command");
    }
    let keyed = key::variable(spec).is_some() || !spec.key_command.is_empty();
    if url.scheme() == "http" && keyed && !is_local(&url) {
        let what = "its key would travel unencrypted to another machine".to_owned();
        return bad(what, "use https in base_url");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ErrorInfo> {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: dir.path().into(),
            runtime: dir.path().into(),
            config: dir.path().into(),
        };
        std::fs::write(file(&paths), text).unwrap();
        load(&paths)
    }

    const GOOD: &str = "provider = 'local'\n[providers.local]\nkind = 'openai'\n\
        base_url = 'http://127.0.0.1:11434/v1'\nmodel = 'm'\n[templates]\nai-routing = 'Review.'\n";

    #[test]
    fn the_hosts_file_is_read_and_the_editor_replaces_by_name() {
        let config = read(GOOD).unwrap();
        assert_eq!(config.templates[&Transform::AiRouting], "Review.");
        let other =
            Provider { kind: ProviderKind::Anthropic, model: "x".into(), ..Provider::default() };
        let editor = BTreeMap::from([("local".to_owned(), other.clone()), ("b".to_owned(), other)]);
        let chosen = choose(&config, editor.clone(), None).unwrap();
        assert_eq!(chosen.keys().collect::<Vec<_>>(), ["local"]);
        assert_eq!(chosen["local"].model, "x");
        assert_eq!(choose(&config, editor, Some("b")).unwrap().keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        let e = read(&GOOD.replace("model", "modle")).unwrap_err();
        assert!(e.message.contains("config.toml:5: unknown field `modle`"), "{e}");
        let e = read("providers = 3").unwrap_err();
        assert!(e.message.contains("config.toml:1: "), "{e}");
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_key_that_is_wrong() {
        let good = |kind| Provider { kind, model: "m".into(), ..Provider::default() };
        let openai = || good(ProviderKind::Openai);
        check("x", &openai()).unwrap();
        let url = |u: &str| Provider { base_url: u.into(), ..openai() };
        check("x", &url("http://10.0.0.1:11434/v1")).unwrap();
        let cases = [
            (Provider { model: String::new(), ..openai() }, "model is missing"),
            (url("127.0.0.1:11434"), "base_url is no URL"),
            (url("https://me:secret@example.org"), "a password"),
            (url("https://example.org/?key=secret"), "a query"),
            (Provider { key_env: "K".into(), ..url("http://10.0.0.1/v1") }, "unencrypted"),
            (Provider { timeout_ms: Some(1), ..openai() }, "timeout_ms"),
            (Provider { retries: Some(99), ..openai() }, "retries"),
            (Provider { max_tokens: Some(0), ..openai() }, "max_tokens"),
            (
                Provider {
                    headers: BTreeMap::from([("X-Api-Key".to_owned(), "k".to_owned())]),
                    ..openai()
                },
                "X-Api-Key",
            ),
            (good(ProviderKind::Command), "command is empty"),
            (Provider { command: vec!["x".into()], ..openai() }, "command is given"),
        ];
        for (spec, said) in cases {
            let e = check("mine", &spec).unwrap_err();
            assert!(
                e.message.starts_with("provider mine: ") && e.message.contains(said),
                "{said}: {e}"
            );
            assert!(!e.to_string().contains("secret"), "{e}");
        }
    }
}
