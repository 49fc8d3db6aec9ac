//! Who is at the other end of a socket, by the kernel's word.

use super::procs;
use tokio::net::UnixStream;

/// Whether the peer runs as this user (or as root, who can do anything anyway).
#[must_use]
pub fn is_own(stream: &UnixStream) -> bool {
    let me = rustix::process::getuid().as_raw();
    stream.peer_cred().is_ok_and(|c| c.uid() == me || c.uid() == 0)
}

/// The peer's process id and those of its ancestors, nearest first. `None` when the kernel does
/// not say, or the peer is another user's.
#[must_use]
pub fn ancestry(stream: &UnixStream) -> Option<Vec<u32>> {
    if !is_own(stream) {
        return None;
    }
    let pid = stream.peer_cred().ok()?.pid()?;
    Some(procs::ancestors(u32::try_from(pid).ok().filter(|p| *p > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_peer_of_a_socket_is_known() {
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(ancestry(&a).unwrap()[0], std::process::id());
    }
}
