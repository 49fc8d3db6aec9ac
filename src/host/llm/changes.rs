//! What has changed in a working directory since its last commit, as git counts it.
//!
//! Git is asked in a way that runs nothing of the repository's own choosing that can be switched off
//! (hooks, a file system monitor, external diffs, text conversions, a pager), takes no lock, looks
//! into no submodule, and is given little time. Without git, a repository or a commit there is simply
//! nothing to say.

use crate::core::question::{Change, FILES};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long git may take.
const GIT: Duration = Duration::from_secs(5);
/// The most that is read of what it prints, in bytes.
const MOST: u64 = 1 << 20;
/// The variables that git is run with, where the agent has them.
const ENV: &[&str] = &["PATH", "HOME", "XDG_CONFIG_HOME", "LANG", "LC_ALL", "TMPDIR"];

/// The changes of these files (from the working directory), or of everything below it.
pub async fn of(
    cwd: &Path,
    paths: Option<&[String]>,
    env: &BTreeMap<String, String>,
) -> Vec<Change> {
    let below = |p: &&String| !p.starts_with('/') && !Path::new(p).components().any(is_up);
    let paths: Vec<&str> = match paths {
        None => vec!["."],
        Some(paths) => paths.iter().filter(below).take(FILES).map(String::as_str).collect(),
    };
    if paths.is_empty() {
        return Vec::new();
    }
    let mut git = Command::new("git");
    git.args(["--no-pager", "--literal-pathspecs", "--no-optional-locks"]);
    git.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    git.args(["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"]);
    git.args(["--ignore-submodules=all", "--relative", "--numstat", "-z", "HEAD", "--"]);
    git.args(paths).current_dir(cwd).env_clear().kill_on_drop(true);
    git.envs(env.iter().filter(|(k, _)| ENV.contains(&k.as_str())));
    git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_LITERAL_PATHSPECS", "1");
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = git.spawn() else { return Vec::new() };
    let mut out = Vec::new();
    let Some(stdout) = child.stdout.take() else { return Vec::new() };
    let read = async {
        let _ = stdout.take(MOST).read_to_end(&mut out).await;
    };
    if tokio::time::timeout(GIT, read).await.is_err() {
        tracing::warn!("git diff in {} takes too long", cwd.display());
    }
    parse(&out)
}

fn is_up(part: std::path::Component) -> bool {
    part == std::path::Component::ParentDir
}

/// `added TAB removed TAB path NUL`; `-` for a binary file.
fn parse(out: &[u8]) -> Vec<Change> {
    let entry = |entry: &[u8]| {
        let text = String::from_utf8_lossy(entry).into_owned();
        let mut parts = text.splitn(3, '\t');
        let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
        let lines = added.parse().ok().zip(removed.parse().ok());
        Some(Change { path: path.to_owned(), lines })
    };
    // What follows the last NUL was cut off.
    let whole = out.iter().rposition(|b| *b == 0).map_or(&out[..0], |end| &out[..end]);
    whole.split(|b| *b == 0).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command as Run;

    fn git(dir: &Path, args: &[&str]) {
        let mut run = Run::new("git");
        run.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
        let done = run.current_dir(dir).env("HOME", dir).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    fn env(dir: &Path) -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap();
        [("PATH".to_owned(), path), ("HOME".to_owned(), dir.display().to_string())].into()
    }

    #[tokio::test]
    async fn only_the_named_files_are_counted_and_nothing_of_the_repositorys_is_run() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        git(dir, &["init", "-q"]);
        for name in ["a", "b", "c d"] {
            std::fs::write(dir.join(name), "one\ntwo\n").unwrap();
        }
        git(dir, &["add", "."]);
        git(dir, &["commit", "-qm", "x"]);
        for name in ["a", "b", "c d"] {
            std::fs::write(dir.join(name), "one\nthree\nfour\n").unwrap();
        }
        let trap = format!("touch {}", dir.join("trap").display());
        for key in ["core.fsmonitor", "diff.external", "core.pager"] {
            git(dir, &["config", key, &trap]);
        }
        let names = ["a".to_owned(), "c d".to_owned(), "../x".to_owned(), "/etc/passwd".to_owned()];
        let found = of(dir, Some(&names), &env(dir)).await;
        let change = |path: &str| Change { path: path.into(), lines: Some((2, 1)) };
        assert_eq!(found, [change("a"), change("c d")]);
        let all = of(dir, None, &env(dir)).await;
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(!dir.join("trap").exists(), "git ran a program of the repository's");
        assert!(!dir.join(".git/index.lock").exists());
    }

    #[tokio::test]
    async fn without_a_repository_there_is_nothing_to_say() {
        let dir = tempfile::tempdir().unwrap();
        assert!(of(dir.path(), None, &env(dir.path())).await.is_empty());
        assert!(of(Path::new("/nowhere"), None, &env(dir.path())).await.is_empty());
    }

    #[test]
    fn what_was_cut_off_is_left_out() {
        let found = parse(b"1\t2\ta\x00-\t-\tb.png\x003\t4\tc");
        let binary = Change { path: "b.png".into(), lines: None };
        assert_eq!(found, [Change { path: "a".into(), lines: Some((1, 2)) }, binary]);
    }
}
