//! The guards: what stops a hop before it is on its way, and says so.

use super::firing::Firing;
use super::hop::Hop;
use super::hub::Hub;
use super::route::Route;
use super::text;
use crate::proto::{AgentId, ChainId, HopId, HopState, Level, RouteId};
use std::collections::BTreeSet;

const HOUR_MS: u64 = 3_600_000;
const MINUTE_MS: u64 = 60_000;

impl Hub {
    /// A newer answer takes the place of one that still waits at the route.
    pub(super) fn replace_waiting(&mut self, route_id: RouteId) {
        let Some(route) = self.routes.get_mut(&route_id) else { return };
        let Some(old) = route.waiting.take() else { return };
        self.uncount(route_id, old);
        self.finish(old, HopState::Stopped, "replaced", "a newer answer took its place");
    }

    /// A hop that never went out counts neither as a round nor as a hop of its chain.
    pub(super) fn uncount(&mut self, route_id: RouteId, hop: HopId) {
        let Some(route) = self.routes.get_mut(&route_id) else { return };
        let Some(hop) = self.hops.get(&hop) else { return };
        let hash = text::content_hash(hop.info.answer.as_deref().unwrap_or(""));
        let id = hop.info.chain;
        let Some(chain) = self.chains.get_mut(&id) else { return };
        chain.hops = chain.hops.saturating_sub(1);
        chain.delivered.remove(&(route.source, route.target, hash));
        if let Some(round) = chain.rounds.get_mut(&route_id) {
            *round = round.saturating_sub(1);
            if route.chain == Some(id) {
                route.round = *round;
            }
        }
    }

    /// Whether the route's condition keeps an answer from being handed on. It leaves no hop; the
    /// route shows it.
    pub(super) fn skipped_by_when(&mut self, route_id: RouteId, answer: &str) -> bool {
        let now = self.now.mono;
        let Some(route) = self.routes.get_mut(&route_id) else { return false };
        route.skipped = None;
        let Some(when) = route.when.as_ref().filter(|w| !w.is_match(answer)) else { return false };
        route.skipped = Some(format!("its last answer did not match when={}", when.as_str()));
        route.abstained = route.join.then_some(now);
        true
    }

    /// Whether this content was given to the target before, further up the line that leads here:
    /// then it goes round in circles, whoever says it now. Two sources that say the same to one
    /// target do not.
    pub(super) fn went_round(&self, id: HopId, target: AgentId, hash: u64) -> bool {
        let mut seen: BTreeSet<HopId> = BTreeSet::new();
        let mut next: Vec<HopId> = self.hops.get(&id).map_or(Vec::new(), |h| h.parents.clone());
        while let Some(id) = next.pop() {
            let Some(hop) = self.hops.get(&id).filter(|_| seen.insert(id)) else { continue };
            let content = hop.info.answer.as_ref().or(hop.info.prompt.as_ref());
            let same = content.is_some_and(|c| text::content_hash(c) == hash);
            if same && hop.target == Some(target) {
                return true;
            }
            next.extend(&hop.parents);
        }
        false
    }

    /// Counts tokens that a model or an agent is known to have used for a chain. Whoever learns of a
    /// use calls it once for that use; estimates do not belong here.
    pub fn spend(&mut self, chain: ChainId, tokens: u64) {
        let (used, hour) = (self.now.mono, self.now.mono / HOUR_MS);
        let entry = self.chains.entry(chain).or_default();
        entry.tokens = entry.tokens.saturating_add(tokens);
        entry.used = used;
        match self.spent.back_mut() {
            Some((at, sum)) if *at == hour => *sum = sum.saturating_add(tokens),
            _ => self.spent.push_back((hour, tokens)),
        }
        while self.spent.front().is_some_and(|(at, _)| at + 24 <= hour) {
            self.spent.pop_front();
        }
    }

    /// Tokens used within the last 24 hours, counted by whole hours.
    fn spent_today(&self) -> u64 {
        let hour = self.now.mono / HOUR_MS;
        self.spent.iter().filter(|(at, _)| at + 24 > hour).map(|(_, n)| *n).sum()
    }

    /// Whether a budget is used up; code and words.
    fn over_budget(&self, route: &Route, chain: ChainId) -> Option<(&'static str, String)> {
        let of = |own: Option<u64>, host: u64| own.into_iter().chain((host > 0).then_some(host));
        let used = self.chains.get(&chain).map_or(0, |c| c.tokens);
        if let Some(most) = of(route.chain_tokens, self.timing.chain_tokens).min()
            && used >= most
        {
            return Some((
                "chain_tokens",
                format!("the chain has used {used} tokens, its budget is {most}"),
            ));
        }
        let used = self.spent_today();
        if let Some(most) = of(route.day_tokens, self.timing.day_tokens).min()
            && used >= most
        {
            return Some((
                "day_tokens",
                format!("{used} tokens were used in the last 24 hours, the budget is {most}"),
            ));
        }
        None
    }

    /// Whether a hop counts for the limit of hops per minute: all but what people send.
    fn is_rated(hop: &Hop) -> bool {
        hop.route.is_some() || !hop.info.source.is_empty()
    }

    /// When the next hop of a project may go out, if that is later.
    pub(super) fn rate_free_at(&self, project: &str) -> Option<u64> {
        let most = usize::try_from(self.timing.hops_per_minute).unwrap_or(usize::MAX);
        let sent = self.rate.get(project).filter(|_| most > 0)?;
        let first = sent.len().checked_sub(most)?;
        sent.get(first).map(|(at, _)| at + MINUTE_MS).filter(|at| *at > self.now.mono)
    }

    /// Why a hop has to wait for the limit of hops per minute; code and words.
    pub(super) fn rated(&self, project: &str, hop: &Hop) -> Option<(String, String)> {
        let known = self.rate.get(project).is_some_and(|r| r.iter().any(|(_, h)| *h == hop.id()));
        if !Hub::is_rated(hop) || known {
            return None;
        }
        self.rate_free_at(project)?;
        let most = self.timing.hops_per_minute;
        Some((
            "rate".to_owned(),
            format!("{most} hops have gone out within a minute; the next may go by and by"),
        ))
    }

    /// Tells people that the limit of hops per minute holds something back.
    pub(super) fn tell_rate(&mut self, id: HopId) {
        let Some(info) = self.hops.get(&id).map(|h| &h.info) else { return };
        if info.reason_code == "rate" {
            let (project, text) = (info.project.clone(), info.reason_text.clone());
            let text = format!("{} waits: {text}", info.target);
            self.notice(project, Level::Info, "rate", "rate", text);
        }
    }

    /// A hop goes out: it counts for the limit of hops per minute, once.
    pub(super) fn count_rate(&mut self, project: &str, id: HopId) {
        let now = self.now.mono;
        if !self.hops.get(&id).is_some_and(Hub::is_rated) {
            return;
        }
        let sent = self.rate.entry(project.to_owned()).or_default();
        while sent.front().is_some_and(|(at, _)| at + MINUTE_MS <= now) {
            sent.pop_front();
        }
        if !sent.iter().any(|(_, h)| *h == id) {
            sent.push_back((now, id));
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
        let key = (route.source, route.target, hash);
        let before = chain.is_some_and(|c| c.delivered.contains(&key));
        // What is joined is compared as a whole, when it is.
        let repeated = !always
            && self.joined_with(route_id).is_none()
            && (before || self.went_round(id, route.target, hash));
        let stop = if let Some(word) =
            route.stop_keyword.as_ref().filter(|w| firing.answer.contains(w.as_str()))
        {
            Some(("stop_keyword", format!("{name}: the answer holds {word:?}; {resume}")))
        } else if !same_round && route.round >= max {
            Some(("max_rounds", format!("{name}: {max} rounds are done; {resume}")))
        } else if !same_round && hops >= self.timing.chain_limit {
            let limit = self.timing.chain_limit;
            Some(("chain_limit", format!("{name}: the chain has had {limit} hops; {resume}")))
        } else if let Some((code, text)) = self.over_budget(route, firing.chain.0) {
            Some((code, format!("{name}: {text}; {resume}")))
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
                h.is_of(route_id)
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
