//! A hop's audit: what was seen and what was done on its way, each with its time.
//!
//! It decides nothing and is read by nobody but people: without it a log could only claim.

use super::hub::Hub;
use crate::proto::{AgentId, HopId, HopStep, Phase, StepKind};

/// How many steps a hop keeps. More come of a very long text that is typed line by line.
pub const MOST_STEPS: usize = 160;
/// How many of them are the newest ones; the others are the oldest.
const NEWEST: usize = 60;

impl Hub {
    /// Adds a step to a hop, now. The same look again and again is one step.
    pub(super) fn step_of(&mut self, id: HopId, kind: StepKind, text: impl Into<String>) {
        let at = self.now.wall;
        self.step_at(id, at, kind, text.into());
    }

    /// The same, of a time before: milliseconds since the epoch.
    pub(super) fn step_at(&mut self, id: HopId, at: u64, kind: StepKind, text: String) {
        let Some(hop) = self.hops.get_mut(&id) else { return };
        let steps = &mut hop.info.steps;
        if steps.last().is_some_and(|s| s.kind == kind && s.text == text && kind == StepKind::Look)
        {
            return;
        }
        if steps.len() >= MOST_STEPS {
            steps.remove(MOST_STEPS - NEWEST);
            hop.info.steps_lost += 1;
        }
        hop.info.steps.push(HopStep { at, kind, text });
    }

    /// What a look at an agent's drained screen found, in words.
    pub(super) fn seen_at(&self, id: AgentId) -> String {
        let Some(agent) = self.agents.get(&id) else { return "it is gone".to_owned() };
        let phase = match agent.verdict.phase {
            Phase::Idle => format!("idle ({})", agent.verdict.rung.name()),
            phase => format!("{}: {}", phase.name(), agent.verdict.text),
        };
        let composer = match agent.facts.composer.as_ref() {
            None => "no composer",
            Some(c) if !c.filled() => "composer empty",
            Some(_) => "composer holds text",
        };
        let dialog = if agent.facts.dialog.is_some() { ", a dialog" } else { "" };
        format!("{phase}, {composer}{dialog}")
    }

    /// When the source's turn that fired a hop ended, milliseconds since the epoch.
    pub(super) fn ended_at(&self, source: AgentId, seq: Option<u64>) -> Option<u64> {
        let turn = self.agents.get(&source)?.last_turn.as_ref()?;
        let (_, _, mono) = turn.ended.as_ref().filter(|_| Some(turn.seq) == seq)?;
        Some(self.now.wall.saturating_sub(self.now.mono.saturating_sub(*mono)))
    }
}
