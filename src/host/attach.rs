//! The host's side of `mado attach`, up to the point where a terminal takes over: the first frame
//! of a connection.

use crate::proto::attach::{Decoder, Frame, FrameError, Hello, Refused, Stop};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// How long a new connection may take to say what it wants.
const FIRST_FRAME: Duration = Duration::from_secs(5);

/// A client's connection after its hello, to be given to a terminal.
#[derive(Debug)]
pub struct Connection {
    pub(super) stream: UnixStream,
    /// What the client said.
    pub hello: Hello,
    /// The agent's full name, for the welcome.
    pub agent: String,
    /// What was read beyond the hello.
    pub(super) decoder: Decoder,
}

/// What a connection to the attach socket wants.
#[derive(Debug)]
pub enum Wants {
    /// To show an agent.
    Attach(Connection),
    /// The host to end. Answer with [`refuse`], or drop the stream when all has ended.
    Stop(Stop, UnixStream),
}

/// Why a connection came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Reading or writing failed, or the client went away.
    #[error("the attach connection failed: {0}")]
    Io(#[from] io::Error),
    /// It does not speak the frames.
    #[error("the attach connection is not understood: {0}")]
    Frame(#[from] FrameError),
    /// Its first frame is none that begins something.
    #[error("the attach connection did not begin with a hello")]
    NoHello,
    /// It said nothing.
    #[error("the attach connection said nothing for {} s", FIRST_FRAME.as_secs())]
    Silent,
}

/// Reads the first frame of a new connection.
pub async fn accept(mut stream: UnixStream) -> Result<Wants, AttachError> {
    let mut decoder = Decoder::default();
    let first = async {
        let mut buf = vec![0; 4096];
        loop {
            match decoder.next_frame()? {
                Some(Frame::Unknown(_)) => {}
                Some(frame) => return Ok(frame),
                None => match stream.read(&mut buf).await? {
                    0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    n => decoder.feed(&buf[..n]),
                },
            }
        }
    };
    let frame: Result<Frame, AttachError> =
        tokio::time::timeout(FIRST_FRAME, first).await.map_err(|_| AttachError::Silent)?;
    match frame? {
        Frame::Hello(hello) => {
            let agent = hello.agent.clone();
            Ok(Wants::Attach(Connection { stream, hello, agent, decoder }))
        }
        Frame::Stop(stop) => Ok(Wants::Stop(stop, stream)),
        _ => Err(AttachError::NoHello),
    }
}

/// Tells a client why not, in one line with the remedy, and ends its connection.
pub async fn refuse(mut stream: UnixStream, message: impl Into<String>) -> io::Result<()> {
    let mut out = Vec::new();
    Frame::Refused(Refused { message: message.into() }).encode(&mut out);
    stream.write_all(&out).await?;
    stream.shutdown().await
}

impl Connection {
    /// Refuses this client: there is no such agent.
    pub async fn refuse(self, message: impl Into<String>) -> io::Result<()> {
        refuse(self.stream, message).await
    }
}
