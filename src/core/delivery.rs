//! Typing a hop into its target: the one place where bytes are made for an agent.
//!
//! What it decides: when the first byte may go, when the next line may, when Enter may, and what
//! to do when something comes between. What it refuses: to type while the target is anything but
//! idle, to press Enter unless the text stands in the composer on a screen that was drained just
//! now, to press it a third time, to touch a composer that holds anything it did not type itself.

use super::agent::Paste;
use super::commands::resume_command;
use super::hop::{Hop, Left, PASTE_END, PASTE_START};
use super::hub::Hub;
use super::timing::Timing;
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
    /// They are pastes: the program must still want them when they are written.
    pub bracketed: bool,
    /// What reached the terminal, write by write, without paste marks.
    pub typed: Vec<String>,
    /// Where it stands.
    pub stage: Stage,
    /// When the write or look that is under way began.
    pub asked: u64,
    /// Bytes the agent had written before the last write: fresh evidence of it needs more.
    pub bytes: u64,
    /// The same before the write or the Enter that is under way, or was the last.
    pub bytes_now: u64,
    /// The Enter that is under way is being taken back.
    pub dropping: bool,
    /// When Enter was sent.
    pub entered_at: u64,
    /// What the screen showed then, for acceptance by the screen.
    pub before: Before,
    /// Enters sent.
    pub enters: u32,
}

/// What the screen showed when Enter was sent.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// The composer's place, as an absolute row.
    pub row: u64,
    /// How often the text stood above it already.
    pub times: usize,
}

impl Delivery {
    /// Whether Enter has been sent (or is on its way).
    pub fn entered(&self) -> bool {
        self.enters > 0
    }

    /// Whether a byte of text has been written or is on its way.
    pub fn begun(&self) -> bool {
        !self.typed.is_empty() || matches!(self.stage, Stage::Writing(_))
    }

    /// When it wants to be driven. Nothing is waited for without an end.
    pub fn deadline(&self, timing: &Timing) -> u64 {
        match self.stage {
            Stage::Gap(at) | Stage::Settle(at, _) | Stage::Clearing(_, at) => at,
            Stage::Submitted(_, second, until) => second.map_or(until, |s| s.min(until)),
            _ => self.asked + timing.write_ms,
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
pub(super) fn inner(chunk: &str) -> &str {
    chunk.strip_prefix(PASTE_START).and_then(|c| c.strip_suffix(PASTE_END)).unwrap_or(chunk)
}

impl Hub {
    /// What a person or the host holds a hop back for, whatever its target does; code and words.
    pub(super) fn held_back(&self, project: &str, hop: &Hop) -> Option<(String, String)> {
        let because = |code: &str, text: String| Some((code.to_owned(), text));
        if let Some(error) = &self.store_error {
            return because("store", format!("the store cannot write: {error}"));
        }
        if self.paused.contains(project) {
            return because("paused", "paused; :Mado resume goes on".to_owned());
        }
        for route in hop.routes().filter_map(|r| self.routes.get(&r)) {
            match route.state() {
                RouteState::Paused => {
                    let text = "its route is paused; :Mado resume goes on";
                    return because("paused", text.to_owned());
                }
                RouteState::Held => {
                    let text = "no editor is attached to this project";
                    return because("no_editor", text.to_owned());
                }
                RouteState::Active | RouteState::Stopped => {}
            }
        }
        if hop.confirm {
            let text = format!("waits for your yes: {}", resume_command(hop.id()));
            return because("confirm", text);
        }
        None
    }

    /// Why a hop may not be typed into an agent now; code and words.
    pub(super) fn waits_for(&self, agent: &Agent, hop: HopId) -> Option<(String, String)> {
        let because = |code: &str, text: String| Some((code.to_owned(), text));
        let hop = self.hops.get(&hop)?;
        let name = &agent.name;
        if let Some(held) = self.held_back(&agent.project, hop) {
            return Some(held);
        }
        if self.gate && agent.verdict.phase != Phase::Idle {
            return because(agent.verdict.code, format!("{name} {}", agent.verdict.text));
        }
        if agent.extract.is_some() {
            return because("reading_answer", format!("{name}'s last answer is being read"));
        }
        if self.now.mono < self.settled_at(agent) {
            return because("settling", format!("{name} has just become idle"));
        }
        if agent.human_at.is_some_and(|at| self.now.mono < at + self.timing.human_ms) {
            return because("human", format!("a person is typing into {name}"));
        }
        if agent.paste != Paste::Closed {
            return because("leftover", format!("{name} is still inside an interrupted paste"));
        }
        let unseen = |l: &Left| {
            let may_come = self.now.mono < l.at + self.timing.echo_ms;
            may_come && !l.shown && !agent.filled() && l.unseen() == 0
        };
        if let Some(left) = &agent.left
            && (left.pending.is_some()
                || agent.view.as_ref().is_none_or(|v| v.bytes <= left.bytes)
                || unseen(left))
        {
            let text = format!("{name} has not shown yet what was typed before");
            return because("leftover", text);
        }
        if agent.left.as_ref().is_some_and(|l| self.now.mono < self.told_at(l)) {
            return because("cut_off", format!("typing into {name} was cut off"));
        }
        if agent.draft() {
            let own = |l: &Left| l.hop == hop.id() && !l.pieces.is_empty();
            if !agent.left.as_ref().is_some_and(own) {
                return because("draft", format!("{name}'s composer holds a draft"));
            }
        } else if let Some(left) = agent.left.as_ref().filter(|l| l.hop != hop.id())
            && agent.filled()
        {
            let text = format!("{name}'s composer holds what is left of hop {}", left.hop);
            return because("leftover", text);
        }
        let bracketed = agent.view.as_ref().is_some_and(|v| v.bracketed_paste);
        // Typed as keys, a newline runs what stands before it, and a tab completes it.
        let keys = hop.info.prompt.as_ref().is_some_and(|p| p.contains(['\n', '\t']));
        let line = agent.profile.composer.kind == ComposerKind::Line;
        if !bracketed && (!line || keys) {
            let text =
                format!("{name} has not asked for bracketed paste, so text could be taken as keys");
            return because("no_bracketed_paste", text);
        }
        self.rated(&agent.project, hop)
    }

    /// When a key would have been told that made the terminal give a write up.
    pub(super) fn told_at(&self, left: &Left) -> u64 {
        if left.refused { left.at + self.timing.settle_ms } else { 0 }
    }

    /// When an idle agent has been idle for long enough. One whose own signals have not spoken yet
    /// (it has just started) gets more time.
    pub(super) fn settled_at(&self, agent: &Agent) -> u64 {
        let seen = &agent.seen;
        let speaks = agent.uses(Rung::Hook)
            || agent.uses(Rung::Record)
            || agent.uses(Rung::Status)
            || agent.uses(Rung::Osc);
        let heard = seen.hook_open.is_some()
            || seen.record_open.is_some()
            || seen.status.is_some()
            || seen.osc.is_some();
        let unheard = agent.profile.evidence.unheard_ms.unwrap_or(self.timing.unheard_ms);
        let wait = if speaks && !heard { unheard } else { self.timing.settle_ms };
        agent.since + wait
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
            self.tell_rate(id);
        }
        changed
    }

    fn begin(&mut self, id: AgentId, hop_id: HopId) {
        let token = self.token();
        let (Some(agent), Some(hop)) = (self.agents.get_mut(&id), self.hops.get(&hop_id)) else {
            return;
        };
        agent.queue.retain(|h| *h != hop_id);
        let Some(prompt) = hop.info.prompt.clone() else {
            self.finish(hop_id, HopState::Failed, "no_prompt", "it was left before it had a text");
            return;
        };
        if let Some(left) = agent.left.as_mut() {
            left.refused = false;
        }
        let bracketed = agent.view.as_ref().is_some_and(|v| v.bracketed_paste);
        let lines = prompt.matches('\n').count() + 1;
        let paste = hop.paste.unwrap_or(lines > agent.profile.submit.paste_above);
        agent.delivery = Some(Delivery {
            hop: hop_id,
            chunks: chunks(&prompt, bracketed, paste),
            text: prompt,
            next: 0,
            bracketed,
            typed: Vec::new(),
            stage: Stage::Look(token),
            asked: self.now.mono,
            bytes: 0,
            bytes_now: 0,
            dropping: false,
            entered_at: 0,
            before: Before::default(),
            enters: 0,
        });
        let project = agent.project.clone();
        self.count_rate(&project, hop_id);
        self.out.push(Effect::HoldSize { agent: id, hold: true });
        self.out.push(Effect::Check { agent: id, token });
    }
}
