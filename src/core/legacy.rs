//! The simple way of routing, for comparison and for programs that mado knows little of: the screen's text, a completion
//! pattern, a fixed silence. `legacy` delivers so; `shadow` delivers so too, and writes down what the evidence and the
//! records would have made of the same turn.
//!
//! What it refuses: to be less careful in typing. Phases, sanitising, guards and every look at the target are the
//! same; only what fires, and with which text, is simple.

use super::firing::Firing;
use super::hub::Hub;
use super::route::Route;
use super::text;
use crate::proto::{Dispatch, HopId, HopState, Phase, RouteId, Rung, Shadow, Trigger};

impl Hub {
    /// The source's newest turn that this route has not fired for, and when its silence will have lasted, if the screen
    /// alone says that it is over.
    fn legacy_end(&self, route: &Route) -> Option<(u64, u64)> {
        let agent = self.agents.get(&route.source)?;
        let facts = &agent.facts;
        let waits = facts.composer.is_some() && facts.busy.is_none() && facts.dialog.is_none();
        let phase = agent.verdict.phase;
        let never = matches!(phase, Phase::Asking | Phase::Unknown | Phase::Exited);
        if agent.turns <= route.legacy_turn || !waits || never {
            return None;
        }
        let done = &agent.profile.screen.done;
        if !done.is_empty() && agent.turn_row_matching(done).is_none() {
            return None;
        }
        let silence = route.idle_ms.unwrap_or(self.timing.idle_ms);
        Some((agent.turns, agent.changed + silence))
    }

    /// When a route of this kind wants to be looked at, monotonic milliseconds.
    pub(super) fn legacy_deadline(&self, route: &Route) -> Option<u64> {
        if route.dispatch == Dispatch::Madoagent {
            return None;
        }
        self.legacy_end(route).map(|(_, at)| at)
    }

    /// Fires a route of this kind when its source's screen has been silent for long enough.
    pub(super) fn drive_legacy(&mut self, id: RouteId) -> bool {
        let Some(route) = self.routes.get(&id) else { return false };
        if route.dispatch == Dispatch::Madoagent {
            return false;
        }
        let Some((turn, at)) = self.legacy_end(route) else { return false };
        if self.now.mono < at {
            return false;
        }
        self.fire_legacy(id, turn, Rung::Screen);
        true
    }

    /// Fires with what the screen shows of the source's turn.
    pub(super) fn fire_legacy(&mut self, id: RouteId, turn: u64, rung: Rung) -> Option<HopId> {
        let route = self.routes.get_mut(&id)?;
        route.legacy_turn = turn;
        let agent = self.agents.get(&route.source)?;
        let answer = agent.turn_output().join("\n");
        let name = agent.turn.as_ref().or(agent.last_turn.as_ref()).and_then(|t| t.id.clone());
        let chain = match agent.chain {
            Some(c) => c,
            None => (self.new_chain(), 0),
        };
        let firing = Firing { seq: Some(turn), turn: name, rung, answer, chain };
        let hop = self.fire(id, firing)?;
        let shadow = self.routes.get_mut(&id).and_then(|r| r.shadow.take_if(|(t, _)| *t == turn));
        match shadow {
            Some((_, shadow)) => self.attach_shadow(hop, shadow),
            None if self.routes.get(&id).is_some_and(|r| r.dispatch == Dispatch::Shadow) => {
                if let Some(h) = self.hops.get_mut(&hop) {
                    h.note("madoagent had not decided yet when this was fired");
                }
            }
            None => {}
        }
        Some(hop)
    }

    fn attach_shadow(&mut self, hop: HopId, shadow: Shadow) {
        let Some(h) = self.hops.get_mut(&hop) else { return };
        h.info.notes.retain(|n| !n.starts_with("madoagent had not decided yet"));
        h.info.shadow = Some(shadow);
        self.record(hop, None);
        self.publish_hop(hop);
    }

    /// What the evidence and the records decide for a turn whose text goes out the simple way.
    pub(super) fn shadow_decides(&mut self, id: RouteId, firing: Firing) {
        let Some(seq) = firing.seq else { return };
        let (rung, turn, answer) = (firing.rung, firing.turn.clone(), firing.answer.clone());
        let at = self.now.wall;
        let round = self.routes.get(&id).map_or(0, |r| r.round).max(1);
        let prompt = self.would_type(id, &firing, round);
        let shadow = Shadow { at, rung, turn, answer, prompt };
        let mine = |h: &&super::hop::Hop| h.route == Some(id) && h.seq == Some(seq);
        let hop = self.hops.values().rev().find(mine).map(super::hop::Hop::id);
        if let Some(hop) = hop {
            return self.attach_shadow(hop, shadow);
        }
        self.miss_shadow(id);
        if let Some(route) = self.routes.get_mut(&id) {
            route.shadow = Some((seq, shadow));
        }
    }

    /// The prompt that a firing would have made. Nothing of it is kept or told.
    fn would_type(&mut self, id: RouteId, firing: &Firing, round: u32) -> String {
        if text::fold(&firing.answer).is_empty() {
            return String::new();
        }
        let hop = self.new_hop(id, firing);
        if let Some(h) = self.hops.get_mut(&hop) {
            h.info.round = round;
        }
        let told = self.out.len();
        self.transform(id, hop);
        self.out.truncate(told);
        self.next_hop -= 1;
        self.hops.remove(&hop).and_then(|h| h.info.prompt).unwrap_or_default()
    }

    /// A turn that the evidence fired and the simple way did not: the log says so.
    fn miss_shadow(&mut self, id: RouteId) {
        let Some((seq, shadow)) = self.routes.get_mut(&id).and_then(|r| r.shadow.take()) else {
            return;
        };
        let chain = (self.routes.get(&id).and_then(|r| r.chain).unwrap_or_default(), 0);
        let firing = Firing {
            seq: Some(seq),
            turn: shadow.turn.clone(),
            rung: shadow.rung,
            answer: String::new(),
            chain,
        };
        let hop = self.new_hop(id, &firing);
        if let Some(h) = self.hops.get_mut(&hop) {
            h.info.shadow = Some(shadow);
        }
        let text = "legacy fired nothing for this turn; madoagent would have";
        self.finish(hop, HopState::Stopped, "legacy_missed", text);
    }

    /// Where the turns begin that a route of this kind fires for: an old one's answer is nobody's.
    pub(super) fn legacy_begins(&self, route: &Route) -> u64 {
        let agent = self.agents.get(&route.source);
        agent.map_or(0, |a| a.turns - u64::from(a.turn.is_some()))
    }
}

/// Why a dispatch does not go with the rest of a route; what is wrong, and the remedy.
pub(super) fn dispatch_problem(route: &Route) -> Option<(String, &'static str)> {
    if route.dispatch == Dispatch::Madoagent {
        return None;
    }
    if route.dispatch == Dispatch::Shadow && route.transform.asks_model() {
        let why = "a model writes another text each time, so the two cannot be compared";
        return Some((
            format!("dispatch=shadow does not go with {}: {why}", route.transform.name()),
            "use transform=prompt-wrap",
        ));
    }
    if route.trigger == Trigger::OnIdle {
        return None;
    }
    let (way, trigger) = (route.dispatch.name(), route.trigger.name());
    let why = match route.trigger {
        Trigger::OnTurn => "it knows no records of turns",
        _ => "that trigger reads the screen whatever dispatches",
    };
    Some((
        format!("dispatch={way} does not go with {trigger}: {why}"),
        "use trigger=on-idle, or dispatch=madoagent",
    ))
}
