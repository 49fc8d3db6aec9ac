//! Listens to an agent's server and tells what its events say, as long as the agent lives.
//!
//! What the server says is the agent's own claim: it grants nothing. When the connection is lost its
//! claims are void, until a new one has been brought up to date.

use super::sse::Lines;
use super::{Live, Server};
use crate::core::dialect::StatusState;
use crate::core::dialect::opencode::{Events, Said};
use reqwest::{Client, RequestBuilder, Response};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Between attempts while the program may be starting, which takes seconds.
const SOON: Duration = Duration::from_millis(200);
/// Longest pause between attempts.
const SLOW: Duration = Duration::from_secs(5);
/// How long a start may take before people are told.
const STARTING: Duration = Duration::from_mins(1);
/// The server's heartbeat comes every 10 s.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a question to it may take.
const ANSWER: Duration = Duration::from_secs(5);

/// What is told: something of the agent, or why nothing can be.
pub(super) type Told = Result<Said, String>;

/// Follows until nobody listens any more. `moved` is rung when the session is another one.
pub(super) async fn follow(live: Live, since: u64, told: mpsc::Sender<Told>, moved: Arc<Notify>) {
    let Some(server) = live.server.clone() else { return };
    let source = match Source::new(server) {
        Ok(source) => source,
        Err(why) => {
            let _ = told.send(Err(why)).await;
            return;
        }
    };
    let mut events = Events::new(since, live.session());
    let (began, mut pause, mut complained) = (Instant::now(), SOON, false);
    loop {
        match source.stream().await {
            Ok(stream) => {
                pause = SOON;
                let ended = listen(&source, stream, &mut events, &live, &told, &moved).await;
                if ended.is_err() || told.send(Ok(Said::Status(StatusState::Lost))).await.is_err() {
                    return;
                }
            }
            Err(why) => {
                if began.elapsed() > STARTING && !std::mem::replace(&mut complained, true) {
                    let port = source.server.port;
                    let text = format!("its server on port {port} cannot be listened to: {why}");
                    if told.send(Err(text)).await.is_err() {
                        return;
                    }
                }
                if began.elapsed() > STARTING {
                    pause = (pause * 2).min(SLOW);
                }
            }
        }
        tokio::select! {
            () = told.closed() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Nobody listens any more.
struct Unheard;

async fn listen(
    source: &Source,
    mut stream: Response,
    events: &mut Events,
    live: &Live,
    told: &mpsc::Sender<Told>,
    moved: &Notify,
) -> Result<(), Unheard> {
    let tell = async |all: Vec<Said>| {
        for said in all {
            if let Said::Session(id) = &said {
                live.set_session(id.clone());
                moved.notify_one();
            }
            told.send(Ok(said)).await.map_err(|_| Unheard)?;
        }
        Ok(())
    };
    // What happens while this is asked waits in the stream.
    let Ok(state) = source.state(events.session()).await else { return Ok(()) };
    tell(events.resume(&state.sessions, &state.states, &state.asked, &state.messages)).await?;
    let mut lines = Lines::default();
    loop {
        let read = tokio::select! {
            () = told.closed() => return Err(Unheard),
            read = tokio::time::timeout(SILENCE, stream.chunk()) => read,
        };
        let Ok(Ok(Some(bytes))) = read else { return Ok(()) };
        for data in lines.take(&bytes) {
            match serde_json::from_str::<Value>(&data) {
                Ok(event) => tell(events.event(&event)).await?,
                Err(e) => tracing::debug!("an event that is not JSON is passed over: {e}"),
            }
        }
    }
}

/// What the server knows when a connection is new.
struct State {
    sessions: Value,
    states: Value,
    asked: Value,
    messages: Value,
}

/// Asks the server. No proxy, no other host than 127.0.0.1.
struct Source {
    client: Client,
    server: Server,
}

impl Source {
    fn new(server: Server) -> Result<Source, String> {
        // Nothing is encrypted on loopback, but the client does not begin without.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().connect_timeout(Duration::from_secs(1)).build();
        let client = client.map_err(|e| format!("no HTTP client can be made: {e}"))?;
        Ok(Source { client, server })
    }

    fn get(&self, path: &str) -> RequestBuilder {
        let Server { port, user, password } = &self.server;
        let request = self.client.get(format!("http://127.0.0.1:{port}{path}"));
        match password {
            Some(password) => request.basic_auth(user, Some(password.expose_secret())),
            None => request,
        }
    }

    async fn stream(&self) -> Result<Response, String> {
        let asked = tokio::time::timeout(ANSWER, self.get("/event").send()).await;
        let response = asked.map_err(|_| "it does not answer".to_owned())?;
        let response = response.map_err(|e| e.without_url().to_string())?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(format!("it answers {status}")),
        }
    }

    async fn json(&self, path: &str) -> Result<Value, reqwest::Error> {
        let response = self.get(path).timeout(ANSWER).send().await?.error_for_status()?;
        response.json().await
    }

    async fn state(&self, session: Option<&str>) -> Result<State, reqwest::Error> {
        let messages = match session {
            Some(id) => self.json(&format!("/session/{id}/message?limit=30")).await?,
            None => Value::Null,
        };
        Ok(State {
            sessions: self.json("/session").await?,
            states: self.json("/session/status").await?,
            asked: self.json("/permission").await?,
            messages,
        })
    }
}
