//! OpenCode's database, only ever read: `opencode.db` with a write-ahead log, which the program
//! itself has open (1.18.33).

use crate::core::dialect::NoAnswer;
use crate::core::dialect::opencode::Message;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a lock is waited for.
const LOCKED: Duration = Duration::from_millis(200);

/// A connection that can change nothing.
pub(super) struct Db {
    connection: Connection,
    path: PathBuf,
}

impl Db {
    /// Opens the database.
    pub fn open(path: &Path) -> Result<Db, NoAnswer> {
        if !path.exists() {
            return Err(NoAnswer::NoRecord(format!("there is no {} yet", path.display())));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags)
            .and_then(|c| c.busy_timeout(LOCKED).map(|()| c));
        let connection = opened.map_err(|e| trouble(path, &e))?;
        Ok(Db { connection, path: path.to_owned() })
    }

    /// Changes with every change that another connection makes.
    pub fn version(&self) -> Result<i64, NoAnswer> {
        let read = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        read.map_err(|e| trouble(&self.path, &e))
    }

    /// Sessions of a directory, not of subagents, with a prompt at `since` (milliseconds since the
    /// epoch) or later.
    pub fn prompted(&self, directory: &str, since: u64) -> Result<Vec<String>, NoAnswer> {
        let sql = "SELECT s.id FROM session s WHERE s.directory = ?1 AND s.parent_id IS NULL
            AND EXISTS (SELECT 1 FROM message m WHERE m.session_id = s.id
                AND m.time_created >= ?2 AND json_extract(m.data, '$.role') = 'user')
            LIMIT 50";
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(sql)?;
            let since = i64::try_from(since).unwrap_or(i64::MAX);
            statement.query_map((directory, since), |row| row.get(0))?.collect()
        };
        read().map_err(|e| trouble(&self.path, &e))
    }

    /// The newest messages of a session, oldest first, and whether these are all. Of tool calls only
    /// their errors are read: what tools put out can be long.
    pub fn messages(&self, session: &str, most: usize) -> Result<(Vec<Message>, bool), NoAnswer> {
        let newest = "SELECT id, data FROM message WHERE session_id = ?1
            ORDER BY time_created DESC, id DESC LIMIT ?2";
        let parts = "SELECT p.message_id, p.id,
                CASE json_extract(p.data, '$.type') WHEN 'text' THEN p.data
                ELSE json_object('type', 'tool', 'state',
                    json_object('error', json_extract(p.data, '$.state.error'))) END
            FROM part p
            JOIN (SELECT id FROM message WHERE session_id = ?1
                ORDER BY time_created DESC, id DESC LIMIT ?2) m ON m.id = p.message_id
            WHERE json_extract(p.data, '$.type') IN ('text', 'tool') ORDER BY p.id";
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        type Rows = (Vec<(String, String)>, Vec<(String, String, String)>);
        let read = || -> rusqlite::Result<Rows> {
            // One moment for both tables.
            let moment = self.connection.unchecked_transaction()?;
            let rows = moment
                .prepare(newest)?
                .query_map((session, limit), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let parts = moment
                .prepare(parts)?
                .query_map((session, limit), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok((rows, parts))
        };
        let (rows, parts) = read().map_err(|e| trouble(&self.path, &e))?;
        let whole = rows.len() < most;
        let messages = rows.into_iter().rev().map(|(id, data)| {
            let own = parts.iter().filter(|(message, ..)| *message == id);
            let own: Vec<_> = own.map(|(_, part, data)| (part.clone(), data.clone())).collect();
            Message::new(id, &data, &own)
        });
        Ok((messages.collect::<Result<_, _>>()?, whole))
    }
}

/// An error in words: which of them pass by themselves is for the caller to know.
fn trouble(path: &Path, error: &rusqlite::Error) -> NoAnswer {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            NoAnswer::NoRecord(format!("{path} is locked by another program"))
        }
        // `no such column: m.data`, `malformed JSON`
        Some(ErrorCode::Unknown) | None => NoAnswer::Malformed(format!(
            "{path}: {error}; this form of OpenCode's database is not known"
        )),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            NoAnswer::Malformed(format!("{path} is no database: {error}"))
        }
        Some(_) => NoAnswer::NoRecord(format!("{path} cannot be read: {error}")),
    }
}
