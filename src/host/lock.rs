//! One host per state folder, and how the others find it.
//!
//! The lock is a `flock` on `host.lock`: the kernel releases it when its holder dies, so a stale
//! one cannot exist. `host.json` beside it says where the holder's sockets are, because the
//! client's `XDG_RUNTIME_DIR` may differ from the host's.

use super::paths::{Paths, private_file, state_error};
use crate::proto::ErrorInfo;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// What `host.json` says of the running host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    /// Process id.
    pub pid: u32,
    /// Version of the binary.
    pub version: String,
    /// Protocol number.
    pub protocol: u32,
    /// The folder of its sockets.
    pub runtime: PathBuf,
}

impl HostRecord {
    /// Reads the record of the host of a state folder; `None` when there is none.
    #[must_use]
    pub fn read(paths: &Paths) -> Option<HostRecord> {
        let text = fs::read_to_string(record_path(paths)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The paths as the running host uses them.
    #[must_use]
    pub fn apply(&self, paths: &Paths) -> Paths {
        Paths { runtime: self.runtime.clone(), ..paths.clone() }
    }
}

fn record_path(paths: &Paths) -> PathBuf {
    paths.state.join("host.json")
}

/// Held for the life of the host.
#[derive(Debug)]
pub struct HostLock {
    // Closing the file releases the lock.
    _file: File,
    record: PathBuf,
    sockets: Vec<PathBuf>,
}

impl HostLock {
    /// Becomes the host of the state folder. Both folders have been prepared.
    pub fn acquire(paths: &Paths) -> Result<HostLock, ErrorInfo> {
        let path = paths.state.join("host.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = private_file(&mut options, &path).map_err(|e| state_error(&path, &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(running(paths)),
            Err(TryLockError::Error(e)) => return Err(state_error(&path, &e)),
        }
        let record = record_path(paths);
        // What a host before this one left must not be taken for this one's word.
        remove_if_there(&record).map_err(|e| state_error(&record, &e))?;
        Ok(HostLock { _file: file, record, sockets: Vec::new() })
    }

    /// Binds a socket with mode 0600. A file in its place is stale, since this host has the lock;
    /// anything that is not a socket is left alone and refused.
    pub fn bind(&mut self, path: &Path) -> Result<UnixListener, ErrorInfo> {
        let failed = |e: io::Error| {
            ErrorInfo::new(
                "socket",
                format!("the socket {} cannot be made: {e}", path.display()),
                "set MADO_RUNTIME_DIR to another folder",
            )
        };
        if let Ok(meta) = fs::symlink_metadata(path) {
            if !meta.file_type().is_socket() {
                return Err(failed(io::Error::other("something that is no socket is there")));
            }
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        self.sockets.push(path.to_owned());
        Ok(listener)
    }

    /// Says where the sockets are, once they are all bound.
    pub fn announce(&self, record: &HostRecord) -> Result<(), ErrorInfo> {
        let text = serde_json::to_string(record).unwrap_or_default();
        write_atomic(&self.record, text.as_bytes()).map_err(|e| state_error(&self.record, &e))
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // Removed while the lock is still held, so that a next host's files are never hit.
        let _ = fs::remove_file(&self.record);
        for socket in &self.sockets {
            let _ = fs::remove_file(socket);
        }
    }
}

fn running(paths: &Paths) -> ErrorInfo {
    let who = HostRecord::read(paths).map_or_else(
        || "another mado host (just starting)".to_owned(),
        |r| format!("a mado host (pid {}, version {})", r.pid, r.version),
    );
    ErrorInfo::new(
        "host_running",
        format!("{who} already runs with the state folder {}", paths.state.display()),
        "use it, end it with `mado stop`, or set MADO_STATE_DIR to another folder",
    )
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Replaces a file in one step: readers see the old content or the new one, also after a crash.
pub fn write_atomic(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    remove_if_there(&new)?;
    let mut file = private_file(OpenOptions::new().write(true).create_new(true), &new)?;
    file.write_all(content)?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    sync_folder(path)
}

/// Makes a rename in a file's folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(dir: &Path) -> Paths {
        let paths = Paths {
            state: dir.join("state"),
            runtime: dir.join("run"),
            config: dir.join("config"),
        };
        paths.prepare_state().unwrap();
        paths.prepare_runtime().unwrap();
        paths
    }

    #[test]
    fn a_second_host_is_refused_and_told_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let first = HostLock::acquire(&paths).unwrap();
        let record = HostRecord { pid: 4711, version: "1".into(), protocol: 1, ..<_>::default() };
        first.announce(&record).unwrap();
        let e = HostLock::acquire(&paths).unwrap_err();
        assert_eq!(e.code, "host_running");
        assert!(e.message.contains("4711"), "{e}");
        drop(first);
        assert!(HostRecord::read(&paths).is_none());
        HostLock::acquire(&paths).unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced_and_any_other_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let mut lock = HostLock::acquire(&paths).unwrap();
        drop(UnixListener::bind(paths.shell_socket()).unwrap());
        lock.bind(&paths.shell_socket()).unwrap();
        fs::write(paths.hook_socket(), "precious").unwrap();
        assert_eq!(lock.bind(&paths.hook_socket()).unwrap_err().code, "socket");
        drop(lock);
        assert!(!paths.shell_socket().exists());
        assert_eq!(fs::read_to_string(paths.hook_socket()).unwrap(), "precious");
    }
}
