//! The hooks' socket: `mado hook EVENT` says what an agent's hook was told.
//!
//! Whose hook it is follows from the peer's process id alone: the kernel knows it, the sender
//! cannot choose it. What it says is the agent's own claim; it grants nothing.

use super::peer;
use super::server::Event;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// Most bytes of one message. `mado hook` leaves out what mado does not read before it sends.
pub const MAX_MESSAGE: u64 = 4 << 20;

/// How long a sender may take.
const READ: Duration = Duration::from_secs(2);

/// What `mado hook` sends, until the end of its stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HookMessage {
    /// The event's name as the agent's settings had it.
    pub event: String,
    /// What the agent wrote to the hook's standard input.
    pub payload: serde_json::Value,
}

/// Takes one message and tells the loop. Answers once the loop has it, so that the sender is alive
/// (and so are its ancestors) while it is looked up.
pub(super) async fn run(mut stream: UnixStream, events: mpsc::Sender<Event>) {
    let Some(ancestry) = peer::ancestry(&stream) else { return };
    let mut bytes = Vec::new();
    let mut limited = (&mut stream).take(MAX_MESSAGE + 1);
    let read = tokio::time::timeout(READ, limited.read_to_end(&mut bytes)).await;
    if !matches!(read, Ok(Ok(_))) || bytes.len() as u64 > MAX_MESSAGE {
        tracing::warn!("a hook's message was too slow or too long; it is ignored");
        return;
    }
    let message = match serde_json::from_slice::<HookMessage>(&bytes) {
        Ok(message) => message,
        Err(e) => {
            tracing::warn!("a hook's message cannot be read: {e}");
            return;
        }
    };
    let (done, taken) = oneshot::channel();
    if events.send(Event::Hook { ancestry, message, done }).await.is_ok() {
        let _ = taken.await;
        let _ = stream.write_all(b"ok\n").await;
    }
}
