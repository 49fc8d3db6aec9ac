//! What agents and people say, taken in: hooks, records, keys.

use super::agent::{Agent, Outcome};
use super::hub::Hub;
use crate::core::dialect::{HookEvent, RecordEvent};
use crate::proto::{AgentId, Phase, Rung};

impl Hub {
    pub(super) fn human(&mut self, id: AgentId, submits: bool) {
        let now = self.now.mono;
        self.human_took_over(id);
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.human_at = Some(now);
        agent.human_dirty = !submits;
        if submits {
            if agent.verdict.phase == Phase::Idle || agent.verdict.phase == Phase::Unknown {
                agent.human_submit = Some(now);
            }
            // Steering an open turn keeps its chain; only a prompt to a waiting agent is new.
            if agent.turn.is_none() {
                agent.human_prompted = true;
            }
        }
    }

    pub(super) fn hook(&mut self, id: AgentId, event: HookEvent) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if !agent.uses(Rung::Hook) {
            return;
        }
        let open = |says| Some(super::agent::Claim { says, at: now });
        match event {
            HookEvent::SessionStart { session, .. } => {
                agent.session = Some(session);
                agent.seen.hook_open = open(false);
                agent.seen.background = 0;
            }
            HookEvent::Prompt { session, turn, text } => {
                agent.session = Some(session);
                agent.seen.hook_open = open(true);
                agent.seen.permission = None;
                self.prompt_seen(id, turn, text, Rung::Hook);
            }
            HookEvent::PermissionAsked { tool } => agent.seen.permission = Some((tool, now)),
            HookEvent::ToolDone { .. } => agent.seen.permission = None,
            HookEvent::Stop { turn, answer, background, .. } => {
                agent.seen.hook_open = open(false);
                agent.seen.permission = None;
                agent.seen.background = background;
                if let Some(t) = agent.turn.as_mut()
                    && (t.id.is_none() || turn.is_none() || t.id == turn)
                {
                    t.id = t.id.take().or(turn);
                    t.stopped = true;
                    t.stop = answer;
                }
            }
            HookEvent::StopFailure { error, .. } => {
                agent.seen.hook_open = open(false);
                agent.seen.permission = None;
                if let Some(t) = agent.turn.as_mut() {
                    t.broken = Some(Outcome::Failed(error));
                }
            }
            HookEvent::SessionEnd => {
                agent.seen.hook_open = open(false);
                agent.seen.permission = None;
            }
            HookEvent::Other { .. } => {}
        }
    }

    pub(super) fn recorded(&mut self, id: AgentId, event: RecordEvent) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if !agent.uses(Rung::Record) {
            return;
        }
        let open = |says| Some(super::agent::Claim { says, at: now });
        // What belongs to a turn that has ended says nothing about the agent now.
        let late = |turn: &Option<String>, agent: &Agent| {
            turn.as_ref().is_some_and(|t| agent.old_turns.contains(t))
        };
        match event {
            RecordEvent::Prompt { turn, text, .. } => {
                if !late(&Some(turn.clone()), agent) {
                    agent.seen.record_open = open(true);
                    self.prompt_seen(id, Some(turn), text, Rung::Record);
                }
            }
            RecordEvent::Answer { turn, message, text } => {
                // The line may come after the signals of the turn's end.
                if let Some(t) = agent.current_turn_mut()
                    && (turn.is_none() || t.id.is_none() || t.id == turn)
                    && !t.texts.iter().any(|(m, x)| *m == message && *x == text)
                {
                    t.texts.push((message, text));
                    self.watch_record(id);
                }
            }
            RecordEvent::TurnEnd { turn } => {
                if !late(&turn, agent) {
                    agent.seen.record_open = open(false);
                    if let Some(t) = agent.turn.as_mut() {
                        t.record_end = true;
                    }
                }
            }
            RecordEvent::Interrupted { turn } => {
                if !late(&turn, agent) {
                    agent.seen.record_open = open(false);
                    if let Some(t) = agent.turn.as_mut() {
                        t.broken = Some(Outcome::Interrupted);
                    }
                }
            }
            RecordEvent::ApiError { code, text } => {
                agent.seen.record_open = open(false);
                let text = match code {
                    Some(code) => format!("API error {code}: {text}"),
                    None => format!("API error: {text}"),
                };
                if let Some(t) = agent.turn.as_mut() {
                    t.broken = Some(Outcome::Failed(text));
                }
            }
        }
        if let Some(agent) = self.agents.get_mut(&id)
            && let Some(e) = agent.extract.as_mut()
            && e.token.is_none()
        {
            // The record has grown: what was not there may be there now.
            e.retry = now;
        }
    }
}
