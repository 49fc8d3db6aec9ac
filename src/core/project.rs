//! A project's file taken over: all of it, or nothing.

use super::commands::{Res, err};
use super::hub::Hub;
use super::route::Route;
use crate::proto::{
    AgentId, ClientId, ErrorInfo, LoadParams, LoadReply, ProjectAgent, ProjectFile, ProjectRoute,
    Reply, RouteId, RouteOptions, Transform,
};
use std::collections::{BTreeMap, BTreeSet};

impl Hub {
    /// Makes, changes and removes routes until they are what the file says. Agents that the file
    /// names and that do not run come first: then only they are told, and nothing is done.
    pub(super) fn load(&mut self, client: ClientId, p: &LoadParams) -> Res {
        let Some(file) = &p.file else {
            return Err(err("bad_project_file", format!("{} was not read", p.path), ""));
        };
        let bad = |key: String, problem: &str| {
            let message = format!("{}: {key}: {problem}", p.path);
            err("bad_project_file", message, "mend the file, then load it again")
        };
        for (name, agent) in &file.agents {
            let cwd = std::path::Path::new(agent.cwd.as_deref().unwrap_or(""));
            let inside = cwd.components().all(|c| matches!(c, std::path::Component::Normal(_)));
            if !inside {
                let text = format!("{:?} is not inside the project", cwd.display().to_string());
                return Err(bad(format!("agents.{name}.cwd"), &text));
            }
        }
        let mut seen = BTreeSet::new();
        let mut wanted: Vec<(ProjectRoute, RouteOptions)> = Vec::new();
        for (i, route) in file.routes.iter().enumerate() {
            let key = |field: &str| format!("routes[{i}].{field}");
            for (field, name) in [("source", &route.source), ("target", &route.target)] {
                if !file.agents.contains_key(name) && self.agent(&p.project, name).is_err() {
                    let text = format!("there is no agent {name:?}; name it under agents");
                    return Err(bad(key(field), &text));
                }
            }
            if route.source == route.target {
                return Err(bad(key("target"), "an agent cannot be routed into itself"));
            }
            if !seen.insert((&route.source, &route.target)) {
                let text = format!("{} → {} is there twice", route.source, route.target);
                return Err(bad(key("target"), &text));
            }
            let mut options = route.options.clone();
            if let Some(name) = options.template.as_deref().and_then(|t| t.strip_prefix('@')) {
                let Some(template) = file.templates.get(name) else {
                    let text = format!("there is no template {name:?} under templates");
                    return Err(bad(key("template"), &text));
                };
                options.template = Some(template.clone());
            }
            // Checked before an agent is started for it.
            let mut tried = Route::new(RouteId(0), AgentId(0), AgentId(1), self.timing.cooldown_ms);
            let name = format!("routes[{i}]");
            tried
                .apply(&options, &name)
                .and_then(|()| tried.choose(wish(&options, p), &p.providers, &name))
                .map_err(|e| bad(format!("routes[{i}]"), &e.to_string()))?;
            wanted.push((route.clone(), options));
        }
        let missing = self.not_running(&p.project, file);
        if !missing.is_empty() {
            return data(&LoadReply { missing, ..LoadReply::default() });
        }
        self.take_over(client, p, &wanted)
    }

    fn not_running(&self, project: &str, file: &ProjectFile) -> BTreeMap<String, ProjectAgent> {
        let runs = |name: &str| {
            self.agents.values().any(|a| a.project == project && a.name == name && a.exit.is_none())
        };
        let declared = file.agents.iter().filter(|(name, _)| !runs(name));
        declared.map(|(name, agent)| (name.clone(), agent.clone())).collect()
    }

    fn take_over(
        &mut self,
        client: ClientId,
        p: &LoadParams,
        wanted: &[(ProjectRoute, RouteOptions)],
    ) -> Res {
        let project = p.project.as_str();
        let (mut made, mut changed, mut keep) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (route, options) in wanted {
            let (from, to) =
                (self.agent(project, &route.source)?, self.agent(project, &route.target)?);
            let old = self.routes.values().find(|r| r.source == from && r.target == to);
            let Some(old) = old.cloned() else {
                let mut new = self.make_route(client, from, to, options)?;
                new.choose(wish(options, p), &p.providers, &self.route_name(&new))?;
                made.push(new);
                continue;
            };
            keep.insert(old.id);
            if old.options != *options {
                let mut new = self.remade(client, &old, options)?;
                new.choose(wish(options, p), &p.providers, &self.route_name(&new))?;
                changed.push(new);
            }
        }
        // From here on nothing fails.
        let gone: Vec<RouteId> = self
            .routes
            .values()
            .filter(|r| r.from_file && !keep.contains(&r.id))
            .filter(|r| self.agents.get(&r.source).is_some_and(|a| a.project == project))
            .map(|r| r.id)
            .collect();
        let mut removed = Vec::new();
        for id in gone {
            removed.push(self.route_name(&self.routes[&id]).replace(" → ", "->"));
            self.stop_hops_of(id, "its route is not in the project's file any more");
            self.remove_route(id);
        }
        let ids = |routes: &[Route]| routes.iter().map(|r| r.id).collect::<Vec<_>>();
        let (new, other) = (ids(&made), ids(&changed));
        for mut route in made.into_iter().chain(changed) {
            route.from_file = true;
            self.routes.insert(route.id, route);
        }
        for id in keep {
            if let Some(route) = self.routes.get_mut(&id) {
                route.from_file = true;
            }
        }
        self.hold_routes();
        let infos = |ids: Vec<RouteId>| ids.iter().filter_map(|id| self.route_info(*id)).collect();
        data(&LoadReply {
            missing: BTreeMap::new(),
            made: infos(new),
            changed: infos(other),
            removed,
        })
    }

    /// A route as if it were made anew with these options, and still where it was: its rounds, its
    /// pause, what waits at it.
    fn remade(
        &mut self,
        client: ClientId,
        old: &Route,
        options: &RouteOptions,
    ) -> Result<Route, ErrorInfo> {
        self.routes.remove(&old.id);
        let made = self.make_route(client, old.source, old.target, options);
        self.routes.insert(old.id, old.clone());
        let mut new = made?;
        self.next_route -= 1;
        new.go_on_as(old);
        Ok(new)
    }

    /// The project's agents and routes as a file.
    pub(super) fn save(&self, project: &str) -> Res {
        let mut file = ProjectFile::default();
        for agent in self.agents.values().filter(|a| a.project == project && a.exit.is_none()) {
            let cwd = std::path::Path::new(&agent.spawn.cwd);
            let cwd = cwd.strip_prefix(project).ok().and_then(|c| c.to_str());
            let entry = ProjectAgent {
                profile: agent.profile.name.clone(),
                cwd: cwd.filter(|c| !c.is_empty()).map(str::to_owned),
                args: agent.spawn.args.clone(),
            };
            file.agents.insert(agent.name.clone(), entry);
        }
        for route in self.routes.values() {
            let name = |id: &AgentId| self.agents.get(id).map(|a| a.name.clone());
            let (Some(source), Some(target)) = (name(&route.source), name(&route.target)) else {
                continue;
            };
            if file.agents.contains_key(&source) && file.agents.contains_key(&target) {
                file.routes.push(ProjectRoute { source, target, options: route.options.clone() });
            }
        }
        let schema =
            "https://raw.githubusercontent.com/mado-nvim/mado.nvim/main/schema/routes.schema.json";
        file.schema = Some(schema.to_owned());
        let (agents, routes) = (file.agents.len(), file.routes.len());
        let text = serde_json::to_string_pretty(&file).map_err(|e| fault(&e))? + "\n";
        data(&serde_json::json!({"text": text, "agents": agents, "routes": routes}))
    }
}

/// Whom a route of the file asks: whom it names, else the one that is set as the default.
fn wish<'a>(options: &'a RouteOptions, p: &'a LoadParams) -> Option<&'a str> {
    let asks = options.transform.is_some_and(Transform::asks_model);
    options.provider.as_deref().or(p.provider.as_deref().filter(|_| asks))
}

fn fault(e: &serde_json::Error) -> ErrorInfo {
    err("not_serialised", e.to_string(), "this is a fault of the host: please report it")
}

fn data(value: &impl serde::Serialize) -> Res {
    serde_json::to_value(value).map(|v| Some(Reply::Data(v))).map_err(|e| fault(&e))
}
