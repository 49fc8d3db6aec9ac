//! The control socket: lets a test make happen what a person or a model otherwise would.
//!
//! Each line is a command; each gets one line in reply, `ok` or `error: …`.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

/// A command and where its reply goes.
pub type Command = (String, oneshot::Sender<String>);

/// Removes the socket when the program ends.
#[derive(Debug)]
pub struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens on `path`, replacing what a former run left there. Must run inside a tokio runtime.
pub fn listen(path: &Path) -> Result<(Socket, mpsc::Receiver<Command>)> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(|e| {
        Error::new(e.kind(), format!("cannot listen on {}: {e}; choose another", path.display()))
    })?;
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, sender.clone()));
        }
    });
    Ok((Socket(path.to_owned()), receiver))
}

async fn serve(mut stream: UnixStream, sender: mpsc::Sender<Command>) -> Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let (reply, answer) = oneshot::channel();
        if sender.send((line, reply)).await.is_err() {
            break;
        }
        let answer = answer.await.unwrap_or_else(|_| "ok".into());
        write.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}
