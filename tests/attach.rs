//! Viewers of a terminal: what they get, what they send, whose size counts.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::expect_used, reason = "helpers outside test functions may fail the test too")]

use mado::host::attach::{self, Wants};
use mado::host::screen::{Colours, Screen};
use mado::host::terminal::{self, Command, Dropped, Envelope, Event, TerminalHandle, TerminalSpec};
use mado::proto::AgentId;
use mado::proto::attach::{Decoder, Exit, Frame, Hello, VERSION};
use mado::proto::screen::ScreenView;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// Nothing here takes this long; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Rig {
    handle: TerminalHandle,
    events: mpsc::Receiver<Envelope>,
    view: ScreenView,
}

fn start(script: &str) -> Rig {
    let mark = format!("test-{}-{:?}", std::process::id(), Instant::now());
    let spec = TerminalSpec {
        agent: AgentId(1),
        mark: mark.clone(),
        argv: ["bash", "--norc", "-c", script].map(str::to_owned).to_vec(),
        cwd: PathBuf::from("/"),
        env: BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
            ("MADO_AGENT_ID".to_owned(), mark),
        ]),
        size: (24, 80),
        watch_foreground: false,
        colours: Colours::default(),
    };
    let (to, events) = mpsc::channel(64);
    let handle = terminal::start(spec, to).expect("the program starts");
    Rig { handle, events, view: ScreenView::default() }
}

impl Rig {
    async fn until<T>(&mut self, mut is: impl FnMut(&Event) -> Option<T>) -> T {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            let Ok(Some((_, event))) = next else {
                panic!("nothing more came; the screen:\n{}", self.view.text())
            };
            if let Event::View(view) | Event::Checked { view, .. } = &event {
                self.view = (**view).clone();
            }
            if let Some(found) = is(&event) {
                return found;
            }
        }
    }

    async fn shows(&mut self, text: &str) {
        while !self.view.text().contains(text) {
            self.until(|e| matches!(e, Event::View(_)).then_some(())).await;
        }
    }

    async fn kill(mut self) {
        let grace = Duration::from_millis(500);
        self.handle.send(Command::Kill { grace }).await.expect("open");
        self.until(|e| matches!(e, Event::Gone { .. }).then_some(())).await;
    }

    async fn attach(&self, rows: u16, cols: u16) -> Viewer {
        self.attach_as(Hello { rows, cols, version: VERSION, ..Hello::default() }).await
    }

    async fn attach_as(&self, hello: Hello) -> Viewer {
        let (client, host) = UnixStream::pair().expect("a pair");
        let (rows, cols) = (hello.rows, hello.cols);
        let mut viewer = Viewer {
            stream: client,
            decoder: Decoder::default(),
            screen: Screen::new(rows, cols, Colours::default()),
            raw: Vec::new(),
            exit: None,
        };
        viewer.send(Frame::Hello(hello)).await;
        let Ok(Wants::Attach(connection)) = attach::accept(host).await else {
            panic!("a hello is a hello")
        };
        self.handle.send(Command::Attach(connection)).await.expect("open");
        viewer
    }
}

/// A client with a terminal of its own.
struct Viewer {
    stream: UnixStream,
    decoder: Decoder,
    screen: Screen,
    raw: Vec<u8>,
    exit: Option<Exit>,
}

impl Viewer {
    async fn send(&mut self, frame: Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.stream.write_all(&bytes).await.expect("the host reads");
    }

    async fn keys(&mut self, keys: &str) {
        self.send(Frame::Input(keys.as_bytes().to_vec())).await;
    }

    async fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.resize(rows, cols);
        self.send(Frame::Resize(rows, cols)).await;
    }

    /// Reads one piece. Returns `false` at the end.
    async fn read(&mut self) -> bool {
        let mut buf = vec![0; 64 * 1024];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut buf)).await;
        let n = match read {
            Ok(read) => read.expect("the connection works"),
            Err(late) => panic!("nothing more came ({late}); it shows:\n{}", self.text()),
        };
        self.decoder.feed(&buf[..n]);
        while let Some(frame) = self.decoder.next_frame().expect("frames") {
            match frame {
                Frame::Output(bytes) => {
                    self.screen.feed(&bytes, Instant::now(), &mut Vec::new());
                    self.raw.extend_from_slice(&bytes);
                }
                Frame::Exit(exit) => self.exit = Some(exit),
                _ => {}
            }
        }
        n > 0
    }

    fn text(&self) -> String {
        self.screen.look().text()
    }

    async fn shows(&mut self, text: &str) {
        while !self.text().contains(text) {
            assert!(self.read().await, "ended without {text:?}; it shows:\n{}", self.text());
        }
    }

    async fn ends(&mut self) -> Exit {
        while self.read().await {}
        self.exit.clone().expect("an exit frame comes before the end")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_viewer_sets_the_size_and_sees_what_was_printed_before() {
    let mut rig = start("printf 'before\\n'; read; stty size; read");
    rig.shows("before").await;
    let mut viewer = rig.attach(30, 100).await;
    viewer.shows("before").await;
    rig.until(|e| matches!(e, Event::Resized { rows: 30, cols: 100 }).then_some(())).await;
    viewer.keys("\r").await;
    viewer.shows("30 100").await;
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_of_another_size_is_cropped_until_a_key_in_it_claims_the_size() {
    let script = "printf '%s\\n' one two three four; printf 'a long line to be cut'; \
                  stty -echo; while read -rn1 k; do printf '\\e[2J\\e[H'; stty size; done";
    let mut rig = start(script);
    rig.shows("to be cut").await;
    let mut large = rig.attach(24, 80).await;
    large.shows("to be cut").await;
    let mut small = rig.attach(3, 10).await;
    small.shows("a long lin").await;
    assert_eq!(small.text(), "three\nfour\na long lin");

    // Neither a focus change nor the mouse claims anything.
    small.keys("\x1b[I\x1b[<0;1;1M").await;
    large.keys("x").await;
    small.shows("24 80").await;

    small.keys("y").await;
    small.shows("3 10").await;
    large.shows("3 10").await;
    let (rows, cols) = (large.screen.size(), small.screen.size());
    assert_eq!((rows, cols), ((24, 80), (3, 10)), "nobody's own terminal was touched");

    // And back.
    large.keys("z").await;
    large.shows("24 80").await;
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_size_is_held_a_key_claims_it_only_on_release() {
    let mut rig = start("stty -echo; echo ready; while read -rn1 k; do stty size; done");
    let mut first = rig.attach(24, 80).await;
    first.shows("ready").await;
    rig.handle.send(Command::HoldSize(true)).await.expect("open");
    let mut second = rig.attach(10, 40).await;
    second.shows("ready").await;
    second.keys("x").await;
    first.shows("24 80").await;
    first.resize(25, 81).await;
    second.keys("y").await;
    while first.text().matches("24 80").count() < 2 {
        first.read().await;
    }
    rig.handle.send(Command::HoldSize(false)).await.expect("open");
    rig.until(|e| matches!(e, Event::Resized { rows: 10, cols: 40 }).then_some(())).await;
    second.keys("z").await;
    second.shows("10 40").await;
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_stops_reading_holds_up_nobody_and_catches_up_by_a_repaint() {
    let script = "stty -echo; echo ready; read; seq 1 400000; printf 'the end'; read";
    let mut rig = start(script);
    let mut reader = rig.attach(24, 80).await;
    reader.shows("ready").await;
    let mut stalled = rig.attach(24, 80).await;
    stalled.shows("ready").await;
    reader.keys("\r").await;
    // 2.7 MB: more than the socket's buffer and the queue hold together.
    reader.shows("the end").await;
    rig.shows("the end").await;
    // The reader may have been too slow once as well. The one that did not read cannot have it all.
    let before = stalled.raw.len();
    stalled.shows("the end").await;
    let got = stalled.raw.len() - before;
    assert!(got < 2_000_000, "{got} bytes");
    assert_eq!(stalled.screen.look().rows, rig.view.rows);
    let rows = stalled.screen.snapshot().scrolled_rows;
    assert_eq!(rows.len(), 2000);
    assert_eq!(rows[1999].text, "399977");
    // It follows live again.
    reader.keys("\r").await;
    assert_eq!(stalled.ends().await.code, Some(0));
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_again_restores_scrollback_colours_cursor_and_modes() {
    let script = "for i in $(seq 1 3000); do printf '\\e[3%dmline %d\\e[0m\\n' $((i%8)) $i; done; \
                  printf '\\e]2;title\\a\\e[?2004h\\e[?1000h\\e[5;7H\\e[1;35m'; sleep 0.01; \
                  read; printf 'more'; read";
    let mut rig = start(script);
    let viewer = rig.attach(24, 80).await;
    rig.shows("line 3000").await;
    while rig.view.cursor != (4, 6) {
        rig.until(|e| matches!(e, Event::View(_)).then_some(())).await;
    }
    drop(viewer);
    rig.until(|e| matches!(e, Event::Viewers(0)).then_some(())).await;

    let mut again = rig.attach(24, 80).await;
    again.shows("line 3000").await;
    while again.screen.look().cursor != (4, 6) {
        again.read().await;
    }
    let view = again.screen.look();
    assert_eq!(view.rows, rig.view.rows);
    assert_eq!(view.title, "title");
    assert!(view.bracketed_paste);
    let rows = again.screen.snapshot().scrolled_rows;
    assert_eq!((rows.len(), rows[0].text.as_str()), (2000, "line 978"));
    // What is printed next lands where the cursor was, for the model as for the viewer.
    again.keys("\r").await;
    again.shows("more").await;
    rig.shows("more").await;
    assert_eq!(again.screen.look().rows, rig.view.rows);
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_once_however_many_look_and_reach_none_of_them() {
    let script = "stty raw -echo; printf 'ready'; read -rn1; printf '\\e[c\\e[6n\\e]11;?\\a\\e[>q\\e[?2026$p'; \
                  printf 'asked'; sleep 0.3; printf '\\e[2J\\e[H'; \
                  timeout --foreground 0.5 cat | tr '\\033\\007' 'EB'; printf ' done'; sleep 1000";
    let rig = start(script);
    let mut a = rig.attach(24, 80).await;
    a.shows("ready").await;
    let mut b = rig.attach(24, 80).await;
    b.shows("ready").await;
    a.keys("x").await;
    b.shows("asked").await;
    // Replies of a viewer's own terminal must not reach the program, nor count as keys.
    b.keys("\x1b[?62;22c\x1b[9;9R\x1b]11;rgb:1/1/1\x07").await;
    a.shows(" done").await;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        a.text().replace('\n', ""),
        format!("E[?6cE[1;6RE]11;rgb:0000/0000/0000BEP>|mado({version})E\\E[?2026;2$y done")
    );
    for viewer in [&a, &b] {
        let raw = String::from_utf8_lossy(&viewer.raw);
        for query in ["\x1b[c", "\x1b[6n", "]11;?", "\x1b[>q", "$p"] {
            assert!(!raw.contains(query), "{query:?} reached a viewer");
        }
    }
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_told_and_a_focus_change_or_the_mouse_is_not() {
    let mut rig = start("stty raw -echo; echo ready; cat -v");
    let mut viewer = rig.attach(24, 80).await;
    viewer.shows("ready").await;
    viewer.keys("\x1b[I\x1b[<0;3;3M").await;
    viewer.shows("^[[I^[[<0;3;3M").await;
    viewer.keys("a").await;
    viewer.keys("\r").await;
    let mut bytes = Vec::new();
    let mut last = 0;
    let submitted = loop {
        let (seq, new, submits) = rig
            .until(|e| match e {
                Event::Human { seq, bytes, submits, .. } => Some((*seq, bytes.clone(), *submits)),
                _ => None,
            })
            .await;
        bytes.extend(new);
        assert!(seq > last);
        last = seq;
        if bytes.len() == 2 {
            break submits;
        }
    };
    assert_eq!(bytes, b"a\r");
    assert!(submitted);
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_decided_before_a_key_was_known_is_refused() {
    let mut rig = start("stty raw -echo; echo ready; cat -v");
    let mut viewer = rig.attach(24, 80).await;
    viewer.shows("ready").await;
    viewer.keys("k").await;
    let seq = rig
        .until(|e| match e {
            Event::Human { seq, .. } => Some(*seq),
            _ => None,
        })
        .await;
    // The host has not said that it knows of the key.
    rig.handle.write(1, b"mine".to_vec(), None).await.expect("open");
    let why = rig
        .until(|e| match e {
            Event::WriteDropped { token: 1, written: 0, why } => Some(*why),
            Event::Written { .. } => panic!("written over a person's key"),
            _ => None,
        })
        .await;
    assert_eq!(why, Dropped::Human);
    rig.handle.saw_human(seq);
    rig.handle.write(2, b"later".to_vec(), None).await.expect("open");
    viewer.shows("klater").await;
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_viewer_sends_nothing_and_claims_nothing() {
    let mut rig = start(
        "stty raw -echo; echo ready; read -rn1 k; printf 'key %s ' $k; stty size; sleep 1000",
    );
    let hello = Hello { rows: 10, cols: 20, read_only: true, ..Hello::default() };
    let mut watcher = rig.attach_as(hello).await;
    watcher.shows("ready").await;
    watcher.keys("w").await;
    let mut viewer = rig.attach(24, 80).await;
    viewer.shows("ready").await;
    viewer.keys("v").await;
    viewer.shows("key v 24 80").await;
    watcher.shows("key v 24 80").await;
    rig.until(|e| matches!(e, Event::Viewers(2)).then_some(())).await;
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_program_comes_after_its_last_output_also_for_who_comes_late() {
    let mut rig = start("printf ready; read; seq 1 20000; printf last; exit 9");
    let mut viewer = rig.attach(24, 80).await;
    viewer.shows("ready").await;
    viewer.keys("\r").await;
    let exit = viewer.ends().await;
    assert_eq!((exit.code, exit.signal), (Some(9), None));
    assert!(viewer.text().ends_with("20000\nlast"), "{}", viewer.text());
    rig.until(|e| matches!(e, Event::Exited { code: Some(9), .. }).then_some(())).await;

    let mut late = rig.attach(24, 80).await;
    assert_eq!(late.ends().await.code, Some(9));
    assert!(late.text().ends_with("20000\nlast"), "{}", late.text());
    rig.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_repaints_what_is_visible_and_leaves_the_viewers_scrollback_alone() {
    let mut rig = start("seq 1 100; printf 'a line that is to be wrapped at the edge'; read");
    let mut viewer = rig.attach(10, 60).await;
    viewer.shows("the edge").await;
    rig.shows("the edge").await;
    let before = viewer.raw.len();
    viewer.resize(8, 20).await;
    rig.until(|e| matches!(e, Event::Resized { rows: 8, cols: 20 }).then_some(())).await;
    while rig.view.cols != 20 {
        rig.until(|e| matches!(e, Event::View(_)).then_some(())).await;
    }
    while viewer.raw.len() == before {
        viewer.read().await;
    }
    let wrapped = |rows: &[mado::proto::screen::Row]| -> Vec<String> {
        rows.iter().map(|r| r.text.trim_end().to_owned()).collect()
    };
    assert_eq!(wrapped(&viewer.screen.look().rows), wrapped(&rig.view.rows));
    let sent = &viewer.raw[before..];
    for clears in [&b"\x1bc"[..], b"\x1b[3J"] {
        assert!(!sent.windows(clears.len()).any(|w| w == clears));
    }
    rig.kill().await;
}

/// Serves one terminal on a socket, as the host does.
fn serve(listener: UnixListener, handle: TerminalHandle) {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            match attach::accept(stream).await {
                Ok(Wants::Attach(connection)) if connection.hello.agent == "nobody" => {
                    let _ = connection.refuse("there is no agent nobody; see `mado ls`").await;
                }
                Ok(Wants::Attach(connection)) => {
                    let _ = handle.send(Command::Attach(connection)).await;
                }
                _ => {}
            }
        }
    });
}

/// A program in a terminal, and `script` in another, which reaches the first by `$ATTACH`.
fn nested(dir: &tempfile::TempDir, inner: &str, script: &str) -> (Rig, Rig) {
    let socket = dir.path().join("attach.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let rig = start(inner);
    serve(listener, rig.handle.clone());
    let mado = env!("CARGO_BIN_EXE_mado");
    let attach = format!("ATTACH='{mado} attach --socket {}'; ", socket.display());
    (rig, start(&format!("{attach}{script}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_shows_the_agent_and_ends_with_its_code_and_the_terminal_as_it_was() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut inner, mut outer) = nested(
        &dir,
        "stty size; printf 'inside> '; read line; printf \"got $line\"; exit 42",
        "before=$(stty -g); $ATTACH it; code=$?; [ \"$before\" = \"$(stty -g)\" ] && echo \" code $code, restored\"; sleep 1000",
    );
    outer.shows("inside>").await;
    // It told its size, which the program had had before as well.
    assert!(outer.view.text().contains("24 80"));
    outer.handle.write(1, b"words\r".to_vec(), None).await.expect("open");
    outer.shows("got words code 42, restored").await;
    inner.until(|e| matches!(e, Event::Human { submits: true, .. }).then_some(())).await;
    inner.kill().await;
    outer.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_passes_on_the_size_of_its_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    let (inner, mut outer) = nested(
        &dir,
        "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done",
        "$ATTACH it; sleep 1000",
    );
    outer.shows("ready").await;
    outer.handle.send(Command::Resize { rows: 33, cols: 91 }).await.expect("open");
    outer.shows("33 91").await;
    inner.kill().await;
    outer.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_told_to_go_leaves_the_agent_and_restores_the_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    let pid = dir.path().join("pid");
    let (mut inner, mut outer) = nested(
        &dir,
        "printf '\\e[?1049h\\e[?25lfull screen'; sleep 1000",
        &format!(
            "before=$(stty -g); (echo $BASHPID > {0}; exec $ATTACH it); code=$?; \
             [ \"$before\" = \"$(stty -g)\" ] && echo \"code $code, restored\"; sleep 1000",
            pid.display()
        ),
    );
    outer.shows("full screen").await;
    let raw = std::fs::read_to_string(&pid).expect("a pid").trim().parse().expect("a number");
    let pid = rustix::process::Pid::from_raw(raw).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("alive");
    outer.shows("code 0, restored").await;
    assert!(!outer.view.alt_screen && outer.view.cursor_visible);
    inner.until(|e| matches!(e, Event::Viewers(0)).then_some(())).await;
    inner.kill().await;
    outer.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_refused_says_why_in_one_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let (inner, mut outer) =
        nested(&dir, "sleep 1000", "$ATTACH nobody; echo \"code $?\"; sleep 1000");
    outer.shows("code 1").await;
    assert_eq!(outer.view.text(), "mado: there is no agent nobody; see `mado ls`\ncode 1");
    inner.kill().await;
    outer.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_host_dies_says_so_in_one_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("attach.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let mado = env!("CARGO_BIN_EXE_mado");
    let script =
        format!("{mado} attach --socket {} it; echo \"code $?\"; sleep 1000", socket.display());
    let mut outer = start(&script);
    let (mut stream, _) = listener.accept().await.expect("a client");
    let mut bytes = Vec::new();
    Frame::Welcome(mado::proto::attach::Welcome::default()).encode(&mut bytes);
    Frame::Output(b"working".to_vec()).encode(&mut bytes);
    stream.write_all(&bytes).await.expect("written");
    outer.shows("working").await;
    drop(stream);
    outer.shows("code 1").await;
    let text = outer.view.text();
    assert!(text.contains("mado: the host has ended"), "{text}");
    outer.kill().await;
}
