//! One viewer's connection: what goes to it and what comes from it.
//!
//! A viewer that stops reading (an editor at a prompt, a suspended client) must not hold up the
//! agent or the other viewers. So what it gets waits in a queue of its own, of at most
//! [`QUEUE`] bytes. When it overflows, all that waits is dropped, and once the viewer reads again it is
//! brought up to date by a repaint of the model.

use crate::host::attach::Connection;
use crate::proto::attach::{Decoder, Exit, Frame, HEAD, VERSION, Welcome, output_head};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

/// Most bytes that wait for a viewer.
pub(super) const QUEUE: usize = 1 << 20;

/// Most pieces that wait for a viewer: a program that writes byte by byte must not cost a viewer that
/// does not read a multiple of [`QUEUE`].
const PIECES: usize = 4096;

/// A viewer with more bytes waiting is behind: the program is held back a little, so that it sees all of
/// what it can keep up with, and soon.
const BEHIND: usize = 128 * 1024;

/// Most bytes in one output frame. A slow client shows something sooner.
const FRAME: usize = 64 * 1024;

/// What a viewer's tasks tell the terminal.
#[derive(Debug)]
pub(super) enum FromViewer {
    /// Bytes of its terminal.
    Input(Vec<u8>),
    /// It has a new size.
    Resize(u16, u16),
    /// It has read all that was queued after its queue had overflowed.
    CaughtUp,
    /// It was behind and is no more.
    Reading,
    /// It is gone.
    Gone,
}

#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<Arc<Vec<u8>>>,
    bytes: usize,
    /// The queue overflowed; nothing is queued until the repaint.
    stale: bool,
    /// The terminal wants to hear when the viewer is no longer behind.
    awaited: bool,
    /// Sent when the queue is empty; nothing follows it.
    exit: Option<Exit>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The terminal's end of a viewer. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
    /// The writer finishes by itself after an exit frame.
    leaving: bool,
}

impl Drop for Outlet {
    fn drop(&mut self) {
        for task in &self.tasks[usize::from(self.leaving)..] {
            task.abort();
        }
    }
}

/// Starts the tasks of a viewer. `id` goes with everything it sends to `to`.
pub(super) fn start(
    connection: Connection,
    id: u64,
    to: mpsc::Sender<(u64, FromViewer)>,
) -> Outlet {
    let Connection { stream, agent, decoder, .. } = connection;
    let (read, write) = stream.into_split();
    let shared = Arc::<Shared>::default();
    let writer = tokio::spawn(send(write, Arc::clone(&shared), agent, id, to.clone()));
    let reader = tokio::spawn(receive(read, decoder, id, to));
    Outlet { shared, tasks: [writer.abort_handle(), reader.abort_handle()], leaving: false }
}

impl Outlet {
    /// Queues live output. Never waits; a viewer that is too slow loses it and gets a repaint.
    pub(super) fn push(&self, chunk: &Arc<Vec<u8>>) {
        let mut queue = self.shared.lock();
        if queue.stale || chunk.is_empty() {
            return;
        }
        if queue.bytes + chunk.len() > QUEUE || queue.chunks.len() >= PIECES {
            queue.chunks.clear();
            queue.bytes = 0;
            queue.stale = true;
        } else {
            queue.bytes += chunk.len();
            queue.chunks.push_back(Arc::clone(chunk));
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Whether everything queued has been handed to the connection.
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.lock();
        queue.chunks.is_empty() && !queue.stale
    }

    /// Whether much waits for the viewer. If so it says when it does no more. One whose queue has
    /// overflowed is not behind: what it misses it is shown later.
    pub(super) fn is_behind(&self) -> bool {
        let mut queue = self.shared.lock();
        queue.awaited = !queue.stale && queue.bytes > BEHIND;
        queue.awaited
    }

    /// Skips live output until the viewer has read what is queued; it says so then.
    pub(super) fn skip(&self) {
        self.shared.lock().stale = true;
        self.shared.changed.notify_one();
    }

    /// Replaces what is queued by a picture of the whole, however large.
    pub(super) fn repaint(&self, picture: Vec<u8>) {
        let mut queue = self.shared.lock();
        queue.chunks.clear();
        queue.bytes = picture.len();
        queue.chunks.push_back(Arc::new(picture));
        queue.stale = false;
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// The agent has ended: says so after what is queued, and closes the connection.
    pub(super) fn exit(&mut self, exit: Exit) {
        self.shared.lock().exit = Some(exit);
        self.leaving = true;
        self.shared.changed.notify_one();
    }
}

enum Next {
    Chunk(Arc<Vec<u8>>),
    CaughtUp,
    Exit(Exit),
}

async fn send(
    mut write: OwnedWriteHalf,
    shared: Arc<Shared>,
    agent: String,
    id: u64,
    to: mpsc::Sender<(u64, FromViewer)>,
) {
    let mut welcome = Vec::new();
    Frame::Welcome(Welcome { version: VERSION, agent }).encode(&mut welcome);
    if write.write_all(&welcome).await.is_err() {
        return;
    }
    let mut told = false;
    loop {
        let next = {
            let mut queue = shared.lock();
            if let Some(chunk) = queue.chunks.pop_front() {
                told = false;
                Some(Next::Chunk(chunk))
            } else if queue.stale && !told {
                told = true;
                Some(Next::CaughtUp)
            } else if queue.stale {
                None
            } else {
                queue.exit.take().map(Next::Exit)
            }
        };
        let done = match next {
            None => {
                shared.changed.notified().await;
                Ok(())
            }
            Some(Next::Chunk(chunk)) => {
                let done = write_output(&mut write, &chunk).await;
                // Counted until the connection has it: it waits as long as that takes.
                let reads = {
                    let mut queue = shared.lock();
                    queue.bytes = queue.bytes.saturating_sub(chunk.len());
                    queue.bytes <= BEHIND && std::mem::take(&mut queue.awaited)
                };
                if reads && to.send((id, FromViewer::Reading)).await.is_err() {
                    return;
                }
                done
            }
            Some(Next::CaughtUp) => {
                if to.send((id, FromViewer::CaughtUp)).await.is_err() {
                    return;
                }
                Ok(())
            }
            Some(Next::Exit(exit)) => {
                let mut out = Vec::new();
                Frame::Exit(exit).encode(&mut out);
                let _ = write.write_all(&out).await;
                let _ = write.shutdown().await;
                return;
            }
        };
        if done.is_err() {
            // The reader notices as well and says that the viewer is gone.
            return;
        }
    }
}

/// Writes output in frames, without copying it.
async fn write_output(write: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.chunks(FRAME) {
        let head = output_head(piece.len());
        let mut done = 0;
        while done < HEAD + piece.len() {
            let n = if done < HEAD {
                let parts = [IoSlice::new(&head[done..]), IoSlice::new(piece)];
                write.write_vectored(&parts).await?
            } else {
                write.write(&piece[done - HEAD..]).await?
            };
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += n;
        }
    }
    Ok(())
}

async fn receive(
    mut read: OwnedReadHalf,
    mut decoder: Decoder,
    id: u64,
    to: mpsc::Sender<(u64, FromViewer)>,
) {
    let mut buf = vec![0; 16 * 1024];
    loop {
        loop {
            let told = match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Input(bytes))) => FromViewer::Input(bytes),
                Ok(Some(Frame::Resize(rows, cols))) => FromViewer::Resize(rows, cols),
                Ok(Some(Frame::Detach)) | Err(_) => FromViewer::Gone,
                // Kinds of a later version, or out of place.
                Ok(Some(_)) => continue,
            };
            let gone = matches!(told, FromViewer::Gone);
            if to.send((id, told)).await.is_err() || gone {
                return;
            }
        }
        match read.read(&mut buf).await {
            Ok(0) | Err(_) => {
                let _ = to.send((id, FromViewer::Gone)).await;
                return;
            }
            Ok(n) => decoder.feed(&buf[..n]),
        }
    }
}
