//! Requests about routes: making, changing, pausing, resuming them.

use super::agent::Agent;
use super::commands::{Res, err, unknown_hop};
use super::delivery::Delivery;
use super::hub::Hub;
use super::io::Effect;
use super::profile::ComposerKind;
use super::route::Route;
use crate::proto::{
    AgentId, ClientId, ClientKind, ConnectParams, ErrorInfo, HopId, HopState, PauseParams,
    Provider, Reply, RouteId, RouteOptions, Rung, Trigger,
};
use std::collections::BTreeMap;

impl Hub {
    pub(super) fn connect(&mut self, client: ClientId, p: &ConnectParams) -> Res {
        let source = self.agent(&p.project, &p.source)?;
        let target = self.agent(&p.project, &p.target)?;
        let ways =
            if p.both { vec![(source, target), (target, source)] } else { vec![(source, target)] };
        let mut made = Vec::new();
        for (from, to) in ways {
            let mut route = self.make_route(client, from, to, &p.options)?;
            let name = self.route_name(&route);
            route.choose(p.options.provider.as_deref(), &p.providers, &name)?;
            made.push(route);
        }
        // All are checked before any is made, so that `connect!` never leaves half of it.
        let ids: Vec<RouteId> = made.iter().map(|r| r.id).collect();
        for route in made {
            self.routes.insert(route.id, route);
        }
        self.hold_routes();
        Ok(Some(Reply::Routes(ids.iter().filter_map(|id| self.route_info(*id)).collect())))
    }

    pub(super) fn make_route(
        &mut self,
        client: ClientId,
        from: AgentId,
        to: AgentId,
        options: &RouteOptions,
    ) -> Result<Route, ErrorInfo> {
        let (source, target) = (&self.agents[&from], &self.agents[&to]);
        let name = format!("{} → {}", source.name, target.name);
        if from == to {
            return Err(err(
                "self_route",
                format!("{} cannot be routed into itself", source.name),
                "name another target",
            ));
        }
        for a in [source, target] {
            if a.exit.is_some() {
                return Err(err(
                    "agent_exited",
                    format!("{} has ended", a.name),
                    format!(":Mado restart {}", a.name),
                ));
            }
        }
        if let Some(old) = self.routes.values().find(|r| r.source == from && r.target == to) {
            return Err(err(
                "route_exists",
                format!("{name} is connected already (route {})", old.id),
                "change it with :Mado trigger or :Mado transform, or disconnect it first",
            ));
        }
        let id = RouteId(self.next_route);
        let mut route = Route::new(id, from, to, self.timing.cooldown_ms);
        route.confirm = target.profile.submit.confirm;
        route.apply(options, &name)?;
        route.legacy_turn = self.legacy_begins(&route);
        check_trigger(source, route.trigger)?;
        if target.profile.composer.kind == ComposerKind::Line {
            if options.header == Some(true) {
                return Err(err(
                    "bad_value",
                    format!("route {name}: a shell would run a header as a command"),
                    "leave header=true out",
                ));
            }
            route.header = Some(false);
        }
        let kind = self.clients.get(&client).map_or(ClientKind::Shell, |c| c.kind);
        route.from_editor = kind == ClientKind::Editor;
        if kind == ClientKind::Shell && options.route_detached.is_none() {
            route.detached = true;
        }
        self.next_route += 1;
        Ok(route)
    }

    pub(super) fn disconnect(&mut self, project: &str, route: &str) -> Res {
        let id = self.route(project, route)?;
        self.stop_hops_of(id, "its route was disconnected");
        self.remove_route(id);
        Ok(Some(Reply::Said(format!("route {id} is gone"))))
    }

    pub(super) fn remove_route(&mut self, id: RouteId) {
        let info = self.route_info(id);
        let project = info.as_ref().map(|r| r.project.clone()).unwrap_or_default();
        let gone = self.routes.remove(&id);
        if let (Some(route), Some(info)) = (gone.filter(|r| r.join), info) {
            self.left_join(route.target, &format!("{} → {}", info.source, info.target));
        }
        self.out.push(Effect::Publish(crate::proto::Event::RouteGone { id, project }));
    }

    pub(super) fn change_route(
        &mut self,
        project: &str,
        route: &str,
        options: &RouteOptions,
        providers: &BTreeMap<String, Provider>,
    ) -> Res {
        let id = self.route(project, route)?;
        let name = self.route_name(&self.routes[&id]);
        if let Some(trigger) = options.trigger {
            check_trigger(&self.agents[&self.routes[&id].source], trigger)?;
        }
        if let Some(route) = self.routes.get_mut(&id) {
            let mut new = route.clone();
            new.apply(options, &name)?;
            new.choose(options.provider.as_deref(), providers, &name)?;
            *route = new;
            if options.trigger.is_some() {
                route.armed = None;
            }
        }
        Ok(Some(Reply::Routes(self.route_info(id).into_iter().collect())))
    }

    pub(super) fn pause(&mut self, p: &PauseParams) -> Res {
        let routes = self.scope(p)?;
        if p.route.is_none() {
            self.paused.insert(p.project.clone());
        }
        for id in &routes {
            if let Some(r) = self.routes.get_mut(id) {
                r.paused = true;
            }
        }
        let typing: Vec<AgentId> = self
            .agents
            .values()
            .filter(|a| {
                a.delivery.as_ref().is_some_and(|d| {
                    let hop = self.hops.get(&d.hop);
                    let of_route = hop.is_some_and(|h| h.routes().any(|r| routes.contains(&r)));
                    of_route || (p.route.is_none() && a.project == p.project)
                })
            })
            .map(|a| a.id)
            .collect();
        for id in typing {
            let begun = self.agents[&id].delivery.as_ref().is_some_and(Delivery::begun);
            if let Some(hop) = self.put_back(id) {
                let now = self.now;
                if let Some(h) = self.hops.get_mut(&hop) {
                    h.info.state = HopState::Queued;
                    h.reason(now, "paused", "paused; :Mado resume goes on");
                    if begun {
                        h.note("paused while it was being typed");
                    }
                }
                self.record(hop, None);
                self.publish_hop(hop);
            } else {
                // An Enter that has not reached the terminal does not reach it any more.
                self.out.push(Effect::DropWrites { agent: id });
            }
        }
        Ok(Some(Reply::Said(match &p.route {
            Some(r) => format!("route {r} is paused"),
            None => "everything in this project is paused".to_owned(),
        })))
    }

    pub(super) fn scope(&self, p: &PauseParams) -> Result<Vec<RouteId>, ErrorInfo> {
        match &p.route {
            Some(r) => Ok(vec![self.route(&p.project, r)?]),
            None => Ok(self
                .routes
                .values()
                .filter(|r| self.agents.get(&r.source).is_some_and(|a| a.project == p.project))
                .map(|r| r.id)
                .collect()),
        }
    }

    pub(super) fn resume(&mut self, p: &PauseParams) -> Res {
        if let Some(hop) = p.hop {
            return self.resume_hop(&p.project, hop);
        }
        let routes = self.scope(p)?;
        if p.route.is_none() {
            self.paused.remove(&p.project);
        }
        // A person says that the store's trouble is over; the next record tells.
        self.store_error = None;
        for id in routes {
            if let Some(r) = self.routes.get_mut(&id) {
                r.paused = false;
                let dead = [r.source, r.target]
                    .iter()
                    .any(|a| self.agents.get(a).is_none_or(|a| a.exit.is_some() && !a.restarting));
                if !dead && let Some((code, _)) = r.stopped.take() {
                    if code == "day_tokens" {
                        // A person grants as much again.
                        self.spent.clear();
                    }
                    // It goes on as in a new chain.
                    r.chain = None;
                    if let Some(chain) = self.agents.get(&r.source).and_then(|a| a.chain)
                        && let Some(c) = self.chains.get_mut(&chain.0)
                    {
                        (c.hops, c.tokens) = (0, 0);
                        c.rounds.remove(&id);
                        let way = (r.source, r.target);
                        c.delivered.retain(|(from, to, _)| (*from, *to) != way);
                    }
                }
            }
        }
        Ok(Some(Reply::Said(match &p.route {
            Some(r) if self.paused.contains(&p.project) => {
                format!("route {r} goes on when the project does: :Mado resume")
            }
            Some(r) => format!("route {r} goes on"),
            None => "everything in this project goes on".to_owned(),
        })))
    }

    /// A hop that a former host left before its Enter, or that waits for a yes.
    pub(super) fn resume_hop(&mut self, project: &str, id: HopId) -> Res {
        let hop = self.hops.get(&id).ok_or_else(|| unknown_hop(id))?;
        if hop.confirm && !hop.is_final() {
            self.has_text(id)?;
            if let Some(h) = self.hops.get_mut(&id) {
                h.confirm = false;
            }
            let hop = &self.hops[&id];
            let said = match self.held_back(&hop.info.project, hop) {
                Some((_, why)) => format!("hop {id} goes on, but not yet: {why}"),
                None => format!("hop {id} goes on"),
            };
            return Ok(Some(Reply::Said(said)));
        }
        if hop.info.state != HopState::Held {
            return Err(err(
                "not_held",
                format!("hop {id} is {:?}, not held", hop.info.state).to_lowercase(),
                "only held hops and hops that wait for a yes can be resumed",
            ));
        }
        let name = hop.info.target.clone();
        let target = self
            .agent(project, &name)
            .map_err(|e| err(&e.code, e.message, format!("open an agent named {name} first")))?;
        if let Some(h) = self.hops.get_mut(&id) {
            h.target = Some(target);
        }
        self.enqueue(id);
        Ok(Some(Reply::Said(format!("hop {id} goes on"))))
    }
}

/// `on-turn` needs a record of turns; silence or the screen alone would be a guess.
fn check_trigger(source: &Agent, trigger: Trigger) -> Result<(), ErrorInfo> {
    let rungs = &source.profile.evidence.rungs;
    let has = rungs.iter().any(|r| *r <= Rung::Osc || *r == Rung::Foreground);
    if trigger == Trigger::OnTurn && !has {
        return Err(err(
            "no_record",
            format!("{} keeps no record of its turns, which on-turn needs", source.name),
            "use trigger=on-idle",
        ));
    }
    Ok(())
}
