//! The start after an unclean end: leftovers are ended, hops without a final state go to the core.

use super::{Loaded, Server};
use crate::core::redact::redact;
use crate::core::{Input, RestoredHop, text};
use crate::host::reap::{self, Leader};
use crate::host::records;
use crate::host::store::{AgentRecord, StoredHop, load_agents};
use crate::proto::HopInfo;
use std::time::Duration;
use tokio::task::JoinSet;

/// Between the signals that end what a host that died has left.
const GRACE: Duration = Duration::from_millis(500);

impl Server {
    /// The first thing a host does. Its own agents do not exist yet.
    pub(super) async fn recover(&mut self, loaded: Loaded) {
        let (records, warning) = load_agents(&self.options.paths);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        end_leftovers(&records).await;
        let hops: Vec<RestoredHop> =
            loaded.open.into_values().map(|stored| restore(stored, &records)).collect();
        self.earlier = loaded.finished;
        // The folders of agents that are gone. Their records have just been looked at.
        let folder = self.options.paths.state.join("agents");
        if let Err(e) = std::fs::remove_dir_all(&folder)
            && e.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("{} cannot be removed: {e}", folder.display());
        }
        self.save();
        self.step(Input::Restored { hops, next_hop: loaded.next_hop }).await;
    }
}

fn restore(stored: StoredHop, records: &[AgentRecord]) -> RestoredHop {
    let StoredHop { hop, enter, hidden } = stored;
    let target = records.iter().find(|r| r.name == hop.target && r.project == hop.project);
    let in_record = enter && target.is_some_and(|t| in_record(t, &hop));
    RestoredHop { hop, enter, in_record, hidden }
}

/// Whether the target's own record holds the prompt, written after its first byte was typed.
fn in_record(target: &AgentRecord, hop: &HopInfo) -> bool {
    let (Some(path), Some(prompt)) = (&target.transcript, &hop.prompt) else { return false };
    let since = hop.times.typing.unwrap_or(0);
    // The stored prompt is without its secrets, so the record's is compared without them.
    let fits = |text: &str| text::fold(&redact(text).text) == text::fold(prompt);
    let session = target.session.as_deref();
    records::holds_prompt(target.dialect, path, session, since, fits).unwrap_or_else(|e| {
        tracing::warn!("{} cannot be read: {e}", path.display());
        false
    })
}

/// Ends what is left of the agents of a host that died: all at once, since each may take a while.
async fn end_leftovers(records: &[AgentRecord]) {
    let mut tasks = JoinSet::new();
    for record in records.iter().filter(|r| !r.mark.is_empty()) {
        let leader = Leader { pid: record.pid, started: record.start };
        let (mark, name) = (record.mark.clone(), record.name.clone());
        tasks.spawn(async move {
            let left = reap::end(leader, mark, GRACE).await;
            if left.is_empty() {
                tracing::info!("nothing is left of {name}, an agent of a host that died");
            } else {
                tracing::error!("{name}, an agent of a host that died: {left:?} do not end");
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}
