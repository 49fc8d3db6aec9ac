//! What the host tells its clients without being asked.

use super::{AgentId, AgentInfo, HopInfo, RouteId, RouteInfo};
use serde::{Deserialize, Serialize};

/// How loud a notice is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    #[default]
    Info,
    /// Somebody should look.
    Warn,
    /// Something failed.
    Error,
}

/// A message for a person. The editor shows at most one per `key`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The project it concerns.
    pub project: String,
    /// How loud.
    pub level: Level,
    /// Stable code, such as `asks` or `max_rounds`.
    pub code: String,
    /// Notices with an equal key replace each other.
    pub key: String,
    /// One sentence, with what to do.
    pub text: String,
    /// The agent it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// An event. On the wire `{"event": "agent", "data": {…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// An agent is new or changed.
    Agent(AgentInfo),
    /// An agent is gone from the listings.
    AgentGone {
        /// Its id.
        id: AgentId,
        /// Its name.
        name: String,
        /// Its project.
        project: String,
    },
    /// A route is new or changed.
    Route(RouteInfo),
    /// A route is gone.
    RouteGone {
        /// Its id.
        id: RouteId,
        /// Its project.
        project: String,
    },
    /// A hop is new or changed.
    Hop(HopInfo),
    /// A message for a person.
    Notice(Notice),
}

impl Event {
    /// The project the event belongs to.
    #[must_use]
    pub fn project(&self) -> &str {
        match self {
            Event::Agent(a) => &a.project,
            Event::AgentGone { project, .. } | Event::RouteGone { project, .. } => project,
            Event::Route(r) => &r.project,
            Event::Hop(h) => &h.project,
            Event::Notice(n) => &n.project,
        }
    }
}
