//! One Neovim: requests come in as notifications, replies and events go out in batches.
//!
//! At most one call is in flight per editor, and its answer is the acknowledgement of its batch.
//! That bounds what the host keeps for an editor that does not listen, and it is the only way to
//! push back that msgpack-RPC has.
//!
//! nvim-rs must never see a call cancelled: the late answer would find nobody, which it takes for
//! the end of the connection. So [`Call`] runs each in a task of its own that always lives until the
//! answer or the end of the connection comes, and what is timed out is only the wait for it.
//! `clippy.toml` bans its calls everywhere but there.

use super::outbox::Outbox;
use super::server::{Event, Incoming};
use super::wire;
use crate::proto::{ClientId, ErrorInfo};
use nvim_rs::{Handler, Neovim};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::WriteHalf;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

type Writer = Compat<WriteHalf<UnixStream>>;
/// What a call came to.
pub type Answer = Result<rmpv::Value, String>;

/// A question to an editor, beside its batches.
#[derive(Debug)]
pub struct Ask {
    /// The Lua that answers it.
    pub lua: &'static str,
    /// Its arguments.
    pub args: Vec<rmpv::Value>,
    /// Gets what it returns, however late that is.
    pub reply: oneshot::Sender<Answer>,
}

/// The Lua that takes a batch.
const TAKE: &str = "return require('mado.rpc').on(...)";

/// Forwards and does nothing else: nvim-rs handles one notification at a time.
#[derive(Clone)]
struct Forward {
    client: ClientId,
    events: mpsc::Sender<Event>,
}

#[async_trait::async_trait]
impl Handler for Forward {
    type Writer = Writer;

    async fn handle_request(
        &self,
        name: String,
        _args: Vec<rmpv::Value>,
        _nvim: Neovim<Writer>,
    ) -> Result<rmpv::Value, rmpv::Value> {
        // A request would block the editor's main loop until it is answered.
        Err(format!("{name}: send it with vim.rpcnotify(chan, 'mado', seq, request)").into())
    }

    async fn handle_notify(&self, name: String, args: Vec<rmpv::Value>, _nvim: Neovim<Writer>) {
        if name != "mado" {
            return;
        }
        let mut args = args.into_iter();
        let seq = args.next().and_then(|v| v.as_u64());
        let request = match (seq, args.next()) {
            (Some(_), Some(message)) => wire::request(wire::json(message)),
            _ => Err(ErrorInfo::new(
                "bad_request",
                "a notification must be ('mado', seq, request)",
                "host and plugin may be of different versions",
            )),
        };
        let seq = seq.unwrap_or(0);
        let said = Incoming::Said { client: self.client, seq, request: Box::new(request) };
        let _ = self.events.send(Event::Client(said)).await;
    }
}

/// A call that is never cancelled.
struct Call(JoinHandle<Answer>);

impl Call {
    #[expect(clippy::disallowed_methods, reason = "the one place, as said above")]
    fn start(nvim: &Neovim<Writer>, method: &'static str, args: Vec<rmpv::Value>) -> Call {
        let nvim = nvim.clone();
        Call(tokio::spawn(async move {
            match nvim.call(method, args).await {
                Ok(answer) => answer.map_err(|e| e.to_string()),
                Err(e) => Err(e.to_string()),
            }
        }))
    }

    /// Waits up to `limit`. `None`: no answer yet, the call goes on.
    async fn wait(&mut self, limit: Duration) -> Option<Answer> {
        match tokio::time::timeout(limit, &mut self.0).await {
            Err(_) => None,
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(e)) => Some(Err(e.to_string())),
        }
    }
}

/// Serves one editor until either side ends the connection. Its outbox has been handed to the
/// loop; the end is told to it.
pub(super) async fn run(
    stream: UnixStream,
    client: ClientId,
    outbox: Arc<Outbox>,
    events: mpsc::Sender<Event>,
    limit: Duration,
) {
    let (reader, writer) = tokio::io::split(stream);
    let forward = Forward { client, events: events.clone() };
    let (nvim, io) = Neovim::new(reader.compat(), writer.compat_write(), forward);
    let mut io = tokio::spawn(io);
    let asks = tokio::spawn(ask(nvim.clone(), outbox.take_asks()));
    tokio::select! {
        // The connection is over. Whatever call is open ends with it.
        _ = &mut io => {}
        () = deliver(&nvim, client, &outbox, limit) => io.abort(),
    }
    // Whoever asks notices by this that nobody answers.
    asks.abort();
    let _ = events.send(Event::Client(Incoming::Gone { client })).await;
}

/// Puts questions in the order in which they come. Each is a call of its own, so that one which an
/// editor does not answer holds up no other editor's.
async fn ask(nvim: Neovim<Writer>, asks: Option<mpsc::Receiver<Ask>>) {
    let Some(mut asks) = asks else { return };
    while let Some(Ask { lua, args, reply }) = asks.recv().await {
        let mut call = Call::start(&nvim, "nvim_exec_lua", vec![lua.into(), args.into()]);
        tokio::spawn(async move {
            let answer = loop {
                if let Some(answer) = call.wait(Duration::from_hours(1)).await {
                    break answer;
                }
            };
            let _ = reply.send(answer);
        });
    }
}

async fn deliver(nvim: &Neovim<Writer>, client: ClientId, outbox: &Outbox, limit: Duration) {
    while let Some(batch) = outbox.batch().await {
        let batch = batch.iter().map(wire::msgpack).collect();
        let args = vec![TAKE.into(), vec![rmpv::Value::Array(batch)].into()];
        let mut call = Call::start(nvim, "nvim_exec_lua", args);
        let answer = loop {
            if let Some(answer) = call.wait(limit).await {
                break answer;
            }
            if !outbox.is_stalled() {
                tracing::warn!("editor {client} has not answered for {limit:?}; events are joined");
                outbox.set_stalled(true);
            }
        };
        outbox.set_stalled(false);
        if let Err(e) = answer {
            tracing::warn!("editor {client} did not take a batch: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AgentId, AgentInfo, Event as Published, Reply};
    use rmpv::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// The other end of the connection, speaking msgpack-RPC by hand.
    struct Peer {
        stream: UnixStream,
        bytes: Vec<u8>,
    }

    impl Peer {
        async fn next(&mut self) -> Value {
            loop {
                let mut cursor = std::io::Cursor::new(&self.bytes);
                if let Ok(value) = rmpv::decode::read_value(&mut cursor) {
                    let used = cursor.position() as usize;
                    self.bytes.drain(..used);
                    return value;
                }
                let n = self.stream.read_buf(&mut self.bytes).await.unwrap();
                assert!(n > 0, "the host closed the connection");
            }
        }

        async fn send(&mut self, value: Value) {
            let mut bytes = Vec::new();
            rmpv::encode::write_value(&mut bytes, &value).unwrap();
            self.stream.write_all(&bytes).await.unwrap();
        }

        async fn answer(&mut self, call: &Value) {
            let id = call[1].clone();
            self.send(Value::Array(vec![1.into(), id, Value::Nil, true.into()])).await;
        }

        /// The messages of the batch in a call.
        fn batch(call: &Value) -> Vec<Value> {
            assert_eq!(call[2].as_str(), Some("nvim_exec_lua"));
            call[3][1][0].as_array().unwrap().clone()
        }
    }

    struct Case {
        peer: Peer,
        outbox: Arc<Outbox>,
        events: mpsc::Receiver<Event>,
    }

    fn start(limit: Duration) -> Case {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let outbox = Arc::new(Outbox::default());
        let (sender, events) = mpsc::channel(8);
        tokio::spawn(run(ours, ClientId(1), outbox.clone(), sender, limit));
        Case { peer: Peer { stream: theirs, bytes: Vec::new() }, outbox, events }
    }

    fn agent(since: u64) -> Published {
        Published::Agent(AgentInfo { id: AgentId(1), since, ..AgentInfo::default() })
    }

    /// A cancelled call would make nvim-rs end the connection when the late answer comes.
    #[tokio::test]
    async fn a_late_answer_does_not_break_the_connection() {
        let mut case = start(Duration::from_millis(20));
        case.outbox.event(agent(1));
        let call = case.peer.next().await;
        while !case.outbox.is_stalled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        case.peer.answer(&call).await;
        assert!(case.outbox.reply(7, Ok(Reply::Done)));
        let call = case.peer.next().await;
        let batch = Peer::batch(&call);
        assert_eq!(batch.len(), 1);
        case.peer.answer(&call).await;
        case.outbox.event(agent(2));
        let call = case.peer.next().await;
        case.peer.answer(&call).await;
        assert!(!case.outbox.is_stalled());
    }

    #[tokio::test]
    async fn a_stalled_editor_gets_no_second_call_and_then_the_latest() {
        let mut case = start(Duration::from_millis(20));
        case.outbox.event(agent(0));
        let call = case.peer.next().await;
        while !case.outbox.is_stalled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for since in 1..=1000 {
            case.outbox.event(agent(since));
        }
        assert_eq!(case.outbox.len(), 1);
        // Nothing may come before the answer: the next bytes on the wire follow it.
        let early = tokio::time::timeout(Duration::from_millis(60), case.peer.next()).await;
        assert!(early.is_err(), "a second call: {early:?}");
        case.peer.answer(&call).await;
        let call = case.peer.next().await;
        let batch = Peer::batch(&call);
        assert_eq!(batch.len(), 1);
        assert_eq!(wire::json(batch[0].clone())["data"]["since"], 1000);
    }

    #[tokio::test]
    async fn a_request_is_forwarded_and_a_malformed_one_gets_its_error() {
        let mut case = start(Duration::from_secs(5));
        let map = Value::Map(vec![("method".into(), "agents".into())]);
        for (seq, message) in [(1_u64, map), (2, "nonsense".into())] {
            let args = Value::Array(vec![seq.into(), message]);
            case.peer.send(Value::Array(vec![2.into(), "mado".into(), args])).await;
        }
        for expected in [1, 2] {
            let Some(Event::Client(Incoming::Said { seq, request, .. })) = case.events.recv().await
            else {
                panic!("a request")
            };
            assert_eq!(seq, expected);
            assert_eq!(request.is_ok(), expected == 1);
        }
        drop(case.peer);
        assert!(matches!(
            case.events.recv().await,
            Some(Event::Client(Incoming::Gone { client: ClientId(1) }))
        ));
    }
}
