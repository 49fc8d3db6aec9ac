//! Acceptance: what shows that a target's turn began with the text that was typed.

use super::agent::Agent;
use super::delivery::Stage;
use super::hub::Hub;
use super::text;
use crate::core::io::Effect;
use crate::core::profile::ComposerKind;
use crate::proto::{AgentId, HopId, HopState, Phase, Rung, StepKind};

impl Hub {
    /// The target's record or screen shows that a turn began with the delivery's prompt.
    pub(super) fn accept(&mut self, id: AgentId, rung: Rung) -> Option<HopId> {
        let now = self.now;
        let agent = self.agents.get_mut(&id)?;
        let delivery = agent.delivery.take()?;
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        let hop = self.hops.get_mut(&delivery.hop)?;
        hop.enter(now, HopState::Accepted, "accepted", format!("its turn began ({})", rung.name()));
        let turn = self.agents.get(&id).and_then(|a| a.turn.as_ref()).and_then(|t| t.id.clone());
        let name = turn.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
        hop.info.accepted_as = turn;
        let step = format!("the {} shows that turn{name} began with this prompt", rung.name());
        self.step_of(delivery.hop, StepKind::Receipt, step);
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
    /// stands in the output, where it did not stand before.
    pub(super) fn accepted_on_screen(&mut self, id: AgentId) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let Some(delivery) = agent.delivery.as_ref() else { return false };
        let named =
            (agent.uses(Rung::Hook) && agent.seen.hook_open.is_some()) || agent.has_record();
        let sent = matches!(delivery.stage, Stage::Submitted(..) | Stage::LookSecond(..));
        let fresh = agent.view.as_ref().is_some_and(|v| v.bytes > delivery.bytes_now);
        if named || !sent || !fresh || agent.facts.dialog.is_some() {
            return false;
        }
        if agent.profile.composer.kind == ComposerKind::Line {
            return agent.ran(&delivery.text, delivery.before.row);
        }
        let busy = agent.verdict.phase == Phase::Busy;
        // A composer that is not there may only be covered, and what is above it may be its text.
        if agent.facts.composer.as_ref().map_or(!busy, |c| c.filled() && !busy) {
            return false;
        }
        match agent.view.as_ref() {
            // There rows have no numbers: the text must stand there once more than before.
            Some(v) if v.alt_screen => {
                agent.echoes_of(&delivery.text, None) > delivery.before.times
            }
            _ => agent.echoes_of(&delivery.text, Some(delivery.before.row)) > 0,
        }
    }

    pub(super) fn unconfirmed(&mut self, id: AgentId) {
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.take()) else {
            return;
        };
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.unclaimed.push_back((delivery.hop, delivery.text));
            if agent.unclaimed.len() > 8 {
                agent.unclaimed.pop_front();
            }
        }
        let text = "Enter was sent, but nothing shows that the turn began with this prompt";
        self.finish(delivery.hop, HopState::Unconfirmed, "no_acceptance", text);
    }
}

impl Agent {
    /// How often a text stands in the output as a prompt that was taken: from the absolute row
    /// `from`, else on the whole screen, above the composer.
    pub(super) fn echoes_of(&self, text: &str, from: Option<u64>) -> usize {
        let Some(view) = self.view.as_ref() else { return 0 };
        let until = self.facts.composer.as_ref().map_or(view.rows.len(), |c| c.top);
        let mut lines = self.log.lines(view, from.unwrap_or(view.scrolled), until);
        self.crop(&mut lines);
        let ours = text::fold(text);
        if ours.is_empty() {
            return 0;
        }
        let stand_in = self.profile.composer.placeholder.as_ref();
        let Some(echo) = self.profile.screen.echo.as_ref() else {
            let shown: String = lines.iter().map(|l| text::fold(&l.text)).collect();
            let standing = lines.iter().filter(|l| stand_in.is_some_and(|p| p.is_match(&l.text)));
            return shown.matches(&ours).count() + standing.count();
        };
        let begins = |i: usize| {
            let Some(skip) = echo.prefix_len(&lines[i].text) else { return false };
            let first = &lines[i].text[skip..];
            if stand_in.is_some_and(|p| p.prefix_len(first.trim_start()).is_some()) {
                return true;
            }
            let mut shown = text::fold(first);
            for line in &lines[i + 1..] {
                if shown.len() >= ours.len() {
                    break;
                }
                // A program may mark every row of an echo (opencode 1.18.33).
                let skip = echo.prefix_len(&line.text).unwrap_or(0);
                shown.push_str(&text::fold(&line.text[skip..]));
            }
            shown.starts_with(&ours)
        };
        (0..lines.len()).filter(|i| begins(*i)).count()
    }

    /// Whether a shell has taken a line: the text stands at the prompt where it was typed, and the
    /// cursor has gone to a line below it.
    fn ran(&self, text: &str, row: u64) -> bool {
        let (Some(view), Some(base)) = (self.view.as_ref(), self.line_base.as_ref()) else {
            return false;
        };
        let lines = self.log.lines(view, row, view.rows.len());
        let Some(first) = lines.first().filter(|l| l.row == row && base.row == row) else {
            return false;
        };
        let Some(typed) = first.text.strip_prefix(base.prompt.as_str()) else { return false };
        // A continuation prompt (`> `) stands between the lines of a longer text.
        // But where one stands below all of it, or a blank row, the shell wants more (`echo it's`).
        let last = view.rows.get(view.cursor.0).map_or("", |r| r.text.as_str());
        if self.seen.brackets && view.bracketed_paste && self.unfinished(last) {
            return false;
        }
        let ours = text::fold(text.lines().next().unwrap_or(""));
        let below = text.lines().count();
        let cursor = view.scrolled + view.cursor.0 as u64;
        !ours.is_empty()
            && text::fold(typed).starts_with(&ours)
            && lines.get(below).is_some_and(|l| cursor >= l.row)
    }
}
