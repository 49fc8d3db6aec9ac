//! What survives the host: hops, and which processes are its agents.
//!
//! `hops.jsonl` is a log: one line per change of a hop, synced before the host goes on. It rotates
//! by size; a hop without a final state is carried into the new file, so none is ever lost with an
//! old one. `agents.json` is replaced as a whole.

use super::lock::{sync_folder, write_atomic};
use super::paths::{Paths, private_file, state_error};
use crate::core::profile::Dialect;
use crate::core::redact::redact;
use crate::proto::{ErrorInfo, HopId, HopInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Size at which `hops.jsonl` is rotated, in bytes.
pub const ROTATE_AT: u64 = 20 << 20;

/// How many rotated files are kept.
const KEPT: usize = 3;

/// Longest line that is read back, in bytes. A longer one cannot have been written by mado.
const MAX_LINE: u64 = 64 << 20;

/// One line of `hops.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    /// When it was written, milliseconds since the epoch.
    at: u64,
    /// As in [`crate::core::Effect::Record`]; the last line that says something counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enter: Option<bool>,
    /// Secrets were blacked out in the prompt: it is not the whole of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
    hop: HopInfo,
}

/// A hop as the log has it last.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredHop {
    /// The hop.
    pub hop: HopInfo,
    /// Whether the intent of its Enter was recorded.
    pub enter: bool,
    /// Whether secrets were blacked out in its prompt, so that it is not whole.
    pub hidden: bool,
}

/// A hop as it may be written down: without its secrets. And whether its prompt held any.
fn without_secrets(hop: &HopInfo) -> (HopInfo, bool) {
    let mut hop = hop.clone();
    let mut hidden = false;
    if let Some(prompt) = &mut hop.prompt {
        let clean = redact(prompt);
        hidden = clean.secrets > 0;
        *prompt = clean.text;
    }
    let shadow = hop.shadow.iter_mut().flat_map(|s| [&mut s.answer, &mut s.prompt]);
    let steps = hop.steps.iter_mut().map(|s| &mut s.text);
    let texts = hop
        .answer
        .iter_mut()
        .chain(&mut hop.input)
        .chain(&mut hop.notes)
        .chain([&mut hop.reason_text]);
    for text in texts.chain(shadow).chain(steps) {
        *text = redact(text).text;
    }
    (hop, hidden)
}

/// What the log held when the host started.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Hops without a final state, by id.
    pub open: BTreeMap<HopId, StoredHop>,
    /// The newest finished hops, oldest first, for the log of earlier hosts.
    pub finished: Vec<HopInfo>,
    /// The next free hop id.
    pub next_hop: u64,
    /// One sentence for each thing that could not be read.
    pub warnings: Vec<String>,
}

/// The open log.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    size: u64,
    rotate_at: u64,
    open: BTreeMap<HopId, StoredHop>,
    last_id: u64,
}

/// How many finished hops are read back.
const FINISHED: usize = 1000;

impl Store {
    /// Opens the log of a state folder and reads what it holds.
    pub fn open(paths: &Paths) -> Result<(Store, Loaded), ErrorInfo> {
        Store::open_sized(paths, ROTATE_AT)
    }

    fn open_sized(paths: &Paths, rotate_at: u64) -> Result<(Store, Loaded), ErrorInfo> {
        let path = paths.state.join("hops.jsonl");
        let mut all: BTreeMap<HopId, StoredHop> = BTreeMap::new();
        let mut loaded = Loaded::default();
        // A crash between the two renames of a rotation leaves the current file as `.new`; its
        // lines are copies, so reading them again changes nothing.
        let mut files: Vec<PathBuf> = (1..=KEPT).rev().map(|n| rotated(&path, n)).collect();
        files.push(path.with_extension("jsonl.new"));
        files.push(path.clone());
        for file in &files {
            load(file, &mut all, &mut loaded.warnings).map_err(|e| state_error(file, &e))?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(true);
        let mut file = private_file(&mut options, &path).map_err(|e| state_error(&path, &e))?;
        let size = end_of_whole_lines(&mut file).map_err(|e| state_error(&path, &e))?;
        let last_id = all.keys().next_back().map_or(0, |id| id.0);
        loaded.next_hop = last_id + 1;
        let (finished, open): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, h)| h.hop.state.is_final());
        loaded.open = open.into_iter().collect();
        let skip = finished.len().saturating_sub(FINISHED);
        loaded.finished = finished.into_iter().skip(skip).map(|(_, h)| h.hop).collect();
        let store = Store { path, file, size, rotate_at, open: loaded.open.clone(), last_id };
        Ok((store, loaded))
    }

    /// Appends a change and syncs it. After an error the log is as it was before.
    pub fn record(
        &mut self,
        hop: &HopInfo,
        enter: Option<bool>,
        wall: u64,
    ) -> Result<(), ErrorInfo> {
        if self.size >= self.rotate_at {
            self.rotate(wall).map_err(|e| state_error(&self.path, &e))?;
        }
        let (hop, hidden) = without_secrets(hop);
        self.append(&Line { at: wall, enter, hidden, hop: hop.clone() })
            .map_err(|e| state_error(&self.path, &e))?;
        self.last_id = self.last_id.max(hop.id.0);
        if hop.state.is_final() {
            self.open.remove(&hop.id);
        } else {
            let before = self.open.get(&hop.id).is_some_and(|h| h.enter);
            let enter = enter.unwrap_or(before);
            self.open.insert(hop.id, StoredHop { hop, enter, hidden });
        }
        Ok(())
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let bytes = encode(line)?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if let Err(e) = written {
            // Half a line would swallow the next one.
            let _ = self.file.set_len(self.size);
            return Err(e);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self, wall: u64) -> io::Result<()> {
        let new = self.path.with_extension("jsonl.new");
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).read(true);
        let mut file = private_file(&mut options, &new)?;
        let mut size = 0;
        for stored in self.open.values() {
            let enter = Some(stored.enter);
            let bytes =
                encode(&Line { at: wall, enter, hidden: stored.hidden, hop: stored.hop.clone() })?;
            file.write_all(&bytes)?;
            size += bytes.len() as u64;
        }
        file.sync_data()?;
        for n in (1..KEPT).rev() {
            rename_if_there(&rotated(&self.path, n), &rotated(&self.path, n + 1))?;
        }
        rename_if_there(&self.path, &rotated(&self.path, 1))?;
        fs::rename(&new, &self.path)?;
        sync_folder(&self.path)?;
        self.file = file;
        self.size = size;
        // Many open hops may by themselves be larger than the limit: grow, or each append rotates.
        self.rotate_at = self.rotate_at.max(size * 2);
        Ok(())
    }
}

fn encode(line: &Line) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn rotated(path: &Path, n: usize) -> PathBuf {
    path.with_file_name(format!("hops.{n}.jsonl"))
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn load(
    path: &Path,
    all: &mut BTreeMap<HopId, StoredHop>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    let file = match private_file(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        // A last line without its end was being written when the host died. The host had not gone
        // on from it, so it did not happen.
        if line.pop() != Some(b'\n') {
            break;
        }
        match serde_json::from_slice::<Line>(&line) {
            Ok(Line { hop, enter, hidden, .. }) => {
                let before = all.get(&hop.id).is_some_and(|h| h.enter);
                let enter = enter.unwrap_or(before);
                all.insert(hop.id, StoredHop { hop, enter, hidden });
            }
            Err(e) => warnings.push(format!("{}:{number}: skipped: {e}", path.display())),
        }
    }
    Ok(())
}

/// Cuts a torn last line off and returns the length.
fn end_of_whole_lines(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut whole = 0;
    // Lines are rarely long, so the end is nearly always in the first piece.
    for from in [length.saturating_sub(1 << 16), 0] {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut bytes)?;
        if let Some(at) = memchr::memrchr(b'\n', &bytes) {
            whole = from + at as u64 + 1;
            break;
        }
    }
    if whole < length {
        file.set_len(whole)?;
    }
    Ok(whole)
}

/// A process of the host's, as `agents.json` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentRecord {
    /// The agent's id.
    pub id: u64,
    /// Its name, for messages.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Process id of the PTY child.
    pub pid: u32,
    /// Its start time as the system counts it: with the pid it names one process for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The value of `MADO_AGENT_ID` in its environment.
    pub mark: String,
    /// The form of its transcript.
    pub dialect: Dialect,
    /// Its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its transcript, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<PathBuf>,
}

fn agents_path(paths: &Paths) -> PathBuf {
    paths.state.join("agents.json")
}

/// Replaces the list of agents.
pub fn save_agents(paths: &Paths, agents: &[AgentRecord]) -> Result<(), ErrorInfo> {
    let path = agents_path(paths);
    let bytes = serde_json::to_vec_pretty(agents).unwrap_or_default();
    write_atomic(&path, &bytes).map_err(|e| state_error(&path, &e))
}

/// The list that the host before this one left. A damaged file is an empty list and a warning.
pub fn load_agents(paths: &Paths) -> (Vec<AgentRecord>, Option<String>) {
    let path = agents_path(paths);
    match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => (Vec::new(), None),
        Err(e) => (Vec::new(), Some(format!("{} cannot be read: {e}", path.display()))),
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(agents) => (agents, None),
            Err(e) => (Vec::new(), Some(format!("{} cannot be read: {e}", path.display()))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::HopState;

    fn paths(dir: &Path) -> Paths {
        let paths = Paths { state: dir.into(), runtime: dir.join("run"), config: dir.into() };
        paths.prepare_state().unwrap();
        paths
    }

    fn hop(id: u64, state: HopState) -> HopInfo {
        HopInfo { id: HopId(id), state, prompt: Some("p".repeat(50)), ..HopInfo::default() }
    }

    #[test]
    fn the_last_state_and_the_intent_of_the_enter_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let (mut store, loaded) = Store::open(&paths).unwrap();
        assert_eq!(loaded.next_hop, 1);
        store.record(&hop(1, HopState::Typing), Some(false), 1).unwrap();
        store.record(&hop(1, HopState::Typing), Some(true), 2).unwrap();
        store.record(&hop(1, HopState::Submitted), None, 3).unwrap();
        store.record(&hop(2, HopState::Answered), None, 4).unwrap();
        drop(store);
        let (_, loaded) = Store::open(&paths).unwrap();
        assert_eq!(loaded.next_hop, 3);
        assert_eq!(loaded.open.len(), 1);
        let stored = &loaded.open[&HopId(1)];
        assert!(stored.enter);
        assert_eq!(stored.hop.state, HopState::Submitted);
        assert_eq!(loaded.finished.len(), 1);
    }

    #[test]
    fn a_torn_last_line_and_a_damaged_one_lose_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let (mut store, _) = Store::open(&paths).unwrap();
        store.record(&hop(1, HopState::Queued), None, 1).unwrap();
        drop(store);
        let path = dir.path().join("hops.jsonl");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"at\":2,\"hop\":nonsense}\n{\"at\":3,\"ho");
        fs::write(&path, text).unwrap();
        let (mut store, loaded) = Store::open(&paths).unwrap();
        assert_eq!(loaded.open.len(), 1);
        assert_eq!(loaded.warnings.len(), 1);
        assert!(loaded.warnings[0].contains("hops.jsonl:2"), "{:?}", loaded.warnings);
        store.record(&hop(2, HopState::Queued), None, 4).unwrap();
        let (_, loaded) = Store::open(&paths).unwrap();
        assert_eq!(loaded.open.len(), 2);
    }

    #[test]
    fn rotation_never_loses_a_hop_without_final_state() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let (mut store, _) = Store::open_sized(&paths, 1000).unwrap();
        store.record(&hop(1, HopState::Typing), Some(true), 1).unwrap();
        for id in 2..200 {
            store.record(&hop(id, HopState::Answered), None, id).unwrap();
        }
        let files = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 1 + KEPT);
        let (_, loaded) = Store::open_sized(&paths, 1000).unwrap();
        assert!(loaded.open[&HopId(1)].enter);
        assert_eq!(loaded.next_hop, 200);
    }

    #[test]
    fn no_secret_is_written_and_a_prompt_that_held_one_is_marked() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let (mut store, _) = Store::open(&paths).unwrap();
        let secret = format!("gh{}_Ab3dEf6hIj9kLm2nOp5qRs8t", "p");
        let with = |id, answer: String, prompt: String| HopInfo {
            answer: Some(answer),
            prompt: Some(prompt),
            notes: vec![format!("saw {secret}")],
            ..hop(id, HopState::Typing)
        };
        store
            .record(&with(1, format!("a {secret}"), format!("p {secret}")), Some(false), 1)
            .unwrap();
        store.record(&with(2, format!("a {secret}"), "p".into()), Some(false), 1).unwrap();
        drop(store);
        let text = fs::read_to_string(dir.path().join("hops.jsonl")).unwrap();
        assert!(!text.contains(&secret), "{text}");
        let (_, loaded) = Store::open(&paths).unwrap();
        let hidden: Vec<bool> = loaded.open.values().map(|h| h.hidden).collect();
        assert_eq!(hidden, [true, false]);
        assert_eq!(loaded.open[&HopId(1)].hop.prompt.as_deref(), Some("p [redacted GitHub token]"));
    }

    #[test]
    fn a_full_disk_is_named_with_the_remedy() {
        let e = state_error(Path::new("/s/hops.jsonl"), &io::ErrorKind::StorageFull.into());
        assert_eq!(e.code, "disk_full");
        assert!(e.message.contains("/s/hops.jsonl") && e.remedy.contains("MADO_STATE_DIR"));
    }

    #[test]
    fn agents_come_back_as_they_were_saved() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        assert_eq!(load_agents(&paths), (Vec::new(), None));
        let agents = vec![AgentRecord { id: 3, pid: 9, start: Some(7), ..AgentRecord::default() }];
        save_agents(&paths, &agents).unwrap();
        assert_eq!(load_agents(&paths).0, agents);
    }
}
