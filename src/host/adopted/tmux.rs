//! A pane of tmux.
//!
//! Everything is done by `tmux` commands on the server's socket (seen: tmux 3.3a). Nothing in the pane is
//! changed: a pipe that it may have is left alone, so changes are found by capturing it, ten times a second
//! while it changes and down to once a second when it does not.
//!
//! # What makes a write safe, and what is weaker than in a terminal of mado's own
//!
//! - *The Enter*: the pane is captured and compared as a whole, then one command list compares again and pastes,
//!   all within one turn of the server's loop. That second comparison is by what formats can tell: cursor,
//!   history, size, mode, and whether each of the last rows still stands there by its letters and digits. On
//!   Linux the program must not have written anything between the two either.
//! - *A pause is exact*, by a permit as with an editor's buffer: a file that the command list removes first.
//! - *Copy mode* and a pane whose input is off swallow keys: then nothing is written.
//! - *People's keys* are not told. A client that shows the pane and was used (to the second) counts as a
//!   person who typed, and so does text in the composer that mado did not put there.
//! - Pastes go through a buffer of mado's own name, never through the person's; `paste-buffer` reaches only the
//!   pane itself, also where panes are synchronised.

use super::{ALIVE, Common, Subject, Wanted, handle, paste, sleep_until};
use crate::host::procs::Process;
use crate::host::screen::{Colours, Screen};
use crate::host::terminal::{Command, Dropped, Envelope, Event, TerminalHandle};
use crate::proto::screen::{Row, ScreenView};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};

/// Between captures while something changes, or while mado types.
const FAST: Duration = Duration::from_millis(100);

/// Between captures after a long while without a change.
const SLOW: Duration = Duration::from_secs(1);

/// Between the two captures of a check, which must be alike.
const APART: Duration = Duration::from_millis(20);

/// How long what the program has written may take to the pane.
const DRAWN: Duration = Duration::from_millis(5);

/// How long a command may take. The server answers at once or is stopped.
const LIMIT: Duration = Duration::from_secs(5);

/// Rows of history that a look at a shell takes along.
const HISTORY: usize = 300;

/// Rows that are compared in the same turn as the Enter is sent.
const ROWS: usize = 10;

/// What is asked of a pane. The title comes last: it may hold anything.
const FORMAT: &str = "#{pane_id} #{pane_pid} #{pane_dead} #{pane_in_mode} #{pane_input_off} \
    #{cursor_x} #{cursor_y} #{cursor_flag} #{alternate_on} #{history_size} #{history_limit} \
    #{pane_width} #{pane_height} b#{bracket_paste_flag} #{pane_title}";

/// What is between what is asked and what the pane shows.
const END: &str = "mado-end-of-facts";

/// Where a pane is.
#[derive(Debug, Clone)]
struct Pane {
    socket: String,
    id: String,
    line: bool,
}

/// What a look gives.
#[derive(Debug, Clone)]
struct Look {
    pid: u32,
    dead: bool,
    /// Copy mode, or its input is off.
    deaf: bool,
    cursor: (usize, usize),
    cursor_visible: bool,
    alternate: bool,
    history: u64,
    limit: u64,
    size: (usize, usize),
    /// Whether the program asked for bracketed paste, where this tmux tells it.
    bracketed: Option<bool>,
    title: String,
    /// When a client that shows the pane was used last, seconds since the epoch.
    activity: u64,
    /// Rows as they are drawn, with their attributes.
    lines: Vec<String>,
}

/// Why a look gave nothing.
#[derive(Debug)]
enum Failed {
    /// The pane or its server is gone.
    Gone,
    /// It took too long, or is not understood.
    Other(String),
}

/// Takes over a pane.
///
/// Must be called within a tokio runtime.
pub fn start(
    subject: Subject,
    socket: String,
    pane: String,
    events: mpsc::Sender<Envelope>,
) -> TerminalHandle {
    let (handle, common) = handle(subject, events);
    let line = common.is_line();
    let task = Task {
        common,
        pane: Pane { socket, id: pane, line },
        pid: None,
        busy: None,
        queue: VecDeque::new(),
        checked: None,
        last: None,
        wait: FAST,
        at: Instant::now(),
    };
    tokio::spawn(task.run());
    handle
}

enum Job {
    Look,
    Check(u64),
    Snapshot(oneshot::Sender<ScreenView>),
    Write(Wanted),
}

/// What a job came to.
enum Done {
    Looked(Result<Look, Failed>),
    /// The last of two looks, and whether they were alike.
    Checked(Result<(Look, bool), Failed>),
    Wrote(Result<String, Failed>),
}

struct Busy {
    job: Job,
    permit: PathBuf,
    revoked: bool,
    done: oneshot::Receiver<Done>,
}

struct Task {
    common: Common,
    pane: Pane,
    /// The pane's first process.
    pid: Option<u32>,
    busy: Option<Busy>,
    queue: VecDeque<Job>,
    checked: Option<(u64, Look, Option<bool>)>,
    last: Option<Look>,
    wait: Duration,
    at: Instant,
}

impl Task {
    async fn run(mut self) {
        let mut alive = Instant::now() + ALIVE;
        let mut dead = false;
        loop {
            self.next();
            let events = self.common.events.clone();
            let (room, over) = (!self.common.outbox.is_empty(), self.common.over);
            let idle = self.busy.is_none();
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
                done = finished(&mut self.busy) => self.finish(done),
                () = sleep_until(self.at), if !over && idle => self.queue.push_back(Job::Look),
                () = sleep_until(alive), if !over => {
                    alive = Instant::now() + ALIVE;
                    // What became of the pane says more, and the next look tells it.
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
                self.queue.retain(|job| !matches!(job, Job::Check(_) | Job::Look));
                self.queue.push_back(Job::Check(token));
            }
            Command::Snapshot { reply } => self.queue.push_back(Job::Snapshot(reply)),
            Command::Dropped => self.drop_outdated(),
            Command::HoldSize(hold) => {
                self.common.hold(hold);
                self.wait = FAST;
            }
            Command::Kill { .. } => self.common.released(),
            Command::Resize { .. } | Command::Colours(_) | Command::Attach(_) => {}
        }
    }

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

    fn next(&mut self) {
        while self.busy.is_none() {
            let Some(job) = self.queue.pop_front() else { return };
            if self.common.over {
                match job {
                    Job::Write(wanted) => self.common.dropped(wanted.token, Dropped::Closed),
                    Job::Snapshot(reply) => {
                        let _ = reply.send(self.common.view.clone().unwrap_or_default());
                    }
                    Job::Look | Job::Check(_) => {}
                }
                continue;
            }
            let (sender, done) = oneshot::channel();
            let pane = self.pane.clone();
            let mut permit = PathBuf::new();
            match &job {
                Job::Look | Job::Snapshot(_) => {
                    tokio::spawn(async move { sender.send(Done::Looked(look(&pane).await)) });
                }
                Job::Check(_) => {
                    tokio::spawn(
                        async move { sender.send(Done::Checked(look_twice(&pane).await)) },
                    );
                }
                Job::Write(wanted) => match self.begin(wanted) {
                    Ok((file, expected)) => {
                        permit.clone_from(&file);
                        let (text, is_paste) = paste(&wanted.bytes);
                        let process = self.common.subject.process;
                        let order = Order { permit: file, text, is_paste, expected, process };
                        let pid = self.pid.unwrap_or_default();
                        tokio::spawn(async move {
                            sender.send(Done::Wrote(write(&pane, pid, order).await))
                        });
                    }
                    Err(why) => {
                        self.common.dropped(wanted.token, why);
                        continue;
                    }
                },
            }
            self.busy = Some(Busy { job, permit, revoked: false, done });
        }
    }

    /// What a write needs: its permit, and the look that it was decided on.
    fn begin(&self, wanted: &Wanted) -> Result<(PathBuf, Option<Look>), Dropped> {
        if let Some(why) = self.common.outdated(wanted) {
            return Err(why);
        }
        let foreground = self.common.foreground();
        let expected = match wanted.guard {
            None if foreground == Some(false) => return Err(Dropped::ScreenChanged),
            None => None,
            Some(guard) => match &self.checked {
                Some((token, look, then)) if *token == guard && *then == foreground => {
                    Some(look.clone())
                }
                _ => return Err(Dropped::ScreenChanged),
            },
        };
        let permit = self.common.subject.folder.join(format!("permit-{}", wanted.token));
        std::fs::write(&permit, b"").map_err(|e| {
            tracing::error!("{} cannot be written: {e}", permit.display());
            Dropped::Closed
        })?;
        Ok((permit, expected))
    }

    fn finish(&mut self, done: Done) {
        let Some(Busy { job, permit, revoked, .. }) = self.busy.take() else { return };
        let look = match done {
            Done::Wrote(result) => {
                let unused = std::fs::remove_file(&permit).is_ok();
                if let Job::Write(wanted) = job
                    && !revoked
                {
                    self.wrote(&wanted, unused, result);
                }
                (self.wait, self.at) = (FAST, Instant::now() + FAST);
                return;
            }
            Done::Looked(result) => result.map(|look| (look, true)),
            Done::Checked(result) => result,
        };
        let (look, settled) = match look {
            Ok(found) => found,
            Err(failed) => {
                if let Job::Snapshot(reply) = job {
                    let _ = reply.send(self.common.view.clone().unwrap_or_default());
                }
                self.at = Instant::now() + SLOW;
                return match failed {
                    Failed::Gone => self.common.lost("is out of reach: its tmux pane is gone"),
                    Failed::Other(why) => tracing::warn!("tmux pane {}: {why}", self.pane.id),
                };
            }
        };
        if look.dead || look.pid != *self.pid.get_or_insert(look.pid) {
            return self.common.lost("is out of reach: its tmux pane has another program");
        }
        self.used(&look);
        let before = self.common.changes;
        let view = self.view(&look);
        let changed = self.common.changes != before;
        self.last = Some(look.clone());
        match job {
            Job::Check(token) => {
                let mut view = view;
                view.unread = self.common.unread();
                self.checked = settled.then(|| (token, look, self.common.foreground()));
                self.common.tell(Event::Checked { token, view: Box::new(view), settled });
            }
            Job::Snapshot(reply) => {
                let _ = reply.send(view);
            }
            Job::Look | Job::Write(_) => self.common.looked(view),
        }
        self.wait = if changed || self.common.holds { FAST } else { (self.wait * 3 / 2).min(SLOW) };
        self.at = Instant::now() + self.wait;
    }

    /// A client that shows the pane was used since the last look: a person is there.
    fn used(&mut self, look: &Look) {
        if self.last.as_ref().is_some_and(|last| look.activity > last.activity) {
            self.common.active();
            self.drop_outdated();
        }
    }

    fn wrote(&mut self, wanted: &Wanted, unused: bool, result: Result<String, Failed>) {
        let why = match &result {
            Ok(said) if said == "written" => None,
            Ok(said) if said == "changed" => Some(Dropped::ScreenChanged),
            Ok(said) if said == "revoked" => Some(Dropped::Paused),
            other => {
                tracing::warn!("a write into tmux pane {}: {other:?}", self.pane.id);
                unused.then_some(Dropped::Closed)
            }
        };
        match why {
            None => self.common.tell(Event::Written { token: wanted.token, at: Instant::now() }),
            Some(why) => self.common.dropped(wanted.token, why),
        }
        if matches!(result, Err(Failed::Gone)) {
            self.common.lost("is out of reach: its tmux pane is gone");
        }
    }

    fn view(&mut self, look: &Look) -> ScreenView {
        let (height, cols) = look.size;
        let cut = look.lines.len().saturating_sub(height);
        let line = self.pane.line;
        let asks = !line && self.common.subject.profile.submit.needs_bracketed;
        let mut view = draw(&look.lines[cut..], look.size);
        view.cols = cols;
        view.cursor = look.cursor;
        view.cursor_visible = look.cursor_visible;
        view.title.clone_from(&look.title);
        view.bracketed_paste = look.bracketed.unwrap_or(asks);
        view.alt_screen = look.alternate || !line;
        view.bytes = 0;
        if line {
            let gone = self.scrolled(look);
            let before = self.common.view.as_ref().map_or(look.history, |v| v.scrolled);
            view.scrolled = before + gone;
            let rows = draw(&look.lines[..cut], (cut.max(1), cols)).rows;
            let take = usize::try_from(gone).unwrap_or(usize::MAX).min(cut);
            view.scrolled_rows = rows.into_iter().take(cut).skip(cut - take).collect();
        }
        let mut view = self.common.complete(view);
        if look.deaf {
            view.foreground = Some(false);
        }
        view
    }

    /// How many rows have left the screen since the last look.
    fn scrolled(&self, look: &Look) -> u64 {
        let Some(last) = &self.last else { return 0 };
        if look.history >= last.history {
            return look.history - last.history;
        }
        // A full history loses a tenth at once (tmux 3.3a); cleared, or given back to a higher pane, it only
        // shrinks.
        let full = last.history + 1 >= look.limit.saturating_sub(look.limit / 10);
        if full { (look.history + look.limit / 10).saturating_sub(last.history) } else { 0 }
    }
}

async fn finished(busy: &mut Option<Busy>) -> Done {
    match busy {
        Some(busy) => (&mut busy.done)
            .await
            .unwrap_or_else(|_| Done::Looked(Err(Failed::Other("a task failed".to_owned())))),
        None => std::future::pending().await,
    }
}

/// Rows with their attributes, as tmux captured them.
fn draw(lines: &[String], (rows, cols): (usize, usize)) -> ScreenView {
    let size = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let mut screen = Screen::new(size(rows), size(cols), Colours::default());
    let text = lines.join("\r\n");
    screen.feed(text.as_bytes(), Instant::now(), &mut Vec::new());
    let mut view = screen.look();
    view.rows.resize(rows, Row::default());
    view
}

/// Runs a list of tmux commands and gives what it printed.
async fn tmux(socket: &str, args: &[String], input: &[u8]) -> Result<String, Failed> {
    let mut command = tokio::process::Command::new("tmux");
    command.args(["-u", "-S", socket]).args(args).env_remove("TMUX").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let run = async {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read it has no use for it.
            let _ = stdin.write_all(input).await;
        }
        child.wait_with_output().await
    };
    let output = match tokio::time::timeout(LIMIT, run).await {
        Err(_) => return Err(Failed::Other(format!("tmux did not answer within {LIMIT:?}"))),
        Ok(Err(e)) => return Err(Failed::Other(format!("tmux cannot be run: {e}"))),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let gone = ["can't find pane", "no server running", "error connecting", "server exited"];
    if gone.iter().any(|g| said.contains(g)) {
        return Err(Failed::Gone);
    }
    Err(Failed::Other(format!("tmux: {said}")))
}

async fn look(pane: &Pane) -> Result<Look, Failed> {
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let mut args = words(&["display-message", "-p", "-t", &pane.id, FORMAT, ";"]);
    args.extend(words(&["list-clients", "-F", "#{client_activity} #{pane_id}", ";"]));
    args.extend(words(&["display-message", "-p", END, ";"]));
    args.extend(words(&["capture-pane", "-p", "-e", "-t", &pane.id]));
    if pane.line {
        args.extend(words(&["-S", &format!("-{HISTORY}")]));
    }
    let said = tmux(&pane.socket, &args, b"").await?;
    read(&said, &pane.id).ok_or_else(|| {
        // A pane that is gone leaves the formats of another one, or of none.
        let first = said.lines().next().unwrap_or_default();
        if first.starts_with(&format!("{} ", pane.id)) {
            Failed::Other(format!("tmux answered {first:?}"))
        } else {
            Failed::Gone
        }
    })
}

async fn look_twice(pane: &Pane) -> Result<(Look, bool), Failed> {
    let first = look(pane).await?;
    tokio::time::sleep(APART).await;
    let second = look(pane).await?;
    let settled = same(&first, &second);
    Ok((second, settled))
}

/// Whether two looks show the same.
fn same(a: &Look, b: &Look) -> bool {
    let state = |l: &Look| (l.pid, l.dead, l.deaf, l.cursor, l.alternate, l.history, l.size);
    state(a) == state(b) && a.lines == b.lines && a.title == b.title
}

fn read(said: &str, id: &str) -> Option<Look> {
    let mut lines = said.split('\n');
    let head = lines.next()?;
    let fields: Vec<&str> = head.splitn(15, ' ').collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
    let small = |i: usize| number(i).and_then(|n| usize::try_from(n).ok());
    let flag = |i: usize| fields.get(i).is_some_and(|f| *f == "1");
    if fields.first() != Some(&id) {
        return None;
    }
    let mut activity = 0;
    for line in lines.by_ref() {
        if line == END {
            break;
        }
        if let Some((at, shown)) = line.split_once(' ')
            && shown == id
        {
            activity = activity.max(at.parse().unwrap_or(0));
        }
    }
    let mut shown: Vec<String> = lines.map(str::to_owned).collect();
    // The last line ends with a newline of its own.
    shown.pop();
    let bracketed = match *fields.get(13)? {
        "b1" => Some(true),
        "b0" => Some(false),
        _ => None,
    };
    Some(Look {
        pid: u32::try_from(number(1)?).ok()?,
        dead: flag(2),
        deaf: number(3)? > 0 || flag(4),
        cursor: (small(6)?, small(5)?),
        cursor_visible: flag(7),
        alternate: flag(8),
        history: number(9)?,
        limit: number(10)?,
        size: (small(12)?, small(11)?),
        bracketed,
        title: (*fields.get(14).unwrap_or(&"")).to_owned(),
        activity,
        lines: shown,
    })
}

struct Order {
    permit: PathBuf,
    text: String,
    is_paste: bool,
    /// The look it was decided on.
    expected: Option<Look>,
    /// The agent.
    process: Process,
}

/// Pastes, if the pane still is what it was. Says `written`, `changed` or `revoked`.
async fn write(pane: &Pane, pid: u32, order: Order) -> Result<String, Failed> {
    // Read before the look, so that all that it counts is in the look.
    let count = order.expected.as_ref().and_then(|_| order.process.written());
    if let Some(expected) = &order.expected {
        tokio::time::sleep(DRAWN).await;
        let now = look(pane).await?;
        if !same(expected, &now) || now.deaf || now.activity > expected.activity {
            return Ok("changed".to_owned());
        }
    }
    let buffer = format!("mado-{}", std::process::id());
    let id = &pane.id;
    let marks = if order.is_paste { "-p " } else { "" };
    let condition = condition(pid, order.expected.as_ref());
    let written =
        format!("paste-buffer {marks}-r -d -b {buffer} -t {id} ; display-message -p written");
    let changed = format!("delete-buffer -b {buffer} ; display-message -p changed");
    let revoked = format!("delete-buffer -b {buffer} ; display-message -p revoked");
    let inner = format!("if-shell -F -t '{id}' '{condition}' '{written}' '{changed}'");
    // Written into the permit, if it is still there.
    let permit = std::fs::OpenOptions::new().write(true).open(&order.permit);
    if permit.and_then(|mut f| f.write_all(script(order.process, count).as_bytes())).is_err() {
        return Ok("revoked".to_owned());
    }
    // A path for a shell, within a format.
    let path = order.permit.display().to_string().replace('\'', r"'\''").replace('#', "##");
    let take = format!("sh '{path}'");
    let args =
        ["load-buffer", "-b", &buffer, "-", ";", "if-shell", "-t", id, &take, &inner, &revoked];
    let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
    tmux(&pane.socket, &args, order.text.as_bytes()).await.map(|said| said.trim().to_owned())
}

/// What takes a permit, which it is itself: it fails where the host has removed it, or where the program has
/// written something since, which may be a dialog that the pane does not show yet.
fn script(process: Process, count: Option<u64>) -> String {
    let still = count.map_or_else(String::new, |count| {
        let io = format!("/proc/{}/io", process.pid);
        format!("{{ read a; read b; }} <{io} || exit 1\n[ \"$b\" = 'wchar: {count}' ] || exit 1\n")
    });
    format!("{still}rm \"$0\" 2>/dev/null\n")
}

/// A format that is true while the pane is as it was seen.
fn condition(pid: u32, expected: Option<&Look>) -> String {
    let mut format = "#{pane_pid} #{pane_dead} #{pane_in_mode} #{pane_input_off}".to_owned();
    let mut value = format!("{pid} 0 0 0");
    if let Some(look) = expected {
        format.push_str(" #{cursor_x} #{cursor_y} #{history_size} #{alternate_on}");
        format.push_str(" #{pane_width} #{pane_height}");
        let _ = write!(value, " {} {}", look.cursor.1, look.cursor.0);
        let _ = write!(value, " {} {}", look.history, u8::from(look.alternate));
        let _ = write!(value, " {} {}", look.size.1, look.size.0);
        let cut = look.lines.len().saturating_sub(look.size.0);
        let rows = draw(&look.lines[cut..], look.size).rows;
        let patterns = rows.iter().rev().filter_map(|row| pattern(&row.text)).take(ROWS);
        for pattern in patterns {
            let _ = write!(format, " #{{?#{{C:{pattern}}},1,0}}");
            value.push_str(" 1");
        }
    }
    format!("#{{==:{format},{value}}}")
}

/// A row as a pattern of what must stand there: its ASCII letters and digits. Everything else could mean
/// something in a format. `None`: it has none.
fn pattern(row: &str) -> Option<String> {
    let mut pattern = "*".to_owned();
    for c in row.chars() {
        if c.is_ascii_alphanumeric() {
            pattern.push(c);
        } else if !pattern.ends_with('*') {
            pattern.push('*');
        }
    }
    (pattern.len() > 1).then(|| if pattern.ends_with('*') { pattern } else { pattern + "*" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_nothing_that_a_format_or_a_quote_could_take() {
        let said = "%3 77 0 0 0 2 1 1 0 5 2000 30 3 b a title of 3 words\n1700000000 %3\n\
                    1700000009 %4\nmado-end-of-facts\nplain, #{text} 'x'\n❯ it } costs\n───\n";
        let look = read(said, "%3").unwrap();
        assert_eq!((look.pid, look.cursor, look.size), (77, (1, 2), (3, 30)));
        assert_eq!((look.activity, look.bracketed), (1_700_000_000, None));
        assert_eq!(look.title, "a title of 3 words");
        assert_eq!(look.lines.len(), 3);
        assert_eq!(
            condition(77, Some(&look)),
            "#{==:#{pane_pid} #{pane_dead} #{pane_in_mode} #{pane_input_off} #{cursor_x} \
             #{cursor_y} #{history_size} #{alternate_on} #{pane_width} #{pane_height} \
             #{?#{C:*it*costs*},1,0} #{?#{C:*plain*text*x*},1,0},77 0 0 0 2 1 5 0 30 3 1 1}"
        );
        assert!(read(said, "%9").is_none());
    }
}
