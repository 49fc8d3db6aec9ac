//! Terminals with real programs in real PTYs.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

use mado::host::screen::Colours;
use mado::host::terminal::{self, Command, Dropped, Envelope, Event, TerminalHandle, TerminalSpec};
use mado::proto::AgentId;
use mado::proto::screen::ScreenView;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// Nothing here takes this long; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    handle: TerminalHandle,
    events: mpsc::Receiver<Envelope>,
    view: ScreenView,
}

fn spec(script: &str) -> TerminalSpec {
    let path = std::env::var("PATH").unwrap_or_default();
    let mark = format!("test-{}-{:?}", std::process::id(), std::time::Instant::now());
    TerminalSpec {
        agent: AgentId(1),
        mark: mark.clone(),
        argv: ["bash", "--norc", "-c", script].map(str::to_owned).to_vec(),
        cwd: PathBuf::from("/"),
        env: BTreeMap::from([
            ("PATH".to_owned(), path),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
            ("MADO_AGENT_ID".to_owned(), mark),
        ]),
        size: (24, 80),
        watch_foreground: false,
        colours: Colours::default(),
    }
}

fn start(spec: TerminalSpec) -> Rig {
    let (to, events) = mpsc::channel(64);
    let handle = terminal::start(spec, to).expect("the program starts");
    Rig { handle, events, view: ScreenView::default() }
}

impl Rig {
    async fn next(&mut self) -> Event {
        let next = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        let Ok(Some((_, event))) = next else {
            panic!("nothing more came; the screen:\n{}", self.view.text())
        };
        match &event {
            Event::View(view) | Event::Checked { view, .. } => self.view = (**view).clone(),
            Event::Human { seq, .. } => self.handle.saw_human(*seq),
            _ => {}
        }
        event
    }

    async fn until<T>(&mut self, mut is: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let event = self.next().await;
            if let Some(found) = is(&event) {
                return found;
            }
        }
    }

    async fn shows(&mut self, text: &str) {
        while !self.view.text().contains(text) {
            self.next().await;
        }
    }

    async fn exited(&mut self) -> (Option<i32>, Option<i32>) {
        self.until(|e| match e {
            Event::Exited { code, signal } => Some((*code, *signal)),
            _ => None,
        })
        .await
    }

    async fn check(&mut self, token: u64) -> bool {
        self.handle.send(Command::Check { token }).await.expect("open");
        self.until(|e| match e {
            Event::Checked { token: t, settled, .. } if *t == token => Some(*settled),
            _ => None,
        })
        .await
    }

    async fn kill(&mut self) -> Vec<u32> {
        let grace = Duration::from_millis(500);
        self.handle.send(Command::Kill { grace }).await.expect("open");
        self.until(|e| match e {
            Event::Gone { left } => Some(left.clone()),
            _ => None,
        })
        .await
    }

    async fn write(&self, token: u64, text: &str, guard: Option<u64>) {
        self.handle.write(token, text.as_bytes().to_vec(), guard).await.expect("open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_prints_is_seen_and_its_exit_code_told() {
    let mut rig = start(spec("printf 'hello\\nworld'; exit 7"));
    assert_eq!(rig.exited().await, (Some(7), None));
    assert_eq!(rig.view.text(), "hello\nworld");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_a_signal_ends_is_told_apart_from_one_that_exits() {
    let mut rig = start(spec("kill -9 $$"));
    assert_eq!(rig.exited().await, (None, Some(9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_runs_with_exactly_the_environment_directory_and_size_it_was_given() {
    let mut spec =
        spec("env | cut -d= -f1 | sort | tr '\\n' ' '; pwd; stty size; tty >/dev/null && echo tty");
    spec.cwd = PathBuf::from("/tmp");
    spec.size = (31, 97);
    let mut rig = start(spec);
    rig.exited().await;
    let text = rig.view.text();
    assert!(
        text.starts_with("LC_ALL MADO_AGENT_ID PATH PWD SHLVL TERM _ /tmp\n31 97\ntty"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_coalesced_and_every_line_of_it_counted() {
    let mut rig = start(spec("seq 1 200000"));
    let mut views = 0;
    let mut rows: Vec<String> = Vec::new();
    loop {
        match rig.next().await {
            Event::View(view) => {
                views += 1;
                rows.extend(view.scrolled_rows.iter().map(|r| r.text.clone()));
            }
            Event::Exited { .. } => break,
            _ => {}
        }
    }
    assert_eq!(rig.view.scrolled, 200_000 - 23);
    assert_eq!(rig.view.rows[22].text, "200000");
    assert_eq!(rows.last().map(String::as_str), Some("199977"));
    assert!(views < 2000, "{views} views");
}

#[tokio::test(flavor = "multi_thread")]
async fn characters_cut_between_two_writes_arrive_whole() {
    let mut rig = start(spec(
        "printf '\\xe6\\x97'; sleep 0.1; printf '\\xa5\\xf0\\x9f'; sleep 0.1; printf '\\x91\\xa9.'",
    ));
    rig.exited().await;
    assert_eq!(rig.view.text(), "日👩.");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_without_any_viewer() {
    let script =
        "stty raw -echo; printf '\\e[6n\\e[c'; head -c 11 | tr '\\033' E; printf ' done\\r\\n'";
    let mut rig = start(spec(script));
    rig.exited().await;
    assert_eq!(rig.view.text(), "E[1;1RE[?6c done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_on_an_unchanged_screen_is_performed_and_on_a_changed_one_refused() {
    let mut rig = start(spec("echo ready; while read -r line; do echo \"got $line\"; done"));
    rig.shows("ready").await;
    assert!(rig.check(1).await);
    rig.write(10, "one\n", Some(1)).await;
    rig.until(|e| matches!(e, Event::Written { token: 10, .. }).then_some(())).await;
    rig.shows("got one").await;

    // The guard is from before: the screen has changed since.
    rig.write(11, "two\n", Some(1)).await;
    let why = rig
        .until(|e| match e {
            Event::WriteDropped { token: 11, written: 0, why } => Some(*why),
            Event::Written { token: 11, .. } => panic!("written on an outdated look"),
            _ => None,
        })
        .await;
    assert_eq!(why, Dropped::ScreenChanged);
    assert!(rig.check(2).await);
    rig.write(12, "three\n", Some(2)).await;
    rig.shows("got three").await;
    assert!(!rig.view.text().contains("two"));
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_sees_what_was_printed_before_it_at_once() {
    let mut rig = start(spec(
        "while read -r line; do printf \"\\e[2J\\e[H$line\"; printf x >&3; done 3>/dev/null",
    ));
    for i in 0..50u64 {
        rig.write(i, &format!("say-{i}\n"), None).await;
        // The screen is asked for again and again; each look is at least as new as the last.
        let mut token = 1000 * (i + 1);
        while !rig.view.text().ends_with(&format!("say-{i}")) {
            rig.check(token).await;
            token += 1;
        }
    }
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_of_a_frame_a_look_proves_nothing_and_its_deadline_ends_that() {
    // Each line begins a frame that is never ended.
    let script = "stty -echo; printf old; while read -r line; do \
                  printf '\\e[?2026l\\e[2J\\e[Hold\\e[?2026h\\e[2J\\e[Hdialog'; done";
    let mut rig = start(spec(script));
    rig.shows("old").await;
    let mut token = 0;
    let unsettled = loop {
        rig.write(1, "\n", None).await;
        // A machine that is busy elsewhere may show the frame only after its deadline; then again.
        let found = loop {
            token += 1;
            if !rig.check(token).await {
                break true;
            }
            if rig.view.text().contains("dialog") {
                break false;
            }
        };
        if found {
            break token;
        }
    };
    assert_eq!(rig.view.text(), "old", "what is being drawn is not shown");
    rig.write(2, "y\n", Some(unsettled)).await;
    let why = rig
        .until(|e| match e {
            Event::WriteDropped { token: 2, why, .. } => Some(*why),
            Event::Written { token: 2, .. } => panic!("written in the middle of a frame"),
            _ => None,
        })
        .await;
    assert_eq!(why, Dropped::ScreenChanged);
    rig.shows("dialog").await;
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_program_gets_no_byte_after_a_pause() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("got");
    let script = format!("stty raw -echo; echo ready; cat > {}", file.display());
    let mut rig = start(spec(&script));
    rig.shows("ready").await;
    // The shell and `cat` both.
    let group = rustix::process::Pid::from_raw(rig.handle.pid() as i32).expect("a pid");
    rustix::process::kill_process_group(group, rustix::process::Signal::STOP).expect("stopped");
    let text = "0123456789".repeat(20_000);
    rig.write(1, &text, None).await;
    rig.write(2, "never", None).await;
    rig.handle.drop_writes().await.expect("open");
    let first = rig
        .until(|e| match e {
            Event::WriteDropped { token: 1, written, why: Dropped::Paused } => Some(*written),
            _ => None,
        })
        .await;
    rig.until(|e| matches!(e, Event::WriteDropped { token: 2, written: 0, .. }).then_some(()))
        .await;
    assert!(first < text.len(), "the kernel cannot have taken all of it");
    rustix::process::kill_process_group(group, rustix::process::Signal::CONT).expect("going on");
    // A later write comes right after what the kernel had.
    rig.write(3, "END", None).await;
    let got = loop {
        let got = std::fs::read_to_string(&file).unwrap_or_default();
        if got.ends_with("END") {
            break got;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(got.len(), first + 3);
    assert_eq!(got, format!("{}END", &text[..first]));
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_it_leaves_no_process_behind() {
    let dir = tempfile::tempdir().expect("a folder");
    let pids = dir.path().join("pids");
    let p = pids.display();
    // A child, one that ignores signals, and a session of its own whose parents are gone.
    let script = format!(
        "sleep 1000 & echo $! >> {p}; (trap '' HUP TERM; while :; do sleep 1000; done) & echo $! >> {p}; \
         (setsid bash -c 'trap \"\" HUP TERM; echo $$ >> {p}; while :; do sleep 1000; done' &); \
         until [ $(wc -l < {p}) = 3 ]; do sleep 0.01; done; echo ready; sleep 1000"
    );
    let mut rig = start(spec(&script));
    rig.shows("ready").await;
    let left = rig.kill().await;
    assert_eq!(left, [0u32; 0]);
    for pid in std::fs::read_to_string(&pids).expect("pids").lines() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        assert!(matches!(state, None | Some(Some('Z'))), "{pid} still runs: {stat}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_found_after_the_program_itself_has_ended() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("pid");
    let f = file.display();
    let script = format!(
        "(setsid bash -c 'echo $$ > {f}; exec sleep 1000' &); until [ -s {f} ]; do sleep 0.01; done"
    );
    let mut rig = start(spec(&script));
    assert_eq!(rig.exited().await, (Some(0), None));
    let pid = std::fs::read_to_string(&file).expect("a pid");
    let alive = || {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .is_ok_and(|stat| !stat.contains(") Z"))
    };
    assert!(alive(), "it outlives the program");
    assert_eq!(rig.kill().await, [0u32; 0]);
    assert!(!alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_output_takes_the_foreground_from_a_shell() {
    let mut spec = spec("");
    spec.argv = ["bash", "--norc", "-i"].map(str::to_owned).to_vec();
    spec.env.insert("PS1".into(), "PROMPT> ".into());
    spec.watch_foreground = true;
    let mut rig = start(spec);
    rig.shows("PROMPT>").await;
    while rig.view.foreground != Some(true) {
        rig.next().await;
    }
    rig.write(1, "sleep 1000\n", None).await;
    while rig.view.foreground != Some(false) {
        rig.next().await;
    }
    rig.write(2, "\u{3}", None).await;
    while rig.view.foreground != Some(true) {
        rig.next().await;
    }
    rig.kill().await;
}
