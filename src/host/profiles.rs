//! Reading profiles: the built-in ones, the user's files, and what an editor's configuration adds.
//!
//! Later layers win key by key. The merged table is read as a whole; an error is then traced back
//! to the layer that holds the key, so that it can name file and line.

use super::paths::Paths;
use crate::core::profile::Profile;
use crate::proto::ErrorInfo;
use serde_path_to_error::Segment;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// The profiles that come with mado, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("claude", include_str!("../../profiles/claude.toml")),
    ("codex", include_str!("../../profiles/codex.toml")),
    ("demo", include_str!("../../profiles/demo.toml")),
    ("opencode", include_str!("../../profiles/opencode.toml")),
    ("shell", include_str!("../../profiles/shell.toml")),
];

/// Profiles of an editor's configuration, by name.
pub type Overrides = BTreeMap<String, serde_json::Value>;

/// One source of keys.
struct Layer {
    /// How messages name it.
    label: String,
    /// Its text, where it is a file: gives line numbers.
    text: Option<String>,
    table: Table,
}

/// Loads a profile by name.
pub fn load(paths: &Paths, name: &str, overrides: &Overrides) -> Result<Profile, ErrorInfo> {
    let mut layers = Vec::new();
    if let Some((_, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
        layers.push(parse(format!("built-in profile {name}"), (*text).to_owned())?);
    }
    let file = profile_file(paths, name);
    if let Some(file) = file {
        let label = file.display().to_string();
        match fs::read_to_string(&file) {
            Ok(text) => layers.push(parse(label, text)?),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(bad_profile(format!("{label} cannot be read: {e}"))),
        }
    }
    if let Some(value) = overrides.get(name) {
        let label = format!("profiles.{name} in the editor's configuration");
        match to_toml(value) {
            Some(Value::Table(table)) => layers.push(Layer { label, text: None, table }),
            Some(Value::Array(a)) if a.is_empty() => {}
            _ => {
                let message = format!("{label}: expected a table");
                return Err(bad_profile(message));
            }
        }
    }
    if layers.is_empty() {
        let known = names(paths, overrides).into_iter().collect::<Vec<_>>().join(", ");
        return Err(ErrorInfo::new(
            "unknown_profile",
            format!("there is no profile {name:?}"),
            format!(
                "use one of {known}, or write {}",
                paths.config.join("profiles").join(format!("{name}.toml")).display()
            ),
        ));
    }
    let mut merged = Table::new();
    for layer in &layers {
        merge(&mut merged, &layer.table);
    }
    match merged.get("name") {
        Some(Value::String(n)) if n != name => {
            let why = format!("must be {name:?} (as the profile is called) or left out");
            return Err(blame(&layers, &["name".to_owned()], &why));
        }
        _ => merged.insert("name".to_owned(), Value::String(name.to_owned())),
    };
    serde_path_to_error::deserialize(Value::Table(merged)).map_err(|e| {
        let path: Vec<String> = e
            .path()
            .iter()
            .filter_map(|s| match s {
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Map { key } => Some(key.clone()),
                Segment::Enum { .. } | Segment::Unknown => None,
            })
            .collect();
        let why = e.inner().message().trim().to_owned();
        blame(&layers, &path, &why)
    })
}

/// The names of all profiles.
#[must_use]
pub fn names(paths: &Paths, overrides: &Overrides) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BUILT_IN.iter().map(|(n, _)| (*n).to_owned()).collect();
    names.extend(overrides.keys().cloned());
    let Ok(folder) = fs::read_dir(paths.config.join("profiles")) else { return names };
    for entry in folder.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "toml") {
            names.extend(path.file_stem().and_then(|s| s.to_str()).map(str::to_owned));
        }
    }
    names
}

fn profile_file(paths: &Paths, name: &str) -> Option<PathBuf> {
    // A profile's name becomes a file name: it must not leave the folder.
    let plain = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
    plain.then(|| paths.config.join("profiles").join(format!("{name}.toml")))
}

fn parse(label: String, text: String) -> Result<Layer, ErrorInfo> {
    match text.parse::<Table>() {
        Ok(table) => Ok(Layer { label, text: Some(text), table }),
        Err(e) => {
            let line = e.span().map_or(1, |s| line_of(&text, s.start));
            let why = e.message().replace('\n', ", ");
            Err(bad_profile(format!("{label}:{line}: {why}")))
        }
    }
}

fn bad_profile(message: String) -> ErrorInfo {
    ErrorInfo::new("bad_profile", message, "correct it and open the agent again")
}

/// The error at `path`, with the place of the key in the layer that said it last.
fn blame(layers: &[Layer], path: &[String], why: &str) -> ErrorInfo {
    let key = show_path(path);
    let at = if key.is_empty() { String::new() } else { format!("{key}: ") };
    for layer in layers.iter().rev() {
        match &layer.text {
            Some(text) => {
                if let Some(line) = find_line(text, path) {
                    return bad_profile(format!("{}:{line}: {at}{why}", layer.label));
                }
            }
            None if has(&Value::Table(layer.table.clone()), path) => {
                return bad_profile(format!("{}: {at}{why}", layer.label));
            }
            None => {}
        }
    }
    // A key that is missing everywhere: the last layer is where the user is writing.
    let label = layers.last().map_or("", |l| l.label.as_str());
    bad_profile(format!("{label}: {at}{why}"))
}

fn show_path(path: &[String]) -> String {
    let mut out = String::new();
    for part in path {
        if part.bytes().all(|b| b.is_ascii_digit()) && !out.is_empty() {
            out.extend(["[", part, "]"]);
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(part);
        }
    }
    out
}

fn has(value: &Value, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match value {
        Value::Table(t) => t.get(first).is_some_and(|v| has(v, rest)),
        Value::Array(a) => {
            first.parse().ok().and_then(|i: usize| a.get(i)).is_some_and(|v| has(v, rest))
        }
        _ => false,
    }
}

/// The line of the key or array element at `path`, if the text has it.
fn find_line(text: &str, path: &[String]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_first()?;
    let (key, mut value) =
        root.get_ref().iter().find(|(k, _)| k.get_ref().as_ref() == first.as_str())?;
    let mut at = key.span().start;
    for part in rest {
        match value.get_ref() {
            DeValue::Table(t) => {
                let (k, v) = t.iter().find(|(k, _)| k.get_ref().as_ref() == part.as_str())?;
                at = k.span().start;
                value = v;
            }
            DeValue::Array(a) => {
                value = a.get(part.parse::<usize>().ok()?)?;
                at = value.span().start;
            }
            _ => return None,
        }
    }
    Some(line_of(text, at))
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
}

fn merge(into: &mut Table, from: &Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            // Lua cannot tell an empty table from an empty list.
            (Some(Value::Table(_)), Value::Array(new)) if new.is_empty() => {}
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Null means: not said.
fn to_toml(value: &serde_json::Value) -> Option<Value> {
    Some(match value {
        serde_json::Value::Null => return None,
        serde_json::Value::Bool(b) => Value::Boolean(*b),
        serde_json::Value::Number(n) => match n.as_i64() {
            Some(i) => Value::Integer(i),
            None => Value::Float(n.as_f64()?),
        },
        serde_json::Value::String(s) => Value::String(s.clone()),
        serde_json::Value::Array(a) => Value::Array(a.iter().filter_map(to_toml).collect()),
        serde_json::Value::Object(o) => {
            Value::Table(o.iter().filter_map(|(k, v)| Some((k.clone(), to_toml(v)?))).collect())
        }
    })
}

/// Where the built-in profiles differ from what a user's file says, for `:checkhealth`.
#[must_use]
pub fn origin(paths: &Paths, name: &str) -> &'static str {
    let built_in = BUILT_IN.iter().any(|(n, _)| *n == name);
    let file = profile_file(paths, name).is_some_and(|f| Path::exists(&f));
    match (built_in, file) {
        (true, true) => "built-in, changed by a file",
        (true, false) => "built-in",
        (false, _) => "file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(dir: &Path) -> Paths {
        let config = dir.join("config");
        fs::create_dir_all(config.join("profiles")).unwrap();
        Paths { state: dir.into(), runtime: dir.into(), config }
    }

    fn write(paths: &Paths, name: &str, text: &str) {
        fs::write(paths.config.join("profiles").join(name), text).unwrap();
    }

    #[test]
    fn every_built_in_profile_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        for (name, _) in BUILT_IN {
            let profile = load(&paths(dir.path()), name, &Overrides::new()).unwrap();
            assert_eq!(profile.name, *name);
        }
    }

    #[test]
    fn a_file_and_the_editor_override_key_by_key() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        write(&paths, "shell.toml", "[submit]\nwait_ms = 70\n");
        let overrides =
            [("shell".to_owned(), json!({"submit": {"confirm": false}, "composer": []}))].into();
        let profile = load(&paths, "shell", &overrides).unwrap();
        assert_eq!(profile.submit.wait_ms, 70);
        assert!(!profile.submit.confirm);
        assert!(profile.submit.needs_bracketed);
        assert_eq!(profile.composer.clear, "\u{15}");
    }

    #[test]
    fn a_profile_can_be_added_by_a_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        write(&paths, "mine.toml", "[program]\ncommand = \"mine\"\n");
        assert_eq!(load(&paths, "mine", &Overrides::new()).unwrap().program.command, "mine");
        assert!(names(&paths, &Overrides::new()).contains("mine"));
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let cases = [
            ("[submit]\n\nwait_msec = 3\n", ":3: submit.wait_msec: unknown field"),
            ("[submit]\nwait_ms = \"3\"\n", ":2: submit.wait_ms: invalid type: string"),
            (
                "[screen]\nbusy_footer = [\n  'ok',\n  '(',\n]\n",
                ":4: screen.busy_footer[1]: invalid regular",
            ),
            ("\n[records]\ndialect = 'word'\n", ":3: records.dialect: unknown variant `word`"),
            ("name = 'other'\n", ":1: name: must be \"claude\""),
            ("[submit\n", ":1: "),
        ];
        for (text, expected) in cases {
            write(&paths, "claude.toml", text);
            let e = load(&paths, "claude", &Overrides::new()).unwrap_err();
            assert_eq!(e.code, "bad_profile");
            let place = format!("claude.toml{expected}");
            assert!(e.message.contains(&place), "{place:?} is not in {:?}", e.message);
        }
    }

    #[test]
    fn an_error_of_the_editors_configuration_names_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let overrides = [("claude".to_owned(), json!({"program": {"commnd": "x"}}))].into();
        let e = load(&paths(dir.path()), "claude", &overrides).unwrap_err();
        assert!(
            e.message.starts_with("profiles.claude in the editor's configuration: program.commnd:"),
            "{e}"
        );
    }

    #[test]
    fn a_profile_without_a_command_and_an_unknown_one_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        write(&paths, "mine.toml", "[program]\nargs = []\n");
        let e = load(&paths, "mine", &Overrides::new()).unwrap_err();
        assert!(e.message.contains("mine.toml:1: program: missing field `command`"), "{e}");
        let e = load(&paths, "nope", &Overrides::new()).unwrap_err();
        assert_eq!(e.code, "unknown_profile");
        assert!(
            e.message.contains("nope")
                && e.remedy.contains("claude, codex, demo, mine, opencode, shell"),
            "{e}"
        );
        assert!(load(&paths, "../mine", &Overrides::new()).is_err());
    }
}
