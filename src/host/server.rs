//! The host's loop: one owner of everything, one input at a time, effects in order.
//!
//! Whatever happens outside arrives as an [`Event`] over a bounded channel, becomes an
//! [`Input`], and the effects that the core answers with are performed before the next event is
//! looked at. Nothing here waits for a client: what a client does not take is joined, or the client
//! is cut off.

mod adopt;
mod agents;
mod asking;
mod clients;
mod effects;
mod recovery;
mod sockets;

use super::attach;
use super::hook::HookMessage;
use super::lock::{HostLock, HostRecord};
use super::paths::Paths;
use super::records::watch::RecordUpdate;
use super::screen::Colours;
use super::store::{Loaded, Store};
use super::terminal;
use super::trace::Trace;
use crate::core::Timing;
use crate::core::{Hub, Input, Now};
use crate::proto::screen::ScreenView;
use crate::proto::{AgentId, ClientId, ErrorInfo, HopsParams, PROTOCOL, Request};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where a host is to die, for tests of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashAt {
    /// All of the text is typed; the Enter's intent is about to be recorded. Once it is, nobody can
    /// tell whether the Enter was sent.
    BeforeEnter,
    /// The Enter has reached the terminal.
    AfterEnter,
}

impl CrashAt {
    /// Reads `MADO_CRASH_AT`.
    pub fn from_env() -> Result<Option<CrashAt>, ErrorInfo> {
        match std::env::var("MADO_CRASH_AT").as_deref() {
            Err(_) | Ok("") => Ok(None),
            Ok("before_enter") => Ok(Some(CrashAt::BeforeEnter)),
            Ok("after_enter") => Ok(Some(CrashAt::AfterEnter)),
            Ok(other) => Err(ErrorInfo::new(
                "bad_crash_at",
                format!("MADO_CRASH_AT is {other:?}"),
                "use before_enter or after_enter, or unset it",
            )),
        }
    }
}

/// How a host is to run.
#[derive(Debug)]
pub struct Options {
    /// Its folders.
    pub paths: Paths,
    /// Every duration.
    pub timing: Timing,
    /// Where the trace goes.
    pub trace: Option<PathBuf>,
    /// Where it dies.
    pub crash_at: Option<CrashAt>,
    /// Its own binary, for hooks and the demo agent.
    pub mado: String,
    /// Told once the sockets are there.
    pub ready: Option<oneshot::Sender<HostRecord>>,
}

/// What a client did.
#[derive(Debug)]
pub(super) enum Incoming {
    /// It connected.
    Here { client: ClientId, outlet: clients::Outlet, ancestry: Vec<u32> },
    /// It asks.
    Said { client: ClientId, seq: u64, request: Box<Result<Request, ErrorInfo>> },
    /// It is gone.
    Gone { client: ClientId },
}

/// Everything that can happen to a host, except what its terminals say.
#[derive(Debug)]
pub(super) enum Event {
    /// A client did something.
    Client(Incoming),
    /// A hook spoke. `done` lets its process end.
    Hook { ancestry: Vec<u32>, message: HookMessage, done: oneshot::Sender<()> },
    /// A viewer wants to see an agent.
    Attach(attach::Connection),
    /// The frame that ends a host of any version. Closing the stream is the answer.
    StopFrame { force: bool, stream: UnixStream },
    /// The screen that a client asked for.
    Screen { client: ClientId, seq: u64, agent: AgentId, view: Option<Box<ScreenView>> },
    /// An agent's records changed. `pid` tells a restarted agent from the one before.
    Records { agent: AgentId, pid: u32, update: RecordUpdate },
    /// An input that took its time.
    Input(Input),
    /// A check whose look proved nothing is to be repeated.
    CheckAgain { agent: AgentId, token: u64 },
}

/// Runs a host until `shutdown`, a `stop`, or until nobody needs it.
pub async fn serve(mut options: Options, shutdown: CancellationToken) -> Result<(), ErrorInfo> {
    options.paths.prepare_state()?;
    options.paths.prepare_runtime()?;
    let mut lock = HostLock::acquire(&options.paths)?;
    let (store, loaded) = Store::open(&options.paths)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let timing = serde_json::to_value(&options.timing).unwrap_or_default();
    let trace = options.trace.as_deref().map(|p| Trace::create(p, timing)).transpose()?;
    let (events, mut events_rx) = mpsc::channel(1024);
    let (term_events, mut term_rx) = mpsc::channel(1024);
    let tasks = TaskTracker::new();
    let listening = CancellationToken::new();
    let sockets = sockets::bind(&mut lock, &options.paths)?;
    let record = HostRecord {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
        runtime: options.paths.runtime.clone(),
    };
    let ready = options.ready.take();
    let mut server = Server::new(options, store, trace, events, term_events, shutdown.clone());
    server.recover(loaded).await;
    let sites = sockets::Site {
        events: server.events.clone(),
        editor_limit: Duration::from_millis(server.options.timing.editor_ms),
        tasks: tasks.clone(),
        stop: listening.clone(),
    };
    sockets::listen(sockets, &sites)?;
    lock.announce(&record)?;
    tracing::info!("host {} serves {}", record.pid, record.runtime.display());
    if let Some(ready) = ready {
        let _ = ready.send(record);
    }
    server.run(&mut events_rx, &mut term_rx, &shutdown).await;
    listening.cancel();
    server.end(&mut term_rx).await;
    drop(server);
    drop(events_rx);
    tasks.close();
    // What was queued for clients goes out; a client that does not read is not waited for.
    let _ = tokio::time::timeout(Duration::from_secs(1), tasks.wait()).await;
    tracing::info!("host ends");
    Ok(())
}

/// What is still to be done before the next event is looked at.
#[derive(Debug)]
enum Next {
    Input(Input),
}

/// A reply of the core that the host completes.
#[derive(Debug)]
enum Wrap {
    /// The agents of a hello's answer.
    Hello,
    /// Hops of earlier hosts go before it.
    Hops(HopsParams),
}

struct Server {
    options: Options,
    hub: Hub,
    store: Store,
    trace: Option<Trace>,
    started: Instant,
    /// Names this host among all that ever ran, in `MADO_AGENT_ID`.
    instance: String,
    events: mpsc::Sender<Event>,
    term_events: mpsc::Sender<terminal::Envelope>,
    shutdown: CancellationToken,
    agents: BTreeMap<AgentId, agents::Agent>,
    clients: BTreeMap<ClientId, clients::Client>,
    asks: asking::Asks,
    wraps: BTreeMap<(ClientId, u64), Wrap>,
    next: VecDeque<Next>,
    earlier: Vec<crate::proto::HopInfo>,
    colours: Colours,
    /// The look that the writes of the current step were decided on.
    guard: Option<(AgentId, u64)>,
    /// A [`CrashAt::AfterEnter`] waits for this write.
    crash_after: Option<(AgentId, u64)>,
    /// Everything is being ended: nothing is started any more.
    ending: bool,
    /// Who asked for the stop and is told when it is done.
    stop_askers: Vec<(ClientId, u64)>,
    /// The same for those who asked by a frame: closed at the end.
    stop_streams: Vec<UnixStream>,
    unused_since: Option<Instant>,
}

impl Server {
    fn new(
        options: Options,
        store: Store,
        trace: Option<Trace>,
        events: mpsc::Sender<Event>,
        term_events: mpsc::Sender<terminal::Envelope>,
        shutdown: CancellationToken,
    ) -> Server {
        let wall = wall_ms();
        Server {
            hub: make_hub(&options.timing),
            instance: format!("{:x}-{wall:x}", std::process::id()),
            options,
            store,
            trace,
            started: Instant::now(),
            events,
            term_events,
            shutdown,
            agents: BTreeMap::new(),
            clients: BTreeMap::new(),
            asks: asking::Asks::new(),
            wraps: BTreeMap::new(),
            next: VecDeque::new(),
            earlier: Vec::new(),
            colours: Colours::default(),
            guard: None,
            crash_after: None,
            ending: false,
            stop_askers: Vec::new(),
            stop_streams: Vec::new(),
            unused_since: Some(Instant::now()),
        }
    }

    fn now(&self) -> Now {
        Now { mono: self.started.elapsed().as_millis() as u64, wall: wall_ms() }
    }

    async fn run(
        &mut self,
        events: &mut mpsc::Receiver<Event>,
        terminals: &mut mpsc::Receiver<terminal::Envelope>,
        shutdown: &CancellationToken,
    ) {
        loop {
            self.note_use();
            let wake = self.wake();
            tokio::select! {
                () = shutdown.cancelled() => return,
                Some(event) = events.recv() => {
                    // A person's key was told before the agent could make something of it, so it
                    // must be heard before what the agent says of that.
                    for _ in 0..terminals.len() {
                        if let Ok((agent, said)) = terminals.try_recv() {
                            self.terminal_event(agent, said).await;
                        }
                    }
                    self.event(event).await;
                }
                Some((agent, event)) = terminals.recv() => self.terminal_event(agent, event).await,
                () = tokio::time::sleep_until(wake.into()) => {
                    if self.unused_for().is_some_and(|d| d >= self.unused_limit()) {
                        tracing::info!("neither agents nor clients");
                        return;
                    }
                    let now = self.now().mono;
                    if self.hub.deadline().is_some_and(|at| at <= now) {
                        self.step(Input::Tick).await;
                    }
                }
            }
        }
    }

    async fn event(&mut self, event: Event) {
        match event {
            Event::Client(incoming) => self.incoming(incoming).await,
            Event::Hook { ancestry, message, done } => self.hook(&ancestry, message, done).await,
            Event::Attach(connection) => self.attach(connection).await,
            Event::StopFrame { force, stream } => self.stop_frame(force, stream),
            Event::Screen { client, seq, agent, view } => {
                self.screen_answer(client, seq, agent, view);
            }
            Event::Records { agent, pid, update } => self.records(agent, pid, update).await,
            Event::Input(input) => {
                self.ask_ended(&input);
                self.step(input).await;
            }
            Event::CheckAgain { agent, token } => self.check(agent, token).await,
        }
    }

    /// Gives the core an input, performs what it answers, and whatever follows from that.
    async fn step(&mut self, input: Input) {
        self.step_once(input).await;
        while let Some(Next::Input(input)) = self.next.pop_front() {
            self.step_once(input).await;
        }
    }

    async fn step_once(&mut self, input: Input) {
        let now = self.now();
        self.guard = match &input {
            Input::Checked { agent, token, .. } => Some((*agent, *token)),
            _ => None,
        };
        let effects = match &mut self.trace {
            None => self.hub.step(now, input),
            Some(trace) => {
                let effects = self.hub.step(now, input.clone());
                trace.step(now, &input, &effects);
                effects
            }
        };
        self.perform(effects).await;
        self.guard = None;
    }

    /// When the loop must wake up without an event.
    fn wake(&self) -> Instant {
        let tick = self.hub.deadline().map(|at| self.started + Duration::from_millis(at));
        // A deadline that has passed is due once per millisecond, so that a core that keeps one
        // cannot keep events from being seen.
        let tick = tick.map(|at| at.max(Instant::now() + Duration::from_millis(1)));
        let unused = self.unused_since.map(|since| since + self.unused_limit());
        let far = Instant::now() + Duration::from_hours(1);
        [tick, unused].into_iter().flatten().fold(far, Instant::min)
    }

    fn unused_limit(&self) -> Duration {
        Duration::from_millis(self.options.timing.unused_ms)
    }

    fn note_use(&mut self) {
        let used = !self.clients.is_empty() || self.agents.values().any(agents::Agent::runs);
        if used {
            self.unused_since = None;
        } else if self.unused_since.is_none() {
            self.unused_since = Some(Instant::now());
        }
    }

    fn unused_for(&self) -> Option<Duration> {
        self.unused_since.map(|since| since.elapsed())
    }
}

/// A hub with these durations. With debug assertions, `MADO_UNSAFE_NO_GATE=1` switches its gate off:
/// the test which shows that the gate is needed must be able to see harm done.
#[must_use]
pub fn make_hub(timing: &Timing) -> Hub {
    #[cfg_attr(not(debug_assertions), allow(unused_mut))]
    let mut hub = Hub::new(timing.clone());
    #[cfg(debug_assertions)]
    if std::env::var_os("MADO_UNSAFE_NO_GATE").is_some_and(|v| v == "1") {
        tracing::warn!("MADO_UNSAFE_NO_GATE: text and Enter are written without a look");
        hub.switch_gate_off();
    }
    hub
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
