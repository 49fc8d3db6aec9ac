use super::*;
use crate::host::procs::Process;
use crate::host::procs::testing::Tree;
use std::fs;
use std::io::Write as _;

/// A home folder with Claude's files, and processes that are named `claude`.
pub(super) struct Site {
    pub home: tempfile::TempDir,
    pub cwd: PathBuf,
}

impl Site {
    pub fn new() -> Site {
        let home = tempfile::tempdir().unwrap();
        let cwd = home.path().join("proj");
        fs::create_dir(&cwd).unwrap();
        Site { home, cwd }
    }

    pub fn config(&self) -> PathBuf {
        self.home.path().join(".claude")
    }

    pub fn agent(&self) -> (Tree, Subject) {
        let home = self.home.path().to_str().unwrap();
        let tree = Tree::claude(&[("HOME", home)]);
        let subject = self.subject(tree.pid());
        (tree, subject)
    }

    fn subject(&self, root: u32) -> Subject {
        Subject {
            dialect: Dialect::Claude,
            root,
            names: vec!["claude".to_owned()],
            env: BTreeMap::new(),
            cwd: self.cwd.clone(),
            path: PathBuf::new(),
            live: opencode::Live::default(),
        }
    }

    /// Writes the status file as Claude does: at once.
    pub fn status(&self, tree: &Tree, session: &str, status: &str) {
        let start = Process::of(tree.pid()).unwrap().start;
        self.status_with_start(tree, session, status, start);
    }

    pub fn status_with_start(&self, tree: &Tree, session: &str, status: &str, start: u64) {
        let file = claude::status_path(&self.config(), tree.pid());
        let text = serde_json::json!({
            "pid": tree.pid(),
            "sessionId": session,
            "cwd": self.cwd,
            "startedAt": 1_000,
            "procStart": start.to_string(),
            "version": "2.1.332",
            "status": status,
            "updatedAt": 2_000,
        });
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text.to_string()).unwrap();
    }

    pub fn transcript(&self, session: &str) -> PathBuf {
        let dir = self.config().join("projects").join(claude::project_dir(&self.cwd));
        dir.join(format!("{session}.jsonl"))
    }

    pub fn append(&self, session: &str, lines: &[String]) {
        let path = self.transcript(session);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(lines.concat().as_bytes()).unwrap();
    }
}

pub(super) fn prompt(turn: &str, text: &str) -> String {
    let line = serde_json::json!({
        "type": "user", "promptId": turn, "origin": {"kind": "human"},
        "message": {"role": "user", "content": text}, "timestamp": "2026-01-01T00:00:00.000Z",
    });
    format!("{line}\n")
}

pub(super) fn answer(id: &str, text: &str) -> String {
    let line = serde_json::json!({
        "type": "assistant", "timestamp": "2026-01-01T00:00:01.000Z",
        "message": {"id": id, "stop_reason": "end_turn", "content": [{"type": "text", "text": text}]},
    });
    format!("{line}\n")
}

pub(super) fn end() -> String {
    let line =
        r#"{"type":"system","subtype":"turn_duration","timestamp":"2026-01-01T00:00:02.000Z"}"#;
    format!("{line}\n")
}

fn tool_result(turn: &str, bytes: usize) -> String {
    let line = serde_json::json!({
        "type": "user", "promptId": turn,
        "message": {"content": [{"type": "tool_result", "content": "x".repeat(bytes)}]},
    });
    format!("{line}\n")
}

#[test]
fn two_agents_in_one_directory_have_their_own_answers() {
    let site = Site::new();
    let (one, of_one) = site.agent();
    let (two, of_two) = site.agent();
    site.status(&one, "s-one", "idle");
    site.status(&two, "s-two", "idle");
    site.append("s-one", &[prompt("t1", "q"), answer("m1", "from one"), end()]);
    site.append("s-two", &[prompt("t2", "q"), answer("m2", "from two"), end()]);
    assert_eq!(of_one.extract().unwrap().text, "from one");
    let answer = of_two.extract().unwrap();
    assert_eq!((answer.text.as_str(), answer.turn.as_deref()), ("from two", Some("t2")));
}

#[test]
fn without_status_files_two_candidates_are_ambiguous_and_one_is_enough() {
    let site = Site::new();
    let (_tree, subject) = site.agent();
    site.append("s-one", &[prompt("t1", "q"), answer("m1", "from one"), end()]);
    assert_eq!(subject.extract().unwrap().text, "from one");
    site.append("s-two", &[prompt("t2", "q"), answer("m2", "from two"), end()]);
    assert_eq!(subject.extract(), Err(NoAnswer::Ambiguous(2)));
    // One of them is another's, by that one's own word.
    let (other, _) = site.agent();
    site.status(&other, "s-two", "idle");
    assert_eq!(subject.extract().unwrap().text, "from one");
}

#[test]
fn transcripts_that_are_older_than_the_agent_are_not_its_own() {
    let site = Site::new();
    site.append("old", &[prompt("t1", "q"), answer("m1", "old"), end()]);
    let file = File::options().write(true).open(site.transcript("old")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1)).unwrap();
    let (_tree, subject) = site.agent();
    assert!(matches!(subject.extract(), Err(NoAnswer::NoRecord(_))));
}

#[test]
fn without_a_status_file_a_folder_that_contains_the_name_is_looked_in() {
    let site = Site::new();
    let (_tree, subject) = site.agent();
    let name = claude::project_dir(&site.cwd);
    let dir = site.config().join("projects").join(format!("{name}-moved"));
    fs::create_dir_all(&dir).unwrap();
    let lines = [prompt("t1", "q"), answer("m1", "found"), end()];
    fs::write(dir.join("s.jsonl"), lines.concat()).unwrap();
    assert_eq!(subject.extract().unwrap().text, "found");
}

#[test]
fn a_status_file_that_a_killed_process_left_is_not_believed() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    let start = Process::of(tree.pid()).unwrap().start;
    site.append("stale", &[prompt("t1", "q"), answer("m1", "stale"), end()]);
    site.status_with_start(&tree, "stale", "idle", start - 1);
    let process = Process::of(tree.pid()).unwrap();
    assert_eq!(claude::read_status(&site.config(), process), Ok(None));
    site.status(&tree, "stale", "idle");
    assert_eq!(subject.extract().unwrap().text, "stale");
}

#[test]
fn a_moved_configuration_is_found_by_the_agents_own_environment() {
    let site = Site::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().to_path_buf();
    let tree =
        Tree::claude(&[("HOME", "/nonexistent"), ("CLAUDE_CONFIG_DIR", moved.to_str().unwrap())]);
    let mut subject = site.subject(tree.pid());
    subject.env.insert("HOME".to_owned(), "/also/nonexistent".to_owned());
    let process = Process::of(tree.pid()).unwrap();
    assert_eq!(claude::config_dir(&subject, process).unwrap(), moved);
    // The rest as ever, with `.claude` below that home.
    std::os::unix::fs::symlink(&moved, site.config()).unwrap();
    site.status(&tree, "s", "idle");
    site.append("s", &[prompt("t1", "q"), answer("m1", "moved"), end()]);
    assert_eq!(subject.extract().unwrap().text, "moved");
}

#[test]
fn a_transcript_in_another_folder_is_found_by_its_session() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s", "idle");
    for (n, dir) in ["-worktree-a", "-worktree-b"].iter().enumerate() {
        let dir = site.config().join("projects").join(dir);
        fs::create_dir_all(&dir).unwrap();
        let lines = [prompt("t1", "q"), answer("m1", "elsewhere"), end()];
        fs::write(dir.join("s.jsonl"), lines.concat()).unwrap();
        let result = subject.extract();
        if n == 0 {
            assert_eq!(result.unwrap().text, "elsewhere");
        } else {
            assert_eq!(result, Err(NoAnswer::Ambiguous(2)));
        }
    }
}

#[test]
fn a_status_file_that_stays_empty_is_named() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s", "idle");
    let path = claude::status_path(&site.config(), tree.pid());
    fs::write(&path, "").unwrap();
    let error = subject.extract().unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("empty"), "{error}");
    // And one that is written while it is read is read again.
    let (other, home) = (tree.pid(), site.config());
    let text = serde_json::json!({"pid": other, "sessionId": "s"}).to_string();
    let writer = std::thread::spawn(move || fs::write(claude::status_path(&home, other), text));
    writer.join().unwrap().unwrap();
    assert!(claude::locate(&subject).unwrap().status.is_some());
}

#[test]
fn a_session_id_cannot_lead_out_of_the_folder() {
    let site = Site::new();
    for id in ["../../etc/passwd", "", ".hidden", "a/b"] {
        let found = claude::transcript_of(&site.config(), id, &site.cwd);
        assert!(matches!(found, Err(NoAnswer::Malformed(_))), "{id}");
    }
}

#[test]
fn the_answer_of_a_huge_transcript_is_found() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s", "idle");
    site.append("s", &[]);
    // 600 MB, of which only the end takes room.
    let file = File::options().write(true).open(site.transcript("s")).unwrap();
    file.set_len(600 << 20).unwrap();
    let big = tool_result("t9", 5 << 20);
    site.append("s", &["\n".to_owned(), prompt("t9", "q"), big, answer("m1", "found 日本"), end()]);
    let answer = subject.extract().unwrap();
    assert_eq!((answer.text.as_str(), answer.prompt.as_deref()), ("found 日本", Some("q")));
}

#[test]
fn an_answer_whose_prompt_is_too_far_back_is_bound_by_a_tool_result() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s", "idle");
    let results: Vec<String> = (0..3).map(|_| tool_result("t9", 3 << 20)).collect();
    site.append("s", &[prompt("t9", "q")]);
    site.append("s", &results);
    site.append("s", &[answer("m1", "late"), end()]);
    let found = subject.extract().unwrap();
    assert_eq!((found.turn.as_deref(), found.prompt), (Some("t9"), None));
    let far = subject.extract().map(|_| ());
    assert_eq!(far, Ok(()));
    // Without any of the turn's lines within reach it is not guessed.
    site.append("s", &[prompt("t10", "q"), format!("{}\n", "y".repeat(9 << 20))]);
    assert_eq!(subject.extract(), Err(NoAnswer::TooFar(8)));
}

#[test]
fn a_last_line_cut_within_a_character_is_left_for_the_next_read() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s", "idle");
    site.append("s", &[prompt("t1", "q")]);
    let line = answer("m1", "日本語");
    let cut = line.find('本').unwrap() + 1;
    let mut file = File::options().append(true).open(site.transcript("s")).unwrap();
    file.write_all(&line.as_bytes()[..cut]).unwrap();
    assert_eq!(subject.extract(), Err(NoAnswer::NotYet));
    file.write_all(&line.as_bytes()[cut..]).unwrap();
    assert_eq!(subject.extract().unwrap().text, "日本語");
}

#[test]
fn an_agent_that_is_not_there_has_no_answer() {
    let site = Site::new();
    let (tree, mut subject) = site.agent();
    subject.names = vec!["codex".to_owned()];
    let error = subject.extract().unwrap_err().to_string();
    assert!(error.contains("codex"), "{error}");
    drop(tree);
    subject.dialect = Dialect::None;
    assert!(matches!(subject.extract(), Err(NoAnswer::NoRecord(_))));
}

#[test]
fn a_prompt_of_an_earlier_time_is_not_the_one_in_doubt() {
    let site = Site::new();
    site.append("s", &[prompt("t1", "do it"), answer("m1", "a"), end()]);
    let path = site.transcript("s");
    let is = |text: &str| text == "do it";
    let holds = |since| holds_prompt(Dialect::Claude, &path, None, since, is).unwrap();
    assert!(holds(1_767_225_600_000));
    assert!(!holds(1_767_225_600_001));
    let other = holds_prompt(Dialect::Claude, &path, None, 0, |text| text == "other");
    assert!(!other.unwrap());
}

#[test]
fn the_demo_agents_answer_is_found() {
    let site = Site::new();
    let path = site.home.path().join("t.jsonl");
    let mut subject = site.subject(std::process::id());
    subject.dialect = Dialect::Demo;
    subject.path.clone_from(&path);
    assert!(matches!(subject.extract(), Err(NoAnswer::NoRecord(_))));
    let lines = "{\"type\":\"prompt\",\"turn\":\"t1\",\"text\":\"q\",\"human\":true}\n\
                 {\"type\":\"answer\",\"turn\":\"t1\",\"text\":\"a\"}\n{\"type\":\"end\",\"turn\":\"t1\"}\n";
    fs::write(&path, lines).unwrap();
    assert_eq!(subject.extract().unwrap().text, "a");
    assert!(holds_prompt(Dialect::Demo, &path, None, 0, |text| text == "q").unwrap());
}
