//! Looks at a target's drained screen: what they allow to be typed next, and what they forbid.

use super::delivery::{Before, Stage};
use super::hop::Left;
use super::hub::Hub;
use super::text::{self, Holds};
use crate::core::io::Effect;
use crate::proto::{AgentId, HopState, Phase, StepKind};

impl Hub {
    /// A drained view came for a check. The caller has already taken it in.
    pub(super) fn checked(&mut self, id: AgentId, token: u64) {
        let Some(agent) = self.agents.get(&id) else { return };
        let Some(delivery) = agent.delivery.as_ref() else { return };
        let idle = agent.verdict.phase == Phase::Idle || !self.gate;
        // Without its marks a paste would be keys.
        let keys = delivery.bracketed && agent.view.as_ref().is_none_or(|v| !v.bracketed_paste);
        match delivery.stage.clone() {
            Stage::Look(t) if t == token => {
                let (hop, first) = (delivery.hop, delivery.next == 0);
                if first || !idle || keys {
                    let what = if first { "before the first byte" } else { "before the next line" };
                    let seen = self.seen_at(id);
                    self.step_of(hop, StepKind::Look, format!("{what}: {seen}"));
                }
                if !idle || keys {
                    self.disturb(id);
                } else if !first || self.start_clean(id) {
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
    fn start_clean(&mut self, id: AgentId) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let Some(delivery) = agent.delivery.as_ref() else { return false };
        if !agent.filled() && agent.left.as_ref().is_some_and(|l| l.unseen() > 0) {
            self.clear_step(id, 0);
            return false;
        }
        let Some(left) = agent.left.as_ref().filter(|l| l.hop == delivery.hop) else {
            if agent.draft() || agent.filled() {
                self.disturb(id);
                return false;
            }
            return true;
        };
        let Some(composer) = agent.facts.composer.as_ref() else { return false };
        if !composer.filled() {
            return true;
        }
        let stand_in = agent.profile.composer.placeholder.as_ref();
        let whole = composer.hidden == 0
            && !composer.scrolls
            && stand_in.is_none_or(|p| !p.is_match(&composer.text));
        let untouched = agent.human_at.is_none_or(|at| at < left.at);
        // What cannot be seen whole could have been changed by a person since.
        let trusted = whole || untouched;
        let ours = agent.holds(&left.pieces) == Some(Holds::Ours)
            || (left.clearing && whole && untouched && begins(&left.pieces, &composer.text));
        if trusted && ours {
            self.clear_step(id, 0);
        } else {
            self.left_alone(id);
        }
        false
    }

    fn left_alone(&mut self, id: AgentId) {
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.take()) else {
            return;
        };
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        let text = "the composer holds more or other than what mado typed; it was left alone";
        self.finish(delivery.hop, HopState::Stopped, "residue_left", text);
    }

    /// One clearing key, or on to typing when the composer is empty.
    fn clear_step(&mut self, id: AgentId, presses: u32) {
        let token = self.token();
        let now = self.now.mono;
        let gap = self.timing.clear_gap_ms;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let unseen = agent.left.as_ref().map_or(0, Left::unseen);
        let empty = agent.facts.composer.as_ref().is_some_and(|c| !c.filled());
        let empty = empty && presses >= unseen;
        let rules = &agent.profile.composer;
        let (key, max) = (rules.clear.clone(), rules.clear_max);
        let Some(delivery) = agent.delivery.as_mut() else { return };
        if empty {
            if let Some(h) = self.hops.get_mut(&delivery.hop) {
                h.note("what had been typed before was cleared, then typed again");
            }
            self.write_next(id);
            return;
        }
        if key.is_empty() || presses >= max {
            self.left_alone(id);
            return;
        }
        delivery.stage = Stage::Clearing(presses + 1, now + gap);
        if let Some(left) = agent.left.as_mut() {
            left.clearing = true;
        }
        self.out.push(Effect::Write { agent: id, token, text: key });
    }

    /// The last look before Enter.
    fn look_enter(&mut self, id: AgentId, idle: bool, until: u64) {
        let now = self.now.mono;
        let retry = self.timing.check_retry_ms;
        let gate = self.gate;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let Some(delivery) = agent.delivery.as_ref() else { return };
        let holds = agent.holds(&delivery.typed);
        let hop = delivery.hop;
        let text = match holds {
            Some(Holds::Ours) => "the composer shows exactly the text",
            Some(Holds::Empty) => "the composer shows nothing of the text",
            Some(Holds::Other) => "the composer shows something else than the text",
            None => "there is no composer",
        };
        let seen = self.seen_at(id);
        self.step_of(hop, StepKind::Look, format!("before Enter: {text}; {seen}"));
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if !idle {
            self.disturb(id);
            return;
        }
        if gate && agent.profile.submit.echo && holds != Some(Holds::Ours) {
            if now < until {
                if let Some(d) = agent.delivery.as_mut() {
                    d.stage = Stage::Settle(now + retry, until);
                }
                return;
            }
            let Some(delivery) = agent.delivery.take() else { return };
            let hop = delivery.hop;
            agent.left = Some(Left {
                hop,
                pieces: delivery.typed,
                pending: None,
                bytes: delivery.bytes,
                at: now,
                shown: false,
                clearing: false,
                refused: false,
                stuck: false,
            });
            self.out.push(Effect::HoldSize { agent: id, hold: false });
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

    /// A second Enter, only on fresh evidence: the program has read the first and wrote something
    /// since, and our whole text still stands in the composer of an idle agent.
    fn look_second(&mut self, id: AgentId, idle: bool, until: u64) {
        let Some(agent) = self.agents.get(&id) else { return };
        let Some(delivery) = agent.delivery.as_ref() else { return };
        // A slow program may draw, after the Enter was written, what it did before it read it; then a
        // second one could reach whatever the first one opens.
        let fresh = agent
            .view
            .as_ref()
            .is_some_and(|v| v.bytes > delivery.bytes_now && v.unread == Some(0));
        let ours = agent.holds(&delivery.typed) == Some(Holds::Ours);
        let alone = agent.human_at.is_none_or(|at| at < delivery.entered_at);
        let hop = delivery.hop;
        let project = &agent.project;
        let held = self.hops.get(&hop).is_none_or(|h| self.held_back(project, h).is_some());
        let seen = self.seen_at(id);
        let text = if ours { "the text still stands in the composer" } else { "the text is gone" };
        self.step_of(hop, StepKind::Look, format!("for a second Enter: {text}; {seen}"));
        let Some(agent) = self.agents.get(&id) else { return };
        let Some(delivery) = agent.delivery.as_ref() else { return };
        if idle && fresh && ours && alone && !held && delivery.enters == 1 && self.gate {
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

    fn press_enter(&mut self, id: AgentId) {
        let token = self.token();
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let key = agent.profile.submit.key.clone();
        let bytes = agent.view.as_ref().map_or(0, |v| v.bytes);
        let text = agent.delivery.as_ref().map(|d| d.text.clone()).unwrap_or_default();
        let before = Before { row: agent.mark(), times: agent.echoes_of(&text, None) };
        let Some(delivery) = agent.delivery.as_mut() else { return };
        delivery.stage = Stage::Entering(token);
        delivery.asked = now.mono;
        delivery.bytes_now = bytes;
        delivery.dropping = false;
        if delivery.enters == 0 {
            (delivery.before, delivery.entered_at) = (before, now.mono);
        }
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

/// Whether a composer shows a beginning of what was typed: clearing it has begun.
fn begins(pieces: &[String], shown: &str) -> bool {
    text::fold(&pieces.concat()).starts_with(&text::fold(shown))
}
