//! Who is at the other end of a socket, by the kernel's word.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
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
    Some(ancestors(u32::try_from(pid).ok().filter(|p| *p > 0)?))
}

/// Deepest ancestry that is followed.
const DEPTH: usize = 64;

/// A process and its ancestors, nearest first.
#[must_use]
pub fn ancestors(pid: u32) -> Vec<u32> {
    let mut list = vec![pid];
    let Ok(mut system) = System::new() else { return list };
    let mut at = Pid::from_u32(pid);
    while list.len() < DEPTH {
        let what = ProcessRefreshKind::nothing();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[at]), false, what);
        let Some(parent) = system.process(at).and_then(sysinfo::Process::parent) else { break };
        list.push(parent.as_u32());
        at = parent;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_parent_among_its_ancestors() {
        let list = ancestors(std::process::id());
        assert_eq!(list[0], std::process::id());
        assert_eq!(list.get(1), Some(&std::os::unix::process::parent_id()));
    }

    #[tokio::test]
    async fn the_peer_of_a_socket_is_known() {
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(ancestry(&a).unwrap()[0], std::process::id());
    }
}
