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
use crate::proto::{AgentId, HopId, HopState, Phase, RouteState};

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
pub(super) fn composer_holds(agent: &Agent, typed: &str) -> Option<Holds> {
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

    pub(super) fn write_next(&mut self, id: AgentId) {
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
        let pauses =
            matches!(delivery.stage, Stage::Gap(_) | Stage::Settle(..) | Stage::Clearing(..));
        if self.gate && phase == Phase::Asking && pauses && !delivery.entered() {
            // At once, not at the next look: a person who answers the dialog meanwhile does not take
            // the text over.
            self.disturb(id);
            return true;
        }
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
}
