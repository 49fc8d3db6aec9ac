//! Where mado keeps its things: one setting per folder, the most specific one wins.
//!
//! | folder  | own variable       | below `MADO_HOME` | else                                            |
//! |---------|--------------------|-------------------|-------------------------------------------------|
//! | state   | `MADO_STATE_DIR`   | `state`           | `$XDG_STATE_HOME/mado`, `~/.local/state/mado`   |
//! | runtime | `MADO_RUNTIME_DIR` | `run`             | `$XDG_RUNTIME_DIR/mado`, `/tmp/mado-UID`        |
//! | config  | `MADO_CONFIG`      | `config`          | `$XDG_CONFIG_HOME/mado`, `~/.config/mado`       |
//!
//! The runtime folder holds the sockets. Whoever can connect to them can type into the user's
//! agents, so the folder must be the user's own and closed to others.

use crate::proto::ErrorInfo;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes a unix socket's path may have: the kernel's `sun_path` without the closing NUL.
pub const SOCKET_PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Flags for every file that mado opens in its own folders: never through a link.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// The three folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Lock, hop store, log, agents' own folders.
    pub state: PathBuf,
    /// Sockets.
    pub runtime: PathBuf,
    /// The user's profiles.
    pub config: PathBuf,
}

impl Paths {
    /// Reads the environment of this process.
    pub fn from_env() -> Result<Paths, ErrorInfo> {
        Paths::resolve(|name| std::env::var_os(name), rustix::process::getuid().as_raw())
    }

    /// Works the folders out from an environment. Nothing is created.
    pub fn resolve(var: impl Fn(&str) -> Option<OsString>, uid: u32) -> Result<Paths, ErrorInfo> {
        let set = |name: &str| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = |own: &str, below: &str, xdg: &str, home: Option<&str>| {
            if let Some(path) = set(own) {
                return absolute(own, path);
            }
            if let Some(root) = set("MADO_HOME") {
                return Ok(absolute("MADO_HOME", root)?.join(below));
            }
            // The XDG specification says that relative paths are to be ignored.
            if let Some(base) = set(xdg).filter(|p| p.is_absolute()) {
                return Ok(base.join("mado"));
            }
            match (home, set("HOME")) {
                (None, _) => Ok(PathBuf::from(format!("/tmp/mado-{uid}"))),
                (Some(tail), Some(home)) => Ok(home.join(tail).join("mado")),
                (Some(_), None) => Err(ErrorInfo::new(
                    "no_home",
                    format!("neither {own}, MADO_HOME, {xdg} nor HOME is set"),
                    "set MADO_HOME to a folder of your own",
                )),
            }
        };
        Ok(Paths {
            state: folder("MADO_STATE_DIR", "state", "XDG_STATE_HOME", Some(".local/state"))?,
            runtime: folder("MADO_RUNTIME_DIR", "run", "XDG_RUNTIME_DIR", None)?,
            config: folder("MADO_CONFIG", "config", "XDG_CONFIG_HOME", Some(".config"))?,
        })
    }

    /// The editors' socket (msgpack-RPC).
    #[must_use]
    pub fn editor_socket(&self) -> PathBuf {
        self.runtime.join("editor.sock")
    }

    /// The shell's socket (JSON lines).
    #[must_use]
    pub fn shell_socket(&self) -> PathBuf {
        self.runtime.join("shell.sock")
    }

    /// The socket of `mado attach`.
    #[must_use]
    pub fn attach_socket(&self) -> PathBuf {
        self.runtime.join("attach.sock")
    }

    /// The socket of `mado hook`.
    #[must_use]
    pub fn hook_socket(&self) -> PathBuf {
        self.runtime.join("hook.sock")
    }

    /// A folder of one agent's own, for its program's records and the host's injected files.
    #[must_use]
    pub fn agent_dir(&self, agent: u64) -> PathBuf {
        self.state.join("agents").join(agent.to_string())
    }

    /// Makes the state folder and sees whether it can be written.
    pub fn prepare_state(&self) -> Result<(), ErrorInfo> {
        let failed = |e: &io::Error| state_error(&self.state, e);
        make_private(&self.state).map_err(|e| failed(&e))?;
        let probe = self.state.join(format!(".probe-{}", std::process::id()));
        private_file(OpenOptions::new().write(true).create(true).truncate(true), &probe)
            .map_err(|e| failed(&e))?;
        fs::remove_file(&probe).map_err(|e| failed(&e))
    }

    /// Makes the runtime folder and refuses it where somebody else could reach into it.
    pub fn prepare_runtime(&self) -> Result<(), ErrorInfo> {
        let name = self.runtime.display();
        make_private(&self.runtime).map_err(|e| {
            ErrorInfo::new(
                "runtime_folder",
                format!("the socket folder {name} cannot be made: {e}"),
                "set MADO_RUNTIME_DIR to a folder that you can write",
            )
        })?;
        self.check_runtime()?;
        for socket in
            [self.editor_socket(), self.shell_socket(), self.attach_socket(), self.hook_socket()]
        {
            check_length(&socket)?;
        }
        Ok(())
    }

    /// Whether the runtime folder, if it exists, is the user's own and closed to others.
    pub fn check_runtime(&self) -> Result<(), ErrorInfo> {
        let name = self.runtime.display();
        let refuse = |why: String| {
            Err(ErrorInfo::new(
                "runtime_folder",
                format!("the socket folder {name} {why}"),
                "remove it, or set MADO_RUNTIME_DIR to a folder of your own with mode 0700",
            ))
        };
        let Ok(meta) = fs::symlink_metadata(&self.runtime) else { return Ok(()) };
        let me = rustix::process::getuid().as_raw();
        if meta.file_type().is_symlink() {
            refuse("is a symbolic link".to_owned())
        } else if !meta.is_dir() {
            refuse("is not a folder".to_owned())
        } else if meta.uid() != me {
            refuse(format!("belongs to user {}, not to you ({me})", meta.uid()))
        } else if meta.mode() & 0o022 != 0 {
            refuse(format!("can be written by others (mode {:04o})", meta.mode() & 0o7777))
        } else {
            Ok(())
        }
    }
}

fn absolute(variable: &str, path: PathBuf) -> Result<PathBuf, ErrorInfo> {
    if path.is_absolute() {
        return Ok(path);
    }
    Err(ErrorInfo::new(
        "relative_path",
        format!("{variable} is the relative path {}", path.display()),
        format!("set {variable} to an absolute path: the host outlives this directory"),
    ))
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes a folder below the state folder, closed to others.
pub fn make_folder(folder: &Path) -> Result<(), ErrorInfo> {
    make_private(folder).map_err(|e| state_error(folder, &e))
}

/// Opens a file of mado's own: mode 0600 when it is made, never through a link.
pub fn private_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(0o600).custom_flags(NO_FOLLOW).open(path)
}

/// The error of a state folder or a file in it that cannot be written.
#[must_use]
pub fn state_error(path: &Path, e: &io::Error) -> ErrorInfo {
    let name = path.display();
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorInfo::new(
            "disk_full",
            format!("{name} cannot be written: {e}"),
            "free some space there, or set MADO_STATE_DIR to a folder on another disk",
        ),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ErrorInfo::new(
            "state_read_only",
            format!("{name} cannot be written: {e}"),
            "make it writable, or set MADO_STATE_DIR to a folder that is",
        ),
        _ => ErrorInfo::new(
            "state_folder",
            format!("{name} cannot be used: {e}"),
            "set MADO_STATE_DIR to a folder that you can write",
        ),
    }
}

fn check_length(socket: &Path) -> Result<(), ErrorInfo> {
    let length = socket.as_os_str().as_bytes().len();
    if length <= SOCKET_PATH_LIMIT {
        return Ok(());
    }
    Err(ErrorInfo::new(
        "socket_path_too_long",
        format!(
            "the socket path {} is {length} bytes long; the system's limit is {SOCKET_PATH_LIMIT}",
            socket.display()
        ),
        "set MADO_RUNTIME_DIR to a folder with a shorter path",
    ))
}

/// The project of a directory: the git root above it, else the directory itself.
#[must_use]
pub fn project_of(cwd: &Path) -> PathBuf {
    let real = fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    // In a worktree or a submodule `.git` is a file; both are roots of their own.
    let root = real.ancestors().find(|d| d.join(".git").exists()).map(Path::to_owned);
    root.unwrap_or(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn resolve(vars: &[(&str, &str)]) -> Paths {
        Paths::resolve(
            |name| vars.iter().find(|(k, _)| *k == name).map(|(_, v)| OsString::from(v)),
            1000,
        )
        .unwrap()
    }

    #[test]
    fn the_most_specific_setting_wins() {
        let all = [
            ("HOME", "/h"),
            ("XDG_STATE_HOME", "/xs"),
            ("XDG_RUNTIME_DIR", "/xr"),
            ("XDG_CONFIG_HOME", "/xc"),
        ];
        let p = resolve(&all[..1]);
        assert_eq!(p.state, Path::new("/h/.local/state/mado"));
        assert_eq!(p.runtime, Path::new("/tmp/mado-1000"));
        assert_eq!(p.config, Path::new("/h/.config/mado"));
        let p = resolve(&all);
        assert_eq!(p.state, Path::new("/xs/mado"));
        assert_eq!(p.runtime, Path::new("/xr/mado"));
        assert_eq!(p.config, Path::new("/xc/mado"));
        let mut vars = all.to_vec();
        vars.push(("MADO_HOME", "/m"));
        vars.push(("MADO_STATE_DIR", "/s"));
        let p = resolve(&vars);
        assert_eq!(p.state, Path::new("/s"));
        assert_eq!(p.runtime, Path::new("/m/run"));
        assert_eq!(p.config, Path::new("/m/config"));
    }

    #[test]
    fn a_socket_path_that_is_too_long_names_path_limit_and_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let mut paths = resolve(&[("MADO_HOME", dir.path().to_str().unwrap())]);
        paths.runtime = dir.path().join("x".repeat(SOCKET_PATH_LIMIT));
        let e = paths.prepare_runtime().unwrap_err();
        assert_eq!(e.code, "socket_path_too_long");
        assert!(e.message.contains(paths.runtime.to_str().unwrap()), "{e}");
        assert!(e.message.contains(&SOCKET_PATH_LIMIT.to_string()), "{e}");
        assert!(e.remedy.contains("MADO_RUNTIME_DIR"), "{e}");
    }

    #[test]
    fn a_socket_folder_that_others_control_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        symlink(&real, &link).unwrap();
        let mut paths = resolve(&[("MADO_HOME", dir.path().to_str().unwrap())]);
        paths.runtime = link;
        assert!(paths.prepare_runtime().unwrap_err().message.contains("symbolic link"));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        paths.runtime = real;
        assert!(paths.prepare_runtime().unwrap_err().message.contains("mode 0777"));
    }

    #[test]
    fn files_are_private_and_never_opened_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        private_file(OpenOptions::new().append(true).create(true), &file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let link = dir.path().join("l");
        symlink(&file, &link).unwrap();
        assert!(private_file(OpenOptions::new().append(true).create(true), &link).is_err());
    }

    #[test]
    fn the_project_is_the_git_root_or_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let deep = root.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(project_of(&deep), deep);
        fs::create_dir(root.join("a/.git")).unwrap();
        assert_eq!(project_of(&deep), root.join("a"));
    }
}
