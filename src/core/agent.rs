//! One agent: its evidence, its phase, its turns.
//!
//! Decides what an agent is doing from what was seen of it. Refuses to guess: `idle` needs a
//! composer on the screen and no evidence of anything else.

use super::dialect::{OscState, StatusState};
use super::profile::{ComposerKind, Profile};
use super::screen::{self, Facts, LineBase, OutputLog};
use super::timing::Timing;
use crate::core::delivery::Delivery;
use crate::core::io::Spawn;
use crate::proto::screen::ScreenView;
use crate::proto::{AgentId, AgentInfo, ChainId, HopId, Phase, RouteId, Rung};
use std::collections::{BTreeMap, VecDeque};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// By itself.
    Completed,
    /// A person interrupted it.
    Interrupted,
    /// With an error; the message.
    Failed(String),
    /// Another prompt took its place before it ended.
    Superseded,
}

/// One turn of an agent: from a prompt to its end.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Counts the agent's turns.
    pub seq: u64,
    /// The record's id for it.
    pub id: Option<String>,
    /// Its prompt, where a record or hook named it.
    pub prompt: Option<String>,
    /// The chain it belongs to.
    pub chain: ChainId,
    /// Hops of the chain before it.
    pub depth: u32,
    /// The hop that opened it.
    pub hop: Option<HopId>,
    /// When it began, monotonic milliseconds.
    pub started: u64,
    /// Absolute number of the row at which its output begins.
    pub mark: u64,
    /// A hook said that it stopped.
    pub stopped: bool,
    /// The answer which that hook named.
    pub stop: Option<String>,
    /// The record said that it ended.
    pub record_end: bool,
    /// The record or a hook said that it was interrupted or failed.
    pub broken: Option<Outcome>,
    /// Texts of the answer so far, by message, from the record.
    pub texts: Vec<(String, String)>,
    /// How it ended, by which evidence, when.
    pub ended: Option<(Outcome, Rung, u64)>,
    /// Keyword matches that have fired, per route.
    pub matches: BTreeMap<RouteId, usize>,
    /// Output that `always` has sent on, per route: entries of `texts`, or lines.
    pub streamed: BTreeMap<RouteId, usize>,
}

/// A claim of a rung: what it says, since when (monotonic milliseconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim<T> {
    /// What it says.
    pub says: T,
    /// When it said so.
    pub at: u64,
}

/// What has been seen of an agent beside its screen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Hooks: a turn is open, or not.
    pub hook_open: Option<Claim<bool>>,
    /// Background tasks that the last `Stop` named.
    pub background: usize,
    /// A permission is asked for; the tool.
    pub permission: Option<(String, u64)>,
    /// The status file.
    pub status: Option<Claim<StatusState>>,
    /// OSC 7501.
    pub osc: Option<Claim<OscState>>,
    /// The transcript: a turn is open, or not.
    pub record_open: Option<Claim<bool>>,
}

/// Why a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The phase.
    pub phase: Phase,
    /// The evidence.
    pub rung: Rung,
    /// Stable code.
    pub code: &'static str,
    /// In words.
    pub text: String,
}

impl Verdict {
    fn new(phase: Phase, rung: Rung, code: &'static str, text: impl Into<String>) -> Self {
        Verdict { phase, rung, code, text: text.into() }
    }
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its name, unique in its project.
    pub name: String,
    /// Its project.
    pub project: String,
    /// What is known of its program.
    pub profile: Profile,
    /// How it was started, for a restart.
    pub spawn: Spawn,
    /// The PTY child.
    pub pid: u32,
    /// Exit code (or 128 + signal) once it has ended.
    pub exit: Option<i32>,
    /// Ended because somebody asked for it.
    pub closing: bool,
    /// Start again once it has ended.
    pub restarting: bool,
    /// Its session as its records name it.
    pub session: Option<String>,
    /// Viewers now.
    pub viewers: usize,
    /// The last view.
    pub view: Option<ScreenView>,
    /// What it says.
    pub facts: Facts,
    /// A shell's prompt.
    pub line_base: Option<LineBase>,
    /// Where the next turn's output begins: the composer's place when the agent was last idle.
    pub idle_mark: u64,
    /// What left the screen.
    pub log: OutputLog,
    /// When the rows outside composer and footer last changed.
    pub changed: u64,
    /// Those rows.
    rows: Vec<String>,
    /// Its composer has been seen once.
    pub ready: bool,
    /// Other evidence.
    pub seen: Seen,
    /// When a person last typed into it.
    pub human_at: Option<u64>,
    /// A person typed since the last Enter of theirs.
    pub human_dirty: bool,
    /// A person pressed Enter while no turn was open: the next turn begins a new chain.
    pub human_prompted: bool,
    /// A person pressed Enter and no evidence of a turn has come since.
    pub human_submit: Option<u64>,
    /// The open turn.
    pub turn: Option<Turn>,
    /// The last ended turn.
    pub last_turn: Option<Turn>,
    /// Ids of turns that have ended, newest last: late record lines must not open them again.
    pub old_turns: VecDeque<String>,
    /// Counts turns.
    pub turns: u64,
    /// The chain of its last turn.
    pub chain: Option<(ChainId, u32)>,
    /// Its last answer.
    pub answer: Option<LastAnswer>,
    /// The phase now.
    pub verdict: Verdict,
    /// Since when, monotonic.
    pub since: u64,
    /// Since when, milliseconds since the epoch.
    pub since_wall: u64,
    /// Hops waiting for it, in order.
    pub queue: VecDeque<HopId>,
    /// The hop being typed.
    pub delivery: Option<Delivery>,
    /// Extractions under way.
    pub extract: Option<Extraction>,
    /// What was last published.
    pub published: Option<AgentInfo>,
}

/// An agent's last answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAnswer {
    /// Its text.
    pub text: String,
    /// The turn's number.
    pub seq: u64,
    /// The turn's id.
    pub turn: Option<String>,
    /// Where it was read.
    pub rung: Rung,
}

/// An answer being looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extraction {
    /// The ended turn's number.
    pub seq: u64,
    /// The effect's number, while one is under way.
    pub token: Option<u64>,
    /// When to ask again.
    pub retry: u64,
    /// When to give up.
    pub until: u64,
    /// When a matching answer without an end mark is taken.
    pub lenient: u64,
}

impl Agent {
    /// An agent about to be started.
    pub fn new(spawn: Spawn, now: u64, wall: u64) -> Agent {
        Agent {
            id: spawn.agent,
            name: spawn.name.clone(),
            project: spawn.project.clone(),
            profile: spawn.profile.clone(),
            spawn,
            pid: 0,
            exit: None,
            closing: false,
            restarting: false,
            session: None,
            viewers: 0,
            view: None,
            facts: Facts::default(),
            line_base: None,
            idle_mark: 0,
            log: OutputLog::default(),
            changed: now,
            rows: Vec::new(),
            ready: false,
            seen: Seen::default(),
            human_at: None,
            human_dirty: false,
            human_prompted: false,
            human_submit: None,
            turn: None,
            last_turn: None,
            old_turns: VecDeque::new(),
            turns: 0,
            chain: None,
            answer: None,
            verdict: Verdict::new(Phase::Starting, Rung::None, "starting", "the program starts"),
            since: now,
            since_wall: wall,
            queue: VecDeque::new(),
            delivery: None,
            extract: None,
            published: None,
        }
    }

    /// Whether a rung counts for this agent.
    pub fn uses(&self, rung: Rung) -> bool {
        self.profile.evidence.rungs.contains(&rung)
    }

    /// Whether its answers come from a record.
    pub fn has_record(&self) -> bool {
        self.profile.records.dialect != super::profile::Dialect::None && self.uses(Rung::Record)
    }

    fn is_line(&self) -> bool {
        self.profile.composer.kind == ComposerKind::Line
    }

    /// Takes a view.
    pub fn look(&mut self, view: ScreenView, now: u64) {
        self.log.take(&view);
        if self.is_line() {
            let own = view.foreground != Some(false) && !view.alt_screen;
            let typed = self.delivery.as_ref().is_some_and(|d| !d.typed.is_empty());
            let moved = self
                .line_base
                .as_ref()
                .is_none_or(|b| b.row != view.scrolled + view.cursor.0 as u64);
            if own && !self.human_dirty && !typed && (moved || self.line_base.is_none()) {
                self.line_base = Some(LineBase::take(&view));
            }
        }
        self.facts = Facts::read(&view, &self.profile, self.line_base.as_ref());
        let until = self.facts.composer.as_ref().map_or(view.rows.len(), |c| c.top);
        let rows: Vec<String> = view
            .rows
            .iter()
            .take(until)
            .map(|r| r.text.clone())
            .filter(|t| !t.is_empty() && !self.profile.screen.chrome.iter().any(|p| p.is_match(t)))
            .collect();
        if rows != self.rows || !view.scrolled_rows.is_empty() {
            self.rows = rows;
            self.changed = now;
        }
        if self.facts.composer.is_some() {
            self.ready = true;
        }
        self.view = Some(view);
    }

    /// Whether the composer holds text that mado did not type.
    pub fn draft(&self) -> bool {
        if self.delivery.as_ref().is_some_and(|d| !d.typed.is_empty()) {
            return false;
        }
        if self.is_line() && self.human_dirty {
            return true;
        }
        self.facts.composer.as_ref().is_some_and(|c| !c.text.trim().is_empty())
    }

    /// The title's claim.
    fn title_says(&self, rung_on: bool) -> Option<Phase> {
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

    fn exit_text(&self) -> String {
        match self.exit {
            Some(code) if code > 128 => format!("ended by signal {}", code - 128),
            Some(code) => format!("ended with exit code {code}"),
            None => String::new(),
        }
    }

    fn asking(&self) -> Option<Verdict> {
        let asks = |rung, text: String| Verdict::new(Phase::Asking, rung, "asks", text);
        if let Some(row) = &self.facts.dialog {
            return Some(asks(Rung::Screen, format!("asks: {row}")));
        }
        let status = self.seen.status.filter(|_| self.uses(Rung::Status));
        if status.is_some_and(|s| s.says == StatusState::Waiting) {
            return Some(asks(Rung::Status, "a dialog waits for a person".to_owned()));
        }
        let osc = self.seen.osc.filter(|_| self.uses(Rung::Osc));
        if osc.is_some_and(|s| s.says == OscState::Blocked) {
            return Some(asks(Rung::Osc, "a dialog waits for a person".to_owned()));
        }
        if self.title_says(self.uses(Rung::Title)) == Some(Phase::Asking) {
            return Some(asks(Rung::Title, "a dialog waits for a person".to_owned()));
        }
        let (tool, at) = self.seen.permission.as_ref().filter(|_| self.uses(Rung::Hook))?;
        // The dialog is gone when the status file says something else since.
        if status.is_some_and(|s| s.at > *at) {
            return None;
        }
        Some(asks(Rung::Hook, format!("asks for permission to use {tool}")))
    }

    /// Anything that says that a turn is open. Safety first: the title and the screen count here
    /// even when they are not rungs of the profile's ladder.
    fn busy(&self, now: u64, timing: &Timing) -> Option<Verdict> {
        let busy = |rung, text: &str| Some(Verdict::new(Phase::Busy, rung, "busy", text));
        let seen = &self.seen;
        let hook = seen.hook_open.filter(|_| self.uses(Rung::Hook));
        let record = seen.record_open.filter(|_| self.uses(Rung::Record));
        let status = seen.status.filter(|_| self.uses(Rung::Status));
        let osc = seen.osc.filter(|_| self.uses(Rung::Osc));
        // Esc ends a turn without a Stop (claude 2.1.197, 2.1.332): later claims of the others count.
        let closed_after = |at: u64| {
            status.is_some_and(|s| {
                matches!(s.says, StatusState::Idle | StatusState::Background)
                    && s.at >= at + timing.status_lag_ms
            }) || record.is_some_and(|r| !r.says && r.at > at)
                || osc.is_some_and(|o| o.says != OscState::Working && o.at > at)
                || hook.is_some_and(|h| !h.says && h.at > at)
                // A row of the turn before may still stand where the new echo will be drawn.
                || (now > at + 2_000 && self.interrupted_on_screen())
        };
        if let Some(h) = hook.filter(|h| h.says)
            && !closed_after(h.at)
        {
            return busy(Rung::Hook, "a turn is open");
        }
        if status.is_some_and(|s| s.says == StatusState::Busy) {
            return busy(Rung::Status, "a turn is open");
        }
        if osc.is_some_and(|o| o.says == OscState::Working) {
            return busy(Rung::Osc, "a turn is open");
        }
        if let Some(r) = record.filter(|r| r.says)
            && !closed_after(r.at)
        {
            return busy(Rung::Record, "a turn is open");
        }
        if self.title_says(true) == Some(Phase::Busy) {
            return busy(Rung::Title, "its title says that it works");
        }
        if let Some(row) = &self.facts.busy {
            return Some(Verdict::new(Phase::Busy, Rung::Screen, "busy", format!("shows: {row}")));
        }
        if hook.is_some() && seen.background > 0 {
            return Some(Verdict::new(
                Phase::Busy,
                Rung::Hook,
                "background",
                format!("{} background tasks run; their end starts a turn", seen.background),
            ));
        }
        if status.is_some_and(|s| s.says == StatusState::Background) {
            let text = "a background task runs; its end starts a turn";
            return Some(Verdict::new(Phase::Busy, Rung::Status, "background", text));
        }
        if self.is_line() && self.view.as_ref().is_some_and(|v| v.foreground == Some(false)) {
            return busy(Rung::Foreground, "a command runs");
        }
        None
    }

    /// What stands between "nothing says busy" and idle.
    fn not_idle(&self, now: u64, timing: &Timing) -> Option<Verdict> {
        if self.facts.composer.is_none() {
            return Some(if self.ready {
                let text = "shows something that no rule knows (login, question, update notice, …)";
                Verdict::new(Phase::Unknown, Rung::Screen, "unknown_screen", text)
            } else {
                let text = "its composer has not been seen yet";
                Verdict::new(Phase::Starting, Rung::Screen, "starting", text)
            });
        }
        if let Some(at) = self.human_submit
            && now < at + timing.human_submit_ms
        {
            let text = "a person has just pressed Enter in it";
            return Some(Verdict::new(Phase::Unknown, Rung::Screen, "just_submitted", text));
        }
        if self.is_line() && now < self.changed + timing.shell_quiet_ms {
            return Some(Verdict::new(Phase::Busy, Rung::Foreground, "output", "writes output"));
        }
        None
    }

    /// The last mark on the turn's own output says: interrupted.
    fn interrupted_on_screen(&self) -> bool {
        let patterns = &self.profile.screen.interrupted;
        !patterns.is_empty()
            && self.turn_rows().iter().any(|l| patterns.iter().any(|p| p.is_match(l)))
    }

    /// The open turn, else the last one.
    pub fn current_turn(&self) -> Option<&Turn> {
        self.turn.as_ref().or(self.last_turn.as_ref())
    }

    /// The same, to change it.
    pub fn current_turn_mut(&mut self) -> Option<&mut Turn> {
        self.turn.as_mut().or(self.last_turn.as_mut())
    }

    fn turn_lines(&self) -> Vec<screen::Line> {
        let (Some(view), Some(turn)) = (self.view.as_ref(), self.current_turn()) else {
            return Vec::new();
        };
        let until = self.facts.composer.as_ref().map_or(view.rows.len(), |c| c.top);
        self.log.lines(view, self.turn_from(view, turn, until), until)
    }

    /// The rows of the open (or last) turn.
    fn turn_rows(&self) -> Vec<String> {
        self.turn_lines().into_iter().map(|l| l.text).collect()
    }

    /// The absolute row at which a turn's output begins. On the alternate screen rows have no
    /// absolute numbers: there it is the last echoed prompt, or the top when that has scrolled off.
    fn turn_from(&self, view: &ScreenView, turn: &Turn, until: usize) -> u64 {
        if !view.alt_screen {
            return turn.mark;
        }
        let echo = self.profile.screen.echo.as_ref();
        let row = view.rows[..until.min(view.rows.len())]
            .iter()
            .rposition(|r| echo.is_some_and(|e| e.is_match(&r.text)))
            .unwrap_or(0);
        view.scrolled + row as u64
    }

    /// A row of the turn that matches one of the patterns.
    pub fn turn_row_matching(&self, patterns: &[super::profile::Pattern]) -> Option<String> {
        self.turn_rows()
            .into_iter()
            .find(|l| patterns.iter().any(|p| p.is_match(l)))
            .map(|l| l.trim().to_owned())
    }

    /// The output of the open (or last) turn as the screen shows it.
    pub fn turn_output(&self) -> Vec<String> {
        screen::output_lines(&self.turn_lines(), &self.profile)
    }

    /// Width of its terminal in cells.
    pub fn cols(&self) -> usize {
        self.view.as_ref().map_or(80, |v| v.cols)
    }

    /// The composer's place now, as an absolute row.
    pub fn mark(&self) -> u64 {
        match (&self.view, &self.facts.composer, &self.line_base) {
            (Some(_), _, Some(base)) if self.is_line() => base.row,
            (Some(v), Some(c), _) => v.scrolled + c.top as u64,
            (Some(v), None, _) => v.scrolled,
            (None, ..) => 0,
        }
    }

    /// When the phase could change without a new input.
    pub fn deadline(&self, now: u64, timing: &Timing) -> Option<u64> {
        let mut at = Vec::new();
        if let Some(t) = self.human_submit {
            at.push(t + timing.human_submit_ms);
        }
        if self.is_line() {
            at.push(self.changed + timing.shell_quiet_ms);
        }
        at.into_iter().filter(|t| *t > now).min()
    }

    /// What listings show.
    pub fn info(&self) -> AgentInfo {
        AgentInfo {
            id: self.id,
            name: self.name.clone(),
            project: self.project.clone(),
            profile: self.profile.name.clone(),
            pid: self.pid,
            cwd: self.spawn.cwd.clone(),
            phase: self.verdict.phase,
            rung: self.verdict.rung,
            reason_code: self.verdict.code.to_owned(),
            reason_text: self.verdict.text.clone(),
            draft: self.draft(),
            since: self.since_wall,
            queue: self.queue.len(),
            attached: self.viewers,
            session: self.session.clone(),
            exit: self.exit,
        }
    }
}
