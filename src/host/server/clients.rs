//! Editors and shell commands: hello, requests, replies, events.

use super::{Event, Incoming, Server, Wrap};
use crate::core::Input;
use crate::core::profile::Profile;
use crate::host::adopted;
use crate::host::editor::Ask;
use crate::host::launch::check_directory;
use crate::host::outbox::Outbox;
use crate::host::paths::project_of;
use crate::host::screen::Colours;
use crate::host::terminal::Command;
use crate::host::{attach, profiles, project_file, shell};
use crate::proto::screen::ScreenView;
use crate::proto::{
    AdoptParams, AgentId, AgentParams, ClientId, ClientKind, ErrorInfo, Event as Published,
    Foreign, HelloParams, HelloReply, HopInfo, HopsParams, ListParams, OpenParams, PROTOCOL, Reply,
    Request, RequestResult,
};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// How to reach a client.
#[derive(Debug, Clone)]
pub(in crate::host) enum Outlet {
    /// A Neovim.
    Editor(Arc<Outbox>),
    /// A `mado …` command.
    Shell(mpsc::Sender<String>),
}

impl Outlet {
    fn kind(&self) -> ClientKind {
        match self {
            Outlet::Editor(_) => ClientKind::Editor,
            Outlet::Shell(_) => ClientKind::Shell,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    outlet: Outlet,
    ancestry: Vec<u32>,
    /// Its project, once it has said hello.
    project: Option<String>,
    hears: Hears,
}

/// Which events a client gets.
#[derive(Debug, PartialEq, Eq)]
enum Hears {
    Nothing,
    Project(String),
    Everything,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Outlet::Editor(outbox) = &self.outlet {
            outbox.close();
        }
    }
}

impl Server {
    pub(super) async fn incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Here { client, outlet, ancestry } => {
                let new = Client { outlet, ancestry, project: None, hears: Hears::Nothing };
                self.clients.insert(client, new);
            }
            Incoming::Said { client, seq, request } => match *request {
                Ok(request) => self.request(client, seq, request).await,
                Err(e) => self.reply(client, seq, Err(e)),
            },
            Incoming::Gone { client } => self.cut_off(client).await,
        }
    }

    async fn cut_off(&mut self, client: ClientId) {
        let known = self.clients.remove(&client);
        self.wraps.retain(|(c, _), _| *c != client);
        if known.is_some_and(|c| c.project.is_some()) {
            self.step(Input::ClientGone { client }).await;
        }
    }

    async fn request(&mut self, client: ClientId, seq: u64, request: Request) {
        let Some(known) = self.clients.get(&client) else { return };
        let inside = self.inside(&known.ancestry);
        let greeted = known.project.is_some();
        match request {
            Request::Hello(hello) => self.hello(client, seq, hello).await,
            _ if !greeted => {
                let message = "the first request of a connection must be hello";
                self.reply(client, seq, Err(ErrorInfo::new("bad_request", message, "say hello")));
            }
            Request::Events(ListParams { project, all }) => {
                if let Some(known) = self.clients.get_mut(&client) {
                    known.hears = if all { Hears::Everything } else { Hears::Project(project) };
                }
                self.reply(client, seq, Ok(Reply::Done));
            }
            Request::Screen(AgentParams { project, agent }) => {
                self.screen(client, seq, &project, &agent);
            }
            Request::HostStatus(_) => {
                let status = self.status();
                self.reply(client, seq, Ok(Reply::Data(status)));
            }
            Request::Stop(_) => {
                self.stop_askers.push((client, seq));
                self.shutdown.cancel();
            }
            Request::Load(mut load) => match project_file::read(&load.path, &load.text) {
                Ok(file) => {
                    load.text = String::new();
                    match self.ready_to_load(load, file) {
                        Ok(load) => {
                            let (profile, request) = (None, Request::Load(load));
                            let asks = Input::Request { client, seq, inside, profile, request };
                            self.step(asks).await;
                        }
                        Err(e) => self.reply(client, seq, Err(e)),
                    }
                }
                Err(e) => self.reply(client, seq, Err(e)),
            },
            Request::Open(open) => match self.ready_to_open(open) {
                Ok((open, profile)) => {
                    let request = Request::Open(open);
                    let profile = Some(Box::new(profile));
                    self.step(Input::Request { client, seq, inside, profile, request }).await;
                }
                Err(e) => self.reply(client, seq, Err(e)),
            },
            Request::Connect(p) => match self.ready_to_connect(p) {
                Ok(p) => {
                    let request = Request::Connect(p);
                    self.step(Input::Request { client, seq, inside, profile: None, request }).await;
                }
                Err(e) => self.reply(client, seq, Err(e)),
            },
            Request::Transform(p) => match self.ready_to_transform(p) {
                Ok(p) => {
                    let request = Request::Transform(p);
                    self.step(Input::Request { client, seq, inside, profile: None, request }).await;
                }
                Err(e) => self.reply(client, seq, Err(e)),
            },
            Request::Adopt(params) => match self.ready_to_adopt(client, params) {
                Ok((params, profile)) => {
                    let request = Request::Adopt(params);
                    let profile = Some(Box::new(profile));
                    self.step(Input::Request { client, seq, inside, profile, request }).await;
                }
                Err(e) => self.reply(client, seq, Err(e)),
            },
            Request::Adopted(params) => self.adopted(client, params).await,
            request => {
                if let Request::Hops(params) = &request {
                    self.wraps.insert((client, seq), Wrap::Hops(params.clone()));
                }
                self.step(Input::Request { client, seq, inside, profile: None, request }).await;
            }
        }
    }

    async fn hello(&mut self, client: ClientId, seq: u64, hello: HelloParams) {
        if hello.protocol != PROTOCOL {
            let e = mismatch(&hello);
            self.reply(client, seq, Err(e));
            return;
        }
        let Some(known) = self.clients.get_mut(&client) else { return };
        let kind = known.outlet.kind();
        known.project = Some(hello.project.clone());
        if kind == ClientKind::Editor {
            known.hears = Hears::Project(hello.project.clone());
        }
        if let Some((foreground, background)) = &hello.colors
            && let Some(colours) = Colours::parse(foreground, background)
        {
            self.colours = colours;
            for agent in self.agents.values() {
                agent.command(Command::Colours(colours)).await;
            }
        }
        self.step(Input::ClientHere { client, kind, project: hello.project.clone() }).await;
        // The core knows the agents; the rest of the answer is the host's.
        self.wraps.insert((client, seq), Wrap::Hello);
        let request = Request::Agents(ListParams { project: hello.project, all: false });
        self.step(Input::Request { client, seq, inside: None, profile: None, request }).await;
    }

    /// Fills in what only the host knows, and refuses what cannot be started.
    fn ready_to_open(&self, mut open: OpenParams) -> Result<(OpenParams, Profile), ErrorInfo> {
        let cwd = PathBuf::from(&open.cwd);
        check_directory(&cwd)?;
        if open.project.is_empty() {
            open.project = project_of(&cwd).display().to_string();
        }
        let profile = profiles::load(&self.options.paths, &open.profile, &open.profiles)?;
        // It has done its work, and the trace is no place for a whole configuration.
        open.profiles.clear();
        Ok((open, profile))
    }

    /// Finds what is to be adopted.
    fn ready_to_adopt(
        &self,
        client: ClientId,
        mut params: AdoptParams,
    ) -> Result<(AdoptParams, Profile), ErrorInfo> {
        let editor = self.clients.get(&client).map(|c| c.outlet.kind()) == Some(ClientKind::Editor);
        if matches!(params.terminal, Foreign::Nvim { .. }) && !editor {
            let message = "only the editor that has a buffer can have it adopted";
            return Err(ErrorInfo::new("bad_request", message, "use :Mado adopt there"));
        }
        if params.project.is_empty() {
            params.project = project_of(&PathBuf::from(&params.cwd)).display().to_string();
        }
        let (profile, mut found) = adopted::find(&self.options.paths, &params)?;
        found.client = client;
        params.found = Some(found);
        params.profiles.clear();
        Ok((params, profile))
    }

    /// Where an editor can be asked.
    pub(super) fn asks(&self, client: ClientId) -> Option<mpsc::Sender<Ask>> {
        match &self.clients.get(&client)?.outlet {
            Outlet::Editor(outbox) => Some(outbox.asks()),
            Outlet::Shell(_) => None,
        }
    }

    /// Which agent a process runs inside of.
    pub(super) fn inside(&self, ancestry: &[u32]) -> Option<AgentId> {
        // The nearest ancestor wins: an agent may have been started inside another one's terminal
        // only by way of the host, but nothing is lost by being exact.
        let of = |pid: &u32| {
            let runs = |a: &&super::agents::Agent| a.runs() && a.pid() == Some(*pid);
            self.agents.values().find(runs).map(|a| a.id)
        };
        ancestry.iter().find_map(of)
    }

    /// Sends a reply, completed where the core cannot.
    pub(super) fn reply(&mut self, client: ClientId, seq: u64, result: RequestResult) {
        let result = match self.wraps.remove(&(client, seq)) {
            None => result,
            Some(Wrap::Hello) => result.map(|reply| self.hello_reply(reply)),
            Some(Wrap::Hops(params)) => self.with_earlier(&params, result),
        };
        let Some(known) = self.clients.get(&client) else { return };
        let taken = match &known.outlet {
            Outlet::Editor(outbox) => outbox.reply(seq, result),
            Outlet::Shell(lines) => lines.try_send(shell::reply_line(seq, &result)).is_ok(),
        };
        if !taken {
            self.drop_client(client);
        }
    }

    /// A client that does not read is cut off; its task notices and says that it is gone.
    fn drop_client(&mut self, client: ClientId) {
        tracing::warn!("client {client} does not read; it is cut off");
        if let Some(known) = self.clients.remove(&client)
            && known.project.is_some()
        {
            self.next.push_back(super::Next::Input(Input::ClientGone { client }));
        }
    }

    fn hello_reply(&self, reply: Reply) -> Reply {
        let agents = match reply {
            Reply::Agents(agents) => agents,
            _ => Vec::new(),
        };
        Reply::Hello(HelloReply {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            attach_socket: self.options.paths.attach_socket().display().to_string(),
            agents,
        })
    }

    /// Puts the hops of earlier hosts before those of this one.
    fn with_earlier(&self, params: &HopsParams, result: RequestResult) -> RequestResult {
        let wanted = |h: &&HopInfo| {
            let by_name = |r: &String| *r == format!("{}->{}", h.source, h.target);
            (params.all || h.project == params.project)
                && params.hop.is_none_or(|id| id == h.id)
                // Route numbers are this host's; an earlier one's mean other routes.
                && params.route.as_ref().is_none_or(by_name)
        };
        let mut hops: Vec<HopInfo> = self.earlier.iter().filter(wanted).cloned().collect();
        match result {
            Ok(Reply::Hops(new)) => hops.extend(new),
            Err(e) if hops.is_empty() => return Err(e),
            Err(_) => {}
            other => return other,
        }
        let limit = if params.limit == 0 { 200 } else { params.limit };
        let skip = hops.len().saturating_sub(limit);
        Ok(Reply::Hops(hops.split_off(skip)))
    }

    /// Tells everybody who listens.
    pub(super) fn publish(&mut self, event: &Published) {
        let mut slow = Vec::new();
        let project = event.project();
        for (id, client) in &self.clients {
            let hears = match &client.hears {
                Hears::Nothing => false,
                Hears::Project(p) => p == project,
                Hears::Everything => true,
            };
            if !hears {
                continue;
            }
            match &client.outlet {
                Outlet::Editor(outbox) => outbox.event(event.clone()),
                Outlet::Shell(lines) => {
                    if lines.try_send(shell::event_line(event)).is_err() {
                        slow.push(*id);
                    }
                }
            }
        }
        for client in slow {
            self.drop_client(client);
        }
    }

    pub(super) async fn attach(&mut self, mut connection: attach::Connection) {
        let hello = &connection.hello;
        let found = self.find(&hello.project, &hello.agent).map(|id| &self.agents[&id]);
        let refusal = match found {
            Ok(agent) if agent.place.is_some() => {
                let place = agent.place.as_deref().unwrap_or_default();
                format!("{} was adopted and is shown where it is: {place}", agent.name)
            }
            Ok(agent) => match &agent.handle {
                Some(handle) => {
                    connection.agent.clone_from(&agent.name);
                    let _ = handle.send(Command::Attach(connection)).await;
                    return;
                }
                None => format!("{} has ended (`mado restart {0}`)", agent.name),
            },
            Err(e) => e.to_string(),
        };
        // The viewer may not read; nobody waits for it.
        tokio::spawn(connection.refuse(refusal));
    }

    pub(super) fn stop_frame(&mut self, force: bool, stream: UnixStream) {
        let running = self.agents.values().filter(|a| a.runs()).count();
        if running > 0 && !force {
            let message = format!("agents are running: {running} (force ends them)");
            tokio::spawn(attach::refuse(stream, message));
            return;
        }
        self.stop_streams.push(stream);
        self.shutdown.cancel();
    }

    fn screen(&mut self, client: ClientId, seq: u64, project: &str, name: &str) {
        let agent = match self.find(project, name) {
            Ok(agent) => agent,
            Err(e) => return self.reply(client, seq, Err(e)),
        };
        let (sender, receiver) = oneshot::channel();
        let handle = self.agents.get(&agent).and_then(|a| a.handle.clone());
        let events = self.events.clone();
        tokio::spawn(async move {
            let view = match handle {
                None => None,
                Some(handle) => match handle.send(Command::Snapshot { reply: sender }).await {
                    Err(_) => None,
                    Ok(()) => tokio::time::timeout(Duration::from_secs(5), receiver)
                        .await
                        .ok()
                        .and_then(Result::ok),
                },
            };
            let view = view.map(Box::new);
            let _ = events.send(Event::Screen { client, seq, agent, view }).await;
        });
    }

    pub(super) fn screen_answer(
        &mut self,
        client: ClientId,
        seq: u64,
        agent: AgentId,
        view: Option<Box<ScreenView>>,
    ) {
        let name = self.agents.get(&agent).map(|a| a.name.clone()).unwrap_or_default();
        let Some(view) = view else {
            let e = ErrorInfo::new(
                "no_screen",
                format!("the terminal of {name} does not answer"),
                "try again, or `mado restart` it",
            );
            return self.reply(client, seq, Err(e));
        };
        let rows: Vec<&str> = view.rows.iter().map(|r| r.text.as_str()).collect();
        let data = json!({
            "agent": name,
            "rows": rows,
            "cols": view.cols,
            "cursor": {"row": view.cursor.0, "col": view.cursor.1, "visible": view.cursor_visible},
            "title": view.title,
            "modes": {"bracketed_paste": view.bracketed_paste, "alt_screen": view.alt_screen},
            "composer": self.composer(agent, &view),
            "scrolled": view.scrolled,
        });
        self.reply(client, seq, Ok(Reply::Data(data)));
    }

    fn status(&self) -> serde_json::Value {
        let editors = self.clients.values().filter(|c| c.outlet.kind() == ClientKind::Editor);
        json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": PROTOCOL,
            "uptime_ms": self.now().mono,
            "agents": self.agents.values().filter(|a| a.runs()).count(),
            "editors": editors.filter(|c| c.project.is_some()).count(),
            "state": self.options.paths.state,
            "runtime": self.options.paths.runtime,
            "config": self.options.paths.config,
        })
    }

    /// An agent by name; without a name, the only one of its project.
    pub(super) fn find(&self, project: &str, name: &str) -> Result<AgentId, ErrorInfo> {
        if let Some(id) = name.strip_prefix('#').and_then(|n| n.parse().ok()).map(AgentId)
            && self.agents.contains_key(&id)
        {
            return Ok(id);
        }
        let here: Vec<_> =
            self.agents.values().filter(|a| project.is_empty() || a.project == project).collect();
        let names = || here.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
        let remedy = || match here.as_slice() {
            [] => "no agent runs in this project; `mado open` starts one".to_owned(),
            _ => format!("the agents here are {}", names()),
        };
        let found: Vec<_> =
            here.iter().filter(|a| if name.is_empty() { true } else { a.name == name }).collect();
        match found.as_slice() {
            [one] => Ok(one.id),
            [] if name.is_empty() => {
                Err(ErrorInfo::new("no_agent", "there is no agent in this project", remedy()))
            }
            [] => Err(ErrorInfo::new(
                "unknown_agent",
                format!("there is no agent {name:?} in this project"),
                remedy(),
            )),
            _ if name.is_empty() => {
                Err(ErrorInfo::new("which_agent", "more than one agent is there", remedy()))
            }
            _ => Err(ErrorInfo::new(
                "which_agent",
                format!("more than one agent is called {name:?}"),
                "ask from its project",
            )),
        }
    }
}

fn mismatch(hello: &HelloParams) -> ErrorInfo {
    ErrorInfo::new(
        "protocol",
        format!(
            "the running host is mado {} (pid {}, protocol {PROTOCOL}), the installed one is mado \
             {} (protocol {})",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            hello.version,
            hello.protocol
        ),
        "its agents live on; when they can be ended, run `mado stop` and open them again",
    )
}
