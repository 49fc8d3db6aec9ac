//! What the host adds between a program and a viewer.
//!
//! A program writes chunks that end with the time of their writing. One copy of it runs in a bare
//! PTY that is read at once, one in the host, seen by a viewer on the attach socket; the difference
//! is the host. A third is seen through `mado attach` in a PTY, as a split sees it.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::Size;
use crate::child::{self, nanoseconds, take_stamps};
use crate::host::{Attached, Host, MADO};
use crate::stats::{Row, Samples};
use mado::proto::attach::Frame;
use pty_process::blocking::{Command, Pty, open};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Between two chunks, in microseconds.
const GAP: u64 = 4000;

/// Something that shows a program's output as it comes.
trait Source {
    fn write(&mut self, bytes: &[u8]);
    /// Waits for output. Empty at the program's end.
    fn read(&mut self) -> Vec<u8>;
}

/// A PTY read at once.
struct Bare {
    pty: Pty,
    child: Child,
}

impl Bare {
    fn start(host: &Host, argv: &[String]) -> Bare {
        let (pty, pts) = open().expect("a PTY");
        pty.resize(pty_process::Size::new(40, 120)).expect("its size");
        let command = Command::new(&argv[0]).args(&argv[1..]).env_clear().envs(host.env());
        let child = command.current_dir(host.dir()).spawn(pts).expect("it starts");
        Bare { pty, child }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Source for Bare {
    fn write(&mut self, bytes: &[u8]) {
        self.pty.write_all(bytes).expect("a terminal");
    }

    fn read(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        // The end of a PTY is an error on Linux.
        let n = self.pty.read(&mut buffer).unwrap_or(0);
        buffer.truncate(n);
        buffer
    }
}

impl Source for Attached {
    fn write(&mut self, bytes: &[u8]) {
        Attached::write(self, bytes);
    }

    fn read(&mut self) -> Vec<u8> {
        match self.frame() {
            Frame::Output(bytes) => bytes,
            _ => Vec::new(),
        }
    }
}

/// Output of a program that lives.
fn more(source: &mut dyn Source) -> Vec<u8> {
    let bytes = source.read();
    assert!(!bytes.is_empty(), "the program ended");
    bytes
}

fn wait_for(source: &mut dyn Source, text: &str) {
    let mut seen = Vec::new();
    while memchr::memmem::find(&seen, text.as_bytes()).is_none() {
        seen.extend(more(source));
    }
}

/// Lets the program write `count` chunks and takes the time of each.
fn block(source: &mut dyn Source, count: usize) -> Samples {
    let mut samples = Samples::default();
    let mut stream = Vec::new();
    source.write(format!("{count} {GAP}\r").as_bytes());
    while samples.len() < count {
        stream.extend(more(source));
        let now = nanoseconds();
        for stamp in take_stamps(&mut stream) {
            samples.push(Duration::from_nanos(now.saturating_sub(stamp) as u64));
        }
    }
    samples
}

/// Another program that writes without a pause, while it is let.
struct Flood(Pid);

impl Flood {
    /// Starts the same flood in a bare PTY and in the host, each read by somebody.
    fn both(host: &Host) -> [Flood; 2] {
        let bare_file = host.dir().join("bare.pid");
        let own_file = host.dir().join("agent.pid");
        let argv = child::command(&["flood", bare_file.to_str().expect("UTF-8")]);
        let mut bare = Bare::start(host, &argv);
        agent(host, "flood", &["flood", own_file.to_str().expect("UTF-8")]);
        let mut attached = host.attach("flood");
        let drain = |source: &mut dyn Source| while !source.read().is_empty() {};
        // They end with this program's end or with their program's.
        std::thread::spawn(move || drain(&mut bare));
        std::thread::spawn(move || drain(&mut attached));
        [Flood(pid(&bare_file)), Flood(pid(&own_file))]
    }

    fn go(&self) {
        kill_process(self.0, Signal::CONT).expect("it lives");
        // It has begun when it has written more than one buffer's worth.
        std::thread::sleep(Duration::from_millis(100));
    }

    fn stop(&self) {
        kill_process(self.0, Signal::STOP).expect("it lives");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits for the process id that a child writes.
pub fn pid(file: &Path) -> Pid {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = text.parse().ok().and_then(Pid::from_raw) {
            return pid;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no pid in {}", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn agent(host: &Host, name: &str, child: &[&str]) {
    let open = ["open", "bench", "--name", name, "--rows", "40", "--cols", "120", "--"];
    host.mado(&[&open[..], child].concat());
}

/// Takes the measure.
pub fn run(size: Size) -> Vec<Row> {
    let host = Host::new();
    let mut bare = Bare::start(&host, &child::command(&["stamp"]));
    agent(&host, "socket", &["stamp"]);
    agent(&host, "client", &["stamp"]);
    let mut attached = host.attach("socket");
    let argv = [MADO, "attach", "client"].map(String::from);
    let mut client = Bare::start(&host, &argv);
    let floods = Flood::both(&host);
    let mut sources: [&mut dyn Source; 3] = [&mut bare, &mut attached, &mut client];
    for source in &mut sources {
        wait_for(*source, "ready");
    }
    let mut rows = Vec::new();
    for flooded in [false, true] {
        let mut samples = <[Samples; 3]>::default();
        for turn in 0..size.of(20, 2) {
            for n in 0..3 {
                // Nobody always comes first.
                let side = (n + turn) % 3;
                let flood = &floods[usize::from(side > 0)];
                if flooded {
                    flood.go();
                }
                samples[side].extend(block(sources[side], size.of(100, 20)));
                if flooded {
                    flood.stop();
                }
            }
        }
        let when = if flooded { "while another floods" } else { "idle" };
        let [bare, socket, client] = &samples;
        for (what, own, limit) in
            [("host alone", socket, Some(1.0)), ("host and `mado attach`", client, None)]
        {
            let added =
                [50.0, 99.0].map(|percent| own.percentile(percent) - bare.percentile(percent));
            rows.push(Row {
                what: format!("{what}, {when}: p50 / p99, ms"),
                base: bare.show(99.0),
                mado: own.show(99.0),
                against: format!("+{:.2} / +{:.2}", added[0], added[1]),
                wanted: limit.map(|limit| (format!("p99 + ≤ {limit} ms"), added[1] <= limit)),
            });
        }
    }
    rows
}
