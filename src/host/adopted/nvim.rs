//! A `:terminal` of an editor.
//!
//! Neovim owns the terminal, so that every look and every write is a call of Lua there
//! (`lua/mado/adopt.lua`). Watching each line (`nvim_buf_attach`) would halve the terminal's speed;
//! instead the plugin compares the buffer's `changedtick` ten times a second, while there are adopted
//! buffers, and hands the last lines over once nothing was drawn for a moment.
//!
//! # What makes a write safe
//!
//! - *The Enter is a compare-and-swap* here too: once the buffer has stood still for a moment in which Neovim
//!   took in what came, it is read, compared with the one that was checked, and the key is sent, all within
//!   one turn of the main loop. Neovim draws a terminal at most 10 ms after its output came; on Linux the
//!   program must not have written anything for longer than that, elsewhere what is younger is not in the
//!   look. Nothing in the editor waits: a call returns at once, and what became of
//!   it is told later.
//! - *A pause is exact*: a call that is on its way cannot be taken back, so each write needs a permit, a file
//!   that is removed by whoever comes first: the call just before it writes, or the host when it
//!   gives the write up.
//! - *A person's keys* in the buffer are counted there before Neovim acts on them; a call that was
//!   decided on an older count writes nothing.

use super::{ALIVE, Common, Subject, Wanted, handle, paste, sleep_until};
use crate::core::screen::Facts;
use crate::host::editor::{Answer, Ask};
use crate::host::terminal::{Command, Dropped, Envelope, Event, TerminalHandle};
use crate::proto::screen::{Row, ScreenView};
use crate::proto::{AdoptedParams, BufferLook, Done};
use rmpv::Value;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use unicode_width::UnicodeWidthStr;

const LOOK: &str = "require('mado.adopt').look(...)";
const WRITE: &str = "require('mado.adopt').write(...)";

/// Keys that the plugin told make what changes in the composer for so long a person's, known already.
const TYPED: Duration = Duration::from_secs(2);

/// Takes over a buffer of the editor behind `asks`. What the editor tells of it goes to the sender.
///
/// Must be called within a tokio runtime.
pub fn start(
    subject: Subject,
    buffer: u64,
    asks: mpsc::Sender<Ask>,
    events: mpsc::Sender<Envelope>,
) -> (TerminalHandle, mpsc::Sender<AdoptedParams>) {
    let (handle, common) = handle(subject, events);
    let (sender, said) = mpsc::channel(64);
    let task = Task {
        common,
        buffer,
        asks,
        said,
        busy: None,
        queue: VecDeque::from([Job::Look]),
        asked: 0,
        keys: 0,
        typed: None,
        chars: 0,
        top: 0,
    };
    tokio::spawn(task.run());
    (handle, sender)
}

/// What is asked of the editor.
enum Job {
    /// The first look.
    Look,
    Check(u64),
    Snapshot(oneshot::Sender<ScreenView>),
    Write(Wanted),
}

/// What is on its way.
struct Busy {
    job: Job,
    /// Its number.
    ask: u64,
    /// Of a write.
    permit: PathBuf,
    /// It was given up, and the host knows.
    revoked: bool,
    /// What the call came to; what became of what it asks comes by itself.
    call: Option<oneshot::Receiver<Answer>>,
}

struct Task {
    common: Common,
    buffer: u64,
    asks: mpsc::Sender<Ask>,
    said: mpsc::Receiver<AdoptedParams>,
    busy: Option<Busy>,
    queue: VecDeque<Job>,
    /// The last number of what was asked.
    asked: u64,
    /// The keys of people that the plugin has told of.
    keys: u64,
    typed: Option<Instant>,
    /// Characters that people can have typed since the last Enter of theirs.
    chars: u64,
    /// Number of the first row of the last view, in the whole buffer.
    top: u64,
}

impl Task {
    async fn run(mut self) {
        let mut alive = Instant::now() + ALIVE;
        let mut dead = false;
        loop {
            self.next();
            let events = self.common.events.clone();
            let (room, over) = (!self.common.outbox.is_empty(), self.common.over);
            tokio::select! {
                biased;
                command = self.common.commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return,
                },
                permit = events.reserve_owned(), if room => match permit {
                    Ok(permit) => self.common.send(permit),
                    Err(_) => return,
                },
                said = self.said.recv() => match said {
                    Some(said) => self.told(said),
                    None => return,
                },
                called = called(&mut self.busy) => {
                    if let Some(busy) = self.busy.as_mut() {
                        busy.call = None;
                    }
                    if let Err(why) = called {
                        tracing::warn!("buffer {}: {why}", self.buffer);
                        self.done(Done { said: "failed".to_owned(), ..Done::default() });
                    }
                }
                () = self.asks.closed(), if !over => {
                    self.lost("is out of reach: its editor is gone");
                }
                () = sleep_until(alive), if !over => {
                    alive = Instant::now() + ALIVE;
                    // The editor knows better why, and says so at once.
                    if std::mem::replace(&mut dead, !self.common.subject.process.is_alive()) {
                        self.common.alive();
                    }
                }
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Write { token, bytes, guard, humans, epoch } => {
                let wanted = Wanted { token, bytes, guard, humans, epoch };
                self.queue.push_back(Job::Write(wanted));
            }
            Command::Check { token } => {
                // An older one is not waited for any more.
                self.queue.retain(|job| !matches!(job, Job::Check(_)));
                self.queue.push_back(Job::Check(token));
            }
            Command::Snapshot { reply } => self.queue.push_back(Job::Snapshot(reply)),
            Command::Dropped => self.drop_outdated(),
            Command::HoldSize(hold) => self.common.hold(hold),
            Command::Kill { .. } => self.common.released(),
            Command::Resize { .. } | Command::Colours(_) | Command::Attach(_) => {}
        }
    }

    /// Gives up what was decided before the last pause.
    fn drop_outdated(&mut self) {
        let mut kept = VecDeque::new();
        for job in std::mem::take(&mut self.queue) {
            match job {
                Job::Write(wanted) => match self.common.outdated(&wanted) {
                    Some(why) => self.common.dropped(wanted.token, why),
                    None => kept.push_back(Job::Write(wanted)),
                },
                other => kept.push_back(other),
            }
        }
        self.queue = kept;
        if let Some(Busy { job: Job::Write(wanted), permit, revoked, .. }) = self.busy.as_mut()
            && !*revoked
            && let Some(why) = self.common.outdated(wanted)
            && std::fs::remove_file(permit).is_ok()
        {
            *revoked = true;
            let token = wanted.token;
            self.common.dropped(token, why);
        }
    }

    /// Starts the next call, if none is on its way.
    fn next(&mut self) {
        while self.busy.is_none() {
            let Some(job) = self.queue.pop_front() else { return };
            if self.common.over {
                self.refuse(job);
                continue;
            }
            let mut permit = PathBuf::new();
            let (lua, argument) = match &job {
                Job::Look | Job::Snapshot(_) => (LOOK, Value::Nil),
                Job::Check(token) => (LOOK, (*token).into()),
                Job::Write(wanted) => {
                    if let Some(why) = self.refusal(wanted) {
                        self.common.dropped(wanted.token, why);
                        continue;
                    }
                    permit = self.common.subject.folder.join(format!("permit-{}", wanted.token));
                    if let Err(e) = std::fs::write(&permit, b"") {
                        tracing::error!("{} cannot be written: {e}", permit.display());
                        self.common.dropped(wanted.token, Dropped::Closed);
                        continue;
                    }
                    (WRITE, self.order(wanted, &permit))
                }
            };
            self.asked += 1;
            let (reply, call) = oneshot::channel();
            let args = vec![self.buffer.into(), self.asked.into(), argument];
            // One that cannot be put down ends its reply, which is noticed.
            let _ = self.asks.try_send(Ask { lua, args, reply });
            self.busy =
                Some(Busy { job, ask: self.asked, permit, revoked: false, call: Some(call) });
        }
    }

    fn refuse(&mut self, job: Job) {
        match job {
            Job::Write(wanted) => self.common.dropped(wanted.token, Dropped::Closed),
            Job::Snapshot(reply) => {
                let _ = reply.send(self.common.view.clone().unwrap_or_default());
            }
            Job::Look | Job::Check(_) => {}
        }
    }

    /// Why a write may not even be asked for.
    fn refusal(&self, wanted: &Wanted) -> Option<Dropped> {
        let behind = self.common.foreground() == Some(false);
        let away = behind && (wanted.guard.is_some() || !self.common.is_line());
        self.common.outdated(wanted).or(away.then_some(Dropped::ScreenChanged))
    }

    fn order(&self, wanted: &Wanted, permit: &std::path::Path) -> Value {
        let (text, is_paste) = paste(&wanted.bytes);
        let mut order: Vec<(Value, Value)> = vec![
            ("text".into(), text.into()),
            ("paste".into(), is_paste.into()),
            ("permit".into(), permit.display().to_string().into()),
            ("keys".into(), self.keys.into()),
        ];
        if let Some(guard) = wanted.guard {
            order.push(("guard".into(), guard.into()));
        }
        Value::Map(order)
    }

    /// What was asked has been done, or has failed.
    fn done(&mut self, done: Done) {
        let Some(Busy { job, permit, revoked, .. }) = self.busy.take() else { return };
        if let Job::Write(wanted) = job {
            // While it is there, nothing was written and nothing will be.
            let unused = std::fs::remove_file(&permit).is_ok();
            if !revoked {
                self.wrote(&wanted, unused, &done.said);
            }
            return self.if_gone(&done.said);
        }
        let seen = done.look.map(|look| (look.settled, self.view(look)));
        match (job, seen) {
            (Job::Look, Some((_, view))) => self.common.looked(view),
            (Job::Check(token), Some((settled, mut view))) => {
                view.unread = self.common.unread();
                self.common.tell(Event::Checked { token, view: Box::new(view), settled });
            }
            (Job::Snapshot(reply), seen) => {
                let view = seen.map(|(_, view)| view).or_else(|| self.common.view.clone());
                let _ = reply.send(view.unwrap_or_default());
            }
            _ => {}
        }
        self.if_gone(&done.said);
    }

    fn if_gone(&mut self, said: &str) {
        if said == "gone" {
            self.lost("is out of reach: its buffer was closed");
        }
    }

    /// Nothing of what was asked will be told any more.
    fn lost(&mut self, why: &str) {
        self.common.lost(why);
        self.done(Done { said: "failed".to_owned(), ..Done::default() });
    }

    fn wrote(&mut self, wanted: &Wanted, unused: bool, said: &str) {
        let why = match said {
            "written" => None,
            "changed" => Some(Dropped::ScreenChanged),
            "human" => Some(Dropped::Human),
            "revoked" => Some(Dropped::Paused),
            // Taken, but not said to be written: it may have been.
            _ => unused.then_some(Dropped::Closed),
        };
        match why {
            None => self.common.tell(Event::Written { token: wanted.token, at: Instant::now() }),
            Some(why) => self.common.dropped(wanted.token, why),
        }
    }

    /// What the editor tells by itself.
    fn told(&mut self, said: AdoptedParams) {
        if self.common.over {
            return;
        }
        if let Some(done) = said.done
            && self.busy.as_ref().is_some_and(|b| b.ask == done.ask)
        {
            self.done(done);
        }
        if let Some(typed) = said.typed {
            self.keys = self.keys.max(typed.humans);
            self.typed = Some(Instant::now());
            let before = if typed.submits { 0 } else { self.chars };
            self.chars = before.saturating_add(typed.chars);
            self.common.human(typed.submits, typed.rest);
            // What was decided without it must not be written after it.
            self.drop_outdated();
        }
        if let Some(look) = said.look {
            let view = self.view(look);
            if self.typed.is_some_and(|at| at.elapsed() < TYPED) {
                self.common.composed = None;
                self.common.draft = false;
            }
            self.common.looked(view);
        }
        if let Some(sequence) = said.sequence {
            if let Some(state) = sequence.strip_prefix("7501;") {
                self.common.tell(Event::State(state.to_owned()));
            } else if let Some(mark) = sequence.strip_prefix("133;") {
                self.common.tell(Event::Mark(mark.to_owned()));
            }
        }
        if let Some(why) = said.gone {
            self.lost(&why);
        }
    }

    fn view(&mut self, look: BufferLook) -> ScreenView {
        let (height, cols) = self.common.size().unwrap_or((24, 80));
        let count = look.count.max(look.lines.len() as u64);
        let lines = look.lines;
        let first = count - lines.len() as u64;
        let cut = lines.len().saturating_sub(height);
        let top = first + cut as u64;
        let row = |text: &String| Row { text: text.trim_end().to_owned(), ..Row::default() };
        let mut rows: Vec<Row> = lines[cut..].iter().map(row).collect();
        rows.resize(height, Row::default());
        let line = self.common.is_line();
        let mut view = ScreenView {
            cols,
            cursor_visible: true,
            title: look.title,
            bracketed_paste: !line && self.common.subject.profile.submit.needs_bracketed,
            alt_screen: !line,
            ..ScreenView::default()
        };
        if line {
            let from = usize::try_from(self.top.saturating_sub(first)).unwrap_or(usize::MAX);
            let gone = lines[..cut].iter().skip(from).map(row);
            view.scrolled_rows = if top > self.top { gone.collect() } else { Vec::new() };
            view.scrolled = top;
            self.top = top;
        }
        // The last row that is written is where a shell's cursor is.
        let last = rows.iter().rposition(|r| !r.text.is_empty()).unwrap_or(0);
        view.cursor = (last, rows.get(last).map_or(0, |r| r.text.width()));
        view.rows = rows;
        self.hints(&mut view);
        self.common.complete(view)
    }

    /// Neovim does not draw faint, which is how programs draw their hints in an empty composer: where the
    /// whole text is a known hint, and nobody has typed as much since the last Enter, it is one.
    fn hints(&self, view: &mut ScreenView) {
        let profile = &self.common.subject.profile;
        let Some(composer) = Facts::read(view, profile, None).composer else { return };
        let text = composer.text.trim();
        let few = self.chars < text.chars().count() as u64;
        if text.is_empty() || !few || !profile.composer.faint_hints.iter().any(|p| p.is_match(text))
        {
            return;
        }
        let first = text.lines().next().unwrap_or_default();
        for row in &mut view.rows[composer.top..=composer.last] {
            if let Some(at) = row.text.find(first) {
                let from = row.text[..at].chars().count();
                row.faint = vec![(from, row.text.chars().count())];
                return;
            }
        }
    }
}

async fn called(busy: &mut Option<Busy>) -> Result<(), String> {
    match busy.as_mut().and_then(|b| b.call.as_mut()) {
        Some(call) => match call.await {
            Ok(answer) => answer.map(|_| ()),
            Err(_) => Err("the editor does not take calls".to_owned()),
        },
        None => std::future::pending().await,
    }
}
