//! Starting a host: in the foreground, or on its own with nothing of the caller's left on it.

use super::client::{Client, no_host, running};
use super::out;
use mado::host::lock::HostRecord;
use mado::host::log::Log;
use mado::host::paths::Paths;
use mado::host::server::{self, Options};
use mado::proto::ErrorInfo;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// How long a host may take from its start to its sockets.
const START: Duration = Duration::from_secs(20);

/// Of the starter's environment, what would tell the host of something it is not in.
const NOT_INHERITED: &[&str] =
    &["MADO_AGENT_ID", "MADO_AGENT", "MADO_AGENT_DIR", "NVIM", "NVIM_LISTEN_ADDRESS"];

/// The one line that a detached host tells its starter.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Started {
    Ready(HostRecord),
    Error(ErrorInfo),
}

/// How the command was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Start a host of its own and return.
    Start,
    /// Be the host, here.
    Foreground,
    /// Be the host, as the child of [`Mode::Start`].
    Detached,
}

/// `mado serve`.
pub fn serve(mode: Mode, as_json: bool) -> Result<(), ErrorInfo> {
    match mode {
        Mode::Start => {
            let paths = Paths::from_env()?;
            if let Ok(client) = Client::connect(&paths, "") {
                let message = format!("a host already runs (pid {})", client.hello.pid);
                let remedy = "use it, or end it with `mado stop`";
                return Err(ErrorInfo::new("host_running", message, remedy));
            }
            let record = match start() {
                Err(e) if e.code == "host_running" => {
                    // Somebody was faster. Whoever hears this will want to talk to that host.
                    wait_until_it_answers(&paths)?;
                    return Err(e);
                }
                other => other?,
            };
            if as_json {
                out::json(&record);
            } else {
                out::line(&format!("host {} runs", record.pid));
            }
            Ok(())
        }
        Mode::Foreground => {
            let options = Options::from_env()?;
            tracing_subscriber::fmt()
                .with_env_filter(filter())
                .with_writer(std::io::stderr)
                .with_ansi(false)
                .init();
            let pid = std::process::id();
            run(options, move |record| {
                out::line(&format!("host {pid} serves {}", record.runtime.display()));
            })
        }
        Mode::Detached => {
            detached();
            Ok(())
        }
    }
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_env("MADO_LOG").unwrap_or_else(|_| EnvFilter::new("mado=info,warn"))
}

fn detached() {
    // First of all: a signal to the starter's group must not end the host.
    let _ = rustix::process::setsid();
    // Paths in the environment may be relative to the starter's directory, which is then let go.
    let options = Options::from_env();
    let _ = std::env::set_current_dir("/");
    let result = options.and_then(|options| {
        options.paths.prepare_state()?;
        let log = Log::open(&options.paths)?;
        if let Ok(file) = log.file() {
            // What a panic says.
            let _ = rustix::stdio::dup2_stderr(&file);
        }
        tracing_subscriber::fmt()
            .with_env_filter(filter())
            .with_writer(Mutex::new(log))
            .with_ansi(false)
            .init();
        run(options, |record| tell(&Started::Ready(record)))
    });
    if let Err(e) = result {
        tracing::error!("{e}");
        tell(&Started::Error(e));
    }
}

/// Tells the starter, and lets go of it.
fn tell(started: &Started) {
    out::json(started);
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn run(mut options: Options, ready: impl FnOnce(HostRecord)) -> Result<(), ErrorInfo> {
    let failed = |e: std::io::Error| {
        ErrorInfo::new("no_runtime", format!("the host cannot run: {e}"), "try again")
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .thread_name("mado")
        .enable_all()
        .build()
        .map_err(failed)?;
    let (sender, receiver) = oneshot::channel();
    options.ready = Some(sender);
    let result = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        tokio::spawn(end_by_signal(shutdown.clone()));
        let host = tokio::spawn(server::serve(options, shutdown));
        if let Ok(record) = receiver.await {
            ready(record);
        }
        host.await
    });
    // Nothing that still blocks a thread may keep the process.
    runtime.shutdown_timeout(Duration::from_millis(500));
    result.unwrap_or_else(|e| {
        let message = format!("the host failed: {e}");
        Err(ErrorInfo::new("host_failed", message, "please report this with its log"))
    })
}

async fn end_by_signal(shutdown: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let waits = kinds.map(|kind| {
        let shutdown = shutdown.clone();
        async move {
            if let Ok(mut signals) = signal(kind) {
                signals.recv().await;
                shutdown.cancel();
            }
        }
    });
    let [a, b, c] = waits;
    tokio::join!(a, b, c);
}

/// Makes sure that a host runs.
pub fn ensure(paths: &Paths) -> Result<(), ErrorInfo> {
    match Client::connect(paths, "") {
        Err(e) if e.code == "no_host" => match start() {
            // Somebody else was faster.
            Err(e) if e.code == "host_running" => wait_until_it_answers(paths),
            other => other.map(|_| ()),
        },
        Err(e) => Err(e),
        Ok(_) => Ok(()),
    }
}

fn wait_until_it_answers(paths: &Paths) -> Result<(), ErrorInfo> {
    let until = Instant::now() + START;
    loop {
        match Client::connect(paths, "") {
            Ok(_) => return Ok(()),
            Err(e) if e.code != "no_host" || Instant::now() > until => return Err(e),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Starts a detached host and waits until it serves.
fn start() -> Result<HostRecord, ErrorInfo> {
    let failed = |why: String| {
        let remedy = "try `mado serve --foreground`, which shows what happens";
        ErrorInfo::new("no_start", format!("the host did not start: {why}"), remedy)
    };
    let exe = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(&exe);
    command.args(["serve", "--detached"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    let Some(stdout) = child.stdout.take() else { return Err(failed("no pipe".to_owned())) };
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    });
    let line = match receiver.recv_timeout(START) {
        Ok(Ok(line)) => line,
        Ok(Err(e)) => return Err(failed(e.to_string())),
        Err(_) => return Err(failed(format!("no answer within {} s", START.as_secs()))),
    };
    match serde_json::from_str(&line) {
        Ok(Started::Ready(record)) => Ok(record),
        Ok(Started::Error(e)) => Err(e),
        Err(_) => {
            let status = child.wait().map(|s| s.to_string()).unwrap_or_default();
            Err(failed(format!("it ended at once ({status})")))
        }
    }
}

/// `mado stop`: ends all agents and the host, and returns when they are gone.
pub fn stop(paths: &Paths) -> Result<(), ErrorInfo> {
    let nothing = || {
        out::line("no host is running");
        Ok(())
    };
    let Some((record, _)) = running(paths) else { return nothing() };
    match Client::connect(paths, "") {
        Ok(mut client) => {
            let request = mado::proto::Request::Stop(mado::proto::ScopeParams::default());
            client.ask(&request)?;
        }
        Err(e) if e.code == no_host().code => return nothing(),
        // A host of another version takes the frame that never changes.
        Err(e) if e.code == "protocol" => super::stop_frame::send(&record.apply(paths))?,
        Err(e) => return Err(e),
    }
    let until = Instant::now() + Duration::from_secs(5);
    while lives(record.pid) {
        if Instant::now() > until {
            let message =
                format!("the agents have ended but the host (pid {}) has not", record.pid);
            return Err(ErrorInfo::new("host_lives", message, "end it with kill"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    out::line("the host and its agents have ended");
    Ok(())
}

/// A zombie that nobody waits for counts as gone.
fn lives(pid: u32) -> bool {
    let stat = Path::new("/proc").join(pid.to_string()).join("stat");
    if Path::new("/proc/self/stat").exists() {
        let text = std::fs::read_to_string(stat).unwrap_or_default();
        return text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'));
    }
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    raw.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}
