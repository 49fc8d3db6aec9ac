//! The host's side of `mado attach`: the hello of a connection.

use crate::proto::attach::{Decoder, Hello};
use tokio::net::UnixStream;

/// A client's connection after its hello.
#[derive(Debug)]
pub struct Connection {
    pub(crate) stream: UnixStream,
    /// What the client said.
    pub hello: Hello,
    /// What was read beyond the hello.
    pub(crate) decoder: Decoder,
}
