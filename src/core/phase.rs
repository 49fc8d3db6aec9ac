//! An agent's phase, from all that was seen of it.
//!
//! Refuses to guess: `idle` needs a composer on the screen and no evidence of anything else.

use super::agent::{Agent, Verdict};
use super::dialect::{OscState, StatusState};
use super::timing::Timing;
use crate::proto::{Phase, Rung};

/// How long after a turn's beginning an interrupt's mark on the screen may be the one of the turn
/// before: until then a row of it may still stand where the new echo will be drawn.
const INTERRUPT_MS: u64 = 2_000;

/// When an idle status of the time `says`, after a turn's beginning at `at`, can be believed. One
/// that comes right after the beginning may still be about the turn before (the file lags), so it
/// must have stood for a while; a prompt that was refused at once, or an early Esc, leaves one too.
fn status_counts(says: u64, at: u64, timing: &Timing) -> u64 {
    if says >= at + timing.status_lag_ms { says } else { says + 4 * timing.status_lag_ms }
}

impl Agent {
    /// The title's claim.
    pub(super) fn title_says(&self, rung_on: bool) -> Option<Phase> {
        let title = self.view.as_ref().map(|v| v.title.as_str()).filter(|t| !t.is_empty())?;
        let rules = &self.profile.evidence;
        let says =
            |p: &Option<super::profile::Pattern>| p.as_ref().is_some_and(|p| p.is_match(title));
        if says(&rules.title_asking) {
            return Some(Phase::Asking);
        }
        if !rung_on {
            return None;
        }
        if says(&rules.title_busy) {
            return Some(Phase::Busy);
        }
        says(&rules.title_idle).then_some(Phase::Idle)
    }

    /// What the agent is doing.
    ///
    /// Anything that says `asking` wins; then anything live that says busy; then the newest of the
    /// claims; `idle` needs all of them and a composer.
    pub fn assess(&self, now: u64, timing: &Timing) -> Verdict {
        if self.exit.is_some() {
            return Verdict::new(Phase::Exited, Rung::None, "exited", self.exit_text());
        }
        if self.restarting || self.closing {
            // What its screen still shows says nothing about what is there in a moment.
            let text = "is being ended";
            return Verdict::new(Phase::Unknown, Rung::None, "ending", text);
        }
        if let Some(v) = self.asking() {
            return v;
        }
        if let Some(v) = self.busy(now, timing) {
            return v;
        }
        if let Some(v) = self.not_idle(now, timing) {
            return v;
        }
        let seen = &self.seen;
        let rung = if self.uses(Rung::Hook) && seen.hook_open.is_some() {
            Rung::Hook
        } else if self.uses(Rung::Record) && seen.record_open.is_some() {
            Rung::Record
        } else if self.uses(Rung::Status) && seen.status.is_some() {
            Rung::Status
        } else if self.uses(Rung::Osc) && seen.osc.is_some() {
            Rung::Osc
        } else if self.title_says(self.uses(Rung::Title)) == Some(Phase::Idle) {
            Rung::Title
        } else if self.is_line() {
            Rung::Foreground
        } else {
            Rung::Screen
        };
        Verdict::new(Phase::Idle, rung, "idle", "waits for a prompt")
    }

    pub(super) fn exit_text(&self) -> String {
        if let Some(lost) = &self.lost {
            return lost.clone();
        }
        match self.exit {
            Some(code) if code > 128 => format!("ended by signal {}", code - 128),
            Some(code) => format!("ended with exit code {code}"),
            None => String::new(),
        }
    }

    pub(super) fn asking(&self) -> Option<Verdict> {
        let asks = |rung, text: String| Verdict::new(Phase::Asking, rung, "asks", text);
        // Every text goes on after the agent's name, as in "b asks a person".
        let asks_a_person = || "asks a person".to_owned();
        if let Some(row) = &self.facts.dialog {
            return Some(asks(Rung::Screen, format!("asks: {row}")));
        }
        let status = self.seen.status.filter(|_| self.uses(Rung::Status));
        if status.is_some_and(|s| s.says == StatusState::Waiting) {
            return Some(asks(Rung::Status, asks_a_person()));
        }
        let osc = self.seen.osc.filter(|_| self.uses(Rung::Osc));
        if osc.is_some_and(|s| s.says == OscState::Blocked) {
            return Some(asks(Rung::Osc, asks_a_person()));
        }
        if self.title_says(self.uses(Rung::Title)) == Some(Phase::Asking) {
            return Some(asks(Rung::Title, asks_a_person()));
        }
        let permission = self.seen.permission.as_ref().filter(|_| self.uses(Rung::Hook))?;
        // The dialog is gone when the status file says something else since.
        if status.is_some_and(|s| s.at > permission.at) {
            return None;
        }
        Some(asks(Rung::Hook, format!("asks for permission to use {}", permission.tool)))
    }

    /// Anything that says that a turn is open. Safety first: the title and the screen count here
    /// even when they are not rungs of the profile's ladder.
    pub(super) fn busy(&self, now: u64, timing: &Timing) -> Option<Verdict> {
        let busy = |rung, text: &str| Some(Verdict::new(Phase::Busy, rung, "busy", text));
        let seen = &self.seen;
        let hook = seen.hook_open.filter(|_| self.uses(Rung::Hook));
        let record = seen.record_open.filter(|_| self.uses(Rung::Record));
        let status = seen.status.filter(|_| self.uses(Rung::Status));
        let osc = seen.osc.filter(|_| self.uses(Rung::Osc));
        let over =
            self.turn.as_ref().is_some_and(|t| t.stopped || t.record_end || t.broken.is_some());
        // Esc ends a turn without a Stop (claude 2.1.197, 2.1.332): later claims of the others count.
        let closed_after = |at: u64| {
            over || status.is_some_and(|s| {
                matches!(s.says, StatusState::Idle | StatusState::Background)
                    && s.at > at
                    && now >= status_counts(s.at, at, timing)
            }) || record.is_some_and(|r| !r.says && r.at > at)
                || osc.is_some_and(|o| o.says != OscState::Working && o.at > at)
                || hook.is_some_and(|h| !h.says && h.at > at)
                // A row of the turn before may still stand where the new echo will be drawn.
                || (now >= at + INTERRUPT_MS && self.interrupted_on_screen())
        };
        if let Some(h) = hook.filter(|h| h.says)
            && !closed_after(h.at)
        {
            return busy(Rung::Hook, "has a turn open");
        }
        if status.is_some_and(|s| s.says == StatusState::Busy) {
            return busy(Rung::Status, "has a turn open");
        }
        if osc.is_some_and(|o| o.says == OscState::Working) {
            if self.has_record() && !seen.osc_ready && self.turn.is_none() {
                // Its start is work, too (codex 0.171.0); a turn that begins with it shows in the record.
                return Some(Verdict::new(Phase::Busy, Rung::Osc, "startup", "is starting"));
            }
            return busy(Rung::Osc, "has a turn open");
        }
        if let Some(r) = record.filter(|r| r.says)
            && !closed_after(r.at)
        {
            return busy(Rung::Record, "has a turn open");
        }
        if self.title_says(true) == Some(Phase::Busy) {
            return busy(Rung::Title, "works, says its title");
        }
        if let Some(row) = &self.facts.busy {
            return Some(Verdict::new(Phase::Busy, Rung::Screen, "busy", format!("shows: {row}")));
        }
        if hook.is_some() && seen.background > 0 {
            return Some(Verdict::new(
                Phase::Busy,
                Rung::Hook,
                "background",
                format!("runs {} background tasks, whose end starts a turn", seen.background),
            ));
        }
        if status.is_some_and(|s| s.says == StatusState::Background) {
            let text = "runs a background task, whose end starts a turn";
            return Some(Verdict::new(Phase::Busy, Rung::Status, "background", text));
        }
        if self.is_line() {
            let view = self.view.as_ref();
            if view.is_some_and(|v| v.foreground == Some(false)) {
                return busy(Rung::Foreground, "runs a command");
            }
            // A builtin (`read`, a loop) runs in the shell's own process.
            if seen.command {
                return busy(Rung::Osc, "says that a command runs");
            }
            // One that marks its prompts may have been told to do without bracketed paste.
            if seen.brackets && !seen.marks && view.is_some_and(|v| !v.bracketed_paste) {
                let text = "runs something, or has no bracketed paste any more (restart it then)";
                return busy(Rung::Screen, text);
            }
        }
        None
    }

    /// What stands between "nothing says busy" and idle.
    pub(super) fn not_idle(&self, now: u64, timing: &Timing) -> Option<Verdict> {
        let taken = self.view.as_ref().is_some_and(|v| v.foreground == Some(false));
        if self.spawn.adopt.is_some() && !self.is_line() && taken {
            // Stopped (CTRL-Z) or behind another job: its composer may still be on the screen, but
            // what is typed goes elsewhere.
            let text = "is not in the foreground of its terminal";
            return Some(Verdict::new(Phase::Unknown, Rung::Foreground, "not_foreground", text));
        }
        if self.facts.composer.is_none() {
            return Some(if self.ready {
                let text = "shows something that no rule knows (login, question, update notice, …)";
                Verdict::new(Phase::Unknown, Rung::Screen, "unknown_screen", text)
            } else {
                let text = "has not shown its composer yet";
                Verdict::new(Phase::Starting, Rung::Screen, "starting", text)
            });
        }
        if let Some(at) = self.human_submit
            && now < at + timing.human_submit_ms
        {
            let text = "has just got an Enter from a person";
            return Some(Verdict::new(Phase::Unknown, Rung::Screen, "just_submitted", text));
        }
        if let Some(at) = self.accepted_at
            && now < at + timing.human_submit_ms
            && self.turn_row_matching(&self.profile.screen.done).is_none()
        {
            let text = "has just begun a turn";
            return Some(Verdict::new(Phase::Unknown, Rung::Screen, "just_submitted", text));
        }
        let asked = if self.verdict.phase == Phase::Asking { Some(now) } else { self.asked_at };
        if let Some(at) = asked
            && now < at + timing.dialog_ms
        {
            let text = "has just closed a dialog";
            return Some(Verdict::new(Phase::Unknown, Rung::Screen, "just_answered", text));
        }
        let own = self.view.as_ref().is_some_and(|v| v.foreground == Some(true));
        let told = self.uses(Rung::Osc) && self.seen.osc.is_some();
        if self.is_line() && !own && !told {
            let text = "does not say which program has its terminal";
            return Some(Verdict::new(Phase::Unknown, Rung::Foreground, "no_foreground", text));
        }
        if let Some(base) = self.line_base.as_ref().filter(|b| self.unfinished(&b.prompt)) {
            let text = format!("waits for the rest of a command at {:?}", base.prompt);
            return Some(Verdict::new(Phase::Unknown, Rung::Screen, "unfinished_command", text));
        }
        if self.is_line() && now < self.changed + timing.shell_quiet_ms {
            return Some(Verdict::new(Phase::Busy, Rung::Foreground, "output", "writes output"));
        }
        None
    }

    /// The last rows of the turn's own output say: interrupted. Further up it could be the mark of a
    /// tool that was refused in a turn that went on.
    pub(super) fn interrupted_on_screen(&self) -> bool {
        let patterns = &self.profile.screen.interrupted;
        if patterns.is_empty() {
            return false;
        }
        let rows = self.turn_rows();
        let last = rows.iter().rev().filter(|l| !l.trim().is_empty()).take(3);
        last.into_iter().any(|l| patterns.iter().any(|p| p.is_match(l)))
    }

    /// When the phase could change without a new input.
    pub fn deadline(&self, now: u64, timing: &Timing) -> Option<u64> {
        let mut at = Vec::new();
        at.extend(self.human_submit.map(|t| t + timing.human_submit_ms));
        at.extend(self.accepted_at.map(|t| t + timing.human_submit_ms));
        at.extend(self.asked_at.map(|t| t + timing.dialog_ms));
        for open in [self.seen.hook_open, self.seen.record_open].into_iter().flatten() {
            if open.says {
                at.push(open.at + INTERRUPT_MS);
                at.extend(self.seen.status.map(|s| status_counts(s.at, open.at, timing)));
            }
        }
        if self.is_line() {
            at.push(self.changed + timing.shell_quiet_ms);
        }
        at.into_iter().filter(|t| *t > now).min()
    }
}
