//! The start after an unclean end: leftovers are ended, hops without a final state go to the core.

use super::{Loaded, Server};
use crate::core::{Input, RestoredHop};
use crate::host::store::load_agents;

impl Server {
    /// The first thing a host does. Its own agents do not exist yet.
    pub(super) async fn recover(&mut self, loaded: Loaded) {
        let (records, warning) = load_agents(&self.options.paths);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        let _ = records;
        self.earlier = loaded.finished;
        let hops = loaded
            .open
            .into_values()
            .map(|stored| RestoredHop { in_record: false, enter: stored.enter, hop: stored.hop })
            .collect();
        self.step(Input::Restored { hops, next_hop: loaded.next_hop }).await;
    }
}
