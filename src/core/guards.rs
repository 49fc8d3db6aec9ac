//! The guards: what stops a hop before it is on its way, and says so.

use super::firing::Firing;
use super::hop::Hop;
use super::hub::Hub;
use super::text;
use crate::proto::{HopId, HopState, Level, RouteId};

impl Hub {
    /// A newer answer takes the place of one that still waits at the route. The old one never went
    /// out, so it counts neither as a round nor as a hop of its chain.
    pub(super) fn replace_waiting(&mut self, route_id: RouteId) {
        let Some(route) = self.routes.get_mut(&route_id) else { return };
        let Some(old) = route.waiting.take() else { return };
        self.uncount(route_id, old);
        self.finish(old, HopState::Stopped, "replaced", "a newer answer took its place");
    }

    /// A hop that never went out counts neither as a round nor as a hop of its chain.
    pub(super) fn uncount(&mut self, route_id: RouteId, old: HopId) {
        let Some(route) = self.routes.get_mut(&route_id) else { return };
        let of = self.hops.get(&old).map(|h| {
            let answer = h.info.answer.as_deref().unwrap_or("");
            (h.info.chain, text::content_hash(answer))
        });
        if let Some((id, hash)) = of
            && let Some(chain) = self.chains.get_mut(&id)
        {
            chain.hops = chain.hops.saturating_sub(1);
            chain.delivered.remove(&(route_id, hash));
            if let Some(round) = chain.rounds.get_mut(&route_id) {
                *round = round.saturating_sub(1);
                if route.chain == Some(id) {
                    route.round = *round;
                }
            }
        }
    }

    /// Guards, in the order in which a person would want to hear of them.
    pub(super) fn stopped_by_guard(
        &mut self,
        route_id: RouteId,
        id: HopId,
        firing: &Firing,
        always: bool,
    ) -> bool {
        let Some(route) = self.routes.get(&route_id) else { return true };
        let name = self.route_name(route);
        let max = route.max_rounds;
        let same_round = always && route.round_turn.is_some() && route.round_turn == firing.seq;
        let resume = format!(":Mado resume {route_id}, or your next prompt at its source, goes on");
        let chain = self.chains.get(&firing.chain.0);
        let hops = chain.map_or(0, |c| c.hops);
        let hash = text::content_hash(&firing.answer);
        let repeated = !always && chain.is_some_and(|c| c.delivered.contains(&(route_id, hash)));
        let stop = if let Some(word) =
            route.stop_keyword.as_ref().filter(|w| firing.answer.contains(w.as_str()))
        {
            Some(("stop_keyword", format!("{name}: the answer holds {word:?}; {resume}")))
        } else if !same_round && route.round >= max {
            Some(("max_rounds", format!("{name}: {max} rounds are done; {resume}")))
        } else if !same_round && hops >= self.timing.chain_limit {
            let limit = self.timing.chain_limit;
            Some(("chain_limit", format!("{name}: the chain has had {limit} hops; {resume}")))
        } else if repeated {
            Some((
                "repeated",
                format!("{name}: the same answer has gone this way before; {resume}"),
            ))
        } else {
            None
        };
        let Some((code, text)) = stop else { return false };
        let project = self.hops.get(&id).map(|h| h.info.project.clone()).unwrap_or_default();
        if let Some(route) = self.routes.get_mut(&route_id) {
            route.stopped = Some((code.to_owned(), text.clone()));
            route.armed = None;
        }
        // The hop's own notice would say the same again: only the route speaks.
        let now = self.now;
        if let Some(hop) = self.hops.get_mut(&id) {
            hop.enter(now, HopState::Stopped, code, text.clone());
        }
        self.record(id, None);
        self.publish_hop(id);
        self.notice(project, Level::Warn, code, &format!("route:{route_id}"), text);
        true
    }

    /// Stops every hop of a route that has not been typed.
    pub(super) fn stop_hops_of(&mut self, route_id: RouteId, text: &str) {
        let ids: Vec<HopId> = self
            .hops
            .values()
            .filter(|h| {
                h.route == Some(route_id)
                    && !h.is_final()
                    && matches!(h.info.state, HopState::Queued | HopState::Typing)
            })
            .map(Hop::id)
            .collect();
        for id in ids {
            let target = self.hops.get(&id).and_then(|h| h.target);
            if let Some(target) = target
                && self
                    .agents
                    .get(&target)
                    .and_then(|a| a.delivery.as_ref())
                    .is_some_and(|d| d.hop == id && !d.entered())
            {
                self.put_back(target);
            }
            self.finish(id, HopState::Stopped, "stopped_by_route", text);
        }
    }
}
