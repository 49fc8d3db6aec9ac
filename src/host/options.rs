//! How a host is to run, from its environment: for tests and bug reports.

use super::paths::Paths;
use super::server::{CrashAt, Options};
use super::trace;
use crate::core::Timing;
use crate::proto::ErrorInfo;
use serde_json::{Map, Value};

impl Options {
    /// Reads `MADO_*`.
    pub fn from_env() -> Result<Options, ErrorInfo> {
        let mado = std::env::current_exe().map_err(|e| {
            let message = format!("mado cannot find its own binary: {e}");
            ErrorInfo::new("no_binary", message, "start it by an absolute path")
        })?;
        Ok(Options {
            paths: Paths::from_env()?,
            timing: timing(std::env::var("MADO_TIMING").unwrap_or_default().trim())?,
            trace: trace::path_from_env(),
            crash_at: CrashAt::from_env()?,
            mado: mado.display().to_string(),
            ready: None,
        })
    }
}

/// Reads `MADO_TIMING`: a JSON object, or `key=value` pairs with commas between them.
pub fn timing(text: &str) -> Result<Timing, ErrorInfo> {
    let bad = |why: String| {
        ErrorInfo::new(
            "bad_timing",
            format!("MADO_TIMING: {why}"),
            "give key=value pairs with commas between them, or a JSON object; times in milliseconds",
        )
    };
    let mut map = Map::new();
    if text.starts_with('{') {
        map = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    } else {
        for pair in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| bad(format!("{pair:?} is not key=value")))?;
            let number: u64 = value
                .trim()
                .parse()
                .map_err(|_| bad(format!("{}: {value:?} is not a whole number", key.trim())))?;
            map.insert(key.trim().to_owned(), number.into());
        }
    }
    serde_path_to_error::deserialize(Value::Object(map)).map_err(|e| {
        let path = e.path().to_string();
        bad(format!("{path}: {}", e.inner()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_the_rest_keeps_its_default() {
        let expected = Timing { idle_ms: 200, editor_ms: 9, ..Timing::default() };
        assert_eq!(timing("idle_ms=200, editor_ms=9").unwrap(), expected);
        assert_eq!(timing(r#"{"idle_ms": 200, "editor_ms": 9}"#).unwrap(), expected);
        assert_eq!(timing("").unwrap(), Timing::default());
    }

    #[test]
    fn an_unknown_key_and_a_wrong_value_are_named() {
        let e = timing("idle=3").unwrap_err();
        assert!(e.message.contains("idle: unknown field `idle`, expected one of"), "{e}");
        let e = timing("idle_ms=soon").unwrap_err();
        assert!(e.message.contains("idle_ms: \"soon\" is not a whole number"), "{e}");
        assert!(timing("idle_ms").unwrap_err().message.contains("\"idle_ms\" is not key=value"));
    }
}
