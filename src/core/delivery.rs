//! Typing a hop into its target: the one place where bytes are made for an agent.
//!
//! What it decides: when the first byte may go, when the next line may, when Enter may, and what
//! to do when something comes between. What it refuses: to type while the target is anything but
//! idle, to press Enter unless the text stands in the composer on a screen that was drained just
//! now, to press it a third time, to touch a composer that holds anything it did not type itself.

use super::hop::{PASTE_END, PASTE_START, Residue};
use super::hub::Hub;
use super::text::{self, Holds};
use crate::core::agent::Agent;
use crate::core::io::Effect;
use crate::core::profile::ComposerKind;
use crate::proto::{AgentId, HopId, HopState, Phase, RouteState, Rung};

/// Where a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// A look before the next chunk (or the first byte) is under way.
    Look(u64),
    /// A write is under way.
    Writing(u64),
    /// The next chunk is due.
    Gap(u64),
    /// All is typed; the look before Enter is due at the first, given up at the second time.
    Settle(u64, u64),
    /// The look before Enter is under way; given up at the time.
    LookEnter(u64, u64),
    /// Enter is under way.
    Entering(u64),
    /// Enter was sent at the first time; a second one is considered at the second, acceptance is
    /// given up at the third.
    Submitted(u64, Option<u64>, u64),
    /// The look before a second Enter is under way.
    LookSecond(u64, u64),
    /// A clearing key was sent this often; the next look is due.
    Clearing(u32, u64),
    /// The look between clearing keys is under way.
    LookClear(u64, u32),
}

/// A delivery under way.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its hop.
    pub hop: HopId,
    /// The whole text, literal and defused.
    pub text: String,
    /// What is written, piece by piece, with paste marks.
    pub chunks: Vec<String>,
    /// The next piece.
    pub next: usize,
    /// What reached the terminal, without paste marks.
    pub typed: String,
    /// Where it stands.
    pub stage: Stage,
    /// Bytes the agent had written when Enter was sent: fresh evidence needs more.
    pub bytes: u64,
    /// Enters sent.
    pub enters: u32,
}

impl Delivery {
    /// Whether Enter has been sent (or is on its way).
    pub fn entered(&self) -> bool {
        self.enters > 0
    }

    /// When it wants to be driven.
    pub fn deadline(&self) -> Option<u64> {
        match self.stage {
            Stage::Gap(at) | Stage::Settle(at, _) | Stage::Clearing(_, at) => Some(at),
            Stage::Submitted(_, second, until) => Some(second.map_or(until, |s| s.min(until))),
            _ => None,
        }
    }
}

/// Cuts a text into writes.
fn chunks(text: &str, bracketed: bool, paste: bool) -> Vec<String> {
    if !bracketed {
        return vec![text.to_owned()];
    }
    if paste {
        return vec![format!("{PASTE_START}{text}{PASTE_END}")];
    }
    // The newline travels inside its line's paste: sent as a key after one, Claude and OpenCode
    // lose text (claude 2.1.197, opencode 1.18.33).
    text.split_inclusive('\n').map(|line| format!("{PASTE_START}{line}{PASTE_END}")).collect()
}

/// A chunk without its marks.
fn inner(chunk: &str) -> &str {
    chunk.strip_prefix(PASTE_START).and_then(|c| c.strip_suffix(PASTE_END)).unwrap_or(chunk)
}

/// What the composer shows of a text, as far as it can be seen.
fn composer_holds(agent: &Agent, typed: &str) -> Option<Holds> {
    let composer = agent.facts.composer.as_ref()?;
    let placeholder = agent.profile.composer.placeholder.as_ref();
    Some(text::holds(&composer.text, composer.hidden, typed, placeholder))
}

impl Hub {
    /// Why a hop may not be typed into an agent now; code and words.
    fn waits_for(&self, agent: &Agent, hop: HopId) -> Option<(String, String)> {
        let because = |code: &str, text: String| Some((code.to_owned(), text));
        let hop = self.hops.get(&hop)?;
        let name = &agent.name;
        if let Some(error) = &self.store_error {
            return because("store", format!("the store cannot write: {error}"));
        }
        if hop.paused || self.paused.contains(&agent.project) {
            return because("paused", "paused; :Mado resume goes on".to_owned());
        }
        if let Some(route) = hop.route.and_then(|r| self.routes.get(&r)) {
            match route.state() {
                RouteState::Paused => {
                    return because(
                        "paused",
                        "its route is paused; :Mado resume goes on".to_owned(),
                    );
                }
                RouteState::Held => {
                    return because(
                        "no_editor",
                        "no editor is attached to this project".to_owned(),
                    );
                }
                RouteState::Active | RouteState::Stopped => {}
            }
        }
        if hop.confirm {
            let text = format!("waits for your yes: mado resume --hop {}", hop.id());
            return because("confirm", text);
        }
        if agent.verdict.phase != Phase::Idle {
            return because(agent.verdict.code, format!("{name} {}", agent.verdict.text));
        }
        if agent.extract.is_some() {
            return because("reading_answer", format!("{name}'s last answer is being read"));
        }
        if self.now.mono < agent.since + self.timing.settle_ms {
            return because("settling", format!("{name} has just become idle"));
        }
        if agent.human_at.is_some_and(|at| self.now.mono < at + self.timing.human_ms) {
            return because("human", format!("a person is typing into {name}"));
        }
        let typed = hop.residue.as_ref().map_or("", |r| r.typed.as_str());
        let ours = !typed.is_empty() && composer_holds(agent, typed) != Some(Holds::Empty);
        if agent.draft() && !ours {
            return because("draft", format!("{name}'s composer holds a draft"));
        }
        let bracketed = agent.view.as_ref().is_some_and(|v| v.bracketed_paste);
        let multi = hop.info.prompt.as_ref().is_some_and(|p| p.contains('\n'));
        let line = agent.profile.composer.kind == ComposerKind::Line;
        if !bracketed && (!line || multi) {
            let text =
                format!("{name} has not asked for bracketed paste, so text could be taken as keys");
            return because("no_bracketed_paste", text);
        }
        None
    }

    /// Starts the first hop of an agent's queue that may go, and says why the first one may not.
    pub(super) fn pump(&mut self, id: AgentId) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        if agent.delivery.is_some() || agent.exit.is_some() {
            return false;
        }
        let mut start = None;
        let mut reasons = Vec::new();
        for hop in &agent.queue {
            let wait = self.waits_for(agent, *hop);
            // What a person holds back does not hold back what follows; everything else keeps the
            // queue's order.
            let passes = wait.as_ref().is_some_and(|(code, _)| {
                matches!(code.as_str(), "paused" | "no_editor" | "confirm")
            });
            match wait {
                None => {
                    start = Some(*hop);
                    break;
                }
                Some(wait) => reasons.push((*hop, wait)),
            }
            if !passes {
                break;
            }
        }
        let mut changed = false;
        for (hop, (code, text)) in reasons {
            changed |= self.wait_reason(hop, &code, text);
        }
        let Some(hop) = start else { return changed };
        self.begin(id, hop);
        true
    }

    /// Sets a queued hop's reason and tells people when it is a new one.
    fn wait_reason(&mut self, id: HopId, code: &str, text: String) -> bool {
        let now = self.now;
        let Some(hop) = self.hops.get_mut(&id) else { return false };
        let new_code = hop.info.reason_code != code;
        let changed = hop.reason(now, code, text);
        // Passing reasons (settling, a person at the keys) would only make noise.
        if new_code {
            self.publish_hop(id);
        }
        changed
    }

    fn begin(&mut self, id: AgentId, hop_id: HopId) {
        let token = self.token();
        let (Some(agent), Some(hop)) = (self.agents.get_mut(&id), self.hops.get(&hop_id)) else {
            return;
        };
        let Some(prompt) = hop.info.prompt.clone() else { return };
        agent.queue.retain(|h| *h != hop_id);
        let bracketed = agent.view.as_ref().is_some_and(|v| v.bracketed_paste);
        let lines = prompt.matches('\n').count() + 1;
        let paste = hop.paste.unwrap_or(lines > agent.profile.submit.paste_above);
        agent.delivery = Some(Delivery {
            hop: hop_id,
            chunks: chunks(&prompt, bracketed, paste),
            text: prompt,
            next: 0,
            typed: String::new(),
            stage: Stage::Look(token),
            bytes: 0,
            enters: 0,
        });
        self.out.push(Effect::HoldSize { agent: id, hold: true });
        self.out.push(Effect::Check { agent: id, token });
    }

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
    fn start_clean(&mut self, id: AgentId) -> bool {
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

    fn residue_left(&mut self, id: AgentId) {
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

    fn write_next(&mut self, id: AgentId) {
        let token = self.token();
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.as_mut()) else {
            return;
        };
        let hop = delivery.hop;
        let first = delivery.next == 0;
        let text = delivery.chunks.get(delivery.next).cloned().unwrap_or_default();
        delivery.stage = Stage::Writing(token);
        if first {
            let now = self.now;
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
        let echo = self.timing.echo_ms;
        if let Some(agent) = self.agents.get_mut(&id)
            && let Some(delivery) = agent.delivery.as_mut()
        {
            let submit = &agent.profile.submit;
            match delivery.stage {
                Stage::Writing(t) if t == token => {
                    let text = delivery.chunks.get(delivery.next).map_or("", |c| inner(c));
                    delivery.typed.push_str(text);
                    delivery.next += 1;
                    delivery.stage = if delivery.next < delivery.chunks.len() {
                        Stage::Gap(now + submit.line_gap_ms)
                    } else {
                        Stage::Settle(now + submit.wait_ms, now + submit.wait_ms + echo)
                    };
                    return;
                }
                Stage::Entering(t) if t == token => {
                    let second = (submit.second_ms > 0 && delivery.enters == 1)
                        .then(|| now + submit.second_ms);
                    delivery.stage = Stage::Submitted(now, second, now + submit.accept_ms);
                    return;
                }
                _ => {}
            }
        }
        self.resolve_residue(id, token, None);
    }

    /// A write was given up.
    pub(super) fn write_dropped(&mut self, id: AgentId, token: u64, written: usize) {
        self.resolve_residue(id, token, Some(written));
        if written == 0 {
            self.write_refused(id, token);
        }
    }

    /// The terminal refused a write of the open delivery: between the look it was decided on and
    /// the write the screen changed, or a person typed. Nothing was written, so look again.
    fn write_refused(&mut self, id: AgentId, token: u64) {
        let now = self.now;
        let (retry, echo) = (self.timing.check_retry_ms, self.timing.echo_ms);
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let accept = agent.profile.submit.accept_ms;
        let Some(delivery) = agent.delivery.as_mut() else { return };
        let hop_id = delivery.hop;
        match delivery.stage {
            Stage::Writing(t) if t == token => {
                delivery.stage = Stage::Gap(now.mono + retry);
                return;
            }
            Stage::Entering(t) if t == token => delivery.enters -= 1,
            _ => return,
        }
        if delivery.entered() {
            // The second Enter is only a help; what the first one does is still awaited.
            delivery.stage = Stage::Submitted(now.mono, None, now.mono + accept);
            return;
        }
        delivery.stage = Stage::Settle(now.mono + retry, now.mono + echo);
        if let Some(hop) = self.hops.get_mut(&hop_id) {
            hop.info.state = HopState::Typing;
            hop.info.times.submitted = None;
            hop.reason(
                now,
                "typing",
                "the screen changed just before Enter: it is looked at again",
            );
        }
        self.record(hop_id, Some(false));
        self.publish_hop(hop_id);
        let paused = self.agents.get(&id).and_then(|a| self.waits_for(a, hop_id));
        if paused.is_some_and(|(code, _)| matches!(code.as_str(), "paused" | "no_editor")) {
            // The pause came while the Enter was on its way and could not take it back then.
            self.disturb(id);
        }
    }

    fn resolve_residue(&mut self, id: AgentId, token: u64, written: Option<usize>) {
        for hop in self.hops.values_mut().filter(|h| h.target == Some(id)) {
            if let Some(residue) = hop.residue.as_mut() {
                residue.resolve(token, written);
            }
        }
    }

    /// The time of a delivery's stage has come.
    pub(super) fn drive(&mut self, id: AgentId) -> bool {
        let token = self.token();
        let now = self.now.mono;
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        let phase = agent.verdict.phase;
        let Some(delivery) = agent.delivery.as_mut() else { return false };
        match delivery.stage {
            Stage::Gap(at) if now >= at => delivery.stage = Stage::Look(token),
            Stage::Settle(at, until) if now >= at => {
                delivery.stage = Stage::LookEnter(token, until);
            }
            Stage::Clearing(presses, at) if now >= at => {
                delivery.stage = Stage::LookClear(token, presses);
            }
            Stage::Submitted(_, Some(second), until) if now >= second => {
                delivery.stage = Stage::LookSecond(token, until);
            }
            Stage::Submitted(at, None, until) if now >= until => {
                if matches!(phase, Phase::Busy | Phase::Asking) {
                    // It may stand in the program's own queue behind the open turn.
                    let again = now + agent.profile.submit.accept_ms;
                    delivery.stage = Stage::Submitted(at, None, again);
                    return true;
                }
                self.unconfirmed(id);
                return true;
            }
            _ => return false,
        }
        self.out.push(Effect::Check { agent: id, token });
        true
    }

    fn unconfirmed(&mut self, id: AgentId) {
        let Some(delivery) = self.agents.get_mut(&id).and_then(|a| a.delivery.take()) else {
            return;
        };
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        let text = "Enter was sent, but nothing shows that the turn began with this prompt";
        self.finish(delivery.hop, HopState::Unconfirmed, "no_acceptance", text);
    }

    /// The last look before Enter.
    fn look_enter(&mut self, id: AgentId, idle: bool, until: u64) {
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
    fn look_second(&mut self, id: AgentId, idle: bool, until: u64) {
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

    fn press_enter(&mut self, id: AgentId) {
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

    /// Something came between: the hop goes back to the head of the queue with what it may have
    /// left in the composer. Enter has not been sent.
    pub(super) fn disturb(&mut self, id: AgentId) {
        let now = self.now;
        let Some(agent) = self.agents.get_mut(&id) else { return };
        let (code, words) = (agent.verdict.code, agent.verdict.text.clone());
        let name = agent.name.clone();
        let Some(hop_id) = self.put_back(id) else { return };
        let Some(hop) = self.hops.get_mut(&hop_id) else { return };
        if hop.residue.is_some() {
            hop.note(format!("typing was interrupted: {name} {words}"));
        }
        hop.info.state = HopState::Queued;
        hop.reason(now, code, format!("{name} {words}"));
        self.record(hop_id, None);
        self.publish_hop(hop_id);
    }

    /// Takes a delivery that has not pressed Enter back into the queue. Bytes that have not reached
    /// the terminal are dropped.
    pub(super) fn put_back(&mut self, id: AgentId) -> Option<HopId> {
        let agent = self.agents.get_mut(&id)?;
        if agent.delivery.as_ref().is_none_or(Delivery::entered) {
            return None;
        }
        let delivery = agent.delivery.take()?;
        agent.queue.push_front(delivery.hop);
        let hop = self.hops.get_mut(&delivery.hop)?;
        let before = hop.residue.take();
        let pending = match delivery.stage {
            Stage::Writing(token) => delivery.chunks.get(delivery.next).map(|c| (token, c.clone())),
            _ => None,
        };
        hop.residue = if delivery.typed.is_empty() && pending.is_none() {
            before
        } else {
            Some(Residue { typed: delivery.typed, open_paste: false, pending })
        };
        self.out.push(Effect::DropWrites { agent: id });
        self.out.push(Effect::HoldSize { agent: id, hold: false });
        Some(delivery.hop)
    }

    /// A person typed into the agent while a hop was being typed: the hop stops for good.
    pub(super) fn human_took_over(&mut self, id: AgentId) {
        let Some(agent) = self.agents.get(&id) else { return };
        let name = agent.name.clone();
        let Some(delivery) = agent.delivery.as_ref().filter(|d| !d.entered()) else { return };
        let begun = !delivery.typed.is_empty() || matches!(delivery.stage, Stage::Writing(_));
        let Some(hop) = self.put_back(id) else { return };
        if !begun {
            return;
        }
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.queue.retain(|h| *h != hop);
        }
        let text = format!("a person typed into {name} while the text was being typed");
        self.finish(hop, HopState::Stopped, "human_took_over", &text);
    }

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
}
