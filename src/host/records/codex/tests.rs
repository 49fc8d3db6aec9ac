use super::*;
use crate::core::profile::Dialect;
use crate::host::procs::testing::Tree;
use std::collections::BTreeMap;

/// A home folder with Codex's files.
struct Site {
    home: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        Site { home: tempfile::tempdir().unwrap() }
    }

    fn codex(&self) -> PathBuf {
        self.home.path().join(".codex")
    }

    /// A rollout with one turn that `text` answers.
    fn rollout(&self, id: &str, source: &str, text: &str) -> PathBuf {
        let dir = self.codex().join("sessions/2026/11/30");
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("rollout-2026-11-30T09-09-32-{id}.jsonl"));
        let cwd = self.home.path().display();
        let lines = [
            format!(
                r#"{{"type":"session_meta","payload":{{"id":"{id}","cwd":"{cwd}","source":{source}}}}}"#
            ),
            r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#.to_owned(),
            format!(
                r#"{{"type":"event_msg","payload":{{"type":"task_complete","turn_id":"t","last_agent_message":"{text}"}}}}"#
            ),
        ];
        fs::write(&path, lines.map(|l| l + "\n").concat()).unwrap();
        path
    }

    fn lock(&self, id: &str) -> PathBuf {
        let dir = self.codex().join("thread-writer-locks");
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{id}.lock"));
        fs::write(&path, "").unwrap();
        path
    }

    fn subject(&self, tree: &Tree) -> Subject {
        Subject {
            dialect: Dialect::Codex,
            root: tree.pid(),
            names: vec!["codex".to_owned()],
            env: BTreeMap::new(),
            cwd: self.home.path().to_owned(),
            path: PathBuf::new(),
            live: crate::host::records::opencode::Live::default(),
        }
    }
}

const CLI: &str = r#""cli""#;
const SUBAGENT: &str = r#"{"subagent":{"thread_spawn":{}}}"#;

/// Sets when a file was last written, in seconds.
fn at(path: &Path, secs: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(secs)).unwrap();
}

fn id(files: &[&PathBuf]) -> Option<String> {
    let files: Vec<PathBuf> = files.iter().map(|f| (*f).clone()).collect();
    newest(&files).unwrap().map(|r| r.id)
}

#[test]
fn of_the_open_threads_the_one_begun_or_written_last_counts() {
    let site = Site::new();
    let (old, new) = (site.rollout("old", CLI, "a"), site.rollout("new", CLI, "b"));
    let (old_lock, new_lock) = (site.lock("old"), site.lock("new"));
    for (path, secs) in [(&old, 20), (&new, 10), (&old_lock, 5), (&new_lock, 30)] {
        at(path, secs);
    }
    // Resumed after the other was written to.
    assert_eq!(id(&[&old, &new, &old_lock, &new_lock]).as_deref(), Some("new"));
    at(&old, 40);
    assert_eq!(id(&[&old, &new, &old_lock, &new_lock]).as_deref(), Some("old"));
    let found = newest(&[new.clone(), new_lock]).unwrap().unwrap();
    assert_eq!(found, Rollout { id: "new".into(), path: new, opened: Some(30_000) });
}

#[test]
fn a_subagents_thread_is_never_the_agents() {
    let site = Site::new();
    let (own, sub) = (site.rollout("own", CLI, "a"), site.rollout("sub", SUBAGENT, "b"));
    let (own_lock, sub_lock) = (site.lock("own"), site.lock("sub"));
    for (path, secs) in [(&own, 10), (&sub, 40), (&own_lock, 5), (&sub_lock, 30)] {
        at(path, secs);
    }
    assert_eq!(id(&[&own, &sub, &own_lock, &sub_lock]).as_deref(), Some("own"));
}

#[test]
fn a_new_thread_has_no_rollout_and_not_that_of_the_one_before() {
    let site = Site::new();
    let (old, lock, new) = (site.rollout("old", CLI, "a"), site.lock("old"), site.lock("new"));
    for (path, secs) in [(&old, 10), (&lock, 5), (&new, 30)] {
        at(path, secs);
    }
    assert_eq!(id(&[&old, &lock, &new]), None);
    assert_eq!(id(&[&old, &lock]).as_deref(), Some("old"));
}

#[test]
fn a_first_line_that_is_cut_off_waits_and_one_of_another_form_is_named() {
    let site = Site::new();
    let path = site.rollout("x", CLI, "a");
    fs::write(&path, r#"{"type":"session_meta","payl"#).unwrap();
    assert_eq!(newest(std::slice::from_ref(&path)), Ok(None));
    fs::write(&path, "{\"type\":\"session_meta\",\"payload\":{}}\n").unwrap();
    let why = newest(&[path]).unwrap_err().to_string();
    assert!(why.contains("payload.id"), "{why}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_answer_is_read_from_what_the_agents_process_has_open() {
    let site = Site::new();
    let mine = site.rollout("mine", CLI, "from mine");
    site.rollout("others", CLI, "from another");
    let lock = site.lock("mine");
    let home = site.home.path().to_str().unwrap();
    let open = format!("exec 7<'{}' 8<'{}'", mine.display(), lock.display());
    let tree = Tree::named("codex", &open, &[("HOME", home)]);
    let answer = site.subject(&tree).extract().unwrap();
    assert_eq!((answer.text.as_str(), answer.turn.as_deref()), ("from mine", Some("t")));
    // Another one has none open yet: the files of others are not taken for its own.
    let idle = Tree::named("codex", ":", &[("HOME", home)]);
    assert!(matches!(site.subject(&idle).extract(), Err(NoAnswer::NoRecord(_))));
}

#[test]
fn where_open_files_are_not_told_only_a_single_candidate_counts() {
    let site = Site::new();
    let cwd = site.home.path();
    let by = |since| by_directory(&site.codex(), cwd, Some(since)).map(|r| r.map(|r| r.id));
    assert_eq!(by(0), Ok(None));
    let one = site.rollout("one", CLI, "a");
    site.rollout("sub", SUBAGENT, "b");
    assert_eq!(by(0), Ok(Some("one".to_owned())));
    site.rollout("two", CLI, "c");
    assert_eq!(by(0), Err(NoAnswer::Ambiguous(2)));
    at(&one, 100);
    assert_eq!(by(200), Ok(Some("two".to_owned())));
    assert_eq!(by_directory(&site.codex(), Path::new("/elsewhere"), Some(0)), Ok(None));
}

#[test]
fn its_folder_is_where_its_own_environment_says() {
    let site = Site::new();
    let tree = Tree::named("codex", ":", &[("HOME", "/h"), ("CODEX_HOME", "/moved")]);
    let mut subject = site.subject(&tree);
    subject.env.insert("CODEX_HOME".to_owned(), "/not/its/own".to_owned());
    let process = subject.agent().unwrap();
    assert_eq!(home(&subject, process).unwrap(), Path::new("/moved"));
    let tree = Tree::named("codex", ":", &[("HOME", "/h")]);
    let subject = site.subject(&tree);
    assert_eq!(home(&subject, subject.agent().unwrap()).unwrap(), Path::new("/h/.codex"));
}
