//! Requests of editors and shell commands, answered or begun here.

use super::hop::Hop;
use super::hub::Hub;
use super::io::{Effect, Spawn};
use super::profile::Profile;
use super::route::Route;
use crate::core::agent::Agent;
use crate::proto::{
    AgentId, ClientId, ClientKind, ConnectParams, ErrorInfo, HopId, HopInfo, HopState, HopsParams,
    ListParams, OpenParams, PauseParams, Phase, QueueItem, Reply, Request, RequestResult, RouteId,
    RouteOptions, Rung, SendParams, Trigger,
};

type Res = Result<Option<Reply>, ErrorInfo>;

fn err(code: &str, message: impl Into<String>, remedy: impl Into<String>) -> ErrorInfo {
    ErrorInfo::new(code, message, remedy)
}

impl Hub {
    pub(super) fn reply(&mut self, client: ClientId, seq: u64, result: RequestResult) {
        self.out.push(Effect::Reply { client, seq, result });
    }

    /// Takes a request. `Ok(None)` from a handler means that the reply comes later.
    pub(super) fn request(
        &mut self,
        client: ClientId,
        seq: u64,
        inside: Option<AgentId>,
        profile: Option<Box<Profile>>,
        request: Request,
    ) {
        let result = match request {
            Request::Open(p) => self.open(client, seq, p, profile),
            Request::Agents(p) => Ok(Some(Reply::Agents(self.agent_infos(&p)))),
            Request::Routes(p) => Ok(Some(Reply::Routes(self.route_infos(&p)))),
            Request::Hops(p) => self.hop_infos(&p),
            Request::Queue(p) => Ok(Some(Reply::Queue(self.queue(&p)))),
            Request::Connect(p) => self.connect(client, &p),
            Request::Disconnect(p) => self.disconnect(&p.project, &p.route),
            Request::Trigger(p) => {
                let options = RouteOptions {
                    trigger: Some(p.trigger),
                    pattern: p.pattern,
                    ..RouteOptions::default()
                };
                self.change_route(&p.project, &p.route, &options)
            }
            Request::Transform(p) => {
                let options = RouteOptions {
                    transform: Some(p.transform),
                    template: p.template,
                    ..RouteOptions::default()
                };
                self.change_route(&p.project, &p.route, &options)
            }
            Request::Pause(p) => self.pause(&p),
            Request::Resume(p) => self.resume(&p),
            Request::Toggle(p) => {
                let paused = match &p.route {
                    Some(r) => self.route(&p.project, r).map(|id| self.routes[&id].paused),
                    None => Ok(self.paused.contains(&p.project)),
                };
                match paused {
                    Ok(true) => self.resume(&p),
                    Ok(false) => self.pause(&p),
                    Err(e) => Err(e),
                }
            }
            Request::Fire(p) => self.fire_now(&p.project, &p.route),
            Request::Handoff(p) => {
                self.handoff(&p.project, &p.source, &p.target, p.text.as_deref())
            }
            Request::Send(p) => self.send(&p, inside),
            Request::Answer(p) => self.answer(client, seq, &p.project, &p.agent),
            Request::Rename(p) => self.rename(&p.project, &p.agent, &p.name),
            Request::Close(p) => self.close(&p.project, &p.agent, false),
            Request::Restart(p) => self.close(&p.project, &p.agent, true),
            Request::Next(p) => self.next_asking(&p.project),
            Request::Hello(_)
            | Request::Screen(_)
            | Request::HostStatus(_)
            | Request::Events(_)
            | Request::Stop(_) => Err(err(
                "bad_request",
                "this request is answered by the host itself",
                "this is a fault of the host: please report it",
            )),
        };
        match result {
            Ok(Some(reply)) => self.reply(client, seq, Ok(reply)),
            Ok(None) => {}
            Err(e) => self.reply(client, seq, Err(e)),
        }
    }

    /// Every agent of a project (or all), for listings.
    #[must_use]
    pub fn agent_infos(&self, p: &ListParams) -> Vec<crate::proto::AgentInfo> {
        let wanted = |a: &&Agent| p.all || a.project == p.project;
        self.agents.values().filter(wanted).map(Agent::info).collect()
    }

    fn route_infos(&self, p: &ListParams) -> Vec<crate::proto::RouteInfo> {
        self.routes
            .keys()
            .filter_map(|id| self.route_info(*id))
            .filter(|r| p.all || r.project == p.project)
            .collect()
    }

    fn hop_infos(&self, p: &HopsParams) -> Res {
        let route = match &p.route {
            Some(r) => Some(self.route(&p.project, r)?),
            None => None,
        };
        if let Some(id) = p.hop {
            let hop = self.hops.get(&id).ok_or_else(|| {
                err("unknown_hop", format!("there is no hop {id}"), "mado log lists them")
            })?;
            return Ok(Some(Reply::Hops(vec![hop.info.clone()])));
        }
        let limit = if p.limit == 0 { 200 } else { p.limit };
        let mut hops: Vec<HopInfo> = self
            .hops
            .values()
            .rev()
            .map(|h| &h.info)
            .filter(|h| p.all || h.project == p.project)
            .filter(|h| route.is_none() || h.route == route)
            .take(limit)
            .cloned()
            .collect();
        hops.reverse();
        Ok(Some(Reply::Hops(hops)))
    }

    fn queue(&self, p: &ListParams) -> Vec<QueueItem> {
        let mut items = Vec::new();
        for agent in self.agents.values().filter(|a| p.all || a.project == p.project) {
            let now_typing = agent.delivery.as_ref().map(|d| d.hop);
            let waiting = self.routes.values().filter(|r| r.target == agent.id);
            let waiting = waiting.filter_map(|r| r.waiting);
            for id in now_typing.into_iter().chain(agent.queue.iter().copied()).chain(waiting) {
                let Some(hop) = self.hops.get(&id) else { continue };
                items.push(QueueItem {
                    hop: id,
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
            let remedy = if here.is_empty() {
                format!("no agent runs in the project {project}; open one: :Mado open")
            } else {
                names(&here)
            };
            err("unknown_agent", format!("there is no agent {name:?} in this project"), remedy)
        })
    }

    /// Finds a route of a project by id, by `source->target`, or the only one.
    fn route(&self, project: &str, name: &str) -> Result<RouteId, ErrorInfo> {
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

    fn open(
        &mut self,
        client: ClientId,
        seq: u64,
        p: OpenParams,
        profile: Option<Box<Profile>>,
    ) -> Res {
        let Some(profile) = profile.map(|p| *p) else {
            return Err(err("unknown_profile", format!("there is no profile {:?}", p.profile), ""));
        };
        let name = match &p.name {
            Some(name) => {
                self.name_free(&p.project, name, None)?;
                name.clone()
            }
            None => self.free_name(&p.project, &profile.name),
        };
        let id = AgentId(self.next_agent);
        self.next_agent += 1;
        let size = (if p.rows == 0 { 24 } else { p.rows }, if p.cols == 0 { 80 } else { p.cols });
        let spawn = Spawn {
            agent: id,
            name,
            project: p.project,
            profile,
            args: p.args,
            cwd: p.cwd,
            env: p.env,
            size,
            resume: None,
        };
        let agent = Agent::new(spawn.clone(), self.now.mono, self.now.wall);
        self.agents.insert(id, agent);
        self.opening.insert(id, (client, seq));
        self.out.push(Effect::Spawn(Box::new(spawn)));
        Ok(None)
    }

    fn free_name(&self, project: &str, base: &str) -> String {
        let taken = |n: &str| self.agents.values().any(|a| a.project == project && a.name == n);
        if !taken(base) {
            return base.to_owned();
        }
        let mut n = 2u32;
        while taken(&format!("{base}-{n}")) {
            n += 1;
        }
        format!("{base}-{n}")
    }

    fn name_free(&self, project: &str, name: &str, but: Option<AgentId>) -> Result<(), ErrorInfo> {
        let good = !name.is_empty()
            && name.len() <= 64
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && !name.starts_with('-');
        if !good {
            return Err(err(
                "bad_name",
                format!("{name:?} is no name for an agent"),
                "use letters, digits, - _ . (at most 64, not beginning with -)",
            ));
        }
        if self.agents.values().any(|a| a.project == project && a.name == name && Some(a.id) != but)
        {
            return Err(err(
                "name_taken",
                format!("an agent {name:?} runs in this project already"),
                "choose another name, or close it first",
            ));
        }
        Ok(())
    }

    fn rename(&mut self, project: &str, agent: &str, name: &str) -> Res {
        let id = self.agent(project, agent)?;
        let project = self.agents[&id].project.clone();
        self.name_free(&project, name, Some(id))?;
        if let Some(a) = self.agents.get_mut(&id) {
            name.clone_into(&mut a.name);
            name.clone_into(&mut a.spawn.name);
        }
        Ok(Some(Reply::Agent(self.agents[&id].info())))
    }

    fn close(&mut self, project: &str, agent: &str, restart: bool) -> Res {
        let id = self.agent(project, agent)?;
        let Some(a) = self.agents.get_mut(&id) else { return Ok(None) };
        let said = if restart { "restarts" } else { "ends" };
        let said = format!("{} {said}", a.name);
        if a.exit.is_some() {
            if restart {
                self.respawn(id);
            } else {
                self.forget(id);
            }
        } else {
            a.closing = !restart;
            a.restarting = restart;
            self.out.push(Effect::Kill { agent: id });
        }
        Ok(Some(Reply::Said(said)))
    }

    fn connect(&mut self, client: ClientId, p: &ConnectParams) -> Res {
        let source = self.agent(&p.project, &p.source)?;
        let target = self.agent(&p.project, &p.target)?;
        let ways =
            if p.both { vec![(source, target), (target, source)] } else { vec![(source, target)] };
        let mut made = Vec::new();
        for (from, to) in ways {
            made.push(self.make_route(client, from, to, &p.options)?);
        }
        // All are checked before any is made, so that `connect!` never leaves half of it.
        let ids: Vec<RouteId> = made.iter().map(|r| r.id).collect();
        for route in made {
            self.routes.insert(route.id, route);
        }
        self.hold_routes();
        Ok(Some(Reply::Routes(ids.iter().filter_map(|id| self.route_info(*id)).collect())))
    }

    fn make_route(
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
        check_trigger(source, route.trigger)?;
        let kind = self.clients.get(&client).map_or(ClientKind::Shell, |c| c.kind);
        route.from_editor = kind == ClientKind::Editor;
        if kind == ClientKind::Shell && options.route_detached.is_none() {
            route.detached = true;
        }
        self.next_route += 1;
        Ok(route)
    }

    fn disconnect(&mut self, project: &str, route: &str) -> Res {
        let id = self.route(project, route)?;
        self.stop_hops_of(id, "its route was disconnected");
        self.remove_route(id);
        Ok(Some(Reply::Said(format!("route {id} is gone"))))
    }

    pub(super) fn remove_route(&mut self, id: RouteId) {
        let project = self.route_info(id).map(|r| r.project).unwrap_or_default();
        self.routes.remove(&id);
        self.out.push(Effect::Publish(crate::proto::Event::RouteGone { id, project }));
    }

    fn change_route(&mut self, project: &str, route: &str, options: &RouteOptions) -> Res {
        let id = self.route(project, route)?;
        let name = self.route_name(&self.routes[&id]);
        if let Some(trigger) = options.trigger {
            check_trigger(&self.agents[&self.routes[&id].source], trigger)?;
        }
        if let Some(route) = self.routes.get_mut(&id) {
            route.apply(options, &name)?;
            if options.trigger.is_some() {
                route.armed = None;
            }
        }
        Ok(Some(Reply::Routes(self.route_info(id).into_iter().collect())))
    }

    fn pause(&mut self, p: &PauseParams) -> Res {
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
                    let route = self.hops.get(&d.hop).and_then(|h| h.route);
                    match p.route {
                        None => a.project == p.project,
                        Some(_) => route.is_some_and(|r| routes.contains(&r)),
                    }
                })
            })
            .map(|a| a.id)
            .collect();
        for id in typing {
            if let Some(hop) = self.put_back(id) {
                let now = self.now;
                if let Some(h) = self.hops.get_mut(&hop) {
                    h.info.state = HopState::Queued;
                    h.reason(now, "paused", "paused; :Mado resume goes on");
                    if h.residue.is_some() {
                        h.note("paused while it was being typed");
                    }
                }
                self.record(hop, None);
                self.publish_hop(hop);
            }
        }
        Ok(Some(Reply::Said(match &p.route {
            Some(r) => format!("route {r} is paused"),
            None => "everything in this project is paused".to_owned(),
        })))
    }

    fn scope(&self, p: &PauseParams) -> Result<Vec<RouteId>, ErrorInfo> {
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

    fn resume(&mut self, p: &PauseParams) -> Res {
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
                if r.stopped.take().is_some() {
                    // It goes on as in a new chain.
                    r.chain = None;
                    if let Some(chain) = self.agents.get(&r.source).and_then(|a| a.chain)
                        && let Some(c) = self.chains.get_mut(&chain.0)
                    {
                        c.hops = 0;
                        c.delivered.retain(|(route, _)| *route != id);
                    }
                }
            }
        }
        Ok(Some(Reply::Said(match &p.route {
            Some(r) => format!("route {r} goes on"),
            None => "everything in this project goes on".to_owned(),
        })))
    }

    /// A hop that a former host left before its Enter, or that waits for a yes.
    fn resume_hop(&mut self, project: &str, id: HopId) -> Res {
        let unknown = || err("unknown_hop", format!("there is no hop {id}"), "mado log lists them");
        let hop = self.hops.get(&id).ok_or_else(unknown)?;
        if hop.confirm {
            if let Some(h) = self.hops.get_mut(&id) {
                h.confirm = false;
            }
            return Ok(Some(Reply::Said(format!("hop {id} goes on"))));
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

    fn fire_now(&mut self, project: &str, route: &str) -> Res {
        let id = self.route(project, route)?;
        let source = self.agents[&self.routes[&id].source].name.clone();
        if let Some((_, why)) = self.routes[&id].stopped.clone() {
            return Err(err("stopped", why, format!("resume it first: :Mado resume {id}")));
        }
        if self.agents[&self.routes[&id].source].answer.is_some() {
            let hop = self.fire_answer(id, Rung::Manual);
            let info = hop.and_then(|h| self.hops.get(&h)).map(|h| h.info.clone());
            return Ok(info.map(Reply::Hop));
        }
        Err(no_answer(&source))
    }

    fn handoff(&mut self, project: &str, from: &str, to: &str, text: Option<&str>) -> Res {
        let source = self.agent(project, from)?;
        let target = self.agent(project, to)?;
        if source == target {
            return Err(err("self_route", "source and target are the same agent", "name two"));
        }
        let agent = &self.agents[&source];
        let Some(answer) = agent.answer.clone() else { return Err(no_answer(&agent.name)) };
        let chain = agent.chain;
        let source_name = agent.name.clone();
        let prompt = match text.filter(|t| !t.is_empty()) {
            None => answer.text.clone(),
            Some(t) if t.contains("{output}") => {
                let values = std::collections::BTreeMap::from([
                    ("output", answer.text.clone()),
                    ("source", source_name.clone()),
                    ("round", "1".to_owned()),
                    ("maxRounds", "1".to_owned()),
                ]);
                super::text::render(t, &values)
                    .map_err(|e| err("bad_template", e, "mend the text"))?
            }
            Some(t) => format!("{t}\n\n{}", answer.text),
        };
        let chain = match chain {
            Some(c) => c,
            None => (self.new_chain(), 0),
        };
        let info = HopInfo {
            source: source_name,
            answer: Some(answer.text),
            turn: answer.turn,
            rung: answer.rung,
            how: "handoff".to_owned(),
            ..HopInfo::default()
        };
        Ok(self.send_hop(target, chain, info, &prompt, None))
    }

    fn send(&mut self, p: &SendParams, inside: Option<AgentId>) -> Res {
        let target = self.agent(&p.project, &p.target)?;
        let paste = match p.deliver.as_deref() {
            None => None,
            Some("lines") => Some(false),
            Some("paste") => Some(true),
            Some(other) => {
                return Err(err(
                    "bad_value",
                    format!("deliver is {other:?}"),
                    "give lines or paste",
                ));
            }
        };
        let source = inside.filter(|a| self.agents.contains_key(a));
        let name = source.map(|s| self.agents[&s].name.clone()).unwrap_or_default();
        let chain = match source.and_then(|s| self.agents[&s].chain) {
            Some((chain, depth)) => (chain, depth),
            None => (self.new_chain(), 0),
        };
        let limit = self.timing.chain_limit;
        if source.is_some() && self.chains.get(&chain.0).is_some_and(|c| c.hops >= limit) {
            return Err(err(
                "chain_limit",
                format!("the chain of {name} has had {limit} hops"),
                "a person's next prompt starts a new chain",
            ));
        }
        if let Some(c) = self.chains.get_mut(&chain.0) {
            c.hops += 1;
            c.used = self.now.mono;
        }
        let info = HopInfo {
            source: name,
            rung: Rung::Manual,
            how: "send".to_owned(),
            ..HopInfo::default()
        };
        Ok(self.send_hop(target, chain, info, &p.text, paste))
    }

    fn send_hop(
        &mut self,
        target: AgentId,
        chain: (crate::proto::ChainId, u32),
        mut info: HopInfo,
        text: &str,
        paste: Option<bool>,
    ) -> Option<Reply> {
        let id = HopId(self.next_hop);
        self.next_hop += 1;
        let agent = &self.agents[&target];
        info.id = id;
        (info.chain, info.depth) = chain;
        info.round = 1;
        info.target.clone_from(&agent.name);
        info.project.clone_from(&agent.project);
        info.times.fired = Some(self.now.wall);
        let hop = Hop {
            info,
            route: None,
            target: Some(target),
            seq: None,
            paste,
            confirm: false,
            since: self.now.mono,
            paused: false,
            residue: None,
            done: None,
        };
        self.hops.insert(id, hop);
        if self.set_prompt(id, text) {
            self.enqueue(id);
        }
        self.hops.get(&id).map(|h| Reply::Hop(h.info.clone()))
    }

    fn next_asking(&self, project: &str) -> Res {
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

fn no_answer(agent: &str) -> ErrorInfo {
    err(
        "no_answer",
        format!("{agent} has not answered anything since it was opened"),
        "let it finish a turn first",
    )
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
