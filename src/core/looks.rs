//! Looks at a target's drained screen: what they allow to be typed next, and what they forbid.

use super::delivery::{Stage, composer_holds};
use super::hop::{PASTE_END, Residue};
use super::hub::Hub;
use super::text::Holds;
use crate::core::io::Effect;
use crate::proto::{AgentId, HopState, Phase};

impl Hub {
    /// A drained view came for a check. The caller has already taken it in.
    pub(super) fn checked(&mut self, id: AgentId, token: u64) {
        let Some(agent) = self.agents.get(&id) else { return };
        let Some(delivery) = agent.delivery.as_ref() else { return };
        let idle = agent.verdict.phase == Phase::Idle || !self.gate;
        match delivery.stage.clone() {
            Stage::Look(t) if t == token => {
                if !idle {
                    self.disturb(id);
                } else if delivery.next == 0 && !self.start_clean(id) {
                    // Something of an earlier try is in the composer; it is being dealt with.
                } else {
                    self.write_next(id);
                }
            }
            Stage::LookEnter(t, until) if t == token => self.look_enter(id, idle, until),
            Stage::LookSecond(t, until) if t == token => self.look_second(id, idle, until),
            Stage::LookClear(t, presses) if t == token => {
                if idle {
                    self.clear_step(id, presses);
                } else {
                    self.disturb(id);
                }
            }
            _ => {}
        }
    }

    /// Before the first byte: is the composer empty? If it holds what an interrupted try of this
    /// hop typed, that is cleared first; if it holds anything else, nothing is touched.
    pub(super) fn start_clean(&mut self, id: AgentId) -> bool {
        let token = self.token();
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let Some(delivery) = agent.delivery.as_ref() else { return false };
        let hop_id = delivery.hop;
        let Some(hop) = self.hops.get_mut(&hop_id) else { return false };
        let Some(residue) = hop.residue.clone() else {
            if agent.draft() {
                self.disturb(id);
                return false;
            }
            return true;
        };
        if residue.open_paste {
            // The end of the paste is owed, or the program would take a person's keys into it.
            if let Some(r) = hop.residue.as_mut() {
                r.open_paste = false;
            }
            if let Some(d) = agent.delivery.as_mut() {
                d.stage = Stage::Clearing(0, now + self.timing.clear_gap_ms);
            }
            self.out.push(Effect::Write { agent: id, token, text: PASTE_END.to_owned() });
            return false;
        }
        match composer_holds(agent, &residue.typed) {
            Some(Holds::Empty) => {
                hop.residue = None;
                true
            }
            Some(Holds::Ours) => {
                self.clear_step(id, 0);
                false
            }
            _ => {
                self.residue_left(id);
                false
            }
        }
    }

    pub(super) fn residue_left(&mut self, id: AgentId) {
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.take()) else {
            return;
        };
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        let text = "the composer holds more or other than what mado typed; it was left alone";
        self.finish(delivery.hop, HopState::Stopped, "residue_left", text);
    }

    /// One clearing key, or on to typing when the composer is empty.
    pub(super) fn clear_step(&mut self, id: AgentId, presses: u32) {
        let token = self.token();
        let now = self.now.mono;
        let gap = self.timing.clear_gap_ms;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let empty = agent.facts.composer.as_ref().is_some_and(|c| c.text.trim().is_empty());
        let rules = &agent.profile.composer;
        let (key, max) = (rules.clear.clone(), rules.clear_max);
        let Some(delivery) = agent.delivery.as_mut() else { return };
        if empty {
            let hop = delivery.hop;
            if let Some(h) = self.hops.get_mut(&hop) {
                h.residue = None;
                h.note("what had been typed before was cleared, then typed again");
            }
            delivery.next = 0;
            delivery.typed.clear();
            self.write_next(id);
            return;
        }
        if key.is_empty() || presses >= max {
            self.residue_left(id);
            return;
        }
        delivery.stage = Stage::Clearing(presses + 1, now + gap);
        self.out.push(Effect::Write { agent: id, token, text: key });
    }

    /// The last look before Enter.
    pub(super) fn look_enter(&mut self, id: AgentId, idle: bool, until: u64) {
        let now = self.now.mono;
        let retry = self.timing.check_retry_ms;
        let gate = self.gate;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if !idle {
            self.disturb(id);
            return;
        }
        let Some(text) = agent.delivery.as_ref().map(|d| d.text.clone()) else { return };
        let holds = composer_holds(agent, &text);
        if gate && agent.profile.submit.echo && holds != Some(Holds::Ours) {
            if now < until {
                if let Some(d) = agent.delivery.as_mut() {
                    d.stage = Stage::Settle(now + retry, until);
                }
                return;
            }
            let (hop, typed) = match agent.delivery.take() {
                Some(d) => (d.hop, d.typed),
                None => return,
            };
            self.out.push(Effect::HoldSize { agent: id, hold: false });
            if let Some(h) = self.hops.get_mut(&hop) {
                h.residue = Some(Residue { typed, ..Residue::default() });
            }
            let text = match holds {
                Some(Holds::Empty) => "the text did not appear in the composer; Enter was not sent",
                _ => {
                    "the composer does not show exactly the text; Enter was not sent, nothing was cleared"
                }
            };
            self.finish(hop, HopState::Failed, "text_not_seen", text);
            return;
        }
        self.press_enter(id);
    }

    /// A second Enter, only on fresh evidence: the program wrote something since the first, and our
    /// whole text still stands in the composer of an idle agent.
    pub(super) fn look_second(&mut self, id: AgentId, idle: bool, until: u64) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let Some(delivery) = agent.delivery.as_ref() else { return };
        let fresh = agent.view.as_ref().is_some_and(|v| v.bytes > delivery.bytes);
        let ours = composer_holds(agent, &delivery.text) == Some(Holds::Ours);
        if idle && fresh && ours && delivery.enters == 1 && self.gate {
            let hop = delivery.hop;
            if let Some(h) = self.hops.get_mut(&hop) {
                h.note("a second Enter was sent: the text still stood in the composer");
            }
            self.press_enter(id);
            return;
        }
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.as_mut()) else {
            return;
        };
        delivery.stage = Stage::Submitted(self.now.mono, None, until);
    }

    pub(super) fn press_enter(&mut self, id: AgentId) {
        let token = self.token();
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let key = agent.profile.submit.key.clone();
        let bytes = agent.view.as_ref().map_or(0, |v| v.bytes);
        let Some(delivery) = agent.delivery.as_mut() else { return };
        delivery.stage = Stage::Entering(token);
        delivery.bytes = bytes;
        delivery.enters += 1;
        let hop = delivery.hop;
        if let Some(h) = self.hops.get_mut(&hop) {
            h.enter(now, HopState::Submitted, "submitted", "Enter was sent");
        }
        self.record(hop, Some(true));
        self.out.push(Effect::Write { agent: id, token, text: key });
        self.publish_hop(hop);
    }
}
