//! The published schema of `.mado/routes.json` knows every key that the host reads, and no other.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

use mado::host::project_file::read;
use serde_json::Value;

fn schema() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/routes.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The keys that the host says it knows, from its own words on one that it does not.
fn known(text: &str) -> Vec<String> {
    let said = read("F", text).unwrap_err().message;
    let list = said.rsplit_once("expected one of ").expect("a list of keys").1;
    let mut keys: Vec<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    keys.sort();
    keys
}

fn names(value: &Value) -> Vec<String> {
    let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

#[test]
fn the_schema_has_the_keys_of_the_file() {
    let schema = schema();
    assert_eq!(names(&schema["properties"]), known(r#"{"nope": 1}"#));
    let agent = &schema["properties"]["agents"]["additionalProperties"]["properties"];
    assert_eq!(names(agent), known(r#"{"agents": {"a": {"nope": 1}}}"#));
    let route = &schema["properties"]["routes"]["items"]["properties"];
    let mut options = known(r#"{"routes": [{"source": "a", "target": "b", "nope": 1}]}"#);
    // Other spellings are read, not recommended.
    options.retain(|k| k.chars().all(|c| !c.is_uppercase()));
    options.extend(["source".to_owned(), "target".to_owned()]);
    options.sort();
    assert_eq!(names(route), options);
}

#[test]
fn the_schema_has_the_values_of_the_file() {
    let schema = schema();
    let route = &schema["properties"]["routes"]["items"]["properties"];
    for key in ["trigger", "transform", "dispatch"] {
        let text = format!(r#"{{"routes": [{{"source": "a", "target": "b", "{key}": "nope"}}]}}"#);
        let mut values: Vec<&str> =
            route[key]["enum"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        values.sort_unstable();
        let mut known = known(&text);
        known.dedup();
        assert_eq!(values, known, "{key}");
    }
}
