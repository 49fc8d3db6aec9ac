//! Acceptance: what shows that a target's turn began with the text that was typed.

use super::delivery::Stage;
use super::hub::Hub;
use super::text;
use crate::core::io::Effect;
use crate::core::profile::ComposerKind;
use crate::proto::{AgentId, HopId, HopState, Phase, Rung};

impl Hub {
    /// The target's record or screen shows that a turn began with the delivery's prompt.
    pub(super) fn accept(&mut self, id: AgentId, rung: Rung) -> Option<HopId> {
        let now = self.now;
        let agent = self.agents.get_mut(&id)?;
        let delivery = agent.delivery.take()?;
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        let hop = self.hops.get_mut(&delivery.hop)?;
        hop.enter(now, HopState::Accepted, "accepted", format!("its turn began ({})", rung.name()));
        self.record(delivery.hop, None);
        self.publish_hop(delivery.hop);
        Some(delivery.hop)
    }

    /// Whether a prompt that began a turn is the text of the agent's delivery.
    pub(super) fn is_ours(&self, id: AgentId, prompt: &str) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let Some(delivery) = agent.delivery.as_ref() else { return false };
        let mut prompt = std::borrow::Cow::from(prompt);
        for mark in &agent.profile.records.prompt_marks {
            prompt = mark.0.replace_all(&prompt, "").into_owned().into();
        }
        delivery.entered() && text::fold(&prompt) == text::fold(&delivery.text)
    }

    /// For agents whose records do not name prompts: the composer is empty again and the text
    /// stands in the output.
    pub(super) fn accepted_on_screen(&mut self, id: AgentId) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let Some(delivery) = agent.delivery.as_ref() else { return false };
        let named =
            (agent.uses(Rung::Hook) && agent.seen.hook_open.is_some()) || agent.has_record();
        if named || !matches!(delivery.stage, Stage::Submitted(..) | Stage::LookSecond(..)) {
            return false;
        }
        let gone = match agent.facts.composer.as_ref() {
            None => true,
            Some(c) => c.text.trim().is_empty(),
        };
        let Some(view) = agent.view.as_ref().filter(|v| v.bytes > delivery.bytes) else {
            return false;
        };
        if !gone && agent.verdict.phase != Phase::Busy {
            return false;
        }
        let until = agent.facts.composer.as_ref().map_or(view.rows.len(), |c| c.top);
        let from = agent.mark().saturating_sub(view.rows.len() as u64 + 40);
        let shown: String =
            agent.log.lines(view, from, until).iter().map(|l| text::fold(&l.text)).collect();
        let ours = text::fold(&delivery.text);
        let stand_in = agent
            .profile
            .composer
            .placeholder
            .as_ref()
            .is_some_and(|p| view.rows.iter().any(|r| p.is_match(&r.text)));
        // A continuation prompt (`> `) of a shell stands between the lines of a longer text.
        let first = text::fold(delivery.text.lines().next().unwrap_or(""));
        shown.contains(&ours)
            || stand_in
            || (agent.profile.composer.kind == ComposerKind::Line && shown.contains(&first))
    }

    pub(super) fn unconfirmed(&mut self, id: AgentId) {
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.take()) else {
            return;
        };
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        let text = "Enter was sent, but nothing shows that the turn began with this prompt";
        self.finish(delivery.hop, HopState::Unconfirmed, "no_acceptance", text);
    }
}
