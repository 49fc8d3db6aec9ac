//! Firing: from a source's turn to a hop in its target's queue, past the guards.
//!
//! Refuses to drop anything silently: a guard that stops a hop leaves the hop with its reason, and
//! says once how to go on.

use super::agent::Turn;
use super::hop::Hop;
use super::hub::Hub;
use super::route::{Armed, Route};
use super::text;
use crate::proto::{
    AgentId, Dispatch, HopId, HopInfo, HopState, Level, Phase, RouteId, RouteInfo, RouteState,
    Rung, StepKind, Transform, Trigger,
};
use std::collections::BTreeMap;

/// What fires a route.
pub(super) struct Firing {
    /// The source's turn.
    pub seq: Option<u64>,
    /// The record's id of it.
    pub turn: Option<String>,
    /// The evidence.
    pub rung: Rung,
    /// What is handed on.
    pub answer: String,
    /// Chain and depth of the turn.
    pub chain: (crate::proto::ChainId, u32),
}

impl Firing {
    /// What a turn without a usable answer leaves in the log.
    fn nothing(turn: &Turn, rung: Rung) -> Firing {
        Firing {
            seq: Some(turn.seq),
            turn: turn.id.clone(),
            rung,
            answer: String::new(),
            chain: (turn.chain, turn.depth),
        }
    }
}

impl Hub {
    pub(super) fn route_info(&self, id: RouteId) -> Option<RouteInfo> {
        let route = self.routes.get(&id)?;
        let source = self.agents.get(&route.source)?;
        let target = self.agents.get(&route.target)?;
        Some(route.info(&source.name, &target.name, &source.project))
    }

    /// `planner → reviewer`, for messages.
    pub(super) fn route_name(&self, route: &Route) -> String {
        let name = |id: &AgentId| self.agents.get(id).map_or("?", |a| a.name.as_str());
        format!("{} → {}", name(&route.source), name(&route.target))
    }

    pub(super) fn routes_from(&self, source: AgentId) -> Vec<RouteId> {
        self.routes.values().filter(|r| r.source == source).map(|r| r.id).collect()
    }

    /// Routes made from an editor are held while no editor of their project is attached.
    pub(super) fn hold_routes(&mut self) {
        let editors: Vec<&str> = self
            .clients
            .values()
            .filter(|c| c.kind == crate::proto::ClientKind::Editor)
            .map(|c| c.project.as_str())
            .collect();
        for route in self.routes.values_mut() {
            let project = self.agents.get(&route.source).map_or("", |a| a.project.as_str());
            route.held = route.from_editor && !route.detached && !editors.contains(&project);
        }
    }

    /// A turn began at an agent: what waited for silence is superseded.
    pub(super) fn turn_began(&mut self, id: AgentId) {
        for route_id in self.routes_from(id) {
            let Some(route) = self.routes.get_mut(&route_id) else { continue };
            if route.armed.take().is_none() {
                continue;
            }
            let Some((name, project)) = self.named_route(route_id) else { continue };
            let text = format!("{name}: a new turn began before the silence; its answer counts");
            self.notice(project, Level::Info, "superseded", &format!("route:{route_id}"), text);
        }
    }

    /// A person's prompt re-arms the routes of its agent that a guard stopped. One that lost an
    /// agent needs more than a prompt.
    pub(super) fn rearm(&mut self, id: AgentId) {
        for route_id in self.routes_from(id) {
            let Some(route) = self.routes.get_mut(&route_id) else { continue };
            if route.stopped.as_ref().is_none_or(|(code, _)| code == "agent_exited") {
                continue;
            }
            route.stopped = None;
            let Some((name, project)) = self.named_route(route_id) else { continue };
            let text = format!("{name}: your prompt starts a new chain; the route goes on");
            self.notice(project, Level::Info, "rearmed", &format!("route:{route_id}"), text);
        }
    }

    fn named_route(&self, id: RouteId) -> Option<(String, String)> {
        let route = self.routes.get(&id)?;
        Some((self.route_name(route), self.agents.get(&route.source)?.project.clone()))
    }

    /// A turn was completed; its answer is not known yet. Silence is counted from here on.
    pub(super) fn turn_ended(&mut self, id: AgentId, seq: u64, rung: Rung) {
        for route_id in self.routes_from(id) {
            if let Some(route) = self.routes.get_mut(&route_id)
                && route.trigger == Trigger::OnIdle
            {
                route.armed = Some(Armed { seq, rung });
            }
        }
    }

    /// A completed turn's answer is known.
    pub(super) fn turn_answered(&mut self, id: AgentId, turn: &Turn, rung: Rung) {
        let Some(agent) = self.agents.get(&id) else { return };
        let newest = agent.turns == turn.seq;
        let name = agent.answer.as_ref().and_then(|a| a.turn.clone());
        for hop in &turn.hops {
            if let Some(h) = self.hops.get_mut(hop) {
                h.info.answered_by.clone_from(&name);
                // A screen named no turn when it began.
                if h.info.accepted_as.is_none() {
                    h.info.accepted_as.clone_from(&turn.id);
                }
            }
            let named = name.as_ref().map(|n| format!(" {n}")).unwrap_or_default();
            let step = format!("the {} says that turn{named} ended with an answer", rung.name());
            self.step_of(*hop, StepKind::Receipt, step);
            self.finish(*hop, HopState::Answered, "answered", "its turn ended with an answer");
        }
        for route_id in self.routes_from(id) {
            let Some(route) = self.routes.get_mut(&route_id) else { continue };
            match route.trigger {
                Trigger::OnIdle => {
                    // Where the next turn has begun meanwhile, its answer counts.
                    if route.armed.is_none() && newest {
                        route.armed = Some(Armed { seq: turn.seq, rung });
                    }
                }
                Trigger::OnTurn => {
                    if rung <= Rung::Osc || rung == Rung::Foreground {
                        self.fire_answer(route_id, rung);
                    } else {
                        self.weak_end(route_id, turn, rung);
                    }
                }
                Trigger::OnKeyword | Trigger::Always => {}
            }
        }
    }

    /// `on-turn` asks for the agent's own record; a weaker sign fires nothing, and says so.
    fn weak_end(&mut self, route_id: RouteId, turn: &Turn, rung: Rung) {
        if self.routes.get(&route_id).is_none_or(|r| r.state() != RouteState::Active) {
            return;
        }
        let text = format!("only the {} says that the turn ended; on-idle would fire", rung.name());
        let hop = self.new_hop(route_id, &Firing::nothing(turn, rung));
        self.finish(hop, HopState::Failed, "no_record", &text);
    }

    /// A turn ended without an answer: what it was to bring is stopped with the reason.
    pub(super) fn turn_broken(&mut self, id: AgentId, turn: &Turn, code: &str, why: &str) {
        let Some(agent) = self.agents.get(&id) else { return };
        let text = format!("{}: {why}", agent.name);
        let state = if code == "interrupted" { HopState::Stopped } else { HopState::Failed };
        for hop in &turn.hops {
            self.finish(*hop, state, code, &text);
        }
        for route_id in self.routes_from(id) {
            let Some(route) = self.routes.get_mut(&route_id) else { continue };
            if route.armed.as_ref().is_some_and(|a| a.seq == turn.seq) {
                route.armed = None;
            }
            // Nobody and nothing named a prompt: the program was busy with a command of its own
            // (`/clear`, `/compact`), which nobody waits for an answer to.
            let nameless = code == "no_answer" && turn.id.is_none() && turn.prompt.is_none();
            if nameless
                || route.state() != RouteState::Active
                || !matches!(route.trigger, Trigger::OnIdle | Trigger::OnTurn)
            {
                continue;
            }
            let nothing = Firing::nothing(turn, Rung::Record);
            match route.dispatch {
                Dispatch::Legacy => continue,
                Dispatch::Shadow => {
                    self.shadow_decides(route_id, nothing);
                    continue;
                }
                Dispatch::Madoagent => {}
            }
            let hop = self.new_hop(route_id, &nothing);
            self.finish(hop, state, code, &text);
        }
    }

    /// Fires with the source's last answer.
    pub(super) fn fire_answer(&mut self, route_id: RouteId, rung: Rung) -> Option<HopId> {
        let route = self.routes.get(&route_id)?;
        let agent = self.agents.get(&route.source)?;
        let answer = agent.answer.clone()?;
        let chain = match answer.chain.or(agent.chain) {
            Some(c) => c,
            None => (self.new_chain(), 0),
        };
        let firing =
            Firing { seq: Some(answer.seq), turn: answer.turn, rung, answer: answer.text, chain };
        match self.routes.get(&route_id)?.dispatch {
            Dispatch::Madoagent => return self.fire(route_id, firing),
            Dispatch::Legacy => {}
            Dispatch::Shadow => self.shadow_decides(route_id, firing),
        }
        if rung != Rung::Manual {
            return None;
        }
        let turn = self.agents.get(&self.routes.get(&route_id)?.source)?.turns;
        self.fire_legacy(route_id, turn, rung)
    }

    pub(super) fn new_hop(&mut self, route_id: RouteId, firing: &Firing) -> HopId {
        let now = self.now;
        let id = HopId(self.next_hop);
        self.next_hop += 1;
        let mut info = HopInfo {
            id,
            route: Some(route_id),
            chain: firing.chain.0,
            depth: firing.chain.1,
            rung: firing.rung,
            answer: Some(firing.answer.clone()),
            turn: firing.turn.clone(),
            ..HopInfo::default()
        };
        info.times.fired = Some(now.wall);
        let (mut target, mut paste, mut confirm) = (None, None, false);
        if let Some(route) = self.routes.get(&route_id) {
            target = Some(route.target);
            paste = route.paste;
            confirm = route.confirm;
            info.how = format!("{}, {}", route.trigger.name(), route.transform.name());
            if let Some(a) = self.agents.get(&route.source) {
                info.source.clone_from(&a.name);
            }
            if let Some(a) = self.agents.get(&route.target) {
                info.target.clone_from(&a.name);
                info.project.clone_from(&a.project);
            }
        }
        let mut hop = Hop::new(info, target, now.mono);
        (hop.route, hop.seq, hop.paste, hop.confirm) = (Some(route_id), firing.seq, paste, confirm);
        let from = self.routes.get(&route_id).and_then(|r| self.agents.get(&r.source));
        let turn = firing.seq.and_then(|seq| from.and_then(|a| a.turn_of(seq)));
        hop.parents = turn.map(|t| t.hops.clone()).unwrap_or_default();
        let (source, name) = (hop.info.source.clone(), hop.info.turn.clone());
        self.hops.insert(id, hop);
        let of = name.map(|n| format!(" {n}")).unwrap_or_default();
        let from = self.routes.get(&route_id).map(|r| r.source);
        let ended = from.and_then(|s| self.ended_at(s, firing.seq));
        let step = match firing.rung {
            Rung::Manual => format!("a person asked for the last answer of {source}, turn{of}"),
            rung => format!("the {} of {source}, turn{of}", rung.name()),
        };
        self.step_at(id, ended.unwrap_or(now.wall), StepKind::Evidence, step);
        id
    }

    /// A route fires: guards, transform, and on into the waiting place or the target's queue.
    pub(super) fn fire(&mut self, route_id: RouteId, firing: Firing) -> Option<HopId> {
        let now = self.now;
        let route = self.routes.get(&route_id)?;
        let always = route.trigger == Trigger::Always;
        let stop = route.stop_keyword.as_ref().is_some_and(|w| firing.answer.contains(w.as_str()));
        if self.routes.get(&route_id)?.stopped.is_some() {
            // It said so when it was stopped; it fires again when it is resumed.
            return None;
        }
        if !stop && self.skipped_by_when(route_id, &firing.answer) {
            return None;
        }
        if always
            && !stop
            && let Some(hop) = self.append_batch(route_id, &firing)
        {
            return Some(hop);
        }
        if text::fold(&firing.answer).is_empty() {
            let id = self.new_hop(route_id, &firing);
            self.finish(id, HopState::Failed, "empty", "the turn showed no output to hand on");
            return Some(id);
        }
        if !always {
            self.replace_waiting(route_id);
        }
        let id = self.new_hop(route_id, &firing);
        let chain = self.chains.entry(firing.chain.0).or_default();
        let round = chain.rounds.get(&route_id).copied().unwrap_or(0);
        let route = self.routes.get_mut(&route_id)?;
        route.enter(firing.chain.0, round);
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.info.times.extracted = Some(now.wall);
        }
        if self.stopped_by_guard(route_id, id, &firing, always) {
            return Some(id);
        }
        let route = self.routes.get_mut(&route_id)?;
        let same_round = always && route.round_turn.is_some() && route.round_turn == firing.seq;
        if !same_round {
            route.round += 1;
        }
        route.round_turn = firing.seq;
        let round = route.round;
        if !always {
            route.waiting = Some(id);
        }
        // What is joined is compared as a whole, when it is.
        let content = (route.source, route.target, text::content_hash(&firing.answer));
        let content = self.joined_with(route_id).is_none().then_some(content);
        if let Some(chain) = self.chains.get_mut(&firing.chain.0) {
            chain.used = now.mono;
            chain.rounds.insert(route_id, round);
            if let Some(key) = content {
                chain.delivered.insert(key);
            }
            if !same_round {
                chain.hops += 1;
            }
        }
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.info.round = round;
        }
        if !self.transform(route_id, id) {
            return Some(id);
        }
        self.record(id, None);
        if always {
            self.enqueue(id);
        } else {
            self.release(route_id);
        }
        Some(id)
    }

    /// Makes the prompt. A failure is the hop's.
    pub(super) fn transform(&mut self, route_id: RouteId, id: HopId) -> bool {
        let now = self.now;
        let Some(route) = self.routes.get(&route_id) else { return false };
        if route.transform.asks_model() {
            return self.ask_due(route_id, id);
        }
        let Some(hop) = self.hops.get(&id) else { return false };
        let answer = hop.info.answer.clone().unwrap_or_default();
        let made = match route.transform {
            Transform::PromptWrap => {
                let values = BTreeMap::from([
                    ("output", answer),
                    ("round", hop.info.round.to_string()),
                    ("maxRounds", route.max_rounds.to_string()),
                    ("source", hop.info.source.clone()),
                ]);
                let template = route.template.as_deref().unwrap_or(text::DEFAULT_TEMPLATE);
                text::render(template, &values)
            }
            Transform::FullOutput => Ok(last_lines(&answer, 30)),
            Transform::Raw => Ok(last_lines(&answer, 10)),
            Transform::AiRouting | Transform::Summary => return false,
        };
        match made {
            Ok(prompt) => {
                let ok = self.set_prompt(id, &prompt);
                if let Some(hop) = self.hops.get_mut(&id) {
                    hop.info.times.transformed = Some(now.wall);
                }
                ok
            }
            Err(e) => {
                self.finish(id, HopState::Failed, "template", &e);
                false
            }
        }
    }

    /// Gives a hop the text that its transform made, under the header that its route asks for.
    pub(super) fn set_prompt(&mut self, id: HopId, prompt: &str) -> bool {
        let labelled = self.labelled(id, prompt);
        self.set_literal(id, &labelled)
    }

    /// Makes a text literal and defuses it for the hop's target. An empty one fails the hop.
    pub(super) fn set_literal(&mut self, id: HopId, prompt: &str) -> bool {
        let Some(hop) = self.hops.get_mut(&id) else { return false };
        let (literal, removed) = text::sanitise(prompt);
        let trimmed = literal.trim_end_matches(['\n', ' ', '\t']).trim_start_matches('\n');
        let rules = hop.target.and_then(|t| self.agents.get(&t)).map(|a| &a.profile.defuse);
        let (out, defused) = text::defuse(trimmed, rules.map_or(&[], Vec::as_slice));
        for note in removed.note().into_iter().chain(defused) {
            hop.note(note);
        }
        // A text of marks alone (a variation selector, a joiner) leaves the composer empty, so there
        // would be nothing to see before an Enter.
        if text::fold(trimmed).is_empty() {
            self.finish(id, HopState::Failed, "empty", "there is no text to deliver");
            return false;
        }
        hop.info.prompt = Some(out);
        true
    }

    /// Lets the hop that waits at a route go to the target's queue when nothing holds it there.
    pub(super) fn release(&mut self, route_id: RouteId) -> bool {
        let now = self.now;
        if let Some(group) = self.joined_with(route_id) {
            return self.release_joined(route_id, &group);
        }
        let Some(route) = self.routes.get(&route_id) else { return false };
        let Some(id) = route.waiting else { return false };
        if self.hops.get(&id).is_some_and(|h| h.ask.is_some()) {
            return self.release_asking(route_id, id);
        }
        let wait = match route.state() {
            RouteState::Paused => {
                Some(("paused", "its route is paused; :Mado resume goes on".to_owned()))
            }
            RouteState::Held => {
                Some(("no_editor", "no editor is attached to this project".to_owned()))
            }
            RouteState::Active | RouteState::Stopped => route.cooled(now).map(|_| {
                ("cooldown", format!("the route cools down for {} ms", route.cooldown_ms))
            }),
        };
        if let Some((code, text)) = wait {
            let Some(hop) = self.hops.get_mut(&id) else { return false };
            if hop.reason(now, code, text) {
                self.publish_hop(id);
                return true;
            }
            return false;
        }
        if let Some(route) = self.routes.get_mut(&route_id) {
            route.waiting = None;
            route.fired = Some(now.mono);
        }
        self.enqueue(id);
        true
    }

    /// Puts a hop at the end of its target's queue.
    pub(super) fn enqueue(&mut self, id: HopId) {
        let now = self.now;
        let Some(hop) = self.hops.get_mut(&id) else { return };
        let Some(target) = hop.target else { return };
        let Some(agent) = self.agents.get_mut(&target).filter(|a| a.exit.is_none()) else {
            let text = "its target has ended";
            self.finish(id, HopState::Failed, "target_exited", text);
            return;
        };
        hop.info.state = HopState::Queued;
        hop.reason(now, "queued", "waits for its turn in the queue");
        agent.queue.push_back(id);
        self.record(id, None);
        self.publish_hop(id);
    }

    /// Silence has passed, cooldowns are over.
    pub(super) fn drive_routes(&mut self) -> bool {
        let now = self.now.mono;
        let mut changed = false;
        let ids: Vec<RouteId> = self.routes.keys().copied().collect();
        for id in ids {
            let Some(route) = self.routes.get(&id) else { continue };
            if let Some(armed) = route.armed.clone()
                && let Some(agent) = self.agents.get(&route.source)
            {
                let idle = agent.verdict.phase == Phase::Idle && agent.turn.is_none();
                let known = agent.answer.as_ref().is_some_and(|a| a.seq == armed.seq);
                let due = now >= self.silent_at(route, agent);
                if idle && known && due {
                    if let Some(route) = self.routes.get_mut(&id) {
                        route.armed = None;
                    }
                    self.fire_answer(id, armed.rung);
                    changed = true;
                }
            }
            changed |= self.drive_legacy(id);
            changed |= self.watch_quiet(id);
            changed |= self.release(id);
        }
        changed
    }

    /// When the silence of an armed route will have lasted long enough.
    fn silent_at(&self, route: &Route, agent: &super::agent::Agent) -> u64 {
        let ended = agent.last_turn.as_ref().and_then(|t| t.ended.as_ref()).map_or(0, |e| e.2);
        agent.changed.max(ended) + route.idle_ms.unwrap_or(self.timing.idle_ms)
    }

    pub(super) fn route_deadline(&self, route: &Route) -> Option<u64> {
        let mut at = Vec::new();
        if route.armed.is_some()
            && let Some(agent) = self.agents.get(&route.source)
        {
            at.push(self.silent_at(route, agent));
        }
        at.extend(self.legacy_deadline(route));
        if route.waiting.is_some() {
            at.extend(route.cooled(self.now));
            at.extend(self.join_deadline(route.id));
        }
        if route.trigger == Trigger::Always
            && let Some(agent) = self.agents.get(&route.source)
            && agent.turn.is_some()
        {
            at.push(agent.changed + self.timing.batch_gap_ms);
        }
        at.into_iter().filter(|t| *t > self.now.mono).min()
    }
}

/// The last `n` lines, trailing blank ones dropped first.
fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}
