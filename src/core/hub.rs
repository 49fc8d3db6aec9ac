//! The hub: takes inputs, owns everything, gives effects.
//!
//! [`Hub::step`] first takes the input in, then settles: phases are assessed, turns opened and
//! ended, firings moved on, queues pumped, until nothing changes any more. So the order in which
//! evidence arrives within one step does not matter.

use super::agent::{Agent, Outcome};
use super::hop::Hop;
use super::io::{Effect, Input, Now};
use super::route::{Chain, Route};
use super::timing::Timing;
use crate::core::dialect::{OscState, StatusState};
use crate::proto::{
    AgentId, ChainId, ClientId, ClientKind, Event, HopId, HopState, Level, Notice, Phase, RouteId,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A connection as the core knows it.
#[derive(Debug, Clone)]
pub struct Client {
    /// What it is.
    pub kind: ClientKind,
    /// Its project.
    pub project: String,
}

/// The core: agents, routes, hops, queues. One owner, no locks.
#[derive(Debug)]
pub struct Hub {
    pub(super) timing: Timing,
    pub(super) now: Now,
    pub(super) agents: BTreeMap<AgentId, Agent>,
    pub(super) routes: BTreeMap<RouteId, Route>,
    pub(super) hops: BTreeMap<HopId, Hop>,
    pub(super) chains: BTreeMap<ChainId, Chain>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    /// Projects in which everything is paused.
    pub(super) paused: BTreeSet<String>,
    /// `open` requests that wait for their program to start.
    pub(super) opening: BTreeMap<AgentId, (ClientId, u64)>,
    /// `answer` requests that wait for an extraction, by its number.
    pub(super) asked: BTreeMap<u64, (ClientId, u64, AgentId)>,
    /// Hops that went out in the last minute, by project, with their times.
    pub(super) rate: BTreeMap<String, VecDeque<(u64, HopId)>>,
    /// Tokens known to have been used, by the hour of the monotonic clock; a day back.
    pub(super) spent: VecDeque<(u64, u64)>,
    /// Answers are being gathered for a join that a person fires: nothing goes on meanwhile.
    pub(super) gathering: bool,
    pub(super) next_agent: u64,
    pub(super) next_route: u64,
    pub(super) next_hop: u64,
    pub(super) next_chain: u64,
    pub(super) next_token: u64,
    pub(super) out: Vec<Effect>,
    pub(super) store_error: Option<String>,
    /// The last step did not come to rest: go on as soon as possible.
    pub(super) unsettled: bool,
    /// Always true in a product; a test that must be able to fail switches it off.
    pub(super) gate: bool,
}

/// Final hops that are kept for listings; the store holds all.
const KEEP_HOPS: usize = 1_000;

impl Hub {
    /// A hub without anything.
    pub fn new(timing: Timing) -> Hub {
        Hub {
            timing,
            now: Now::default(),
            agents: BTreeMap::new(),
            routes: BTreeMap::new(),
            hops: BTreeMap::new(),
            chains: BTreeMap::new(),
            clients: BTreeMap::new(),
            paused: BTreeSet::new(),
            opening: BTreeMap::new(),
            asked: BTreeMap::new(),
            rate: BTreeMap::new(),
            spent: VecDeque::new(),
            gathering: false,
            next_agent: 1,
            next_route: 1,
            next_hop: 1,
            next_chain: 1,
            next_token: 1,
            out: Vec::new(),
            store_error: None,
            unsettled: false,
            gate: true,
        }
    }

    /// Types without looking: Enter follows its text whatever the screen shows. It exists so that
    /// the test of the gate can be seen to fail, and only in builds with debug assertions.
    #[cfg(debug_assertions)]
    pub fn switch_gate_off(&mut self) {
        self.gate = false;
    }

    /// Whether it looks before it types.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.gate
    }

    /// Takes one input and says what to do, in order.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.now = now;
        self.take(input);
        self.settle();
        std::mem::take(&mut self.out)
    }

    /// The monotonic time (milliseconds) at which the hub wants an [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        let now = self.now.mono;
        let mut at: Vec<u64> = Vec::new();
        if self.unsettled {
            at.push(now + 1);
        }
        for agent in self.agents.values() {
            at.extend(agent.deadline(now, &self.timing));
            at.extend(agent.delivery.as_ref().map(|d| d.deadline(&self.timing)));
            if let super::agent::Paste::Owed(_, owed) = &agent.paste {
                at.push(*owed);
            }
            if let Some(e) = &agent.extract {
                at.push(if e.token.is_none() { e.retry } else { e.until });
            }
            if agent.delivery.is_none()
                && !agent.queue.is_empty()
                && agent.verdict.phase == Phase::Idle
            {
                at.push(self.settled_at(agent));
                at.extend(agent.left.as_ref().map(|l| self.told_at(l)));
                at.extend(agent.left.as_ref().map(|l| l.at + self.timing.echo_ms));
                at.extend(agent.human_at.map(|h| h + self.timing.human_ms));
                at.extend(self.rate_free_at(&agent.project));
            }
        }
        for route in self.routes.values() {
            at.extend(self.route_deadline(route));
        }
        at.into_iter().filter(|t| *t > now).min()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::ClientHere { client, kind, project } => {
                self.clients.insert(client, Client { kind, project });
                self.hold_routes();
            }
            Input::ClientGone { client } => {
                self.clients.remove(&client);
                self.hold_routes();
            }
            Input::Request { client, seq, inside, profile, request } => {
                self.request(client, seq, inside, profile, request);
            }
            Input::Spawned { agent, pid } => self.spawned(agent, pid),
            Input::SpawnFailed { agent, error } => self.spawn_failed(agent, error),
            Input::Exited { agent, code, signal } => self.exited(agent, code, signal),
            Input::Screen { agent, view } => {
                let now = self.now.mono;
                if let Some(a) = self.agents.get_mut(&agent) {
                    a.look(*view, now, self.timing.echo_ms);
                }
                self.watch_output(agent);
            }
            Input::Checked { agent, token, view } => {
                let now = self.now.mono;
                if let Some(a) = self.agents.get_mut(&agent) {
                    a.look(*view, now, self.timing.echo_ms);
                }
                self.assess(agent);
                self.checked(agent, token);
            }
            Input::Written { agent, token } => self.written(agent, token),
            Input::WriteDropped { agent, token, written } => {
                self.write_dropped(agent, token, written);
            }
            Input::Human { agent, submits, rest } => self.human(agent, submits, rest),
            Input::Attached { agent, viewers } => {
                if let Some(a) = self.agents.get_mut(&agent) {
                    a.viewers = viewers;
                }
            }
            Input::Hook { agent, event } => self.hook(agent, event),
            Input::Record { agent, event } => self.recorded(agent, event),
            Input::Status { agent, state } => {
                let now = self.now.mono;
                if let Some(a) = self.agents.get_mut(&agent) {
                    let was = a.seen.status.map(|s| s.says);
                    if (was, state) == (Some(StatusState::Background), StatusState::Idle) {
                        // They were ended without a turn, which no hook tells.
                        a.seen.background = 0;
                    }
                    a.seen.status = Some(super::agent::Claim { says: state, at: now });
                    if state == StatusState::Lost {
                        a.seen.status = None;
                        a.seen.hook_open = None;
                        a.seen.permission = None;
                    }
                }
            }
            Input::Osc { agent, state } => {
                let now = self.now.mono;
                if let Some(a) = self.agents.get_mut(&agent) {
                    a.seen.osc = Some(super::agent::Claim { says: state, at: now });
                    a.seen.osc_ready |= state != OscState::Working;
                    // What went wrong stands in the record, a moment later.
                    if state == OscState::Error
                        && !a.has_record()
                        && let Some(t) = a.turn.as_mut()
                    {
                        t.broken.get_or_insert(Outcome::Failed("it reported an error".to_owned()));
                    }
                }
            }
            Input::Command { agent, mark } => {
                if let Some(a) = self.agents.get_mut(&agent) {
                    a.marked(mark);
                }
            }
            Input::Session { agent, session } => {
                if let Some(a) = self.agents.get_mut(&agent) {
                    a.in_session(session);
                }
            }
            Input::Extracted { agent, token, result } => self.extracted(agent, token, result),
            Input::Asked { hop, token, result } => self.asked(hop, token, result),
            Input::Restored { hops, next_hop } => self.restored(hops, next_hop),
            Input::StoreFailed { error } => self.store_failed(error),
            Input::Tick => {}
        }
    }

    /// Moves everything on until nothing changes. Bounded: a loop here would be a bug, and a bug
    /// must not hang the host.
    fn settle(&mut self) {
        let ids: Vec<AgentId> = self.agents.keys().copied().collect();
        self.unsettled = true;
        for _ in 0..64 {
            let mut changed = false;
            for id in &ids {
                changed |= self.assess(*id);
                changed |= self.close_paste(*id);
                changed |= self.drive(*id);
                changed |= self.drive_extraction(*id);
            }
            changed |= self.drive_routes();
            for id in &ids {
                changed |= self.pump(*id);
            }
            if !changed {
                self.unsettled = false;
                break;
            }
        }
        for id in ids {
            self.publish_agent(id);
        }
        let routes: Vec<RouteId> = self.routes.keys().copied().collect();
        for id in routes {
            self.publish_route(id);
        }
        self.forget_old_hops();
    }

    /// Assesses an agent's phase, and opens or ends its turn by it.
    pub(super) fn assess(&mut self, id: AgentId) -> bool {
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let verdict = agent.assess(now.mono, &self.timing);
        let before = agent.verdict.phase;
        let mut changed = verdict != agent.verdict;
        if verdict.phase != before {
            agent.since = now.mono;
            agent.since_wall = now.wall;
        }
        let phase = verdict.phase;
        agent.verdict = verdict;
        if matches!(phase, Phase::Busy | Phase::Asking) {
            agent.human_submit = None;
            agent.accepted_at = None;
            agent.asked_at = None;
        } else if before == Phase::Asking {
            agent.asked_at = Some(now.mono);
        }
        let entered = agent.delivery.as_ref().is_some_and(super::delivery::Delivery::entered);
        if phase == Phase::Idle && !entered {
            // After an Enter the composer may have moved below the echo already.
            agent.idle_mark = agent.mark();
            if agent.first_prompt.is_none() {
                agent.first_prompt = agent.line_base.as_ref().map(|b| b.prompt.clone());
            }
        }
        let line = agent.profile.composer.kind == super::profile::ComposerKind::Line;
        let began = entered || agent.human_prompted.is_some();
        let titled = agent.title_says(true) == Some(Phase::Busy);
        if phase == Phase::Busy
            && agent.turn.is_none()
            && !matches!(agent.verdict.code, "background" | "startup")
            && (!line || began)
        {
            self.open_turn(id, None, None, false);
            changed = true;
        }
        if let Some(turn) = self.agents.get_mut(&id).and_then(|a| a.turn.as_mut()) {
            turn.titled |= titled;
        }
        if self.accepted_on_screen(id) {
            self.accepted_by_screen(id);
            // What the phase is now that the turn is open is another question.
            return true;
        }
        if phase == Phase::Asking && before != Phase::Asking {
            self.notice_asking(id);
        }
        if phase == Phase::Idle && self.agents.get(&id).is_some_and(|a| a.turn.is_some()) {
            self.end_turn(id);
            changed = true;
        }
        changed
    }

    fn notice_asking(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        let notice = Notice {
            project: agent.project.clone(),
            level: Level::Warn,
            code: "asks".to_owned(),
            key: format!("agent:{}", agent.id),
            text: format!("{} {}", agent.name, agent.verdict.text),
            agent: Some(agent.name.clone()),
        };
        self.out.push(Effect::Publish(Event::Notice(notice)));
    }

    /// The number of the next effect that is answered.
    pub(super) fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Gives a hop its final state, once.
    pub(super) fn finish(&mut self, id: HopId, state: HopState, code: &str, text: &str) {
        let now = self.now;
        let Some(hop) = self.hops.get_mut(&id) else { return };
        if !hop.enter(now, state, code, text) {
            return;
        }
        let target = hop.target;
        if matches!(hop.ask.take(), Some(super::hop::Ask::Open(_))) {
            self.called_off(id);
        }
        for agent in self.agents.values_mut() {
            agent.queue.retain(|h| *h != id);
        }
        for route in self.routes.values_mut() {
            if route.waiting == Some(id) {
                route.waiting = None;
            }
        }
        self.record(id, None);
        self.publish_hop(id);
        let project = target.and_then(|t| self.agents.get(&t)).map(|a| a.project.clone());
        if let (HopState::Failed | HopState::Unconfirmed | HopState::Stopped, Some(project)) =
            (state, project)
            && !matches!(
                code,
                "replaced" | "stopped_by_route" | "joined" | "join_broken" | "join_timeout"
            )
        {
            let hop = &self.hops[&id];
            let from = if hop.info.source.is_empty() { "you" } else { &hop.info.source };
            let text = format!("hop {id}, {from} → {}: {text}", hop.info.target);
            let level = if state == HopState::Failed { Level::Error } else { Level::Warn };
            self.notice(project, level, code, &format!("hop:{id}"), text);
        }
    }

    pub(super) fn notice(
        &mut self,
        project: String,
        level: Level,
        code: &str,
        key: &str,
        text: String,
    ) {
        let notice = Notice {
            project,
            level,
            code: code.to_owned(),
            key: key.to_owned(),
            text,
            agent: None,
        };
        self.out.push(Effect::Publish(Event::Notice(notice)));
    }

    pub(super) fn record(&mut self, id: HopId, enter: Option<bool>) {
        if let Some(hop) = self.hops.get(&id) {
            self.out.push(Effect::Record { hop: Box::new(hop.info.clone()), enter });
        }
    }

    pub(super) fn publish_hop(&mut self, id: HopId) {
        if let Some(hop) = self.hops.get(&id) {
            self.out.push(Effect::Publish(Event::Hop(hop.info.clone())));
        }
    }

    fn publish_agent(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let info = agent.info();
        if agent.pid != 0 && agent.published.as_ref() != Some(&info) {
            agent.published = Some(info.clone());
            self.out.push(Effect::Publish(Event::Agent(info)));
        }
    }

    fn publish_route(&mut self, id: RouteId) {
        let Some(info) = self.route_info(id) else { return };
        let Some(route) = self.routes.get_mut(&id) else { return };
        if route.published.as_ref() != Some(&info) {
            route.published = Some(info.clone());
            self.out.push(Effect::Publish(Event::Route(info)));
        }
    }

    fn forget_old_hops(&mut self) {
        let over = self.hops.len().saturating_sub(KEEP_HOPS);
        if over == 0 {
            return;
        }
        let old: Vec<HopId> =
            self.hops.iter().filter(|(_, h)| h.is_final()).map(|(id, _)| *id).take(over).collect();
        for id in old {
            self.hops.remove(&id);
        }
    }

    fn store_failed(&mut self, error: String) {
        let known = self.store_error.replace(error.clone()).is_some();
        let typing: Vec<AgentId> =
            self.agents.values().filter(|a| a.delivery.is_some()).map(|a| a.id).collect();
        for id in typing {
            // An Enter that is on its way is written or refused, which is told; one that was sent
            // is awaited, since it asks for no more bytes.
            let Some(hop_id) = self.put_back(id) else { continue };
            let now = self.now;
            if let Some(hop) = self.hops.get_mut(&hop_id) {
                hop.info.state = HopState::Queued;
                hop.reason(now, "store", format!("the store cannot write: {error}"));
            }
            self.publish_hop(hop_id);
        }
        if known {
            return;
        }
        let projects: BTreeSet<String> = self.agents.values().map(|a| a.project.clone()).collect();
        for project in projects {
            let text = format!("nothing is delivered: the store cannot write: {error}");
            self.notice(project, Level::Error, "store", "store", text);
        }
    }
}
