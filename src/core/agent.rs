//! One agent: its evidence, its phase, its turns.
//!
//! Decides what an agent is doing from what was seen of it. Refuses to guess: `idle` needs a
//! composer on the screen and no evidence of anything else.

use super::dialect::{CommandMark, OscState, StatusState};
use super::hop::Left;
use super::panel;
use super::profile::{ComposerKind, Profile};
use super::screen::{self, Composer, Facts, LineBase, OutputLog};
use super::text::Holds;
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
    /// The hops whose prompts it took: the one that opened it, and any that a program took up
    /// into the same turn from its own queue.
    pub hops: Vec<HopId>,
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
    /// Files that the record says it has changed, as the record names them; `None`: it has not said.
    pub changed: Option<Vec<String>>,
    /// How it ended, by which evidence, when.
    pub ended: Option<(Outcome, Rung, u64)>,
    /// Keyword matches that have fired, per route.
    pub matches: BTreeMap<RouteId, usize>,
    /// A person began it.
    pub human: bool,
    /// Its title said that it worked.
    pub titled: bool,
    /// Where the output begins that `always` has not sent on, per route: an index into `texts`,
    /// else an absolute row.
    pub streamed: BTreeMap<RouteId, u64>,
}

impl Turn {
    /// Adds files that it changed, each once.
    pub fn add_changed(&mut self, paths: &[String]) {
        let changed = self.changed.get_or_insert_default();
        for path in paths {
            if !changed.contains(path) {
                changed.push(path.clone());
            }
        }
    }
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
    /// A permission is asked for.
    pub permission: Option<Permission>,
    /// The status file.
    pub status: Option<Claim<StatusState>>,
    /// OSC 7501.
    pub osc: Option<Claim<OscState>>,
    /// It has reported another state than that it works: its start is over.
    pub osc_ready: bool,
    /// OSC 133: a shell runs a command.
    pub command: bool,
    /// It has marked its prompt or a command's end before.
    pub marks: bool,
    /// It marks the end of its commands. fish marks the prompt of its `read` like its own, so a prompt ends
    /// no command of such a shell.
    pub marks_end: bool,
    /// A shell has turned bracketed paste on at its prompt, as bash 5.1, zsh and fish do; they turn it off
    /// while a command runs, a builtin that reads the terminal included.
    pub brackets: bool,
    /// The transcript: a turn is open, or not.
    pub record_open: Option<Claim<bool>>,
    /// The turn of the transcript's newest prompt: what lines without a turn belong to.
    pub record_turn: Option<String>,
}

/// A hook said that a tool waits for a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// The tool.
    pub tool: String,
    /// When it was said, monotonic milliseconds.
    pub at: u64,
    /// Its dialog has been seen on the screen since.
    pub drawn: bool,
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
    pub(super) fn new(
        phase: Phase,
        rung: Rung,
        code: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Verdict { phase, rung, code, text: text.into() }
    }
}

/// Whether a paste that mado began has its end. A program that is left inside one would take a
/// person's keys as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paste {
    /// None is open.
    Closed,
    /// This is owed; it may be tried at this time.
    Owed(String, u64),
    /// This is on its way, as this write.
    Sent(String, u64),
}

impl Paste {
    /// Whether a write is the one that is on its way.
    pub fn is_sent(&self, token: u64) -> bool {
        matches!(self, Paste::Sent(_, sent) if *sent == token)
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
    /// Why the terminal of an adopted agent is out of reach.
    pub lost: Option<String>,
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
    /// The one at which it was idle for the first time.
    pub first_prompt: Option<String>,
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
    /// When a person pressed Enter while no turn was open: a turn that begins soon after begins a
    /// new chain.
    pub human_prompted: Option<u64>,
    /// When a person last pressed Enter, since the last turn that was a person's.
    pub human_enter: Option<u64>,
    /// A person pressed Enter and no evidence of a turn has come since.
    pub human_submit: Option<u64>,
    /// When a delivery was accepted by the screen alone, until more is seen of its turn.
    pub accepted_at: Option<u64>,
    /// When a dialog was last seen, until more is seen of what it led to.
    pub asked_at: Option<u64>,
    /// Prompts that were submitted but never seen to be accepted, newest last: a turn that begins
    /// with one after all still belongs to its chain.
    pub unclaimed: VecDeque<(HopId, String)>,
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
    /// What an interrupted delivery may have left in the composer.
    pub left: Option<Left>,
    /// Whether a bracketed paste of mado's is open in the program.
    pub paste: Paste,
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
    /// The turn's number; 0 when it is older than what mado has seen.
    pub seq: u64,
    /// The turn's id.
    pub turn: Option<String>,
    /// The record's id of the message that it is.
    pub message: Option<String>,
    /// Where it was read.
    pub rung: Rung,
    /// Chain and depth of its turn.
    pub chain: Option<(ChainId, u32)>,
    /// The files that its turn changed, as its record names them; `None`: its record does not tell.
    pub changed: Option<Vec<String>>,
}

/// An answer being looked for.
#[derive(Debug, Clone)]
pub struct Extraction {
    /// The ended turn.
    pub turn: Turn,
    /// The effect's number, while one is under way.
    pub token: Option<u64>,
    /// When to ask again.
    pub retry: u64,
    /// When to give up.
    pub until: u64,
    /// When a matching answer without an end mark is taken.
    pub lenient: u64,
}

/// How many ids of ended turns an agent remembers.
const OLD_TURNS: usize = 32;

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
            lost: None,
            closing: false,
            restarting: false,
            session: None,
            viewers: 0,
            view: None,
            facts: Facts::default(),
            line_base: None,
            first_prompt: None,
            idle_mark: 0,
            log: OutputLog::default(),
            changed: now,
            rows: Vec::new(),
            ready: false,
            seen: Seen::default(),
            human_at: None,
            human_dirty: false,
            human_prompted: None,
            human_enter: None,
            human_submit: None,
            accepted_at: None,
            asked_at: None,
            unclaimed: VecDeque::new(),
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
            left: None,
            paste: Paste::Closed,
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

    pub(super) fn is_line(&self) -> bool {
        self.profile.composer.kind == ComposerKind::Line
    }

    /// Applies something that names a turn which has ended to that turn, wherever it is kept.
    pub fn each_ended(&mut self, id: &str, mut apply: impl FnMut(&mut Turn)) {
        let extracting = self.extract.as_mut().map(|e| &mut e.turn);
        for turn in self.last_turn.as_mut().into_iter().chain(extracting) {
            if turn.id.as_deref() == Some(id) {
                apply(turn);
            }
        }
    }

    /// A turn has changed files: the one that is named, wherever it is kept, else the open one.
    pub fn has_changed(&mut self, name: Option<&str>, paths: &[String]) {
        let add = |t: &mut Turn| t.add_changed(paths);
        if let Some(name) = name
            && self.turn.as_ref().is_none_or(|t| t.id.as_ref().is_some_and(|id| id != name))
        {
            self.each_ended(name, add);
        } else if let Some(turn) = self.turn.as_mut() {
            add(turn);
        }
    }

    /// Learns which session it is in.
    pub fn in_session(&mut self, session: String) {
        if self.session.as_ref().is_some_and(|s| *s != session) {
            // Another transcript: what the one before left open says nothing now.
            self.seen.record_open = None;
            self.seen.record_turn = None;
        }
        self.session = Some(session);
    }

    /// Remembers the id of a turn that is over.
    pub fn turn_is_old(&mut self, id: &str) {
        if !self.old_turns.iter().any(|t| t == id) {
            self.old_turns.push_back(id.to_owned());
        }
        if self.old_turns.len() > OLD_TURNS {
            self.old_turns.pop_front();
        }
    }

    /// Whether a shell's prompt is that of a command's further lines: it looks like one, or is blank as in
    /// fish, and its first prompt did not.
    pub fn unfinished(&self, prompt: &str) -> bool {
        let (Some(first), Some(rule)) = (&self.first_prompt, &self.profile.composer.continuation)
        else {
            return false;
        };
        let further = |p: &str| p.trim().is_empty() || rule.is_match(p.trim_end());
        further(prompt) && !further(first)
    }

    /// A shell marked its prompt or a command.
    pub fn marked(&mut self, mark: CommandMark) {
        let seen = &mut self.seen;
        match mark {
            CommandMark::Runs => seen.command = true,
            CommandMark::Prompt => {
                seen.command &= seen.marks_end;
                seen.marks = true;
            }
            CommandMark::Done => {
                (seen.command, seen.marks, seen.marks_end) = (false, true, true);
            }
        }
    }

    /// Takes a view.
    pub fn look(&mut self, view: ScreenView, now: u64, echo: u64) {
        self.log.take(&view);
        if self.is_line() {
            // Whatever stands on the row is the prompt as long as neither a person nor mado has
            // typed since: programs write rows in pieces and draw prompts again.
            let own = view.foreground != Some(false) && !view.alt_screen;
            let prompts = view.foreground == Some(true) && view.bracketed_paste;
            let ran = self.view.as_ref().is_some_and(|v| v.foreground == Some(false));
            if prompts && ran {
                // A program that ran, perhaps a shell elsewhere, cannot mark anything any more.
                self.seen.command = false;
            }
            self.seen.brackets |= prompts;
            let typed = self.left.is_some() || self.delivery.as_ref().is_some_and(Delivery::begun);
            if own && !self.human_dirty && !typed {
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
        // A dialog that was drawn and is gone has been answered, even if nothing else says so: a
        // refusal calls no hook (claude 2.1.197, 2.1.332).
        let (asks, composes) = (self.facts.dialog.is_some(), self.facts.composer.is_some());
        if let Some(permission) = self.seen.permission.as_mut() {
            permission.drawn |= asks;
            if permission.drawn && !asks && composes {
                self.seen.permission = None;
            }
        }
        // Drawn anew and empty: nothing is left.
        let filled = self.filled();
        if let Some(left) = self.left.as_mut()
            && composes
            && left.pending.is_none()
            && view.bytes > left.bytes
        {
            left.shown |= filled;
            if !filled && left.unseen() == 0 && (left.shown || now >= left.at + echo) {
                self.left = None;
            }
        }
        self.view = Some(view);
    }

    /// Whether the composer holds text, whosever it is.
    pub fn filled(&self) -> bool {
        self.facts.composer.as_ref().is_some_and(Composer::filled)
    }

    /// How the composer compares to what was typed, write by write.
    pub fn holds(&self, pieces: &[String]) -> Option<Holds> {
        let composer = self.facts.composer.as_ref()?;
        let placeholder = self.profile.composer.placeholder.as_ref();
        Some(composer.holds(pieces, placeholder))
    }

    /// Whether the composer holds text that mado did not type.
    pub fn draft(&self) -> bool {
        if self.delivery.as_ref().is_some_and(Delivery::begun) {
            return false;
        }
        if self.is_line() && self.human_dirty {
            return true;
        }
        let ours = self.left.as_ref().is_some_and(|l| self.holds(&l.pieces) == Some(Holds::Ours));
        self.filled() && !ours
    }

    /// The open turn, else the last one.
    pub fn current_turn(&self) -> Option<&Turn> {
        self.turn.as_ref().or(self.last_turn.as_ref())
    }

    /// The open or the last turn, by its number.
    pub fn turn_of(&self, seq: u64) -> Option<&Turn> {
        [&self.turn, &self.last_turn].into_iter().flatten().find(|t| t.seq == seq)
    }

    /// The same, to change it.
    pub fn turn_of_mut(&mut self, seq: u64) -> Option<&mut Turn> {
        [&mut self.turn, &mut self.last_turn].into_iter().flatten().find(|t| t.seq == seq)
    }

    fn turn_lines(&self) -> Vec<screen::Line> {
        let (Some(view), Some(turn)) = (self.view.as_ref(), self.current_turn()) else {
            return Vec::new();
        };
        let until = self.facts.composer.as_ref().map_or(view.rows.len(), |c| c.top);
        let mut lines = self.log.lines(view, self.turn_from(view, turn, until), until);
        self.crop(&mut lines);
        lines
    }

    /// Leaves out what stands beside the output.
    pub(super) fn crop(&self, lines: &mut [screen::Line]) {
        let Some(cols) = self.facts.composer.as_ref().and_then(|c| c.cols) else { return };
        for line in lines {
            line.text = panel::cut(&line.text, (0, cols.1)).trim_end().to_owned();
        }
    }

    /// The rows of the open (or last) turn.
    pub(super) fn turn_rows(&self) -> Vec<String> {
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
        self.turn_output_rows().into_iter().map(|l| l.text).collect()
    }

    /// The same with the absolute rows at which its lines begin.
    pub fn turn_output_rows(&self) -> Vec<screen::Line> {
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

    /// What listings show.
    pub fn info(&self) -> AgentInfo {
        let found = self.spawn.adopt.as_ref().and_then(|a| a.found.as_ref());
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
            adopted: self.spawn.adopt.as_ref().map(|a| a.terminal.owner().to_owned()),
            place: found.map(|f| f.place.clone()),
            limits: found.map(|f| f.limits.clone()).unwrap_or_default(),
        }
    }
}
