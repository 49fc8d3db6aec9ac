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
use crate::core::dialect::{Answer, NoAnswer, OscState, StatusState};
use crate::proto::{AgentId, ChainId, HopId, HopState, Rung};
use std::collections::{BTreeMap, BTreeSet};

impl Hub {
    /// A new chain.
    pub(super) fn new_chain(&mut self) -> ChainId {
        let id = ChainId(self.next_chain);
        self.next_chain += 1;
        let used = self.now.mono;
        self.chains.insert(id, Chain { used, ..Chain::default() });
        self.forget_old_chains(id);
        id
    }

    /// Forgets the chains that were used longest ago. One that an agent or an open hop belongs to is
    /// kept: without its counters it would never end.
    fn forget_old_chains(&mut self, new: ChainId) {
        if self.chains.len() <= MOST_CHAINS {
            return;
        }
        let agents = self.agents.values().filter_map(|a| a.chain.map(|(chain, _)| chain));
        let hops = self.hops.values().filter(|h| !h.is_final()).map(|h| h.info.chain);
        let live: BTreeSet<ChainId> = agents.chain(hops).chain([new]).collect();
        let mut old: Vec<(u64, ChainId)> = self
            .chains
            .iter()
            .filter(|(id, _)| !live.contains(id))
            .map(|(id, c)| (c.used, *id))
            .collect();
        old.sort_unstable();
        for (_, id) in old.into_iter().take(self.chains.len() - MOST_CHAINS / 2) {
            self.chains.remove(&id);
        }
    }

    /// A hook or a record names the prompt that began a turn. `human`: whether the record says that
    /// it came through the composer.
    pub(super) fn prompt_seen(
        &mut self,
        id: AgentId,
        turn: Option<String>,
        text: String,
        rung: Rung,
        human: Option<bool>,
    ) {
        let Some(agent) = self.agents.get(&id) else { return };
        let ours = self.is_ours(id, &text);
        let same_text = |t: &Turn| t.prompt.as_ref().is_none_or(|p| same_prompt(p, &text));
        let old = |name: &String| agent.old_turns.contains(name);
        let open = agent.turn.as_ref();
        let known = match (open, &turn) {
            (Some(t), Some(new)) if t.id.is_some() => t.id.as_ref() == Some(new),
            (_, Some(new)) if old(new) => return,
            // Opened by a weaker sign of the same beginning.
            (Some(t), _) => same_text(t),
            (None, Some(new)) => {
                // The ended turn whose answer is being looked for was never named until now.
                let late = agent.extract.as_ref().is_some_and(|e| {
                    e.turn.id.is_none() && agent.turns == e.turn.seq && same_text(&e.turn) && !ours
                });
                if late {
                    let new = new.clone();
                    self.name_ended(id, new, text);
                    return;
                }
                false
            }
            (None, None) => false,
        };
        if known {
            let first = open.is_some_and(same_text);
            if let Some(t) = self.agents.get_mut(&id).and_then(|a| a.turn.as_mut()) {
                t.id = t.id.take().or(turn);
                t.prompt.get_or_insert_with(|| text.clone());
            }
            self.bind_delivery(id, &text, rung);
            if first && !ours {
                self.claim_for_person(id, &text, human);
            }
            return;
        }
        if let Some(t) = open {
            if turn.as_ref().is_some_and(&old) {
                return;
            }
            if let Some(new) = &turn
                && !ours
                && goes_on(agent, t, human)
            {
                let new = new.clone();
                self.turn_goes_on(id, new);
                return;
            }
            self.close_before_next(id, rung);
        }
        self.open_turn(id, turn, Some(text.clone()), ours);
        self.bind_delivery(id, &text, rung);
        if !ours {
            self.claim_for_person(id, &text, human);
        }
    }

    /// The last ended turn, whose answer is still being looked for, gets its name.
    fn name_ended(&mut self, id: AgentId, name: String, prompt: String) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.turn_is_old(&name);
        agent.seen.record_open = None;
        let extracting = agent.extract.as_mut().map(|e| &mut e.turn);
        for turn in agent.last_turn.as_mut().into_iter().chain(extracting) {
            if turn.id.is_none() {
                turn.id = Some(name.clone());
                turn.prompt.get_or_insert_with(|| prompt.clone());
            }
        }
    }

    /// A background task ended and the program goes on by itself: for people and routes it is the same
    /// turn, which has no answer yet.
    fn turn_goes_on(&mut self, id: AgentId, name: String) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let before = agent.turn.as_mut().and_then(|t| t.id.replace(name));
        if let Some(before) = before {
            agent.turn_is_old(&before);
        }
        if let Some(t) = agent.turn.as_mut() {
            t.stopped = false;
            t.stop = None;
            t.record_end = false;
        }
    }

    /// The open turn began with the text of the agent's delivery: the hop is accepted, and the turn
    /// belongs to the hop's chain.
    fn bind_delivery(&mut self, id: AgentId, prompt: &str, rung: Rung) {
        if self.is_ours(id, prompt) {
            if let Some(hop) = self.accept(id, rung) {
                self.adopt_turn(id, hop, true);
            }
            return;
        }
        // A prompt whose acceptance had been given up: its hop stays as it is, but the turn is no new
        // chain's.
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let found = agent.unclaimed.iter().position(|(_, text)| same_prompt(text, prompt));
        if let Some((hop, _)) = found.and_then(|i| agent.unclaimed.remove(i)) {
            self.adopt_turn(id, hop, false);
        }
    }

    /// The same by the screen, for agents whose records name no prompts.
    pub(super) fn accepted_by_screen(&mut self, id: AgentId) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let line = agent.is_line();
        if !line {
            // Nothing has said yet that it works: until then it is not idle either.
            agent.accepted_at = Some(now);
        }
        if agent.turn.is_none() {
            self.open_turn(id, None, None, true);
        }
        if let Some(hop) = self.accept(id, Rung::Screen) {
            self.adopt_turn(id, hop, true);
        }
        if line
            && let Some(agent) = self.agents.get_mut(&id)
            && let Some(view) = agent.view.take()
        {
            // What stood at the prompt has been run: the same view shows another prompt now, and
            // the silence begins here.
            agent.look(view, now, self.timing.echo_ms);
            agent.changed = now;
        }
    }

    fn adopt_turn(&mut self, id: AgentId, hop: HopId, answers: bool) {
        let Some((chain, depth, prompt)) =
            self.hops.get(&hop).map(|h| (h.info.chain, h.info.depth + 1, h.info.prompt.clone()))
        else {
            return;
        };
        let Some(agent) = self.agents.get_mut(&id) else { return };
        agent.chain = Some((chain, depth));
        agent.human_prompted = None;
        if let Some(turn) = agent.turn.as_mut() {
            if answers {
                turn.hops.push(hop);
            }
            turn.chain = chain;
            turn.depth = depth;
            if turn.prompt.is_none() {
                turn.prompt = prompt;
            }
        }
    }

    /// A turn that no hop began, by a prompt that a person typed: a new chain, unless it is one
    /// already. An Enter of theirs must have been seen; a record's word alone is not enough.
    fn claim_for_person(&mut self, id: AgentId, prompt: &str, human: Option<bool>) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let Some(turn) = agent.turn.as_ref() else { return };
        let fresh = fresh_prompt(agent.human_prompted, now);
        let typed = fresh || (human == Some(true) && agent.human_enter.is_some());
        let began = turn.prompt.as_deref().is_some_and(|p| same_prompt(p, prompt));
        if !typed || human == Some(false) || turn.human || !turn.hops.is_empty() || !began {
            return;
        }
        let chain = self.new_chain();
        let Some(agent) = self.agents.get_mut(&id) else { return };
        (agent.human_prompted, agent.human_enter) = (None, None);
        agent.chain = Some((chain, 0));
        if let Some(turn) = agent.turn.as_mut() {
            (turn.chain, turn.depth, turn.human) = (chain, 0, true);
        }
        self.rearm(id);
    }

    /// Opens a turn. A person's Enter shortly before begins a new chain, unless a hop's prompt
    /// opens it (`ours`); a turn that the program began by itself goes on with the chain before it.
    pub(super) fn open_turn(
        &mut self,
        id: AgentId,
        turn: Option<String>,
        prompt: Option<String>,
        ours: bool,
    ) {
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        // While an Enter of mado's is unanswered, a sign of work may be due to it: then only the
        // prompt's text tells whose the turn is.
        let waiting = agent.delivery.as_ref().is_some_and(super::delivery::Delivery::entered);
        let human = !ours && !waiting && fresh_prompt(agent.human_prompted, now);
        if human {
            (agent.human_prompted, agent.human_enter) = (None, None);
        }
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
            hops: Vec::new(),
            started: now,
            mark: agent.idle_mark,
            stopped: false,
            stop: None,
            record_end: false,
            broken: None,
            texts: Vec::new(),
            changed: None,
            ended: None,
            matches: BTreeMap::new(),
            human,
            titled: false,
            streamed: BTreeMap::new(),
        });
        self.turn_began(id);
        if human {
            self.rearm(id);
        }
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
        // The agent's own word that the turn ended outweighs rows that may be quotations; how it ended, its
        // record tells.
        let reported = agent.has_record() && osc_ended(agent, turn);
        let told = turn.stopped || turn.record_end || reported;
        if !told {
            if let Some(row) = agent.turn_row_matching(&agent.profile.screen.error) {
                self.close_turn(id, Outcome::Failed(row), Rung::Screen);
                return;
            }
            if agent.turn_row_matching(&agent.profile.screen.interrupted).is_some() {
                self.close_turn(id, Outcome::Interrupted, Rung::Screen);
                return;
            }
        }
        let Some(rung) = completion(agent, turn) else {
            // Idle again without any sign that a turn was completed.
            self.close_turn(id, Outcome::Superseded, Rung::Screen);
            return;
        };
        self.close_turn(id, Outcome::Completed, rung);
    }

    /// The next prompt has come before the agent was seen idle. A turn that said of itself that it
    /// ended was completed; of any other it is only known that it is over.
    fn close_before_next(&mut self, id: AgentId, rung: Rung) {
        let Some(turn) = self.agents.get(&id).and_then(|a| a.turn.as_ref()) else { return };
        match (turn.broken.clone(), turn.stopped, turn.record_end) {
            (Some(broken), ..) => self.close_turn(id, broken, rung),
            (None, true, _) => self.close_turn(id, Outcome::Completed, Rung::Hook),
            (None, false, true) => self.close_turn(id, Outcome::Completed, Rung::Record),
            (None, false, false) => self.close_turn(id, Outcome::Superseded, rung),
        }
    }

    fn close_turn(&mut self, id: AgentId, outcome: Outcome, rung: Rung) {
        let now = self.now.mono;
        self.watch_rest(id, &outcome);
        // One answer is looked for at a time; what is known of the one before must do now.
        self.give_up_extraction(id, "no answer: the next turn ended before it was in the record");
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let Some(mut turn) = agent.turn.take() else { return };
        turn.ended = Some((outcome.clone(), rung, now));
        agent.accepted_at = None;
        if let Some(name) = turn.id.clone() {
            agent.turn_is_old(&name);
        }
        let hops = turn.hops.clone();
        agent.last_turn = Some(turn.clone());
        match outcome {
            Outcome::Completed if agent.has_record() => {
                let seq = turn.seq;
                agent.extract = Some(Extraction {
                    turn,
                    token: None,
                    retry: now,
                    until: now + self.timing.extract_timeout_ms,
                    lenient: now + 1_000,
                });
                self.turn_ended(id, seq, rung);
            }
            Outcome::Completed => {
                // What the agent's own hook named is exact; the screen is what is left.
                let (text, from) = match turn.stop.clone().filter(|t| !t.is_empty()) {
                    Some(text) => (text, Rung::Hook),
                    None => (agent.turn_output().join("\n"), Rung::Screen),
                };
                self.answered(id, &turn, text, None, None, from);
            }
            Outcome::Interrupted => {
                self.turn_broken(id, &turn, "interrupted", "its turn was interrupted");
            }
            Outcome::Failed(why) => self.turn_broken(id, &turn, "turn_failed", &why),
            Outcome::Superseded => {
                let text = "its turn ended without an answer, or another prompt took its place";
                for hop in hops {
                    self.finish(hop, HopState::Unconfirmed, "superseded", text);
                }
            }
        }
    }

    /// An ended turn's answer is known: it is kept, and what waited for it goes on.
    fn answered(
        &mut self,
        id: AgentId,
        turn: &Turn,
        text: String,
        name: Option<String>,
        message: Option<String>,
        from: Rung,
    ) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let name = name.or_else(|| turn.id.clone());
        if let Some(name) = &name {
            // The record may name the turn to others only now.
            agent.turn_is_old(name);
            if let Some(last) = agent.last_turn.as_mut().filter(|l| l.seq == turn.seq) {
                last.id.get_or_insert_with(|| name.clone());
            }
        }
        agent.answer = Some(LastAnswer {
            text,
            seq: turn.seq,
            turn: name,
            message,
            rung: from,
            chain: Some((turn.chain, turn.depth)),
            changed: turn.changed.clone(),
        });
        self.remember_task(turn);
        let rung = turn.ended.as_ref().map_or(Rung::None, |(_, rung, _)| *rung);
        self.turn_answered(id, turn, rung);
    }

    /// Asks for the answer of an ended turn, again and again until it is there.
    pub(super) fn drive_extraction(&mut self, id: AgentId) -> bool {
        let now = self.now.mono;
        let token = self.token();
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let Some(e) = agent.extract.as_mut() else { return false };
        if e.token.is_some() && now >= e.until {
            self.give_up_extraction(id, "no answer: reading the record took too long");
            return true;
        }
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
        let Some(e) = agent.extract.as_mut().filter(|e| e.token == Some(token)) else { return };
        e.token = None;
        let (late, lenient, stopped) = (now >= e.until, now >= e.lenient, e.turn.stopped);
        match result {
            Ok(answer) if belongs(&e.turn, agent.answer.as_ref(), &answer, lenient) => {
                let Some(mut e) = agent.extract.take() else { return };
                if let Some(changed) = &answer.changed {
                    e.turn.add_changed(changed);
                }
                let (text, message) = (answer.text, Some(answer.message));
                self.answered(id, &e.turn, text, answer.turn, message, Rung::Record);
            }
            Err(NoAnswer::Interrupted) if lenient || !stopped => {
                let Some(e) = agent.extract.take() else { return };
                self.turn_broken(id, &e.turn, "interrupted", "its turn was interrupted");
            }
            Err(why @ NoAnswer::ApiError { .. }) => {
                let Some(e) = agent.extract.take() else { return };
                self.turn_broken(id, &e.turn, "api_error", &why.to_string());
            }
            Err(why @ (NoAnswer::Ambiguous(_) | NoAnswer::TooFar(_) | NoAnswer::Malformed(_))) => {
                self.give_up_extraction(id, &why.to_string());
            }
            Err(why) if late => self.give_up_extraction(id, &why.to_string()),
            Ok(_) if late => {
                self.give_up_extraction(id, "no answer: the record holds only other turns");
            }
            _ => e.retry = now + retry,
        }
    }

    /// The record gave nothing in time: what the turn's own end hook named, or what its own lines
    /// were when they came, if its end was among them; else the turn has no answer.
    pub(super) fn give_up_extraction(&mut self, id: AgentId, why: &str) {
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let Some(e) = agent.extract.take() else { return };
        let turn = e.turn;
        if let Some(text) = turn.stop.clone().filter(|t| !t.is_empty()) {
            self.answered(id, &turn, text, None, None, Rung::Hook);
            return;
        }
        if turn.record_end
            && let Some((message, _)) = turn.texts.last().cloned()
        {
            let texts: Vec<&str> = turn
                .texts
                .iter()
                .filter(|(m, _)| *m == message)
                .map(|(_, text)| text.as_str())
                .collect();
            let text = texts.join("\n");
            self.answered(id, &turn, text, None, Some(message), Rung::Record);
            return;
        }
        self.turn_broken(id, &turn, "no_answer", why);
    }
}

/// How many chains are kept; far more than live at a time.
const MOST_CHAINS: usize = 1_000;

/// How long after a person's Enter a turn that begins is believed to be due to it, milliseconds.
const PERSON_MS: u64 = 10_000;

fn fresh_prompt(at: Option<u64>, now: u64) -> bool {
    at.is_some_and(|at| now < at + PERSON_MS)
}

/// Whether two tellings of a prompt are of the same one: programs trim and expand blanks.
fn same_prompt(a: &str, b: &str) -> bool {
    a == b || text::fold(a) == text::fold(b)
}

/// Whether a prompt that nobody typed goes on with a turn that stopped while background tasks ran.
fn goes_on(agent: &Agent, turn: &Turn, human: Option<bool>) -> bool {
    let tasks = agent.seen.background > 0
        || agent.seen.status.is_some_and(|s| s.says == StatusState::Background);
    let typed = human == Some(true) || agent.human_enter.is_some_and(|at| at >= turn.started);
    turn.stopped && tasks && !typed
}

/// Whether an answer is the ended turn's.
fn belongs(turn: &Turn, before: Option<&LastAnswer>, answer: &Answer, lenient: bool) -> bool {
    let same_turn = if let (Some(a), Some(b)) = (&turn.id, &answer.turn) {
        a == b
    } else {
        // Without ids only a message that came while this turn was the newest can be its own: the
        // prompt may be the same as in a turn before, or in the session that was resumed.
        let old = before.is_some_and(|b| b.message.as_ref() == Some(&answer.message));
        let prompts = match (&turn.prompt, &answer.prompt) {
            (Some(a), Some(b)) => same_prompt(a, b),
            _ => true,
        };
        let came = turn.texts.iter().any(|(message, _)| *message == answer.message);
        !old && prompts && came
    };
    let stopped = turn.stop.as_ref().is_some_and(|s| s.trim() == answer.text.trim());
    same_turn && (answer.ended || stopped || lenient)
}

/// Whether the agent has reported since the turn began that it works no more. An error counts where a record
/// says which.
fn osc_ended(agent: &Agent, turn: &Turn) -> bool {
    let ended = |state: OscState| match state {
        OscState::Idle | OscState::Done => true,
        OscState::Error => agent.has_record(),
        OscState::Working | OscState::Blocked => false,
    };
    let osc = agent.seen.osc.filter(|_| agent.uses(Rung::Osc));
    osc.is_some_and(|o| ended(o.says) && o.at >= turn.started)
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
    if agent.uses(Rung::Status)
        && agent.seen.status.is_some_and(|s| s.says == StatusState::Idle && since(s.at))
    {
        return Some(Rung::Status);
    }
    if osc_ended(agent, turn) {
        return Some(Rung::Osc);
    }
    if agent.uses(Rung::Foreground) {
        return Some(Rung::Foreground);
    }
    if agent.uses(Rung::Screen) && agent.turn_row_matching(&agent.profile.screen.done).is_some() {
        return Some(Rung::Screen);
    }
    if agent.uses(Rung::Title) && turn.titled {
        return Some(Rung::Title);
    }
    None
}
