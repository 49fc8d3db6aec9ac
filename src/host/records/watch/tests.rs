use super::*;
use crate::core::dialect::StatusState;
use crate::host::records::tests::{Site, answer, end, prompt};
use std::fs;
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(20);

struct Watching {
    updates: mpsc::Receiver<RecordUpdate>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Watching {
    fn new(subject: Subject) -> Watching {
        let (sender, updates) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(subject, sender, Arc::default(), stop.clone()));
        Watching { updates, stop, task }
    }

    /// The next update that `pick` takes.
    async fn next<T>(&mut self, what: &str, pick: impl Fn(&RecordUpdate) -> Option<T>) -> T {
        let found = tokio::time::timeout(LIMIT, async {
            loop {
                let update = self.updates.recv().await.expect("the watch goes on");
                if let Some(found) = pick(&update) {
                    return found;
                }
            }
        });
        let Ok(found) = found.await else { panic!("no {what}") };
        found
    }

    async fn state(&mut self, wanted: StatusState) {
        self.next("status", |u| match u {
            RecordUpdate::Status(s) if s.state == Some(wanted) => Some(()),
            _ => None,
        })
        .await;
    }

    async fn session(&mut self, wanted: &str, with_transcript: bool) {
        self.next("session", |u| match u {
            RecordUpdate::Session { id, transcript }
                if id == wanted && transcript.is_some() == with_transcript =>
            {
                Some(())
            }
            _ => None,
        })
        .await;
    }

    async fn event(&mut self) -> RecordEvent {
        self.next("record", |u| match u {
            RecordUpdate::Record(event) => Some(event.clone()),
            _ => None,
        })
        .await
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("it stops").unwrap();
    }
}

fn is_prompt(event: &RecordEvent, wanted: &str) -> bool {
    matches!(event, RecordEvent::Prompt { text, .. } if text == wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_may_appear_after_the_watch_began() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    let mut watching = Watching::new(subject);
    site.status(&tree, "s1", "idle");
    watching.session("s1", false).await;
    watching.state(StatusState::Idle).await;
    site.append("s1", &[prompt("t1", "hello")]);
    site.status(&tree, "s1", "busy");
    watching.session("s1", true).await;
    assert!(is_prompt(&watching.event().await, "hello"));
    watching.state(StatusState::Busy).await;
    site.append("s1", &[answer("m1", "hi"), end()]);
    let turn = Some("t1".to_owned());
    assert!(matches!(watching.event().await, RecordEvent::Answer { turn: t, text, .. }
        if t == turn && text == "hi"));
    assert_eq!(watching.event().await, RecordEvent::TurnEnd { turn });
    site.status(&tree, "s1", "shell");
    watching.state(StatusState::Background).await;
    watching.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clearing_replaces_the_session() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s1", "idle");
    site.append("s1", &[prompt("t1", "one"), answer("m1", "a"), end()]);
    let mut watching = Watching::new(subject);
    watching.session("s1", true).await;
    watching.state(StatusState::Idle).await;
    site.append("s2", &[]);
    site.status(&tree, "s2", "idle");
    watching.session("s2", true).await;
    site.append("s1", &[prompt("t2", "nobody's")]);
    site.append("s2", &[prompt("t3", "two")]);
    assert!(is_prompt(&watching.event().await, "two"));
    watching.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_transcript_is_followed_on_and_repeats_nothing() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s1", "busy");
    let first = [prompt("t1", "one"), answer("m1", "a"), end()];
    site.append("s1", &first);
    let mut watching = Watching::new(subject);
    for _ in 0..3 {
        watching.event().await;
    }
    let next = prompt("t2", "two").replace("2026-01-01", "2026-01-02");
    let other = site.home.path().join("other");
    fs::write(&other, format!("{}{next}", first.concat())).unwrap();
    fs::rename(&other, site.transcript("s1")).unwrap();
    assert!(is_prompt(&watching.event().await, "two"));
    watching.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_cannot_be_read_is_told_and_the_next_one_read() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s1", "idle");
    let bad = "{\"type\":\"assistant\",\"message\":{\"content\":[]}}\n".to_owned();
    site.append("s1", &[bad, prompt("t1", "one")]);
    let mut watching = Watching::new(subject);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let update = watching.next("update", |u| Some(u.clone())).await;
        match update {
            RecordUpdate::Problem(text) => {
                assert!(text.contains("message.id"), "{text}");
                seen.push("problem");
            }
            RecordUpdate::Record(_) => seen.push("record"),
            _ => {}
        }
    }
    watching.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_ends_when_nobody_listens() {
    let site = Site::new();
    let (_tree, subject) = site.agent();
    let Watching { updates, task, stop: _stop } = Watching::new(subject);
    drop(updates);
    tokio::time::timeout(LIMIT, task).await.expect("it ends").unwrap();
}

fn state(subject: Subject) -> State {
    State::new(subject, Bell::new(Arc::default()))
}

/// Looks until nothing new is watched.
fn settled(state: &mut State) -> Option<Duration> {
    loop {
        match state.look().again {
            Some(Duration::ZERO) => {}
            again => return again,
        }
    }
}

#[test]
fn an_idle_agent_wakes_nobody() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    let mut state = state(subject);
    assert_eq!(settled(&mut state), Some(SOON), "its files are still to come");
    site.status(&tree, "s1", "idle");
    assert_eq!(settled(&mut state), None, "nothing was asked yet");
    site.status(&tree, "s1", "busy");
    assert_eq!(settled(&mut state), Some(SOON), "the transcript is still to come");
    site.status(&tree, "s1", "idle");
    assert_eq!(settled(&mut state), Some(SLOW), "and may come late");
    site.append("s1", &[prompt("t1", "q")]);
    assert_eq!(settled(&mut state), None);
    site.status(&tree, "s1", "busy");
    assert_eq!(settled(&mut state), Some(SLOW), "a turn is open");
    site.status(&tree, "s1", "idle");
    assert_eq!(settled(&mut state), None);
    state.began = Instant::now().checked_sub(STARTING).unwrap();
    fs::remove_dir_all(site.config()).unwrap();
    assert_eq!(settled(&mut state), Some(SLOW), "nothing can be watched");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_transcript_is_noticed_in_new_folders() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s1", "idle");
    let mut watching = Watching::new(subject);
    watching.state(StatusState::Idle).await;
    // Nothing but the file itself tells: no status changes.
    site.append("s1", &[prompt("t1", "hello")]);
    watching.session("s1", true).await;
    assert!(is_prompt(&watching.event().await, "hello"));
    watching.end().await;
}

#[test]
fn another_agents_transcript_is_not_taken_while_the_status_file_is_to_come() {
    let site = Site::new();
    let (_tree, subject) = site.agent();
    site.append("of-another", &[prompt("t1", "q")]);
    let mut state = state(subject);
    assert!(state.look().updates.is_empty());
    // A version without status files.
    state.began = Instant::now().checked_sub(STARTING).unwrap();
    assert!(state.look().updates.iter().any(|u| matches!(u, RecordUpdate::Session { .. })));
}

#[test]
fn a_resumed_sessions_old_turns_are_not_told_again() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    let old = |line: String| line.replace("2026-", "1969-");
    site.append("s1", &[old(prompt("t1", "old")), old(answer("m1", "a")), old(end())]);
    site.status(&tree, "s1", "idle");
    let mut state = state(subject);
    let records = |look: Look| -> Vec<RecordUpdate> {
        look.updates.into_iter().filter(|u| matches!(u, RecordUpdate::Record(_))).collect()
    };
    assert!(records(state.look()).is_empty());
    site.append("s1", &[prompt("t2", "new")]);
    assert_eq!(records(state.look()).len(), 1);
}

#[test]
fn a_flood_is_read_in_pieces() {
    let site = Site::new();
    let (tree, subject) = site.agent();
    site.status(&tree, "s1", "idle");
    let filler = format!("{{\"type\":\"other\",\"x\":\"{}\"}}\n", "y".repeat(100_000));
    site.append("s1", &vec![filler; 30]);
    let mut state = state(subject);
    let mut looks = 0;
    while state.look().again == Some(Duration::ZERO) {
        looks += 1;
    }
    assert!((2..10).contains(&looks), "{looks}");
}

#[test]
fn the_demo_agents_transcript_is_followed_from_its_own_start() {
    let site = Site::new();
    let path = site.home.path().join("t.jsonl");
    let line = |n: u32| format!("{{\"type\":\"prompt\",\"turn\":\"t{n}\",\"text\":\"q\"}}\n");
    fs::write(&path, line(1)).unwrap();
    let (_tree, mut subject) = site.agent();
    subject.dialect = Dialect::Demo;
    subject.path.clone_from(&path);
    let mut state = state(subject);
    assert!(state.look().updates.is_empty(), "an earlier run's");
    fs::write(&path, line(1) + &line(2)).unwrap();
    let look = state.look();
    assert!(matches!(&look.updates[..], [RecordUpdate::Record(RecordEvent::Prompt { turn, .. })]
        if turn == "t2"));
    assert_eq!(settled(&mut state), None);
}
