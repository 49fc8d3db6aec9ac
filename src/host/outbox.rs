//! What waits to be told to one editor: replies in order, events that may be joined.
//!
//! An editor that sits at a prompt answers nothing for as long as the prompt stands. What happens
//! meanwhile must neither be lost (replies) nor pile up (events): once the queue is long or the
//! editor is stalled, an event replaces the one before it of the same subject.

use super::editor::Ask;
use crate::proto::{Event, RequestResult};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc};

/// Queue length from which events of one subject are joined.
const JOIN_ABOVE: usize = 256;

/// Most messages of one batch.
const BATCH: usize = 64;

/// Most messages that wait. Beyond it the oldest events go: listings can be asked for again.
const MOST: usize = 2048;

/// What events are about; the newest of a subject says all that the older ones did.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Agent(u64),
    Route(u64),
    Hop(u64),
    Notice(String),
}

impl Subject {
    fn of(event: &Event) -> Subject {
        match event {
            Event::Agent(a) => Subject::Agent(a.id.0),
            Event::AgentGone { id, .. } => Subject::Agent(id.0),
            Event::Route(r) => Subject::Route(r.id.0),
            Event::RouteGone { id, .. } => Subject::Route(id.0),
            Event::Hop(h) => Subject::Hop(h.id.0),
            Event::Notice(n) => Subject::Notice(n.key.clone()),
        }
    }
}

#[derive(Debug)]
enum Item {
    Reply { seq: u64, result: RequestResult },
    Event { subject: Subject, event: Event },
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Item>,
    stalled: bool,
    closed: bool,
}

/// The queue. The host's loop pushes, the editor's task takes.
#[derive(Debug)]
pub struct Outbox {
    state: Mutex<State>,
    wake: Notify,
    asks: mpsc::Sender<Ask>,
    asked: Mutex<Option<mpsc::Receiver<Ask>>>,
}

impl Default for Outbox {
    fn default() -> Outbox {
        let (asks, asked) = mpsc::channel(64);
        Outbox {
            state: Mutex::default(),
            wake: Notify::default(),
            asks,
            asked: Mutex::new(Some(asked)),
        }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where questions to this editor go; closed once the editor is gone.
    pub fn asks(&self) -> mpsc::Sender<Ask> {
        self.asks.clone()
    }

    /// The other end, for the editor's task. Only once.
    pub fn take_asks(&self) -> Option<mpsc::Receiver<Ask>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds a reply. `false`: the editor has asked far more than it listens to.
    #[must_use]
    pub fn reply(&self, seq: u64, result: RequestResult) -> bool {
        let mut state = self.lock();
        let replies = || state.queue.iter().filter(|i| matches!(i, Item::Reply { .. })).count();
        if state.queue.len() >= MOST && replies() >= MOST {
            return false;
        }
        state.queue.push_back(Item::Reply { seq, result });
        drop(state);
        self.wake.notify_one();
        true
    }

    /// Adds an event.
    pub fn event(&self, event: Event) {
        let subject = Subject::of(&event);
        let mut state = self.lock();
        let same = |item: &Item| matches!(item, Item::Event { subject: s, .. } if *s == subject);
        if (state.stalled || state.queue.len() >= JOIN_ABOVE)
            && let Some(at) = state.queue.iter().rposition(same)
        {
            state.queue.remove(at);
        }
        if state.queue.len() >= MOST
            && let Some(at) = state.queue.iter().position(|i| matches!(i, Item::Event { .. }))
        {
            state.queue.remove(at);
        }
        state.queue.push_back(Item::Event { subject, event });
        drop(state);
        self.wake.notify_one();
    }

    /// Whether the editor has not answered for too long. What waits is joined at once.
    pub fn set_stalled(&self, stalled: bool) {
        let mut state = self.lock();
        state.stalled = stalled;
        if stalled {
            let mut kept: VecDeque<Item> = VecDeque::new();
            while let Some(item) = state.queue.pop_back() {
                let old = matches!(&item, Item::Event { subject, .. }
                    if kept.iter().any(|k| matches!(k, Item::Event { subject: s, .. } if s == subject)));
                if !old {
                    kept.push_front(item);
                }
            }
            state.queue = kept;
        }
    }

    /// Whether the editor counts as stalled now.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.lock().stalled
    }

    /// How much waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().queue.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing more will come; what waits is still to be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Waits for messages and takes them as the editor's Lua sees them. `None`: closed and empty.
    pub async fn batch(&self) -> Option<Vec<Value>> {
        loop {
            {
                let mut state = self.lock();
                if !state.queue.is_empty() {
                    let n = state.queue.len().min(BATCH);
                    return Some(state.queue.drain(..n).map(message).collect());
                }
                if state.closed {
                    return None;
                }
            }
            self.wake.notified().await;
        }
    }
}

fn message(item: Item) -> Value {
    match item {
        Item::Reply { seq, result: Ok(reply) } => json!({"type": "reply", "seq": seq, "ok": reply}),
        Item::Reply { seq, result: Err(e) } => json!({"type": "reply", "seq": seq, "error": e}),
        Item::Event { event, .. } => {
            let mut value = json!(event);
            value["type"] = "event".into();
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AgentId, AgentInfo, Reply};

    fn agent(id: u64, since: u64) -> Event {
        Event::Agent(AgentInfo { id: AgentId(id), since, ..AgentInfo::default() })
    }

    #[tokio::test]
    async fn a_prompt_editor_sees_every_event_in_order() {
        let outbox = Outbox::default();
        outbox.event(agent(1, 1));
        assert!(outbox.reply(9, Ok(Reply::Done)));
        outbox.event(agent(1, 2));
        let batch = outbox.batch().await.unwrap();
        assert_eq!(batch[0]["data"]["since"], 1);
        assert_eq!(batch[1], json!({"type": "reply", "seq": 9, "ok": {"kind": "done"}}));
        assert_eq!(batch[2]["data"]["since"], 2);
        assert_eq!(batch[2]["type"], "event");
        assert_eq!(batch[2]["event"], "agent");
        outbox.close();
        assert!(outbox.batch().await.is_none());
    }

    #[tokio::test]
    async fn a_stalled_editor_gets_the_latest_of_each_subject_and_every_reply() {
        let outbox = Outbox::default();
        outbox.set_stalled(true);
        for since in 0..10_000 {
            outbox.event(agent(since % 3, since));
        }
        for seq in 0..50 {
            assert!(outbox.reply(seq, Ok(Reply::Done)));
        }
        assert_eq!(outbox.len(), 53);
        let batch = outbox.batch().await.unwrap();
        assert_eq!(batch[2]["data"]["since"], 9999);
    }

    #[test]
    fn the_queue_is_bounded_whatever_comes() {
        let outbox = Outbox::default();
        for id in 0..10_000 {
            outbox.event(agent(id, 0));
        }
        assert_eq!(outbox.len(), MOST);
        let mut taken = 0;
        while outbox.reply(taken, Ok(Reply::Done)) {
            taken += 1;
            assert!(taken < 5000);
        }
        assert!(outbox.len() <= MOST * 2);
    }
}
