//! Turns: when one begins, whose it is, when and how it ends, and its answer.
//!
//! Refuses to take an answer of any other turn than the one that ended: signals of an end arrive
//! before the transcript line (measured 48 to 106 ms with claude 2.1.197 and 2.1.332), so a reader
//! that comes too early would find the answer before.

use super::agent::{Agent, Extraction, LastAnswer, Outcome, Turn};
use super::hub::Hub;
use super::io::Effect;
use super::route::Chain;
use super::text;
use crate::core::dialect::{Answer, NoAnswer, OscState};
use crate::proto::{AgentId, ChainId, HopState, Rung};
use std::collections::BTreeMap;

/// How many ids of ended turns an agent remembers.
const OLD_TURNS: usize = 32;

impl Hub {
    /// A new chain.
    pub(super) fn new_chain(&mut self) -> ChainId {
        let id = ChainId(self.next_chain);
        self.next_chain += 1;
        let used = self.now.mono;
        self.chains.insert(id, Chain { used, ..Chain::default() });
        // Chains nobody has used for long end with their hops; a thousand is far more than live.
        while self.chains.len() > 1_000 {
            self.chains.pop_first();
        }
        id
    }

    /// A hook or a record names the prompt that began a turn.
    pub(super) fn prompt_seen(
        &mut self,
        id: AgentId,
        turn: Option<String>,
        text: String,
        rung: Rung,
    ) {
        let Some(agent) = self.agents.get(&id) else { return };
        let known = match (&agent.turn, &turn) {
            (Some(t), Some(new)) => match &t.id {
                Some(old) => old == new,
                // Opened by a weaker sign of the same beginning.
                None => t.prompt.is_none() || t.prompt.as_deref() == Some(text.as_str()),
            },
            (Some(t), None) => t.prompt.is_none(),
            (None, Some(new)) => {
                if agent.old_turns.contains(new) {
                    return;
                }
                false
            }
            (None, None) => false,
        };
        if known {
            if let Some(t) = self.agents.get_mut(&id).and_then(|a| a.turn.as_mut()) {
                t.id = t.id.take().or(turn);
                t.prompt.get_or_insert(text.clone());
            }
            self.bind_delivery(id, &text, rung);
        } else {
            if self.agents.get(&id).is_some_and(|a| a.turn.is_some()) {
                self.close_turn(id, Outcome::Superseded, rung);
            }
            self.open_turn(id, turn, Some(text.clone()));
            self.bind_delivery(id, &text, rung);
        }
    }

    /// The open turn began with the text of the agent's delivery: the hop is accepted, and the turn
    /// belongs to the hop's chain.
    fn bind_delivery(&mut self, id: AgentId, prompt: &str, rung: Rung) {
        if !self.is_ours(id, prompt) {
            return;
        }
        if let Some(hop) = self.accept(id, rung) {
            self.adopt_turn(id, hop);
        }
    }

    /// The same by the screen, for agents whose records name no prompts.
    pub(super) fn accepted_by_screen(&mut self, id: AgentId) {
        if self.agents.get(&id).is_some_and(|a| a.turn.is_none()) {
            self.open_turn(id, None, None);
        }
        if let Some(hop) = self.accept(id, Rung::Screen) {
            self.adopt_turn(id, hop);
        }
    }

    fn adopt_turn(&mut self, id: AgentId, hop: crate::proto::HopId) {
        let Some((chain, depth, prompt)) =
            self.hops.get(&hop).map(|h| (h.info.chain, h.info.depth + 1, h.info.prompt.clone()))
        else {
            return;
        };
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.chain = Some((chain, depth));
        if let Some(turn) = agent.turn.as_mut() {
            turn.hop = Some(hop);
            turn.chain = chain;
            turn.depth = depth;
            if turn.prompt.is_none() {
                turn.prompt = prompt;
            }
        }
    }

    /// Opens a turn. A person's Enter since the last one begins a new chain; a turn that the program
    /// began by itself goes on with the chain before it.
    pub(super) fn open_turn(&mut self, id: AgentId, turn: Option<String>, prompt: Option<String>) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let human = std::mem::take(&mut agent.human_prompted);
        let known = agent.chain.filter(|_| !human);
        let (chain, depth) = match known {
            Some(c) => c,
            None => (self.new_chain(), 0),
        };
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.turns += 1;
        agent.chain = Some((chain, depth));
        agent.human_submit = None;
        agent.turn = Some(Turn {
            seq: agent.turns,
            id: turn,
            prompt,
            chain,
            depth,
            hop: None,
            started: now,
            mark: agent.idle_mark,
            stopped: false,
            stop: None,
            record_end: false,
            broken: None,
            texts: Vec::new(),
            ended: None,
            matches: BTreeMap::new(),
            streamed: BTreeMap::new(),
        });
        self.turn_began(id, human);
    }

    /// The agent is idle and its turn is open: it ended. How, and which evidence says so.
    pub(super) fn end_turn(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        let Some(turn) = agent.turn.as_ref() else { return };
        if let Some(broken) = turn.broken.clone() {
            let rung = if agent.has_record() { Rung::Record } else { Rung::Hook };
            self.close_turn(id, broken, rung);
            return;
        }
        if let Some(row) = agent.turn_row_matching(&agent.profile.screen.error) {
            self.close_turn(id, Outcome::Failed(row), Rung::Screen);
            return;
        }
        if agent.turn_row_matching(&agent.profile.screen.interrupted).is_some() {
            self.close_turn(id, Outcome::Interrupted, Rung::Screen);
            return;
        }
        let Some(rung) = completion(agent, turn) else {
            // Idle again without any sign that a turn was completed.
            self.close_turn(id, Outcome::Superseded, Rung::Screen);
            return;
        };
        self.close_turn(id, Outcome::Completed, rung);
    }

    fn close_turn(&mut self, id: AgentId, outcome: Outcome, rung: Rung) {
        let now = self.now.mono;
        self.watch_rest(id, &outcome);
        let Some(agent_turn) = self.agents.get_mut(&id).and_then(|a| a.turn.take()) else { return };
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let mut turn = agent_turn;
        turn.ended = Some((outcome.clone(), rung, now));
        if let Some(name) = &turn.id {
            agent.old_turns.push_back(name.clone());
            if agent.old_turns.len() > OLD_TURNS {
                agent.old_turns.pop_front();
            }
        }
        let seq = turn.seq;
        let hop = turn.hop;
        let screen_answer = (!agent.has_record()).then(|| {
            let was = agent.last_turn.replace(turn.clone());
            let lines = agent.turn_output();
            agent.last_turn = was;
            lines.join("\n")
        });
        agent.last_turn = Some(turn);
        match outcome {
            Outcome::Completed => {
                if let Some(text) = screen_answer {
                    agent.answer = Some(LastAnswer { text, seq, turn: None, rung: Rung::Screen });
                    self.turn_answered(id, seq, rung);
                } else {
                    agent.extract = Some(Extraction {
                        seq,
                        token: None,
                        retry: now,
                        until: now + self.timing.extract_timeout_ms,
                        lenient: now + 1_000,
                    });
                    self.turn_ended(id, seq, rung);
                }
            }
            Outcome::Interrupted => {
                self.turn_broken(id, seq, "interrupted", "its turn was interrupted");
            }
            Outcome::Failed(why) => self.turn_broken(id, seq, "turn_failed", &why),
            Outcome::Superseded => {
                if let Some(hop) = hop {
                    let text = "its turn ended without an answer, or another prompt took its place";
                    self.finish(hop, HopState::Unconfirmed, "superseded", text);
                }
            }
        }
    }

    /// Asks for the answer of an ended turn, again and again until it is there.
    pub(super) fn drive_extraction(&mut self, id: AgentId) -> bool {
        let now = self.now.mono;
        let token = self.token();
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let Some(e) = agent.extract.as_mut() else { return false };
        if e.token.is_none() && now >= e.retry {
            e.token = Some(token);
            self.out.push(Effect::Extract { agent: id, token });
            return true;
        }
        false
    }

    /// What was found.
    pub(super) fn extracted(&mut self, id: AgentId, token: u64, result: Result<Answer, NoAnswer>) {
        if self.extracted_for_request(id, token, &result) {
            return;
        }
        let now = self.now.mono;
        let retry = self.timing.extract_retry_ms;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        if agent.extract.as_ref().is_none_or(|e| e.token != Some(token)) {
            return;
        }
        let Some(turn) = agent.last_turn.as_ref() else { return };
        let Some(e) = agent.extract.as_mut() else { return };
        e.token = None;
        let (seq, rung) = (turn.seq, turn.ended.as_ref().map_or(Rung::None, |(_, r, _)| *r));
        let taken = match &result {
            Ok(answer) => belongs(turn, agent.answer.as_ref(), answer, now >= e.lenient),
            Err(_) => false,
        };
        match result {
            Ok(answer) if taken => {
                agent.extract = None;
                let name = answer.turn.or_else(|| turn.id.clone());
                agent.answer =
                    Some(LastAnswer { text: answer.text, seq, turn: name, rung: Rung::Record });
                self.turn_answered(id, seq, rung);
            }
            Err(NoAnswer::Interrupted) if now >= e.lenient || !turn.stopped => {
                agent.extract = None;
                self.turn_broken(id, seq, "interrupted", "its turn was interrupted");
            }
            Err(NoAnswer::ApiError { code, text }) => {
                agent.extract = None;
                let code = code.map(|c| format!(" {c}")).unwrap_or_default();
                self.turn_broken(
                    id,
                    seq,
                    "api_error",
                    &format!("no answer: API error{code}: {text}"),
                );
            }
            Err(why @ (NoAnswer::Ambiguous(_) | NoAnswer::TooFar(_) | NoAnswer::Malformed(_))) => {
                agent.extract = None;
                if !self.answer_from_hook(id, seq, rung) {
                    self.turn_broken(id, seq, "no_answer", &why.to_string());
                }
            }
            other if now >= e.until => {
                agent.extract = None;
                if !self.answer_from_hook(id, seq, rung) {
                    let why = match other {
                        Err(why) => why.to_string(),
                        Ok(_) => "no answer: the record holds only earlier turns".to_owned(),
                    };
                    self.turn_broken(id, seq, "no_answer", &why);
                }
            }
            _ => e.retry = now + retry,
        }
    }

    /// The record gave nothing in time: what the turn's own end hook named, if it did.
    fn answer_from_hook(&mut self, id: AgentId, seq: u64, rung: Rung) -> bool {
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let Some(turn) = agent.last_turn.as_ref().filter(|t| t.seq == seq) else { return false };
        let Some(text) = turn.stop.clone().filter(|t| !t.is_empty()) else {
            return false;
        };
        let name = turn.id.clone();
        agent.answer = Some(LastAnswer { text, seq, turn: name, rung: Rung::Hook });
        self.turn_answered(id, seq, rung);
        true
    }
}

/// Whether an answer is the ended turn's.
fn belongs(turn: &Turn, before: Option<&LastAnswer>, answer: &Answer, lenient: bool) -> bool {
    let same_turn = match (&turn.id, &answer.turn) {
        (Some(a), Some(b)) => a == b,
        // Without ids the prompt tells; without either, only that it is not the answer before.
        _ => match (&turn.prompt, &answer.prompt) {
            (Some(a), Some(b)) => text::fold(a) == text::fold(b),
            _ => before.is_none_or(|b| b.turn.is_none() || b.turn != answer.turn),
        },
    };
    let stopped = turn.stop.as_ref().is_some_and(|s| s.trim() == answer.text.trim());
    same_turn && (answer.ended || stopped || lenient)
}

/// Which evidence says that the open turn of an idle agent was completed; the strongest.
fn completion(agent: &Agent, turn: &Turn) -> Option<Rung> {
    let since = |at: u64| at >= turn.started;
    if agent.uses(Rung::Hook) && turn.stopped {
        return Some(Rung::Hook);
    }
    if agent.uses(Rung::Record) && turn.record_end {
        return Some(Rung::Record);
    }
    if agent.uses(Rung::Status) && agent.seen.status.is_some_and(|s| since(s.at)) {
        return Some(Rung::Status);
    }
    if agent.uses(Rung::Osc)
        && agent
            .seen
            .osc
            .is_some_and(|o| matches!(o.says, OscState::Idle | OscState::Done) && since(o.at))
    {
        return Some(Rung::Osc);
    }
    if agent.uses(Rung::Foreground) {
        return Some(Rung::Foreground);
    }
    if agent.uses(Rung::Screen) && agent.turn_row_matching(&agent.profile.screen.done).is_some() {
        return Some(Rung::Screen);
    }
    if agent.uses(Rung::Title) && agent.profile.evidence.title_busy.is_some() {
        return Some(Rung::Title);
    }
    None
}
