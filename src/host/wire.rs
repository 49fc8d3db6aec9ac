//! From what editors and shells send to a [`Request`], with errors that name the key.

use crate::proto::{ErrorInfo, Request};
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;

/// Keys of parameters whose value is a map. An empty Lua table arrives as an empty list.
const MAPS: &[&str] = &["env", "options", "profiles", "providers"];

/// Reads `{"method": …, "params": {…}}`.
pub fn request(value: Value) -> Result<Request, ErrorInfo> {
    let remedy = "host and plugin may be of different versions; `mado version` names the host's";
    let bad = |message: String| ErrorInfo::new("bad_request", message, remedy);
    let Value::Object(mut message) = value else {
        return Err(bad("a request must be a table with method and params".to_owned()));
    };
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        Some(other) => return Err(bad(format!("method: expected a string, not {other}"))),
        None => return Err(bad("a request must have a method".to_owned())),
    };
    let mut params = match message.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Array(list)) if list.is_empty() => Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => {
            return Err(bad(format!("{method}: params must be a table, not {other}")));
        }
    };
    if let Some(key) = message.keys().find(|k| k.as_str() != "seq") {
        return Err(bad(format!("{method}: unknown key {key} beside method and params")));
    }
    for key in MAPS {
        if let Some(value) = params.get_mut(*key)
            && value.as_array().is_some_and(Vec::is_empty)
        {
            *value = Value::Object(Map::new());
        }
    }
    // The tag comes first in the map, so serde reads the parameters in place and knows the path.
    let tagged = json!({ "method": method, "params": params });
    serde_path_to_error::deserialize(tagged).map_err(|e| {
        let mut path = String::new();
        for segment in e.path() {
            match segment {
                Segment::Map { key } if path.is_empty() && key == "params" => {
                    path.push_str(&method);
                }
                Segment::Map { key } if path.is_empty() => path.push_str(key),
                Segment::Map { key } => path.extend([".", key]),
                Segment::Seq { index } => path.extend(["[", &index.to_string(), "]"]),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let inner = e.inner().to_string();
        let mut error = bad(format!("{path}: {inner}"));
        // A key that is not known may be one of another version; a wrong value is the user's own.
        let wrong = ["unknown variant", "invalid type", "invalid value"];
        if path.contains('.') && wrong.iter().any(|s| inner.starts_with(s)) {
            error.remedy =
                format!("`mado {method} --help` and :help :Mado-{method} say what it takes");
        }
        error
    })
}

/// A msgpack value as JSON. Whole floats become integers: Lua has one kind of number.
pub fn json(value: rmpv::Value) -> Value {
    match value {
        rmpv::Value::Nil | rmpv::Value::Ext(..) => Value::Null,
        rmpv::Value::Boolean(b) => Value::Bool(b),
        rmpv::Value::Integer(i) => {
            i.as_i64().map(Value::from).or_else(|| i.as_u64().map(Value::from)).unwrap_or_default()
        }
        rmpv::Value::F32(f) => number(f64::from(f)),
        rmpv::Value::F64(f) => number(f),
        rmpv::Value::String(s) => Value::String(String::from_utf8_lossy(s.as_bytes()).into_owned()),
        rmpv::Value::Binary(b) => Value::String(String::from_utf8_lossy(&b).into_owned()),
        rmpv::Value::Array(list) => Value::Array(list.into_iter().map(json).collect()),
        rmpv::Value::Map(pairs) => {
            Value::Object(pairs.into_iter().map(|(k, v)| (key(k), json(v))).collect())
        }
    }
}

fn number(f: f64) -> Value {
    // 2^53: beyond it a float names no single integer.
    if f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0 {
        Value::from(f as i64)
    } else {
        Value::from(f)
    }
}

fn key(value: rmpv::Value) -> String {
    match json(value) {
        Value::String(s) => s,
        other => other.to_string(),
    }
}

/// JSON as a msgpack value.
pub fn msgpack(value: &Value) -> rmpv::Value {
    match value {
        Value::Null => rmpv::Value::Nil,
        Value::Bool(b) => rmpv::Value::Boolean(*b),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => i.into(),
            (None, Some(u)) => u.into(),
            (None, None) => n.as_f64().unwrap_or_default().into(),
        },
        Value::String(s) => s.as_str().into(),
        Value::Array(list) => rmpv::Value::Array(list.iter().map(msgpack).collect()),
        Value::Object(map) => {
            rmpv::Value::Map(map.iter().map(|(k, v)| (k.as_str().into(), msgpack(v))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{OpenParams, Trigger};

    fn message(value: Value) -> String {
        let e = request(value).unwrap_err();
        assert_eq!(e.code, "bad_request");
        assert!(!e.remedy.is_empty());
        e.message
    }

    #[test]
    fn an_error_names_the_key_and_what_was_expected() {
        let m = message(json!({"method": "connect",
            "params": {"source": "a", "options": {"trigger": "never"}}}));
        assert!(
            m.starts_with("connect.options.trigger: unknown variant `never`, expected one of"),
            "{m}"
        );
        let m = message(json!({"method": "connect", "params": {"options": {"maxrounds": 1}}}));
        assert!(m.starts_with("connect.options.maxrounds: unknown field `maxrounds`"), "{m}");
        let m = message(json!({"method": "open", "params": {"args": ["x", 3]}}));
        assert!(m.starts_with("open.args[1]: invalid type: integer `3`"), "{m}");
        let m = message(json!({"method": "dance"}));
        assert!(m.starts_with("method: unknown variant `dance`, expected one of `hello`"), "{m}");
        assert!(message(json!({"params": {}})).contains("must have a method"));
        assert!(message(json!({"method": "open", "params": "x"})).starts_with("open: params"));
    }

    #[test]
    fn empty_lua_tables_are_taken_for_maps_where_a_map_belongs() {
        let open = json!({"method": "open",
            "params": {"env": [], "profiles": [], "args": [], "profile": "shell"}});
        let expected = OpenParams { profile: "shell".into(), ..OpenParams::default() };
        assert_eq!(request(open).unwrap(), Request::Open(expected));
        let connect = json!({"method": "connect", "params": {"options": []}});
        assert!(request(connect).is_ok());
        assert!(request(json!({"method": "agents", "params": []})).is_ok());
    }

    #[test]
    fn lua_numbers_that_are_whole_are_integers() {
        let value = rmpv::Value::Map(vec![
            ("method".into(), "connect".into()),
            (
                "params".into(),
                rmpv::Value::Map(vec![(
                    "options".into(),
                    rmpv::Value::Map(vec![
                        ("maxRounds".into(), rmpv::Value::F64(3.0)),
                        ("trigger".into(), "on-complete".into()),
                    ]),
                )]),
            ),
        ]);
        let Request::Connect(c) = request(json(value)).unwrap() else { panic!("connect") };
        assert_eq!(c.options.max_rounds, Some(3));
        assert_eq!(c.options.trigger, Some(Trigger::OnIdle));
    }

    #[test]
    fn values_survive_the_way_to_lua() {
        let value =
            json!({"a": [1, -2, 1.5, "x", null, true], "b": {"c": 18_446_744_073_709_551_615_u64}});
        assert_eq!(json(msgpack(&value)), value);
    }
}
