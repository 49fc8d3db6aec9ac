//! Asking a host of any version to end, by the frame whose form never changes.

use mado::host::paths::Paths;
use mado::proto::ErrorInfo;
use mado::proto::attach::{Frame, Stop};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Sends the frame and waits until the host closes the connection, which it does at its end.
pub fn send(paths: &Paths) -> Result<(), ErrorInfo> {
    let failed = |e: std::io::Error| {
        let message = format!("the host cannot be asked to end: {e}");
        ErrorInfo::new("no_stop", message, "end it with kill; its pid is in `mado health`")
    };
    let mut stream = UnixStream::connect(paths.attach_socket()).map_err(failed)?;
    let mut bytes = Vec::new();
    Frame::Stop(Stop { force: true }).encode(&mut bytes);
    stream.write_all(&bytes).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(failed)?;
    // A connection that is reset has ended as well.
    let _ = stream.read_to_end(&mut Vec::new());
    Ok(())
}
