//! Watches one agent's records and tells what changes.
//!
//! File notifications wake it; while the agent is idle nothing else does. Where a notification cannot
//! help (a folder that is not there yet) or may be lost (a turn is open), it looks again by itself,
//! at most ten times a second while a start or a prompt is expected to show, else once a second.

use super::claude::{self, Place};
use super::codex;
use super::opencode;
use super::tail::Follower;
use super::{Reader, Subject};
use crate::core::dialect::claude::{StatusFile, Transcript};
use crate::core::dialect::{HookEvent, NoAnswer, RecordEvent, StatusState, codex as codex_dialect};
use crate::core::profile::Dialect;
use crate::host::procs::Process;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// While something is expected to appear.
pub(super) const SOON: Duration = Duration::from_millis(100);
/// While a turn is open, and where notifications do not work.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// How long after its start an agent's files are expected soon.
const STARTING: Duration = Duration::from_secs(20);
/// A resumed transcript that is longer is followed from its end.
const READ_WHOLE: u64 = 4 * 1024 * 1024;
/// Notices of trouble that are remembered, so that each is told once.
const TOLD: usize = 64;

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordUpdate {
    /// The session was found or replaced (`/clear`), or its transcript appeared.
    Session {
        /// Its id.
        id: String,
        /// Its transcript, once it is there.
        transcript: Option<PathBuf>,
    },
    /// The transcript says something new.
    Record(RecordEvent),
    /// The status file changed.
    Status(StatusFile),
    /// The program itself told something as a hook would.
    Hook(HookEvent),
    /// The program itself told its state.
    State(StatusState),
    /// Something cannot be read; told once.
    Problem(String),
}

/// Watches until `stop`, or until nobody listens. `nudge` makes it look at once.
pub async fn watch(
    subject: Subject,
    updates: mpsc::Sender<RecordUpdate>,
    nudge: Arc<Notify>,
    stop: CancellationToken,
) {
    match subject.dialect {
        Dialect::None => return,
        Dialect::Opencode => return opencode::watch(subject, updates, nudge, stop).await,
        Dialect::Claude | Dialect::Codex | Dialect::Demo => {}
    }
    let mut state = State::new(subject, Bell::new(nudge.clone()));
    loop {
        // Files are read where blocking is allowed.
        let Ok((back, look)) = tokio::task::spawn_blocking(move || {
            let look = state.look();
            (state, look)
        })
        .await
        else {
            return;
        };
        state = back;
        for update in look.updates {
            tokio::select! {
                () = stop.cancelled() => return,
                sent = updates.send(update) => if sent.is_err() { return },
            }
        }
        let again = async {
            match look.again {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = updates.closed() => return,
            () = nudge.notified() => {}
            () = again => {}
        }
    }
}

/// The file notifications. Folders are watched, not files: files are replaced.
pub(super) struct Bell {
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    /// Names that ring; an empty list lets every name.
    names: Arc<Mutex<Vec<OsString>>>,
    trouble: Option<String>,
}

impl Bell {
    pub fn new(nudge: Arc<Notify>) -> Bell {
        let names: Arc<Mutex<Vec<OsString>>> = Arc::default();
        let wanted = names.clone();
        let made = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let rings = event.map_or(true, |event| {
                let names = wanted.lock().unwrap_or_else(PoisonError::into_inner);
                is_change(event.kind) && concerns(&event.paths, &names)
            });
            if rings {
                nudge.notify_one();
            }
        });
        let trouble = made.as_ref().err().map(ToString::to_string);
        Bell { watcher: made.ok(), folders: BTreeSet::new(), names, trouble }
    }

    /// Why it does not hear everything; told once.
    pub fn trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Watches exactly these folders for these names.
    pub fn watch(&mut self, folders: &BTreeSet<PathBuf>, names: Vec<OsString>) -> Hearing {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        let Some(watcher) = self.watcher.as_mut() else { return Hearing::Partly };
        for gone in self.folders.difference(folders) {
            let _ = watcher.unwatch(gone);
        }
        self.folders.retain(|f| folders.contains(f));
        let mut hearing = Hearing::All;
        for folder in folders {
            // A folder that was removed and made again has lost its watch.
            if !folder.is_dir() {
                self.folders.remove(folder);
                hearing = Hearing::Partly;
            } else if !self.folders.contains(folder) {
                match watcher.watch(folder, RecursiveMode::NonRecursive) {
                    Ok(()) => {
                        self.folders.insert(folder.clone());
                        if hearing == Hearing::All {
                            hearing = Hearing::New;
                        }
                    }
                    Err(e) => {
                        self.trouble = Some(e.to_string());
                        hearing = Hearing::Partly;
                    }
                }
            }
        }
        hearing
    }
}

/// What the bell can hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Everything, since before the files were looked at.
    All,
    /// Everything from now on; what happened between the look and now may be missed.
    New,
    /// Some folders are not there or cannot be watched.
    Partly,
}

/// Reading a file is an event, too: reacting to that would never end.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn concerns(paths: &[PathBuf], names: &[OsString]) -> bool {
    names.is_empty()
        || paths.is_empty()
        || paths.iter().any(|p| p.file_name().is_some_and(|n| names.iter().any(|w| w == n)))
}

/// What one look brought.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub updates: Vec<RecordUpdate>,
    /// When to look again without being woken.
    pub again: Option<Duration>,
}

impl Look {
    pub fn sooner(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |w| w.min(wait)));
    }
}

/// Notices of trouble, each told once.
#[derive(Debug, Default)]
pub(super) struct Notices(BTreeSet<String>);

impl Notices {
    pub fn problem(&mut self, look: &mut Look, text: String) {
        if self.0.len() < TOLD && self.0.insert(text.clone()) {
            look.updates.push(RecordUpdate::Problem(text));
        }
    }
}

struct State {
    subject: Subject,
    bell: Bell,
    began: Instant,
    /// The same in milliseconds since the epoch.
    since: u64,
    agent: Option<(Process, PathBuf)>,
    status: Option<StatusFile>,
    session: Option<(String, Option<PathBuf>)>,
    transcript: Option<(Follower, Reader)>,
    notices: Notices,
    /// It has been busy: a transcript is to be there.
    worked: bool,
}

impl State {
    fn new(subject: Subject, bell: Bell) -> State {
        State {
            subject,
            bell,
            began: Instant::now(),
            since: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .ok()
                .and_then(|d| d.as_millis().try_into().ok())
                .unwrap_or(0),
            agent: None,
            status: None,
            session: None,
            transcript: None,
            notices: Notices::default(),
            worked: false,
        }
    }

    fn look(&mut self) -> Look {
        let mut look = Look::default();
        match self.subject.dialect {
            Dialect::Claude => self.look_claude(&mut look),
            Dialect::Codex => self.look_codex(&mut look),
            Dialect::Demo => self.look_demo(&mut look),
            Dialect::None | Dialect::Opencode => {}
        }
        if let Some(trouble) = self.bell.trouble() {
            self.problem(
                &mut look,
                format!("changes of files are only seen once a second: {trouble}"),
            );
        }
        look
    }

    fn problem(&mut self, look: &mut Look, text: String) {
        self.notices.problem(look, text);
    }

    /// While the agent may be starting, its files are expected soon.
    fn missing(&self, look: &mut Look) {
        look.sooner(if self.began.elapsed() < STARTING { SOON } else { SLOW });
    }

    fn heard(&self, look: &mut Look, hearing: Hearing) {
        match hearing {
            Hearing::All => {}
            Hearing::New => look.sooner(Duration::ZERO),
            Hearing::Partly => self.missing(look),
        }
    }

    fn look_demo(&mut self, look: &mut Look) {
        let path = self.subject.path.clone();
        if self.transcript.is_none() {
            // What an earlier run of the same agent left there is over.
            let follower = Follower::new(path.clone(), path.exists());
            self.transcript = Some((follower, Reader::Demo));
        }
        let folders: BTreeSet<PathBuf> = path.parent().map(Path::to_path_buf).into_iter().collect();
        let hearing = self.bell.watch(&folders, names([Some(path.as_path())]));
        self.heard(look, hearing);
        self.read_transcript(look);
    }

    fn look_claude(&mut self, look: &mut Look) {
        let Some((process, config)) = self.find_agent(look, claude::config_dir) else {
            return self.missing(look);
        };
        // The transcript is read before the status: a status that is newer than the records told
        // with it does no harm, an older one would seem to end a turn that has just begun.
        match claude::read_status(&config, process) {
            Ok(Some(status)) => {
                self.follow_session(look, &config, &status);
                self.read_transcript(look);
                self.take_status(look, claude::read_status(&config, process));
            }
            Ok(None) => {
                self.follow_without_status(look);
                self.read_transcript(look);
            }
            Err(e) => self.trouble(look, &e),
        }
        self.set_bell(look, process, &config);
    }

    fn look_codex(&mut self, look: &mut Look) {
        let Some((process, home)) = self.find_agent(look, codex::home) else {
            return self.missing(look);
        };
        // What the thread before said last is told before the next one is followed.
        self.read_transcript(look);
        match codex::current(&self.subject, process, &home) {
            Ok(Some(rollout)) if self.session.as_ref().is_none_or(|(id, _)| *id != rollout.id) => {
                // A resumed thread's turns of before are not told again.
                let since = rollout.opened.unwrap_or(self.since);
                let reader = Reader::Codex(codex_dialect::Transcript::since(since));
                self.start_following(Some(&rollout.path), reader);
                self.session = Some((rollout.id.clone(), Some(rollout.path.clone())));
                let (id, transcript) = (rollout.id, Some(rollout.path));
                look.updates.push(RecordUpdate::Session { id, transcript });
                self.read_transcript(look);
            }
            Ok(_) => {}
            Err(e) => self.trouble(look, &e),
        }
        let rollout = self.session.as_ref().and_then(|(_, path)| path.clone());
        let (sessions, locks) = (home.join("sessions"), home.join("thread-writer-locks"));
        let above = rollout.as_deref().and_then(Path::parent);
        let mut folders: BTreeSet<PathBuf> = above.map(Path::to_path_buf).into_iter().collect();
        folders.extend([&locks, &home].into_iter().find(|f| f.is_dir()).cloned());
        if rollout.is_none() {
            // Its folder is made with the first turn of a day; then nothing tells that it is there.
            folders.extend(Some(sessions).filter(|f| f.is_dir()));
        }
        // Which names other threads will have is not known.
        let hearing = self.bell.watch(&folders, Vec::new());
        self.heard(look, hearing);
        if rollout.is_none() {
            self.missing(look);
        }
    }

    fn trouble(&mut self, look: &mut Look, error: &NoAnswer) {
        self.problem(look, error.to_string().trim_start_matches("no answer: ").to_owned());
        look.sooner(SLOW);
    }

    fn find_agent(
        &mut self,
        look: &mut Look,
        folder: fn(&Subject, Process) -> Result<PathBuf, NoAnswer>,
    ) -> Option<(Process, PathBuf)> {
        if let Some((process, _)) = &self.agent
            && !process.is_alive()
        {
            self.agent = None;
        }
        if self.agent.is_none() {
            let process = self.subject.agent()?;
            match folder(&self.subject, process) {
                Ok(config) => self.agent = Some((process, config)),
                Err(e) => self.trouble(look, &e),
            }
        }
        self.agent.clone()
    }

    fn take_status(&mut self, look: &mut Look, status: Result<Option<StatusFile>, NoAnswer>) {
        match status {
            Ok(Some(status)) if self.status.as_ref() != Some(&status) => {
                // A session that was replaced between the two reads is told first, at the next look.
                if self.session.as_ref().is_some_and(|(id, _)| *id != status.session) {
                    return look.sooner(Duration::ZERO);
                }
                self.worked |= status.state != Some(StatusState::Idle) && status.state.is_some();
                self.status = Some(status.clone());
                look.updates.push(RecordUpdate::Status(status));
            }
            Ok(_) => {}
            Err(e) => self.trouble(look, &e),
        }
    }

    fn follow_session(&mut self, look: &mut Look, config: &Path, status: &StatusFile) {
        let cwd = status.cwd.clone().map_or_else(|| self.subject.cwd.clone(), PathBuf::from);
        let same = self.session.as_ref().is_some_and(|(id, _)| *id == status.session);
        if same && self.session.as_ref().is_some_and(|(_, path)| path.is_some()) {
            return;
        }
        let path = match claude::transcript_of(config, &status.session, &cwd) {
            Ok(path) => path,
            Err(e) => return self.trouble(look, &e),
        };
        if same && path.is_none() {
            return;
        }
        let reader = if same {
            // It was not there a moment ago: all of it is new.
            Transcript::default()
        } else {
            // Lines of turns that were over before are not told again: those before the agent's
            // start, or before the last thing that the session before was seen to do.
            let before = self.status.as_ref().filter(|_| self.session.is_some());
            let since = before.map_or(status.started_at, |s| s.updated_at);
            self.transcript = None;
            Transcript::since(since.unwrap_or(0))
        };
        self.start_following(path.as_deref(), Reader::Claude(reader));
        self.session = Some((status.session.clone(), path.clone()));
        let id = status.session.clone();
        look.updates.push(RecordUpdate::Session { id, transcript: path });
    }

    fn start_following(&mut self, path: Option<&Path>, reader: Reader) {
        let Some(path) = path else { return };
        let long = std::fs::metadata(path).is_ok_and(|m| m.len() > READ_WHOLE);
        let follower = Follower::new(path.to_path_buf(), long);
        self.transcript = Some((follower, reader));
    }

    /// Versions without a status file. While it may still come, the transcripts of others in the
    /// same directory would be candidates.
    fn follow_without_status(&mut self, look: &mut Look) {
        if self.transcript.is_some() {
            return;
        }
        if self.began.elapsed() < STARTING {
            return self.missing(look);
        }
        match claude::locate(&self.subject) {
            Ok(Place { status: None, transcript: Some(path), process, .. }) => {
                let id = path.file_stem().map(|s| s.to_string_lossy().into_owned());
                let since = process.started_at().unwrap_or(0) * 1000;
                self.start_following(Some(&path), Reader::Claude(Transcript::since(since)));
                self.session = id.clone().map(|id| (id, Some(path.clone())));
                if let Some(id) = id {
                    look.updates.push(RecordUpdate::Session { id, transcript: Some(path) });
                }
            }
            Ok(_) => {}
            Err(e) => self.trouble(look, &e),
        }
        self.missing(look);
    }

    fn read_transcript(&mut self, look: &mut Look) {
        let Some((follower, reader)) = self.transcript.as_mut() else { return };
        let batch = match follower.poll() {
            Ok(batch) => batch,
            Err(e) => {
                let path = follower.path().display().to_string();
                look.sooner(SLOW);
                return self.problem(look, format!("{path} cannot be read: {e}"));
            }
        };
        if batch.restarted {
            reader.restart();
        }
        let mut problems = Vec::new();
        for line in &batch.lines {
            match reader.line(line) {
                Ok(events) => look.updates.extend(events.into_iter().map(RecordUpdate::Record)),
                Err(e) => problems.push(e),
            }
        }
        if batch.dropped > 0 {
            problems.push("the transcript has lines that are too long or not UTF-8".to_owned());
        }
        if batch.more {
            look.sooner(Duration::ZERO);
        }
        for problem in problems {
            self.problem(look, problem);
        }
    }

    /// What wakes the next look.
    fn set_bell(&mut self, look: &mut Look, process: Process, config: &Path) {
        let status_path = claude::status_path(config, process.pid);
        let projects = config.join("projects");
        let mut folders = BTreeSet::from([config.join("sessions")]);
        let transcript = match &self.session {
            Some((_, Some(path))) => Some(path.clone()),
            Some((id, None)) => Some(projects.join(self.project_dir()).join(format!("{id}.jsonl"))),
            None => None,
        };
        // Until the transcript is there, its folder may be still to come, and that one's.
        let above = transcript.as_deref().and_then(Path::parent);
        let nearest = [above, Some(projects.as_path()), Some(config)].into_iter().flatten();
        folders.extend(nearest.map(Path::to_path_buf).find(|f| f.is_dir()));
        let wanted = [Some(status_path.as_path()), transcript.as_deref(), above, Some(&projects)];
        let hearing = self.bell.watch(&folders, names(wanted));
        self.heard(look, hearing);
        if self.session.is_none() {
            self.missing(look);
        }
        let found = self.session.as_ref().is_some_and(|(_, path)| path.is_some());
        match self.status.as_ref().and_then(|s| s.state) {
            Some(StatusState::Idle) if found || !self.worked => {}
            // The first prompt's transcript is made while it works, or even later (2.1.197).
            Some(StatusState::Busy) if !found => look.sooner(SOON),
            _ => look.sooner(SLOW),
        }
    }

    fn project_dir(&self) -> String {
        let cwd = self.status.as_ref().and_then(|s| s.cwd.as_deref()).map(Path::new);
        claude::project_dir(cwd.unwrap_or(&self.subject.cwd))
    }
}

fn names<const N: usize>(paths: [Option<&Path>; N]) -> Vec<OsString> {
    paths.into_iter().flatten().filter_map(Path::file_name).map(OsString::from).collect()
}

#[cfg(test)]
mod tests;
