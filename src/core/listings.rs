//! Listings, and finding agents and routes by what people call them.

use super::agent::Agent;
use super::commands::{Res, err, unknown_hop};
use super::hub::Hub;
use super::route::Route;
use crate::proto::{
    AgentId, ErrorInfo, HopInfo, HopsParams, ListParams, Phase, QueueItem, Reply, RouteId,
};

impl Hub {
    /// Every agent of a project (or all), for listings.
    #[must_use]
    pub fn agent_infos(&self, p: &ListParams) -> Vec<crate::proto::AgentInfo> {
        let wanted = |a: &&Agent| p.all || a.project == p.project;
        self.agents.values().filter(wanted).map(Agent::info).collect()
    }

    pub(super) fn route_infos(&self, p: &ListParams) -> Vec<crate::proto::RouteInfo> {
        self.routes
            .keys()
            .filter_map(|id| self.route_info(*id))
            .filter(|r| p.all || r.project == p.project)
            .collect()
    }

    pub(super) fn hop_infos(&self, p: &HopsParams) -> Res {
        let route = match &p.route {
            Some(r) => Some(self.route(&p.project, r)?),
            None => None,
        };
        if let Some(id) = p.hop {
            let hop = self.hops.get(&id).ok_or_else(|| unknown_hop(id))?;
            return Ok(Some(Reply::Hops(vec![hop.info.clone()])));
        }
        let limit = if p.limit == 0 { 200 } else { p.limit };
        let mut hops: Vec<HopInfo> = self
            .hops
            .values()
            .rev()
            .filter(|h| route.is_none_or(|r| h.is_of(r)))
            .map(|h| &h.info)
            .filter(|h| p.all || h.project == p.project)
            .take(limit)
            .cloned()
            .collect();
        hops.reverse();
        Ok(Some(Reply::Hops(hops)))
    }

    pub(super) fn queue(&self, p: &ListParams) -> Vec<QueueItem> {
        let mut items = Vec::new();
        for agent in self.agents.values().filter(|a| p.all || a.project == p.project) {
            let now_typing = agent.delivery.as_ref().map(|d| d.hop);
            let waiting = self.routes.values().filter(|r| r.target == agent.id);
            let waiting = waiting.filter_map(|r| r.waiting);
            for id in now_typing.into_iter().chain(agent.queue.iter().copied()).chain(waiting) {
                let Some(hop) = self.hops.get(&id) else { continue };
                items.push(QueueItem {
                    hop: id,
                    source: hop.info.source.clone(),
                    target: agent.name.clone(),
                    project: agent.project.clone(),
                    waiting_for: hop.info.reason_text.clone(),
                    age_ms: self.now.mono.saturating_sub(hop.since),
                });
            }
        }
        items
    }

    /// Finds an agent of a project by name, by `#id`, or the only one.
    pub fn agent(&self, project: &str, name: &str) -> Result<AgentId, ErrorInfo> {
        if let Some(id) = name.strip_prefix('#').and_then(|n| n.parse().ok()).map(AgentId)
            && self.agents.contains_key(&id)
        {
            return Ok(id);
        }
        let here: Vec<&Agent> = self.agents.values().filter(|a| a.project == project).collect();
        if name.is_empty() {
            let live: Vec<&&Agent> = here.iter().filter(|a| a.exit.is_none()).collect();
            return match live.as_slice() {
                [one] => Ok(one.id),
                [] => Err(err("no_agent", "no agent runs in this project", "open one: :Mado open")),
                _ => Err(err(
                    "which_agent",
                    "more than one agent runs in this project",
                    names(&here),
                )),
            };
        }
        here.iter().find(|a| a.name == name).map(|a| a.id).ok_or_else(|| {
            let elsewhere = self.agents.values().find(|a| a.name == name);
            let remedy = if let Some(other) = elsewhere {
                format!("the one of this name belongs to the project {}", other.project)
            } else if here.is_empty() {
                format!("no agent runs in the project {project}; open one: :Mado open")
            } else {
                names(&here)
            };
            err("unknown_agent", format!("there is no agent {name:?} in this project"), remedy)
        })
    }

    /// Finds a route of a project by id, by `source->target`, or the only one.
    pub(super) fn route(&self, project: &str, name: &str) -> Result<RouteId, ErrorInfo> {
        let here: Vec<&Route> = self
            .routes
            .values()
            .filter(|r| self.agents.get(&r.source).is_some_and(|a| a.project == project))
            .collect();
        let list = || match here.as_slice() {
            [] => "there is none; make one: :Mado connect".to_owned(),
            some => {
                let names: Vec<String> =
                    some.iter().map(|r| format!("{} ({})", r.id, self.route_name(r))).collect();
                format!("routes here: {}", names.join(", "))
            }
        };
        if name.is_empty() {
            return match here.as_slice() {
                [one] => Ok(one.id),
                _ => Err(err("which_route", "name a route", list())),
            };
        }
        let squeezed: String = name.replace('→', "->").split_whitespace().collect();
        here.iter()
            .find(|r| {
                r.id.to_string() == squeezed || self.route_name(r).replace(" → ", "->") == squeezed
            })
            .map(|r| r.id)
            .ok_or_else(|| {
                err("unknown_route", format!("there is no route {name:?} in this project"), list())
            })
    }

    pub(super) fn next_asking(&self, project: &str) -> Res {
        let asking = |a: &&Agent| a.project == project && a.verdict.phase == Phase::Asking;
        let longest = self.agents.values().filter(asking).min_by_key(|a| a.since);
        match longest {
            Some(a) => Ok(Some(Reply::Agent(a.info()))),
            None => Err(err("nobody_asks", "no agent of this project waits for you", "")),
        }
    }
}

fn names(agents: &[&Agent]) -> String {
    let names: Vec<&str> = agents.iter().map(|a| a.name.as_str()).collect();
    format!("agents here: {}", names.join(", "))
}
