//! Fan-in: answers of several sources that wait for each other and go on as one prompt.
//!
//! All routes into one target that say `join=all` are one group. An answer waits at its route, where a
//! newer one of the same source takes its place, until every source of the group has given one; then
//! one hop carries them all. What it refuses: to wait without an end, to end a wait without a word, and
//! to hand on a part as if it were all.
//!
//! The joined hop belongs to the newest of its members' chains (ids are counted up, so it is that of the
//! newest human prompt) and is as deep as the deepest of them. Each member has been counted in its own
//! chain, so every joined hop is counted at least once in the chain that it goes on with, and no chain
//! gets around its limit by being joined with another.

use super::handover::{self, Origin, Part, listed};
use super::hop::Hop;
use super::hub::Hub;
use super::text;
use crate::core::profile::ComposerKind;
use crate::proto::{AgentId, HopId, HopInfo, HopState, Level, RouteId, RouteState, StepKind};

/// What a waiting answer of a group is to do.
enum Wait {
    /// Its text is not made yet.
    Unmade,
    /// Go on waiting: code and words.
    For(&'static str, String),
    /// The wait has ended without the others: code and words.
    Over(&'static str, String),
    /// All are there.
    Done,
}

/// A duration for people.
fn span(ms: u64) -> String {
    match ms / 1_000 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3_600),
    }
}

impl Hub {
    /// The routes whose answers wait for each other, this one among them; `None` when it waits for
    /// nobody. They are in the order in which they were made.
    pub(super) fn joined_with(&self, route_id: RouteId) -> Option<Vec<RouteId>> {
        let route = self.routes.get(&route_id).filter(|r| r.join)?;
        let group = self.joins_into(route.target);
        (group.len() > 1).then_some(group)
    }

    fn joins_into(&self, target: AgentId) -> Vec<RouteId> {
        self.routes.values().filter(|r| r.join && r.target == target).map(|r| r.id).collect()
    }

    fn agent_name(&self, id: AgentId) -> &str {
        self.agents.get(&id).map_or("?", |a| a.name.as_str())
    }

    /// Lets the answer that waits at a route of a group go on when all are there.
    pub(super) fn release_joined(&mut self, route_id: RouteId, group: &[RouteId]) -> bool {
        let now = self.now;
        let Some(id) = self.routes.get(&route_id).and_then(|r| r.waiting) else { return false };
        if self.gathering {
            return false;
        }
        if self.hops.get(&id).is_some_and(|h| h.ask.is_some()) {
            return self.release_asking(route_id, id);
        }
        match self.join_wait(route_id, group) {
            Wait::Unmade => false,
            Wait::For(code, text) => {
                let Some(hop) = self.hops.get_mut(&id) else { return false };
                let changed = hop.reason(now, code, text);
                if changed {
                    self.publish_hop(id);
                }
                changed
            }
            Wait::Over(code, why) => {
                self.end_join(group, code, &why);
                true
            }
            Wait::Done => {
                self.complete_join(group);
                true
            }
        }
    }

    fn join_wait(&self, route_id: RouteId, group: &[RouteId]) -> Wait {
        let now = self.now.mono;
        let Some(own) = self.routes.get(&route_id) else { return Wait::Unmade };
        let Some(hop) = own.waiting.and_then(|h| self.hops.get(&h)) else { return Wait::Unmade };
        match own.state() {
            RouteState::Paused => {
                return Wait::For("paused", "its route is paused; :Mado resume goes on".to_owned());
            }
            RouteState::Held => {
                return Wait::For("no_editor", "no editor is attached to this project".to_owned());
            }
            RouteState::Active | RouteState::Stopped => {}
        }
        let routes = group.iter().filter_map(|r| self.routes.get(r));
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for route in routes {
            match route.waiting.and_then(|h| self.hops.get(&h)) {
                Some(hop) if hop.part.is_some() => there.push(route),
                // A model still writes it.
                Some(_) if route.id == route_id => return Wait::Unmade,
                None if route.abstained.is_some_and(|at| now < at + route.join_timeout_ms) => {}
                Some(_) | None => missing.push(route),
            }
        }
        let alone = there.iter().any(|r| r.waiting.is_some_and(|h| self.hops[&h].alone));
        if !alone && !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|r| self.agent_name(r.source)).collect();
            if let Some(lost) = missing.iter().find(|r| r.stopped.is_some()) {
                let name = self.agent_name(lost.source);
                let ended = self.agents.get(&lost.source).is_none_or(|a| a.exit.is_some());
                let code = lost.stopped.as_ref().map_or("", |(code, _)| code.as_str());
                let why = if ended {
                    format!("{name} has ended, so its answer will not come")
                } else {
                    format!("{name}'s answer will not come: route {} is stopped ({code})", lost.id)
                };
                return Wait::Over("join_broken", why);
            }
            let most = own.join_timeout_ms;
            let since = if hop.info.reason_code == "join" { hop.since } else { now };
            if now >= since + most {
                let why = format!("no answer of {} within {}", listed(&names), span(most));
                return Wait::Over("join_timeout", why);
            }
            let mut text =
                format!("waits for {} (join=all), at most {}", listed(&names), span(most));
            let held = |r: &&&super::route::Route| r.state() == RouteState::Paused;
            if let Some(paused) = missing.iter().find(held) {
                let id = paused.id;
                text = format!("{text}; route {id} is paused: :Mado resume {id}");
            }
            return Wait::For("join", text);
        }
        for route in &there {
            let name = self.agent_name(route.source);
            match route.state() {
                RouteState::Paused => {
                    let text = format!(
                        "waits with {name}'s answer, whose route is paused; :Mado resume {} goes on",
                        route.id
                    );
                    return Wait::For("paused", text);
                }
                RouteState::Held => {
                    let text = "no editor is attached to this project".to_owned();
                    return Wait::For("no_editor", text);
                }
                RouteState::Active | RouteState::Stopped => {}
            }
        }
        if let Some(route) = there.iter().find(|r| r.cooled(self.now).is_some()) {
            let text = format!("route {} cools down for {} ms", route.id, route.cooldown_ms);
            return Wait::For("cooldown", text);
        }
        Wait::Done
    }

    /// When a waiting answer's time for the others is up.
    pub(super) fn join_deadline(&self, route_id: RouteId) -> Option<u64> {
        self.joined_with(route_id)?;
        let route = self.routes.get(&route_id)?;
        let hop = self.hops.get(&route.waiting?).filter(|h| h.info.reason_code == "join")?;
        Some(hop.since + route.join_timeout_ms)
    }

    /// Ends the wait of a group without the others: what waited is stopped, and a person is told how
    /// to hand on what is there.
    fn end_join(&mut self, group: &[RouteId], code: &str, why: &str) {
        let mut names = Vec::new();
        let mut told = None;
        for route_id in group {
            let Some(route) = self.routes.get_mut(route_id) else { continue };
            route.abstained = None;
            let Some(hop) = route.waiting.take() else { continue };
            route.unjoined = true;
            let source = route.source;
            self.uncount(*route_id, hop);
            let text = format!("{why}; :Mado fire {route_id} hands on what is there");
            self.finish(hop, HopState::Stopped, code, &text);
            names.push(self.agent_name(source).to_owned());
            told.get_or_insert((*route_id, self.hops.get(&hop).map(|h| h.info.clone())));
        }
        let Some((route_id, Some(info))) = told else { return };
        let text = format!(
            "{} → {}: {why}; :Mado fire {route_id} hands on what is there",
            listed(&names),
            info.target
        );
        self.notice(info.project, Level::Warn, code, &format!("join:{}", info.target), text);
    }

    /// A route of a group is gone: the others would wait for what cannot come any more.
    pub(super) fn left_join(&mut self, target: AgentId, name: &str) {
        let group = self.joins_into(target);
        self.end_join(&group, "join_broken", &format!("the route {name} is gone"));
    }

    /// Every answer that the group waits for is there: one hop carries them on.
    fn complete_join(&mut self, group: &[RouteId]) {
        let now = self.now;
        let mut members: Vec<(RouteId, HopId)> = Vec::new();
        let mut notes = Vec::new();
        for route_id in group {
            let Some(route) = self.routes.get(route_id) else { continue };
            let name = self.agent_name(route.source).to_owned();
            let made = |h: &HopId| self.hops.get(h).is_some_and(|h| h.part.is_some());
            let ready = route.waiting.filter(made);
            if let Some(hop) = ready {
                members.push((*route_id, hop));
            } else if route.abstained.is_some() {
                notes.push(format!("{name}'s answer did not match its when, and is left out"));
            } else {
                notes.push(format!("goes on without an answer of {name}"));
            }
            if let Some(route) = self.routes.get_mut(route_id) {
                if ready.is_some() {
                    route.waiting = None;
                    route.fired = Some(now.mono);
                }
                (route.abstained, route.unjoined) = (None, false);
            }
        }
        let id = match members.as_slice() {
            [] => return,
            [(_, only)] => *only,
            _ => self.joined_hop(&members),
        };
        for note in notes {
            if let Some(hop) = self.hops.get_mut(&id) {
                hop.note(note);
            }
        }
        if members.len() > 1 {
            for (_, hop) in &members {
                let text = format!("it goes on in hop {id}, with the answers it waited for");
                self.finish(*hop, HopState::Stopped, "joined", &text);
            }
            if self.joined_again(&members, id) || !self.dress_joined(&members, id) {
                return;
            }
        }
        self.enqueue(id);
    }

    fn joined_hop(&mut self, members: &[(RouteId, HopId)]) -> HopId {
        let now = self.now;
        let id = HopId(self.next_hop);
        self.next_hop += 1;
        let mut info = HopInfo { id, ..HopInfo::default() };
        let mut hop = Hop::new(HopInfo::default(), None, now.mono);
        let (mut sources, mut parts) = (Vec::new(), Vec::new());
        for (route_id, member) in members {
            let Some(from) = self.hops.get(member) else { continue };
            let Some(route) = self.routes.get(route_id) else { continue };
            if info.route.is_none() {
                info.route = Some(*route_id);
                (hop.route, hop.target) = (Some(*route_id), from.target);
                info.target.clone_from(&from.info.target);
                info.project.clone_from(&from.info.project);
                info.how = format!("join, {}", from.info.how);
            } else {
                hop.also.push(*route_id);
            }
            info.chain = info.chain.max(from.info.chain);
            info.depth = info.depth.max(from.info.depth);
            info.round = info.round.max(from.info.round);
            info.rung = info.rung.max(from.info.rung);
            info.joined.push(*member);
            hop.paste = hop.paste.or(route.paste);
            // A yes to a part is none to the whole.
            hop.confirm |= route.confirm || from.confirm;
            hop.parents.extend(&from.parents);
            sources.push(from.info.source.clone());
            let text = from.info.answer.clone().unwrap_or_default();
            parts.push(Part { from: self.origin(route.source), text });
        }
        info.source = sources.join("+");
        info.answer = Some(handover::join(&parts));
        info.times.fired = Some(now.wall);
        info.times.extracted = Some(now.wall);
        let members: Vec<String> = info.joined.iter().map(HopId::to_string).collect();
        hop.info = info;
        self.hops.insert(id, hop);
        let step = format!("the answers of hops {} are there", listed(&members));
        self.step_of(id, StepKind::Evidence, step);
        id
    }

    fn origin(&self, agent: AgentId) -> Origin {
        let agent = self.agents.get(&agent);
        Origin {
            name: agent.map(|a| a.name.clone()).unwrap_or_default(),
            kind: agent.map(|a| a.profile.name.clone()).unwrap_or_default(),
        }
    }

    /// Whether the same answers have gone on together before; then the group stops.
    fn joined_again(&mut self, members: &[(RouteId, HopId)], id: HopId) -> bool {
        let now = self.now;
        let Some(hop) = self.hops.get(&id) else { return true };
        let hash = text::content_hash(hop.info.answer.as_deref().unwrap_or(""));
        let (chain, project) = (hop.info.chain, hop.info.project.clone());
        let Some(first) = hop.route.and_then(|r| self.routes.get(&r)) else { return true };
        let key = (first.source, first.target, hash);
        let name = format!("{} → {}", hop.info.source, hop.info.target);
        let before = self.chains.get(&chain).is_some_and(|c| c.delivered.contains(&key));
        if !before && !self.went_round(id, first.target, hash) {
            let chain = self.chains.entry(chain).or_default();
            chain.used = now.mono;
            chain.delivered.insert(key);
            return false;
        }
        let text = format!(
            "{name}: the same answers have gone this way before; :Mado resume, or your next prompt at their sources, goes on"
        );
        for (route_id, _) in members {
            if let Some(route) = self.routes.get_mut(route_id) {
                route.stopped = Some(("repeated".to_owned(), text.clone()));
                route.armed = None;
            }
        }
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.enter(now, HopState::Stopped, "repeated", text.clone());
        }
        self.record(id, None);
        self.publish_hop(id);
        self.notice(project, Level::Warn, "repeated", &format!("join:{name}"), text);
        true
    }

    /// Makes the one prompt of the members' finished parts.
    fn dress_joined(&mut self, members: &[(RouteId, HopId)], id: HopId) -> bool {
        let mut parts = Vec::new();
        let (mut headed, mut most) = (false, 0);
        for (route_id, member) in members {
            let Some(route) = self.routes.get(route_id) else { continue };
            let Some(hop) = self.hops.get(member) else { continue };
            headed |= route.headed();
            most = most.max(route.max_rounds);
            let text = hop.part.clone().unwrap_or_default();
            parts.push(Part { from: self.origin(route.source), text });
        }
        let Some(hop) = self.hops.get(&id) else { return false };
        let target = hop.target.and_then(|t| self.agents.get(&t));
        let shell = target.is_none_or(|a| a.profile.composer.kind == ComposerKind::Line);
        let mut prompt = handover::join(&parts);
        if headed && !shell {
            let from: Vec<Origin> = parts.into_iter().map(|p| p.from).collect();
            prompt = handover::under(&handover::header(&from, hop.info.round, most), &prompt);
        }
        let wall = self.now.wall;
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.info.times.transformed = Some(wall);
        }
        self.set_literal(id, &prompt)
    }
}
