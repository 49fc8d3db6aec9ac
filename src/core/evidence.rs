//! What agents and people say, taken in: hooks, records, keys.

use super::agent::{Agent, Claim, Outcome, Permission, Turn};
use super::hub::Hub;
use crate::core::dialect::{HookEvent, RecordEvent};
use crate::proto::{AgentId, Phase, Rung};

impl Hub {
    /// A person typed. `submits`: an Enter was among the keys; `rest`: other keys came after the last.
    pub(super) fn human(&mut self, id: AgentId, submits: bool, rest: bool) {
        let now = self.now.mono;
        self.human_took_over(id);
        if submits {
            self.human_submitted_ours(id);
        }
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.human_at = Some(now);
        agent.human_dirty = rest || !submits;
        if submits {
            if agent.is_line() {
                // Whatever stood on the line has been run.
                agent.left = None;
            }
            if agent.verdict.phase == Phase::Idle || agent.verdict.phase == Phase::Unknown {
                agent.human_submit = Some(now);
            }
            agent.human_enter = Some(now);
            // Steering an open turn keeps its chain; only a prompt to a waiting agent is new.
            if agent.turn.is_none() && agent.verdict.phase != Phase::Asking {
                agent.human_prompted = Some(now);
            }
        }
    }

    pub(super) fn hook(&mut self, id: AgentId, event: HookEvent) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if !agent.uses(Rung::Hook) {
            return;
        }
        let open = |says| Some(Claim { says, at: now });
        match event {
            HookEvent::SessionStart { session, .. } => {
                // Compacting starts the same session again in the middle of a turn.
                let same = agent.session.as_deref() == Some(session.as_str());
                let inside = same && agent.seen.hook_open.is_some_and(|h| h.says);
                if !inside {
                    agent.in_session(session);
                    agent.seen.hook_open = open(false);
                    agent.seen.background = 0;
                }
            }
            HookEvent::Prompt { session, turn, text } => {
                agent.in_session(session);
                let Some(at) = opens_at(agent, turn.as_deref(), now) else { return };
                agent.seen.hook_open = Some(Claim { says: true, at });
                agent.seen.permission = None;
                self.prompt_seen(id, turn, text, Rung::Hook, None);
            }
            HookEvent::PermissionAsked { tool } => {
                agent.seen.permission = Some(Permission { tool, at: now, drawn: false });
            }
            HookEvent::ToolDone { .. } => agent.seen.permission = None,
            HookEvent::Stop { turn, answer, background, .. } => {
                if is_late(agent, turn.as_deref()) {
                    if let Some(turn) = turn {
                        agent.each_ended(&turn, |t| {
                            t.stopped = true;
                            t.stop.clone_from(&answer);
                        });
                    }
                    return;
                }
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
            HookEvent::StopFailure { turn, error } => {
                hook_broke(agent, turn.as_deref(), Outcome::Failed(error), now);
            }
            HookEvent::Interrupted { turn } => {
                hook_broke(agent, turn.as_deref(), Outcome::Interrupted, now);
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
        let closed = Some(Claim { says: false, at: now });
        match event {
            RecordEvent::Prompt { turn, text, human } => {
                agent.seen.record_turn = Some(turn.clone());
                if let Some(at) = opens_at(agent, Some(&turn), now) {
                    agent.seen.record_open = Some(Claim { says: true, at });
                }
                self.prompt_seen(id, Some(turn), text, Rung::Record, Some(human));
            }
            RecordEvent::Answer { turn, message, text } => {
                let turn = turn.or_else(|| agent.seen.record_turn.clone());
                self.answer_line(id, turn.as_deref(), message, text);
            }
            RecordEvent::Changed { turn, paths } => {
                let turn = turn.or_else(|| agent.seen.record_turn.clone());
                agent.has_changed(turn.as_deref(), &paths);
            }
            RecordEvent::TurnEnd { turn } => {
                let turn = turn.or_else(|| agent.seen.record_turn.clone());
                if let Some(turn) = &turn {
                    agent.each_ended(turn, |t| t.record_end = true);
                }
                if !is_late(agent, turn.as_deref()) {
                    agent.seen.record_open = closed;
                    if let Some(t) = agent.turn.as_mut() {
                        t.record_end = true;
                    }
                }
            }
            RecordEvent::Interrupted { turn } => {
                let turn = turn.or_else(|| agent.seen.record_turn.clone());
                if !is_late(agent, turn.as_deref()) {
                    agent.seen.record_open = closed;
                    if let Some(t) = agent.turn.as_mut() {
                        t.broken = Some(Outcome::Interrupted);
                    }
                }
            }
            RecordEvent::ApiError { code, text } => {
                let turn = agent.seen.record_turn.clone();
                let text = match code {
                    Some(code) => format!("API error {code}: {text}"),
                    None => format!("API error: {text}"),
                };
                if !is_late(agent, turn.as_deref()) {
                    agent.seen.record_open = closed;
                    if let Some(t) = agent.turn.as_mut() {
                        t.broken = Some(Outcome::Failed(text));
                    }
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

    /// A piece of an answer: it belongs to the turn that its line names, which may have ended, while
    /// the next is open already.
    fn answer_line(&mut self, id: AgentId, turn: Option<&str>, message: String, text: String) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let open = agent.turn.as_ref().map(|t| t.id.as_deref());
        let last = agent.last_turn.as_ref().map(|t| t.id.as_deref());
        let known = |name: &str| agent.old_turns.iter().any(|t| t == name);
        let of_open = match (open, turn) {
            (Some(Some(open)), Some(turn)) => open == turn,
            (Some(None), Some(turn)) => !known(turn),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let of_last = !of_open
            && match (last, turn) {
                (Some(Some(last)), Some(turn)) => last == turn,
                (Some(None), Some(turn)) => !known(turn),
                (Some(_), None) => true,
                (None, _) => false,
            };
        let new = |t: &Turn| !t.texts.iter().any(|(m, x)| *m == message && *x == text);
        if of_last && let Some(e) = agent.extract.as_mut() {
            let same = agent.last_turn.as_ref().is_some_and(|t| t.seq == e.turn.seq);
            if same && new(&e.turn) {
                e.turn.texts.push((message.clone(), text.clone()));
            }
        }
        let target = match (of_open, of_last) {
            (true, _) => agent.turn.as_mut(),
            (_, true) => agent.last_turn.as_mut(),
            _ => None,
        };
        let Some(target) = target.filter(|t| new(t)) else { return };
        target.texts.push((message, text));
        let seq = target.seq;
        self.watch(id, seq, false);
    }
}

/// A hook says that a turn is over and that it was not completed.
fn hook_broke(agent: &mut Agent, turn: Option<&str>, how: Outcome, now: u64) {
    if is_late(agent, turn) {
        return;
    }
    agent.seen.hook_open = Some(Claim { says: false, at: now });
    agent.seen.permission = None;
    if let Some(t) = agent.turn.as_mut()
        && (t.id.is_none() || turn.is_none() || t.id.as_deref() == turn)
    {
        t.broken = Some(how);
    }
}

/// When the turn began that a prompt names, for the claim that it is open; `None` when it is over, so
/// that a prompt which is told late opens nothing.
fn opens_at(agent: &Agent, turn: Option<&str>, now: u64) -> Option<u64> {
    let Some(turn) = turn else { return Some(now) };
    if agent.old_turns.iter().any(|t| t == turn) {
        return None;
    }
    match agent.turn.as_ref().filter(|t| t.id.as_deref() == Some(turn)) {
        Some(t) if t.stopped || t.record_end || t.broken.is_some() => None,
        Some(t) => Some(t.started),
        None => Some(now),
    }
}

/// Whether something names a turn that is not the open one any more: it says nothing about now.
fn is_late(agent: &Agent, turn: Option<&str>) -> bool {
    let Some(turn) = turn else { return false };
    let open = agent.turn.as_ref().and_then(|t| t.id.as_deref());
    open != Some(turn) && agent.old_turns.iter().any(|t| t == turn)
}
