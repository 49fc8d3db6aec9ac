//! The task that owns a terminal: one loop, one writer, nothing waited for but readiness.

mod views;

use super::viewer::FromViewer;
use super::viewers::{Asked, Viewers};
use super::writes::{Now, Source, Writes};
use super::{Command, Dropped, Envelope, Event, TerminalHandle, TerminalSpec};
use crate::core::keys::{Kind, Piece};
use crate::host::pty::{self, Pty, SpawnError};
use crate::host::reap::{self, Leader};
use crate::host::screen::Screen;
use crate::proto::AgentId;
use crate::proto::attach::Exit;
use crate::proto::screen::ScreenView;
use std::collections::VecDeque;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::process::Child;
use tokio::sync::mpsc;
use views::{BATCH, CHECK_LIMIT, Dirty, FOREGROUND, HOLD, REOPEN, Watch, bare};

/// Starts a program in a terminal and the task that owns it. What happens is told to `events`.
///
/// Must be called within a tokio runtime.
pub fn start(
    spec: TerminalSpec,
    events: mpsc::Sender<Envelope>,
) -> Result<TerminalHandle, SpawnError> {
    let (pty, child) = pty::spawn(&spec.argv, &spec.cwd, &spec.env, spec.size)?;
    // Known until the child was waited for, which has not happened yet.
    let pid = child.id().unwrap_or_default();
    let (commands, from_host) = mpsc::channel(64);
    let (to, from_viewers) = mpsc::channel(64);
    let (reaped, from_reaper) = mpsc::channel(1);
    let epoch = Arc::<AtomicU64>::default();
    let task = Task {
        agent: spec.agent,
        mark: spec.mark,
        leader: Leader::of(pid),
        pty,
        open: true,
        child: Some(child),
        screen: Screen::new(spec.size.0, spec.size.1, spec.colours),
        writes: Writes::default(),
        viewers: Viewers::new(to),
        commands: from_host,
        from_viewers,
        reaped,
        from_reaper,
        events,
        outbox: VecDeque::new(),
        epoch: Arc::clone(&epoch),
        humans: 0,
        checked: None,
        dirty: None,
        view_due: false,
        hold: None,
        sent: None,
        watch: spec
            .watch_foreground
            .then_some(Watch { step: 0, at: Instant::now() + FOREGROUND[0] }),
        retry: None,
        exit: None,
        gone: None,
        buf: vec![0; BATCH],
    };
    tokio::spawn(task.run());
    Ok(TerminalHandle { agent: spec.agent, pid, commands, epoch, humans: Arc::default() })
}

struct Task {
    agent: AgentId,
    mark: String,
    leader: Leader,
    pty: Pty,
    /// The program's side is not known to be closed.
    open: bool,
    child: Option<Child>,
    screen: Screen,
    writes: Writes,
    viewers: Viewers,
    commands: mpsc::Receiver<Command>,
    from_viewers: mpsc::Receiver<(u64, FromViewer)>,
    reaped: mpsc::Sender<Vec<u32>>,
    from_reaper: mpsc::Receiver<Vec<u32>>,
    events: mpsc::Sender<Envelope>,
    /// Events that wait for room. The task never waits for the host.
    outbox: VecDeque<Event>,
    epoch: Arc<AtomicU64>,
    /// Human inputs so far.
    humans: u64,
    /// The last answered check, if it was settled.
    checked: Option<(u64, ScreenView)>,
    dirty: Option<Dirty>,
    view_due: bool,
    /// Nothing is read before, for a viewer that is behind.
    hold: Option<Instant>,
    /// The last view that was sent, to send no other like it.
    sent: Option<ScreenView>,
    watch: Option<Watch>,
    retry: Option<Instant>,
    exit: Option<Exit>,
    gone: Option<Vec<u32>>,
    buf: Vec<u8>,
}

/// What woke the loop up.
enum Woken {
    Command(Option<Command>),
    Viewer(Option<(u64, FromViewer)>),
    Room(Option<mpsc::OwnedPermit<Envelope>>),
    Writable(io::Result<()>),
    Exited(io::Result<ExitStatus>),
    Reaped(Option<Vec<u32>>),
    Readable(io::Result<()>),
    Timer,
}

impl Task {
    async fn run(mut self) {
        loop {
            let deadline = self.deadline();
            let wants_room = !self.outbox.is_empty() || self.view_due;
            let events = self.events.clone();
            let woken = tokio::select! {
                biased;
                command = self.commands.recv() => Woken::Command(command),
                heard = self.from_viewers.recv() => Woken::Viewer(heard),
                permit = events.reserve_owned(), if wants_room => Woken::Room(permit.ok()),
                ready = self.pty.writable(), if self.open && !self.writes.is_empty() => Woken::Writable(ready),
                status = wait(&mut self.child), if self.child.is_some() => Woken::Exited(status),
                left = self.from_reaper.recv() => Woken::Reaped(left),
                ready = self.pty.readable(), if self.open && self.hold.is_none() => Woken::Readable(ready),
                () = sleep_until(deadline), if deadline.is_some() => Woken::Timer,
            };
            match woken {
                Woken::Command(Some(command)) => self.command(command),
                Woken::Command(None) | Woken::Room(None) => return,
                Woken::Viewer(Some((id, what))) => {
                    self.viewer(id, what);
                    self.hold.take_if(|_| !self.viewers.behind());
                }
                Woken::Room(Some(permit)) => self.send(permit),
                Woken::Writable(ready) => {
                    if ready.is_ok() {
                        self.flush();
                    } else {
                        self.closed();
                    }
                }
                Woken::Exited(status) => self.exited(status),
                Woken::Reaped(Some(left)) => {
                    self.gone = Some(left);
                    self.tell_gone();
                }
                Woken::Readable(ready) => {
                    if ready.is_err() {
                        self.closed();
                    } else {
                        let all = self.read(BATCH);
                        self.hold = self.viewers.behind().then(|| Instant::now() + HOLD);
                        // A program that floods is always ready, and this loop would keep its worker for
                        // megabytes. What it woke there (a viewer's writer, the host's loop) waits in a slot
                        // that no other worker takes from.
                        if !all {
                            tokio::task::yield_now().await;
                        }
                    }
                }
                // The task holds a sender of the first two itself.
                Woken::Viewer(None) | Woken::Reaped(None) | Woken::Timer => {}
            }
            self.timers(Instant::now());
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Write { token, bytes, guard, humans, epoch } => {
                self.write(token, bytes, guard, Source::Host { token, epoch, humans });
            }
            Command::Dropped => {
                let (now, outbox) = (self.now(), &mut self.outbox);
                self.writes.drop_outdated(now, |event| outbox.push_back(event));
            }
            Command::Check { token } => {
                let settled = self.drain();
                let mut view = self.take_view();
                view.unread = self.pty.unread();
                self.checked = settled.then(|| (token, bare(&view)));
                self.outbox.push_back(Event::Checked { token, view: Box::new(view), settled });
            }
            Command::Snapshot { reply } => {
                let mut view = self.screen.snapshot();
                view.foreground = self.foreground();
                // Whoever asked may have gone.
                let _ = reply.send(view);
            }
            Command::Resize { rows, cols } => {
                if !self.viewers.held() {
                    self.resize(rows, cols);
                }
            }
            Command::HoldSize(hold) => {
                if let Some((rows, cols)) = self.viewers.hold(hold) {
                    self.resize(rows, cols);
                }
            }
            Command::Colours(colours) => self.screen.set_colours(colours),
            Command::Attach(connection) => self.attach(connection),
            Command::Kill { grace } => {
                let (leader, mark, reaped) = (self.leader, self.mark.clone(), self.reaped.clone());
                tokio::spawn(async move {
                    let left = reap::end(leader, mark, grace).await;
                    let _ = reaped.send(left).await;
                });
            }
        }
    }

    /// Writes for the host; on a guard only if the screen is still the one that was answered.
    fn write(&mut self, token: u64, bytes: Vec<u8>, guard: Option<u64>, source: Source) {
        let drop = |why| Event::WriteDropped { token, written: 0, why };
        if self.exit.is_some() {
            self.outbox.push_back(drop(Dropped::Closed));
            return;
        }
        if let Some(guard) = guard {
            // What waits before it would change the screen after the look.
            let settled = self.drain() && self.writes.is_empty();
            let look = self.screen.look();
            let same = self.checked.as_ref().is_some_and(|(checked, view)| {
                *checked == guard
                    && *view
                        == ScreenView { foreground: view.foreground, bytes: view.bytes, ..look }
                    && view.foreground == self.foreground()
            });
            if !settled || !same {
                self.outbox.push_back(drop(Dropped::ScreenChanged));
                return;
            }
        }
        if self.writes.push(source, bytes) {
            self.flush();
        } else {
            self.outbox.push_back(drop(Dropped::Closed));
        }
    }

    fn attach(&mut self, connection: super::super::attach::Connection) {
        if let Some((foreground, background)) = &connection.hello.colours
            && let Some(colours) = crate::host::screen::Colours::parse(foreground, background)
        {
            self.screen.set_colours(colours);
        }
        let (id, size) = self.viewers.attach(connection);
        if self.exit.is_none()
            && let Some((rows, cols)) = size
        {
            self.resize(rows, cols);
        }
        self.viewers.show(id, &mut self.screen);
        if let Some(exit) = &self.exit {
            self.viewers.exit(&self.screen, exit);
        }
        self.outbox.push_back(Event::Viewers(self.viewers.len()));
    }

    fn viewer(&mut self, id: u64, what: FromViewer) {
        let Asked { input, size, gone } = self.viewers.heard(id, what, &mut self.screen);
        if gone {
            self.outbox.push_back(Event::Viewers(self.viewers.len()));
        }
        if self.exit.is_some() {
            return;
        }
        // Before the key, so that the program knows its size when it acts on it.
        if let Some((rows, cols)) = size {
            self.resize(rows, cols);
        }
        for piece in input {
            if piece.kind == Kind::Human {
                self.humans += 1;
                let (now, outbox) = (self.now(), &mut self.outbox);
                self.writes.drop_outdated(now, |event| outbox.push_back(event));
                self.human(&piece);
            }
            self.writes.push(Source::Terminal, piece.bytes);
        }
        self.flush();
    }

    fn human(&mut self, typed: &Piece) {
        if let Some(Event::Human { seq, bytes, submits, rest }) = self.outbox.back_mut() {
            *seq = self.humans;
            bytes.extend_from_slice(&typed.bytes);
            *submits |= typed.submits;
            *rest = typed.rest;
        } else {
            self.outbox.push_back(Event::Human {
                seq: self.humans,
                bytes: typed.bytes.clone(),
                submits: typed.submits,
                rest: typed.rest,
            });
        }
        // Before the keys are written: an agent's record of a prompt may come within a millisecond,
        // and without the key before it nobody would know that the prompt was a person's.
        while !self.outbox.is_empty() {
            let Ok(permit) = self.events.clone().try_reserve_owned() else { break };
            self.send(permit);
        }
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        let before = self.screen.size();
        self.screen.resize(rows, cols);
        let (rows, cols) = self.screen.size();
        if (rows, cols) == before {
            return;
        }
        // Fails only when the program is gone, which is noticed elsewhere.
        let _ = self.pty.resize(rows as u16, cols as u16);
        self.viewers.resized(&mut self.screen);
        self.outbox.push_back(Event::Resized { rows: rows as u16, cols: cols as u16 });
        self.touch(Instant::now());
    }

    fn now(&self) -> Now {
        Now { epoch: self.epoch.load(Ordering::SeqCst), humans: self.humans }
    }

    fn flush(&mut self) {
        let (epoch, humans, outbox) = (&self.epoch, self.humans, &mut self.outbox);
        let now = || Now { epoch: epoch.load(Ordering::SeqCst), humans };
        if self.writes.flush(&self.pty, now, |event| outbox.push_back(event)).is_err() {
            self.writes.close(|event| outbox.push_back(event));
        }
    }

    /// There is room for an event.
    fn send(&mut self, permit: mpsc::OwnedPermit<Envelope>) {
        if let Some(event) = self.outbox.pop_front() {
            permit.send((self.agent, event));
            return;
        }
        self.view_due = false;
        if let Some(view) = self.fresh_view() {
            permit.send((self.agent, Event::View(Box::new(view))));
        }
    }

    /// The program's side is closed.
    fn closed(&mut self) {
        self.open = false;
        // It may open it again by its name, as long as it runs.
        self.retry = self.child.is_some().then(|| Instant::now() + REOPEN);
    }

    fn exited(&mut self, status: io::Result<ExitStatus>) {
        use std::os::unix::process::ExitStatusExt;
        self.child = None;
        self.retry = None;
        // The kernel closed the terminal before it reported the end, so that all of it is here.
        self.open = true;
        // A bound, in case that some system lets a grandchild go on.
        for _ in 0..64 {
            if !self.open || self.read(CHECK_LIMIT) {
                break;
            }
        }
        self.open = false;
        let outbox = &mut self.outbox;
        self.writes.close(|event| outbox.push_back(event));
        let (code, signal) = match status {
            Ok(status) => (status.code(), status.signal()),
            Err(_) => (None, None),
        };
        self.view_due = false;
        self.screen.expire(Instant::now() + crate::host::screen::SYNC_LIMIT);
        if let Some(view) = self.fresh_view() {
            self.outbox.push_back(Event::View(Box::new(view)));
        }
        self.outbox.push_back(Event::Exited { code, signal });
        let exit = Exit { code, signal, text: String::new() };
        self.viewers.exit(&self.screen, &exit);
        self.exit = Some(exit);
        self.tell_gone();
    }

    /// Says that the program is gone, once it is known both to have ended and to have left
    /// nothing.
    fn tell_gone(&mut self) {
        let known = self.exit.is_some() || self.gone.as_ref().is_some_and(|left| !left.is_empty());
        if known && let Some(left) = self.gone.take() {
            self.outbox.push_back(Event::Gone { left });
        }
    }
}

async fn wait(child: &mut Option<Child>) -> io::Result<ExitStatus> {
    match child {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
