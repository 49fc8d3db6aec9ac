//! Watching a source's output as it comes: keywords and streams.

use super::agent::Outcome;
use super::firing::Firing;
use super::hub::Hub;
use super::screen::unwrap_lines;
use crate::proto::{AgentId, HopId, HopState, RouteId, RouteState, Rung, Trigger};

impl Hub {
    /// The screen of an agent's open turn has changed: keywords and streams.
    pub(super) fn watch_output(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        if let Some(turn) = agent.turn.as_ref().filter(|_| !agent.has_record()) {
            self.watch(id, turn.seq, false);
        }
    }

    /// The turn ends: what is left of its output goes on.
    pub(super) fn watch_rest(&mut self, id: AgentId, outcome: &Outcome) {
        let Some(turn) = self.agents.get(&id).and_then(|a| a.turn.as_ref()) else { return };
        if *outcome != Outcome::Superseded {
            self.watch(id, turn.seq, true);
        }
    }

    /// Looks at the output of a turn, the open or the last one.
    pub(super) fn watch(&mut self, id: AgentId, seq: u64, rest: bool) {
        for route_id in self.routes_from(id) {
            let Some(route) = self.routes.get(&route_id) else { continue };
            if route.state() == RouteState::Stopped {
                continue;
            }
            match route.trigger {
                Trigger::OnKeyword => self.watch_keyword(id, seq, route_id),
                Trigger::Always => {
                    self.watch_stream(id, seq, route_id, rest);
                }
                Trigger::OnIdle | Trigger::OnTurn => {}
            }
        }
    }

    /// A turn's output so far: the record's texts where there is a record, else the screen's.
    fn output_so_far(&self, id: AgentId, seq: u64) -> Option<(String, Rung)> {
        let agent = self.agents.get(&id)?;
        let turn = agent.turn_of(seq)?;
        if agent.has_record() {
            let texts: Vec<&str> = turn.texts.iter().map(|(_, t)| t.as_str()).collect();
            return Some((texts.join("\n\n"), Rung::Record));
        }
        Some((unwrap_lines(&agent.turn_output(), agent.cols()), Rung::Screen))
    }

    fn watch_keyword(&mut self, id: AgentId, seq: u64, route_id: RouteId) {
        let Some((output, rung)) = self.output_so_far(id, seq) else { return };
        let Some(pattern) = self.routes.get(&route_id).and_then(|r| r.pattern.clone()) else {
            return;
        };
        let ends: Vec<usize> = pattern.find_iter(&output).map(|m| m.end()).collect();
        let Some(turn) = self.agents.get_mut(&id).and_then(|a| a.turn_of_mut(seq)) else { return };
        let fired = turn.matches.entry(route_id).or_insert(0);
        let new: Vec<usize> = ends.iter().skip(*fired).copied().collect();
        *fired = (*fired).max(ends.len());
        let (chain, name) = ((turn.chain, turn.depth), turn.id.clone());
        for end in new {
            let answer = output[..end].to_owned();
            let firing = Firing { seq: Some(seq), turn: name.clone(), rung, answer, chain };
            self.fire(route_id, firing);
        }
    }

    /// A stream's gap has passed: what it has collected goes on.
    pub(super) fn watch_quiet(&mut self, route_id: RouteId) -> bool {
        let Some(route) = self.routes.get(&route_id) else { return false };
        let Some(agent) = self.agents.get(&route.source) else { return false };
        let Some(turn) = agent.turn.as_ref().filter(|_| !agent.has_record()) else { return false };
        let due = route.trigger == Trigger::Always
            && route.state() != RouteState::Stopped
            && self.now.mono >= agent.changed + self.timing.batch_gap_ms;
        let (id, seq) = (agent.id, turn.seq);
        due && self.watch_stream(id, seq, route_id, false)
    }

    fn watch_stream(&mut self, id: AgentId, seq: u64, route_id: RouteId, rest: bool) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let Some(turn) = agent.turn_of(seq) else { return false };
        let done = turn.streamed.get(&route_id).copied().unwrap_or(0);
        let record = agent.has_record();
        let mut pieces: Vec<(u64, String)> = if record {
            (0..).zip(turn.texts.iter().map(|(_, t)| t.clone())).collect()
        } else {
            agent.turn_output_rows().into_iter().map(|l| (l.row, l.text)).collect()
        };
        if !rest && !record {
            // A line that is still being written is held back until another follows or the turn ends.
            pieces.pop();
        }
        pieces.retain(|(at, _)| *at >= done);
        let bytes: usize = pieces.iter().map(|(_, text)| text.len()).sum();
        let quiet = self.now.mono >= agent.changed + self.timing.batch_gap_ms;
        let due = rest || record || quiet || bytes >= self.timing.batch_bytes;
        if !due || pieces.iter().all(|(_, text)| text.trim().is_empty()) {
            return false;
        }
        let (chain, name) = ((turn.chain, turn.depth), turn.id.clone());
        let rung = if record { Rung::Record } else { Rung::Screen };
        let next = pieces.last().map_or(done, |(at, _)| at + 1);
        if let Some(turn) = self.agents.get_mut(&id).and_then(|a| a.turn_of_mut(seq)) {
            turn.streamed.insert(route_id, next);
        }
        for answer in batches(pieces, self.timing.batch_bytes) {
            let firing = Firing { seq: Some(seq), turn: name.clone(), rung, answer, chain };
            self.fire(route_id, firing);
        }
        true
    }

    /// A batch joins the batch of the same turn that still waits untyped.
    pub(super) fn append_batch(&mut self, route_id: RouteId, firing: &Firing) -> Option<HopId> {
        let route = self.routes.get(&route_id)?;
        if route.confirm {
            // A person says yes to a text that was read, not to what joins it later.
            return None;
        }
        let target = route.target;
        let target = self.agents.get(&target)?;
        let left = target.left.as_ref().map(|l| l.hop);
        let id = target.queue.iter().rev().copied().find(|h| {
            self.hops.get(h).is_some_and(|h| {
                h.route == Some(route_id)
                    && h.seq == firing.seq
                    && h.info.state == HopState::Queued
                    && left != Some(h.id())
            })
        })?;
        let hop = self.hops.get_mut(&id)?;
        let joined = format!("{}\n{}", hop.info.answer.as_deref().unwrap_or(""), firing.answer);
        if joined.len() > self.timing.batch_bytes {
            return None;
        }
        hop.info.answer = Some(joined);
        if self.transform(route_id, id) {
            self.record(id, None);
            self.publish_hop(id);
        }
        Some(id)
    }
}

/// Joins pieces into batches of at most so many bytes; a longer piece is a batch of its own.
fn batches(pieces: Vec<(u64, String)>, most: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (_, text) in pieces {
        match out.last_mut() {
            Some(batch) if batch.len() + 1 + text.len() <= most => {
                batch.push('\n');
                batch.push_str(&text);
            }
            _ => out.push(text),
        }
    }
    out.retain(|batch| !batch.trim().is_empty());
    out
}
