//! Writes of a delivery and what becomes of them: written, refused, taken back.

use super::agent::Paste;
use super::delivery::{Delivery, Stage, inner};
use super::hop::{Left, reached};
use super::hub::Hub;
use crate::core::io::Effect;
use crate::proto::{AgentId, HopId, HopState, Phase, Rung, StepKind};

impl Hub {
    pub(super) fn write_next(&mut self, id: AgentId) {
        let token = self.token();
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let bytes = agent.view.as_ref().map_or(0, |v| v.bytes);
        let Some(delivery) = agent.delivery.as_mut() else { return };
        delivery.bytes_now = bytes;
        let hop = delivery.hop;
        let first = delivery.next == 0;
        let text = delivery.chunks.get(delivery.next).cloned().unwrap_or_default();
        delivery.stage = Stage::Writing(token);
        delivery.asked = now.mono;
        if first {
            agent.left = None;
            if let Some(h) = self.hops.get_mut(&hop) {
                h.enter(now, HopState::Typing, "typing", "its text is being typed");
            }
            self.record(hop, Some(false));
            self.publish_hop(hop);
        }
        self.out.push(Effect::Write { agent: id, token, text });
    }

    /// A write reached the terminal.
    pub(super) fn written(&mut self, id: AgentId, token: u64) {
        let now = self.now.mono;
        let (echo, lag) = (self.timing.echo_ms, self.timing.status_lag_ms);
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if agent.paste.is_sent(token) {
            agent.paste = Paste::Closed;
            return;
        }
        // Their news of an Enter come later than the screen's: a second one must not overtake them.
        let slow = agent.uses(Rung::Hook) || agent.uses(Rung::Status) || agent.uses(Rung::Record);
        let submit = &agent.profile.submit;
        if let Some(delivery) = agent.delivery.as_mut() {
            let hop = delivery.hop;
            match delivery.stage {
                Stage::Writing(t) if t == token => {
                    let text = delivery.chunks.get(delivery.next).map_or("", |c| inner(c));
                    let step = format!(
                        "piece {} of {}, {} characters",
                        delivery.next + 1,
                        delivery.chunks.len(),
                        text.chars().count()
                    );
                    delivery.typed.push(text.to_owned());
                    delivery.bytes = delivery.bytes_now;
                    delivery.next += 1;
                    delivery.stage = if delivery.next < delivery.chunks.len() {
                        Stage::Gap(now + submit.line_gap_ms)
                    } else {
                        Stage::Settle(now + submit.wait_ms, now + submit.wait_ms + echo)
                    };
                    self.step_of(hop, StepKind::Write, step);
                    return;
                }
                Stage::Entering(t) if t == token => {
                    let wait = if slow { submit.second_ms.max(2 * lag) } else { submit.second_ms };
                    let second = (submit.second_ms > 0 && delivery.enters == 1).then(|| now + wait);
                    delivery.stage = Stage::Submitted(now, second, now + submit.accept_ms);
                    let step = format!("Enter {} reached the terminal", delivery.enters);
                    self.step_of(hop, StepKind::Enter, step);
                    return;
                }
                _ => {}
            }
        }
        self.resolve_left(id, token, usize::MAX);
    }

    /// A write was given up.
    pub(super) fn write_dropped(&mut self, id: AgentId, token: u64, written: usize) {
        let retry = self.now.mono + self.timing.check_retry_ms;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if let Paste::Sent(text, _) = &agent.paste
            && agent.paste.is_sent(token)
        {
            let rest = text.get(written..).unwrap_or_default().to_owned();
            agent.paste = if rest.is_empty() { Paste::Closed } else { Paste::Owed(rest, retry) };
            return;
        }
        match agent.delivery.as_ref().map(|d| &d.stage) {
            Some(Stage::Writing(t)) if *t == token && written > 0 => {
                self.cut_off(id, token, written);
            }
            Some(Stage::Entering(t)) if *t == token && written > 0 => self.written(id, token),
            Some(Stage::Writing(t) | Stage::Entering(t)) if *t == token => self.write_refused(id),
            _ => self.resolve_left(id, token, written),
        }
    }

    /// A piece was written in part and the rest given up, unasked: by a person's key, most likely.
    fn cut_off(&mut self, id: AgentId, token: u64, written: usize) {
        let now = self.now;
        let Some(hop_id) = self.put_back(id) else { return };
        self.resolve_left(id, token, written);
        self.step_of(hop_id, StepKind::Write, format!("cut off after {written} bytes"));
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let text = format!("typing into {} was cut off", agent.name);
        if let Some(left) = agent.left.as_mut() {
            left.refused = true;
        }
        if let Some(hop) = self.hops.get_mut(&hop_id) {
            hop.info.state = HopState::Queued;
            hop.note(text.clone());
            hop.reason(now, "cut_off", text);
        }
        self.record(hop_id, None);
        self.publish_hop(hop_id);
    }

    /// The terminal refused a write of the open delivery: between the look it was decided on and
    /// the write the screen changed, or a person typed. Nothing was written, so look again.
    fn write_refused(&mut self, id: AgentId) {
        let now = self.now;
        let (retry, echo) = (self.timing.check_retry_ms, self.timing.echo_ms);
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let accept = agent.profile.submit.accept_ms;
        let project = agent.project.clone();
        let Some(delivery) = agent.delivery.as_mut() else { return };
        let hop_id = delivery.hop;
        if matches!(delivery.stage, Stage::Writing(_)) {
            delivery.stage = Stage::Gap(now.mono + retry);
            let step = "nothing of it was written: the screen changed after the look";
            self.step_of(hop_id, StepKind::Write, step);
        } else {
            let step = "not written: the screen changed, or a person typed, after the look";
            self.step_of(hop_id, StepKind::Enter, step);
            let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.as_mut()) else {
                return;
            };
            delivery.enters -= 1;
            if delivery.entered() {
                // The second Enter is only a help; what the first one does is still awaited.
                delivery.stage = Stage::Submitted(now.mono, None, now.mono + accept);
                return;
            }
            delivery.stage = Stage::Settle(now.mono + retry, now.mono + echo);
            let entered_at = delivery.entered_at;
            let human_at = self.agents.get(&id).and_then(|a| a.human_at);
            if human_at.is_some_and(|at| at >= entered_at) {
                // The key that made the terminal refuse the Enter was told while the Enter was on its way.
                self.human_took_over(id);
                return;
            }
            if let Some(hop) = self.hops.get_mut(&hop_id) {
                hop.info.state = HopState::Typing;
                hop.info.times.submitted = None;
                let text = "the screen changed just before Enter: it is looked at again";
                hop.reason(now, "typing", text);
            }
            if self.store_error.is_none() {
                self.record(hop_id, Some(false));
            }
            self.publish_hop(hop_id);
        }
        if self.hops.get(&hop_id).is_some_and(|h| self.held_back(&project, h).is_some()) {
            // The pause (or the full disk) came while the write was on its way.
            self.disturb(id);
        }
    }

    /// Learns how much of a write reached the terminal that was on its way when its delivery was
    /// taken back.
    fn resolve_left(&mut self, id: AgentId, token: u64, written: usize) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let Some(left) = agent.left.as_mut() else { return };
        let Some((_, raw, bytes)) = left.pending.take_if(|(pending, ..)| *pending == token) else {
            return;
        };
        let reached = reached(&raw, written);
        if !reached.text.is_empty() {
            left.pieces.push(reached.text);
            left.bytes = left.bytes.max(bytes);
        }
        if !reached.owed.is_empty() {
            agent.paste = Paste::Owed(reached.owed, now);
        } else if left.pieces.is_empty() && !left.stuck {
            agent.left = None;
        }
    }

    /// Gives an interrupted paste its end, or the program would take a person's keys as text. While
    /// its hop is paused not one more byte is written, unless a person does type.
    pub(super) fn close_paste(&mut self, id: AgentId) -> bool {
        let token = self.token();
        let now = self.now.mono;
        let Some(agent) = self.agents.get(&id) else { return false };
        let Paste::Owed(text, at) = &agent.paste else { return false };
        let text = text.clone();
        let hop = agent.left.as_ref().and_then(|l| self.hops.get(&l.hop));
        let hop = hop.filter(|h| !h.is_final());
        let keys = agent.left.as_ref().is_some_and(|l| agent.human_at.is_some_and(|h| h >= l.at));
        let paused = match hop {
            Some(hop) => self.held_back(&agent.project, hop).is_some_and(|(c, _)| c == "paused"),
            None => self.paused.contains(&agent.project),
        };
        if now < *at || (paused && !keys) || agent.exit.is_some() {
            return false;
        }
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.paste = Paste::Sent(text.clone(), token);
        }
        self.out.push(Effect::Write { agent: id, token, text });
        true
    }

    /// The time of a delivery's stage has come.
    pub(super) fn drive(&mut self, id: AgentId) -> bool {
        let token = self.token();
        let now = self.now.mono;
        let limit = self.timing.write_ms;
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let phase = agent.verdict.phase;
        let Some(delivery) = agent.delivery.as_mut() else { return false };
        let pauses =
            matches!(delivery.stage, Stage::Gap(_) | Stage::Settle(..) | Stage::Clearing(..));
        if self.gate && phase == Phase::Asking && pauses && !delivery.entered() {
            // At once, not at the next look: a person who answers the dialog meanwhile does not take
            // the text over.
            self.disturb(id);
            return true;
        }
        let overdue = now >= delivery.asked + limit;
        let asks = self.gate && phase == Phase::Asking;
        match &mut delivery.stage {
            Stage::Gap(at) if now >= *at => delivery.stage = Stage::Look(token),
            Stage::Settle(at, until) if now >= *at => {
                delivery.stage = Stage::LookEnter(token, *until);
            }
            Stage::Clearing(presses, at) if now >= *at => {
                delivery.stage = Stage::LookClear(token, *presses);
            }
            Stage::Submitted(_, Some(second), until) if now >= *second => {
                delivery.stage = Stage::LookSecond(token, *until);
            }
            Stage::Submitted(_, None, until) if now >= *until => {
                if matches!(phase, Phase::Busy | Phase::Asking) {
                    // It may stand in the program's own queue behind the open turn.
                    *until = now + agent.profile.submit.accept_ms;
                    return true;
                }
                self.unconfirmed(id);
                return true;
            }
            // A look that was not answered is asked for again.
            Stage::Look(t)
            | Stage::LookEnter(t, _)
            | Stage::LookSecond(t, _)
            | Stage::LookClear(t, _)
                if overdue =>
            {
                *t = token;
            }
            // Whatever is still to come of it would go into the dialog.
            Stage::Writing(_) if self.gate && phase == Phase::Asking => {
                self.disturb(id);
                return true;
            }
            Stage::Writing(_) if overdue => {
                self.not_reading(id);
                return true;
            }
            Stage::Entering(_) if !delivery.dropping && (overdue || asks) => {
                // It must not go in later, into whatever is there then.
                delivery.dropping = true;
                delivery.asked = now;
                self.out.push(Effect::DropWrites { agent: id });
                return true;
            }
            _ => return false,
        }
        delivery.asked = now;
        self.out.push(Effect::Check { agent: id, token });
        true
    }

    /// The program takes no bytes: the hop waits until it does.
    fn not_reading(&mut self, id: AgentId) {
        let now = self.now;
        let Some(hop_id) = self.put_back(id) else { return };
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let text = format!("{} does not read what is typed", agent.name);
        if let Some(left) = agent.left.as_mut() {
            // It must show a sign of life first.
            left.stuck = true;
            left.bytes = agent.view.as_ref().map_or(0, |v| v.bytes);
        }
        if let Some(hop) = self.hops.get_mut(&hop_id) {
            hop.info.state = HopState::Queued;
            hop.note(text.clone());
            hop.reason(now, "not_reading", text);
        }
        self.record(hop_id, None);
        self.publish_hop(hop_id);
    }

    /// Something came between: the hop goes back to the head of the queue with what it may have
    /// left in the composer. Enter has not been sent.
    pub(super) fn disturb(&mut self, id: AgentId) {
        let now = self.now;
        let Some(agent) = self.agents.get(&id) else { return };
        let (code, words) = (agent.verdict.code, agent.verdict.text.clone());
        let name = agent.name.clone();
        let begun = agent.delivery.as_ref().is_some_and(Delivery::begun);
        let Some(hop_id) = self.put_back(id) else { return };
        let Some(hop) = self.hops.get_mut(&hop_id) else { return };
        if begun {
            hop.note(format!("typing was interrupted: {name} {words}"));
        }
        hop.info.state = HopState::Queued;
        hop.reason(now, code, format!("{name} {words}"));
        if self.store_error.is_none() {
            self.record(hop_id, None);
        }
        self.publish_hop(hop_id);
    }

    /// Takes a delivery that has not pressed Enter back into the queue. Bytes that have not reached
    /// the terminal are dropped.
    pub(super) fn put_back(&mut self, id: AgentId) -> Option<HopId> {
        let now = self.now.mono;
        let agent = self.agents.get_mut(&id)?;
        if agent.delivery.as_ref().is_none_or(Delivery::entered) {
            return None;
        }
        let delivery = agent.delivery.take()?;
        agent.queue.push_front(delivery.hop);
        let pending = match delivery.stage {
            Stage::Writing(token) => {
                let raw = delivery.chunks.get(delivery.next);
                raw.map(|c| (token, c.clone(), delivery.bytes_now))
            }
            _ => None,
        };
        if !delivery.typed.is_empty() || pending.is_some() {
            agent.left = Some(Left {
                hop: delivery.hop,
                pieces: delivery.typed,
                pending,
                bytes: delivery.bytes,
                at: now,
                shown: false,
                clearing: false,
                refused: false,
                stuck: false,
            });
        }
        self.out.push(Effect::DropWrites { agent: id });
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        Some(delivery.hop)
    }

    /// A person pressed Enter while what a taken-back hop had typed stood in the composer: they have sent
    /// it, so it is not typed again.
    pub(super) fn human_submitted_ours(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        if agent.delivery.is_some() || agent.verdict.phase == Phase::Asking {
            return;
        }
        let Some(left) = &agent.left else { return };
        // What was typed last may not be drawn yet.
        if !agent.queue.contains(&left.hop) || (left.shown && !agent.filled()) {
            return;
        }
        let (hop, name) = (left.hop, agent.name.clone());
        let text = format!("a person pressed Enter in {name} on what had been typed of it");
        self.finish(hop, HopState::Stopped, "human_took_over", &text);
    }

    /// A person typed into the agent while a hop was being typed: the hop stops for good.
    pub(super) fn human_took_over(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        let name = agent.name.clone();
        // The terminal drops what a key makes outdated before the key is told.
        let cut = agent.left.as_ref().filter(|l| l.refused).map(|l| l.hop);
        let begun = agent.delivery.as_ref().filter(|d| !d.entered()).map(Delivery::begun);
        let hop = match (begun, cut) {
            (Some(begun), _) => self.put_back(id).filter(|_| begun),
            (None, cut) => cut.filter(|h| agent.queue.contains(h)),
        };
        let Some(hop) = hop else { return };
        let text = format!("a person typed into {name} while the text was being typed");
        self.finish(hop, HopState::Stopped, "human_took_over", &text);
    }
}
