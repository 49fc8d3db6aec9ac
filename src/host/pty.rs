//! A program in a pseudo-terminal.
//!
//! Reading and writing never wait: the owner asks for readiness and takes what is there. The end
//! of a PTY is `EIO`, and it comes when the session's leader exits even if a grandchild lives.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

/// Why a program could not be started. Each names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No program was named.
    #[error("no program to start: the command is empty")]
    Empty,
    /// A bare name that is in no folder of `PATH`.
    #[error("program `{program}` not found: searched PATH ({path}); install it or give its path")]
    NotOnPath {
        /// The name.
        program: String,
        /// What was searched.
        path: String,
    },
    /// A path where nothing is.
    #[error("program `{0}` not found: there is no such file")]
    NoSuchFile(String),
    /// A file that cannot be executed.
    #[error("program `{0}` is not executable: check its permissions (chmod +x)")]
    NotExecutable(String),
    /// The working directory is missing or no directory.
    #[error("working directory `{0}` is not a directory: create it or choose another (cwd=)")]
    BadDirectory(String),
    /// The file is there and executable and yet did not start.
    #[error("program `{program}` did not start: {error} (a script's interpreter may be missing)")]
    Exec {
        /// The file.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// No pseudo-terminal could be had.
    #[error("no pseudo-terminal: {0}; the system may have run out of them")]
    NoTerminal(io::Error),
}

impl SpawnError {
    /// A stable code, for [`crate::proto::ErrorInfo`].
    pub fn code(&self) -> &'static str {
        match self {
            SpawnError::Empty => "empty_command",
            SpawnError::NotOnPath { .. } | SpawnError::NoSuchFile(_) => "program_not_found",
            SpawnError::NotExecutable(_) => "program_not_executable",
            SpawnError::BadDirectory(_) => "bad_directory",
            SpawnError::Exec { .. } => "program_not_started",
            SpawnError::NoTerminal(_) => "no_terminal",
        }
    }
}

/// What one read or write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// So many bytes.
    Bytes(usize),
    /// Nothing is there, or there is no room.
    WouldBlock,
    /// The program's side is closed.
    Closed,
}

/// The host's side of a pseudo-terminal.
#[derive(Debug)]
pub struct Pty {
    master: AsyncFd<OwnedFd>,
    /// The program's side, by name.
    slave: Option<CString>,
}

/// The library opens the terminal and sets close-on-exec in two steps. Two spawns at once could
/// leak the one's terminal into the other's program, which would then never see it close.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Starts `argv` in a new terminal of `size` rows and columns, as the leader of a new session.
/// `env` is its whole environment, and the `PATH` in it is searched.
///
/// Must be called within a tokio runtime.
pub fn spawn(
    argv: &[String],
    cwd: &Path,
    env: &BTreeMap<String, String>,
    size: (u16, u16),
) -> Result<(Pty, Child), SpawnError> {
    let Some((program, args)) = argv.split_first() else { return Err(SpawnError::Empty) };
    if program.is_empty() {
        return Err(SpawnError::Empty);
    }
    if !cwd.is_dir() {
        return Err(SpawnError::BadDirectory(cwd.display().to_string()));
    }
    let file = find(program, cwd, env.get("PATH").map(OsStr::new))?;

    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (master, slave) = pty_process::open().map_err(|e| SpawnError::NoTerminal(to_io(e)))?;
    let winsize = winsize(size.0, size.1);
    tcsetwinsize(&master, winsize).map_err(|e| SpawnError::NoTerminal(e.into()))?;
    let child = pty_process::Command::new(&file)
        .arg0(program)
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .spawn(slave)
        .map_err(|e| SpawnError::Exec { program: file.display().to_string(), error: to_io(e) })?;
    // Deprecated because a type could lend one descriptor and close another. An `OwnedFd` cannot,
    // and the replacement is `unsafe`.
    #[expect(deprecated)]
    let master = AsyncFd::new(OwnedFd::from(master)).map_err(SpawnError::NoTerminal)?;
    let slave = rustix::pty::ptsname(&master, Vec::new()).ok();
    Ok((Pty { master, slave }, child))
}

fn to_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(e) => e,
        pty_process::Error::Rustix(e) => e.into(),
        other => io::Error::other(other),
    }
}

fn winsize(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows.max(1), ws_col: cols.max(2), ws_xpixel: 0, ws_ypixel: 0 }
}

/// The file of a program, by the rules of `execvp`.
fn find(program: &str, cwd: &Path, path: Option<&OsStr>) -> Result<PathBuf, SpawnError> {
    if program.contains('/') {
        let file = cwd.join(program);
        return match std::fs::metadata(&file) {
            Err(_) => Err(SpawnError::NoSuchFile(program.to_owned())),
            Ok(meta) if !executable(&meta) => Err(SpawnError::NotExecutable(program.to_owned())),
            Ok(_) => Ok(file),
        };
    }
    // What the C library searches when nothing is said.
    let path = path.map_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"), OsStr::to_owned);
    let mut unusable = None;
    for folder in std::env::split_paths(&path) {
        let file = cwd.join(folder).join(program);
        match std::fs::metadata(&file) {
            Ok(meta) if executable(&meta) => return Ok(file),
            Ok(meta) if meta.is_file() => unusable = Some(file),
            _ => {}
        }
    }
    Err(match unusable {
        Some(file) => SpawnError::NotExecutable(file.display().to_string()),
        None => SpawnError::NotOnPath {
            program: program.to_owned(),
            path: path.to_string_lossy().into_owned(),
        },
    })
}

fn executable(meta: &std::fs::Metadata) -> bool {
    meta.is_file() && meta.permissions().mode() & 0o111 != 0
}

impl Pty {
    /// Waits until something can be read, or the program's side is closed.
    pub async fn readable(&self) -> io::Result<()> {
        // The readiness stays set until a `read` finds nothing.
        self.master.readable().await.map(|mut guard| guard.retain_ready())
    }

    /// Waits until something can be written.
    pub async fn writable(&self) -> io::Result<()> {
        self.master.writable().await.map(|mut guard| guard.retain_ready())
    }

    /// Reads what is there into `buf`, without waiting.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Did> {
        // Linux says EIO at the end; others say that they read nothing.
        match self.attempt(Interest::READABLE, |fd| rustix::io::read(fd, &mut *buf)) {
            Ok(0) | Err(Errno::IO) => Ok(Did::Closed),
            Ok(n) => Ok(Did::Bytes(n)),
            Err(Errno::AGAIN) => Ok(Did::WouldBlock),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes as much of `bytes` as the kernel takes, without waiting.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Did> {
        match self.attempt(Interest::WRITABLE, |fd| rustix::io::write(fd, bytes)) {
            Ok(n) => Ok(Did::Bytes(n)),
            Err(Errno::AGAIN) => Ok(Did::WouldBlock),
            Err(Errno::IO) => Ok(Did::Closed),
            Err(e) => Err(e.into()),
        }
    }

    /// Makes a call at once, whether or not the runtime has heard yet that it would work: a look
    /// at the screen needs what is there *now*. If the runtime believes that it would work and it
    /// does not, the readiness is cleared.
    fn attempt(
        &self,
        interest: Interest,
        mut call: impl FnMut(&OwnedFd) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<usize> {
        let mut call = |fd: &OwnedFd| {
            loop {
                match call(fd) {
                    Err(Errno::INTR) => {}
                    done => return done,
                }
            }
        };
        let mut made = None;
        // What it returns is in `made`, if it was made.
        let _ = self.master.try_io(interest, |fd| {
            let done = call(fd);
            made = Some(done);
            done.map_err(io::Error::from)
        });
        made.unwrap_or_else(|| call(self.master.get_ref()))
    }

    /// Sets the size; the program gets `SIGWINCH` if it changed.
    pub fn resize(&self, rows: u16, cols: u16) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, winsize(rows, cols))?)
    }

    /// Bytes of input that the program has not read yet. `None` where the system does not tell.
    ///
    /// The program's side is opened only for the question: kept open, it would hide from the
    /// host that the program has closed it.
    pub fn unread(&self) -> Option<u64> {
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let slave = rustix::fs::open(self.slave.as_ref()?.as_c_str(), flags, Mode::empty()).ok()?;
        rustix::io::ioctl_fionread(&slave).ok()
    }

    /// The process group in the foreground of the terminal. `None` when there is none (the
    /// session's leader is gone).
    pub fn foreground_pgrp(&self) -> Option<u32> {
        tcgetpgrp(&self.master).ok().map(Pid::as_raw_nonzero).map(|p| p.get() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_env() -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_what_was_searched() {
        let env = BTreeMap::from([("PATH".to_owned(), "/nowhere:/neither".to_owned())]);
        let error =
            spawn(&["no-such-agent".into()], Path::new("/"), &env, (24, 80)).expect_err("x");
        let text = error.to_string();
        assert!(text.contains("`no-such-agent`"), "{text}");
        assert!(text.contains("/nowhere:/neither"), "{text}");
        assert_eq!(error.code(), "program_not_found");
    }

    #[tokio::test]
    async fn a_missing_directory_is_named_before_the_program_is_looked_for() {
        let error = spawn(&["no-such".into()], Path::new("/no/such/dir"), &no_env(), (24, 80))
            .expect_err("x");
        assert!(error.to_string().contains("`/no/such/dir`"), "{error}");
    }

    #[tokio::test]
    async fn a_file_without_the_executable_bit_is_said_to_be_that() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("agent");
        std::fs::write(&file, "#!/bin/sh\n").expect("a file");
        let path = file.display().to_string();
        let error =
            spawn(std::slice::from_ref(&path), dir.path(), &no_env(), (24, 80)).expect_err("x");
        assert!(matches!(&error, SpawnError::NotExecutable(p) if *p == path), "{error}");
        let env = BTreeMap::from([("PATH".to_owned(), dir.path().display().to_string())]);
        let error = spawn(&["agent".into()], dir.path(), &env, (24, 80)).expect_err("x");
        assert!(matches!(error, SpawnError::NotExecutable(_)), "{error}");
    }

    #[tokio::test]
    async fn a_script_without_its_interpreter_is_told_apart_from_a_missing_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("agent");
        std::fs::write(&file, "#!/no/such/interpreter\n").expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let error = spawn(&["./agent".into()], dir.path(), &no_env(), (24, 80)).expect_err("x");
        assert!(matches!(error, SpawnError::Exec { .. }), "{error}");
        assert!(error.to_string().contains("interpreter"), "{error}");
    }
}
