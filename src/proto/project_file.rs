//! `.mado/routes.json`: the agents, templates and routes that a project keeps in a file.

use super::{Provider, RouteInfo, RouteOptions};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectFile {
    /// Where editors find the schema; mado does not read it.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Agents by name; those that do not run are started.
    pub agents: BTreeMap<String, ProjectAgent>,
    /// Templates by name; a route uses one with `"template": "@name"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, String>,
    /// Routes.
    pub routes: Vec<ProjectRoute>,
}

/// An agent of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectAgent {
    /// Name of its profile.
    pub profile: String,
    /// Working directory, from the project's root on; the root when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Arguments after the profile's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// A route of the file: source, target, and the options of `connect` beside them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProjectRoute {
    /// The source agent's name.
    pub source: String,
    /// The target agent's name.
    pub target: String,
    /// The options.
    #[serde(flatten)]
    pub options: RouteOptions,
}

impl<'de> Deserialize<'de> for ProjectRoute {
    // By hand, so that an unknown key and a wrong value are errors at their own line: serde's `flatten`
    // knows neither.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = ProjectRoute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a route")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProjectRoute, A::Error> {
                let (mut route, mut rest) = (ProjectRoute::default(), Map::new());
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "source" => route.source = map.next_value()?,
                        "target" => route.target = map.next_value()?,
                        _ => {
                            let value: Value = map.next_value()?;
                            let one = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
                            serde_json::from_value::<RouteOptions>(one)
                                .map_err(|e| A::Error::custom(format!("{key}: {e}")))?;
                            rest.insert(key, value);
                        }
                    }
                }
                for (name, value) in [("source", &route.source), ("target", &route.target)] {
                    if value.is_empty() {
                        return Err(A::Error::custom(format!("{name} is missing")));
                    }
                }
                let rest = Value::Object(rest);
                route.options = serde_json::from_value(rest).map_err(A::Error::custom)?;
                Ok(route)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Parameters of `load`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadParams {
    /// The project.
    pub project: String,
    /// The file's path, for messages.
    pub path: String,
    /// What it holds. Whoever asks has read it, and has seen that it is trusted.
    pub text: String,
    /// The same as the host has read it; a sender leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<ProjectFile>,
    /// The provider of routes that ask a model and name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Providers that the editor's configuration names; the file itself knows them by name alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Provider>,
}

/// What came of `load`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReply {
    /// Agents of the file that do not run. While there is one, nothing else was done.
    pub missing: BTreeMap<String, ProjectAgent>,
    /// Routes that were made.
    pub made: Vec<RouteInfo>,
    /// Routes that were changed.
    pub changed: Vec<RouteInfo>,
    /// Routes that an earlier version of the file had made and this one does not name; `a->b`.
    pub removed: Vec<String>,
}
