//! Watches one OpenCode: its server's events as they come, its database when it changes.

use super::db::Db;
use super::events::follow;
use super::{Process, Subject, database, process, session};
use crate::core::dialect::NoAnswer;
use crate::core::dialect::opencode::{Follow, Said};
use crate::host::records::watch::{Bell, Hearing, Look, Notices, RecordUpdate, SLOW, SOON};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// How many of the newest messages are followed.
const FOLLOWED: usize = 60;
/// A turn changes the database many times a second; so often it is looked at.
const BREATH: Duration = Duration::from_millis(30);

/// Watches until `stop`, or until nobody listens.
pub(in crate::host::records) async fn watch(
    subject: Subject,
    updates: mpsc::Sender<RecordUpdate>,
    nudge: Arc<Notify>,
    stop: CancellationToken,
) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Prompts come seconds after a start; the clocks of two programs may differ by a little.
    let since = (now.as_millis() as u64).saturating_sub(1_000);
    let (told, mut hear) = mpsc::channel(64);
    tokio::spawn(follow(subject.live.clone(), since, told, nudge.clone()));
    let mut rows = Some(Rows::new(subject.clone(), since, Bell::new(nudge.clone())));
    let mut look_at = None;
    let mut looking = None;
    let mut due = true;
    loop {
        if due && let Some(mut state) = rows.take() {
            due = false;
            // The database is read where blocking is allowed.
            looking = Some(tokio::task::spawn_blocking(move || {
                let look = state.look();
                (state, look)
            }));
        }
        let looked = async {
            match looking.as_mut() {
                Some(task) => task.await,
                None => std::future::pending().await,
            }
        };
        let again = async {
            match look_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let news = tokio::select! {
            () = stop.cancelled() => return,
            () = updates.closed() => return,
            done = looked => {
                let Ok((state, look)) = done else { return };
                (rows, looking) = (Some(state), None);
                look_at = look.again.map(|wait| tokio::time::Instant::now() + wait.max(BREATH));
                look.updates
            }
            Some(said) = hear.recv() => vec![update(said, &subject)],
            () = nudge.notified() => {
                let soon = tokio::time::Instant::now() + BREATH;
                look_at = Some(look_at.map_or(soon, |at| at.min(soon)));
                Vec::new()
            }
            () = again => {
                (due, look_at) = (true, None);
                Vec::new()
            }
        };
        for update in news {
            tokio::select! {
                () = stop.cancelled() => return,
                sent = updates.send(update) => if sent.is_err() { return },
            }
        }
    }
}

fn update(told: Result<Said, String>, subject: &Subject) -> RecordUpdate {
    match told {
        Ok(Said::Session(id)) => {
            let transcript = process(subject).and_then(|p| database(subject, p)).ok();
            RecordUpdate::Session { id, transcript }
        }
        Ok(Said::Hook(event)) => RecordUpdate::Hook(event),
        Ok(Said::Status(state)) => RecordUpdate::State(state),
        Err(problem) => RecordUpdate::Problem(problem),
    }
}

/// Follows the rows of the agent's session.
struct Rows {
    subject: Subject,
    since: u64,
    bell: Bell,
    notices: Notices,
    agent: Option<(Process, PathBuf)>,
    db: Option<Db>,
    /// What was read last: the session, and the database's version then.
    read: Option<(String, i64)>,
    follow: Follow,
}

impl Rows {
    fn new(subject: Subject, since: u64, bell: Bell) -> Rows {
        Rows {
            subject,
            since,
            bell,
            notices: Notices::default(),
            agent: None,
            db: None,
            read: None,
            follow: Follow::since(since),
        }
    }

    fn look(&mut self) -> Look {
        let mut look = Look::default();
        match self.read(&mut look) {
            Ok(()) => {}
            // It has not begun to write.
            Err(NoAnswer::NoRecord(_)) if self.db.is_none() => look.sooner(SOON),
            Err(NoAnswer::NoRecord(why)) if why.ends_with("yet") => {}
            Err(e) => {
                self.notices.problem(&mut look, e.to_string().replacen("no answer: ", "", 1));
                look.sooner(SLOW);
            }
        }
        if let Some(trouble) = self.bell.trouble() {
            let text = format!("changes of files are only seen once a second: {trouble}");
            self.notices.problem(&mut look, text);
        }
        look
    }

    fn read(&mut self, look: &mut Look) -> Result<(), NoAnswer> {
        if self.agent.as_ref().is_some_and(|(process, _)| !process.is_alive()) {
            (self.agent, self.db) = (None, None);
        }
        if self.agent.is_none() {
            let process = process(&self.subject)?;
            self.agent = Some((process, database(&self.subject, process)?));
        }
        let Some((process, path)) = self.agent.clone() else { return Ok(()) };
        let folders: BTreeSet<PathBuf> = path.parent().map(PathBuf::from).into_iter().collect();
        let mut names = Vec::new();
        if let Some(name) = path.file_name() {
            names.push(name.to_owned());
            let mut log = name.to_owned();
            log.push("-wal");
            names.push(log);
        }
        match self.bell.watch(&folders, names) {
            Hearing::All => {}
            Hearing::New => look.sooner(Duration::ZERO),
            Hearing::Partly => look.sooner(SLOW),
        }
        if self.db.is_none() {
            self.db = Some(Db::open(&path)?);
        }
        let Some(db) = self.db.as_ref() else { return Ok(()) };
        let version = db.version()?;
        let known = self.subject.live.session();
        let read = self.read.as_ref();
        if read.is_some_and(|(s, v)| *v == version && known.as_ref().is_none_or(|k| k == s)) {
            return Ok(());
        }
        let session = session(&self.subject, process, db, self.since)?;
        if known.is_none() && read.is_none_or(|(s, _)| *s != session) {
            let transcript = Some(path);
            look.updates.push(RecordUpdate::Session { id: session.clone(), transcript });
        }
        let (messages, _) = db.messages(&session, FOLLOWED)?;
        let events = self.follow.take(&messages);
        look.updates.extend(events.into_iter().map(RecordUpdate::Record));
        self.read = Some((session, version));
        Ok(())
    }
}
