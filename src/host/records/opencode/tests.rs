use super::db::Db;
use super::sse::Lines;
use super::*;
use rusqlite::Connection;

/// The tables as 1.18.33 has them, as far as they are read.
const TABLES: &str = "PRAGMA journal_mode = WAL;
    CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT NOT NULL);
    CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL,
        time_created INTEGER NOT NULL, data TEXT NOT NULL);
    CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
        data TEXT NOT NULL);";

struct Case {
    dir: tempfile::TempDir,
    db: Connection,
}

impl Case {
    fn new() -> Case {
        let dir = tempfile::tempdir().unwrap();
        let db = Connection::open(dir.path().join("opencode.db")).unwrap();
        db.execute_batch(TABLES).unwrap();
        Case { dir, db }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("opencode.db")
    }

    fn session(&self, id: &str, parent: Option<&str>, directory: &str) {
        let row = (id, parent, directory);
        self.db.execute("INSERT INTO session VALUES (?1, ?2, ?3)", row).unwrap();
    }

    fn message(&self, id: &str, session: &str, at: i64, data: &str, part: &str) {
        let row = (id, session, at, data);
        self.db.execute("INSERT INTO message VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        let row = (format!("p-{id}"), id, session, part);
        self.db.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4)", row).unwrap();
    }

    fn turn(&self, session: &str, n: i64) {
        let user = format!(r#"{{"role":"user","time":{{"created":{n}}}}}"#);
        let text = |t: &str| format!(r#"{{"type":"text","text":"{t} {n}"}}"#);
        let id = format!("u-{session}-{n}");
        self.message(&id, session, n, &user, &text("question"));
        let model = format!(
            r#"{{"role":"assistant","parentID":"{id}","finish":"stop",
                "time":{{"created":{n},"completed":{n}}}}}"#
        );
        self.message(&format!("v-{session}-{n}"), session, n + 1, &model, &text("answer"));
    }
}

#[test]
fn answers_and_prompts_are_read_while_the_program_has_its_database_open() {
    let case = Case::new();
    case.session("s", None, "/w");
    for n in 1..=30 {
        case.turn("s", n * 10);
    }
    let db = Db::open(&case.path()).unwrap();
    let (messages, whole) = db.messages("s", 10).unwrap();
    assert_eq!((messages.len(), whole), (10, false));
    assert_eq!(last_answer(&messages, whole).unwrap().text, "answer 300");
    let before = db.version().unwrap();
    assert_eq!(db.version().unwrap(), before);
    case.turn("s", 400);
    assert_ne!(db.version().unwrap(), before, "another one wrote");
    let fits = |text: &str| text == "question 400";
    assert!(holds_prompt(&case.path(), "s", 390, fits).unwrap());
    assert!(!holds_prompt(&case.path(), "s", 401, fits).unwrap());
    assert!(!holds_prompt(&case.path(), "other", 0, fits).unwrap());
}

#[test]
fn only_sessions_of_the_directory_that_were_prompted_since_count() {
    let case = Case::new();
    case.session("old", None, "/w");
    case.session("ours", None, "/w");
    case.session("child", Some("ours"), "/w");
    case.session("elsewhere", None, "/other");
    case.turn("old", 5);
    for session in ["ours", "child", "elsewhere"] {
        case.turn(session, 50);
    }
    let db = Db::open(&case.path()).unwrap();
    assert_eq!(db.prompted("/w", 40).unwrap(), ["ours"]);
    assert_eq!(db.prompted("/w", 0).unwrap().len(), 2);
}

#[test]
fn what_cannot_be_read_says_why() {
    let case = Case::new();
    let missing = Db::open(&case.dir.path().join("none.db")).err().unwrap();
    assert!(matches!(&missing, NoAnswer::NoRecord(why) if why.contains("none.db")), "{missing}");
    let db = Db::open(&case.path()).unwrap();
    // Another program may lock it for longer than is waited for.
    case.db.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE;").ok();
    drop(db);
    case.db.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE;").unwrap();
    let locked = Db::open(&case.path()).and_then(|db| db.messages("s", 5)).unwrap_err();
    assert!(matches!(&locked, NoAnswer::NoRecord(why) if why.contains("is locked")), "{locked}");
    case.db.execute_batch("COMMIT; PRAGMA locking_mode = NORMAL;").unwrap();
    case.db.execute_batch("ALTER TABLE message RENAME COLUMN data TO content;").unwrap();
    let unknown = Db::open(&case.path()).and_then(|db| db.messages("s", 5)).unwrap_err();
    assert!(matches!(&unknown, NoAnswer::Malformed(why) if why.contains("data")), "{unknown}");
    let garbage = case.dir.path().join("garbage.db");
    std::fs::write(&garbage, "no database at all, but long enough to look like one".repeat(40))
        .unwrap();
    let no = Db::open(&garbage).and_then(|db| db.messages("s", 5)).unwrap_err();
    assert!(matches!(no, NoAnswer::Malformed(_)), "{no}");
}

#[test]
fn events_are_whole_wherever_the_stream_is_cut() {
    let stream = "data: {\"a\":\"日本語 🙂\"}\n\n: a remark\r\nevent: x\r\ndata: one\r\ndata: two\r\n\r\n\
        data:three\n\n";
    let expected = ["{\"a\":\"日本語 🙂\"}", "one\ntwo", "three"];
    let bytes = stream.as_bytes();
    for cut in 0..=bytes.len() {
        let mut lines = Lines::default();
        let mut events = lines.take(&bytes[..cut]);
        events.extend(lines.take(&bytes[cut..]));
        assert_eq!(events, expected, "cut at {cut}");
    }
    let mut lines = Lines::default();
    let events: Vec<String> = bytes.iter().flat_map(|b| lines.take(&[*b])).collect();
    assert_eq!(events, expected);
}
