use super::*;
use crate::core::dialect::{Answer, Found, NoAnswer};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/codex/", $name))
    };
}

/// Real rollouts: five turns (a refused tool, a prompt from `codex queue`, a subagent), that subagent's, and an
/// error of the service in a resumed thread.
const ROLLOUT: &str = fixture!("rollout-0.171.0.jsonl");
const SUBAGENT: &str = fixture!("subagent-0.171.0.jsonl");
const FAILED: &str = fixture!("error-0.171.0.jsonl");

fn find<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Answer, NoAnswer> {
    let mut finder = AnswerFinder::default();
    let lines: Vec<&str> = lines.collect();
    for line in lines.into_iter().rev() {
        if let Found::Done(result) = finder.line(line) {
            return result;
        }
    }
    finder.end()
}

/// The answer as it stands when the rollout ends with the `n`-th line that holds `mark`.
fn at(rollout: &str, mark: &str, n: usize) -> Result<Answer, NoAnswer> {
    let is = |(_, line): &(usize, &str)| line.contains(mark);
    let (end, _) = rollout.lines().enumerate().filter(is).nth(n).expect("the mark is there");
    find(rollout.lines().take(end + 1))
}

fn events(rollout: &str, since: u64) -> Vec<RecordEvent> {
    let mut transcript = Transcript::since(since);
    rollout.lines().flat_map(|line| transcript.line(line).unwrap()).collect()
}

#[test]
fn an_answer_comes_with_its_turn_and_prompt() {
    let answer = at(ROLLOUT, "task_complete", 0).unwrap();
    assert_eq!(answer.text, "ECHO \"hi again\" ENDECHO");
    assert_eq!(answer.prompt.as_deref(), Some("hi again"));
    assert!(answer.turn.as_ref().unwrap().ends_with("7cd05e"), "{answer:?}");
    assert_eq!(answer.message, "msg_9_0");
    assert!(answer.ended);
    // A moment earlier it is there, but the turn is not over.
    let early = at(ROLLOUT, "\"AgentMessage\",\"id\":\"msg_9_0\"", 0).unwrap();
    assert_eq!(early, Answer { ended: false, ..answer });
}

#[test]
fn the_answer_before_is_not_the_answer_of_a_new_prompt() {
    for (mark, n) in [("task_started", 2), ("\"UserMessage\"", 2), ("\"task_started\"", 1)] {
        assert_eq!(at(ROLLOUT, mark, n), Err(NoAnswer::NotYet), "{mark} {n}");
    }
}

#[test]
fn an_interruption_and_an_error_are_no_answers() {
    assert_eq!(at(ROLLOUT, "\"turn_aborted\",", 0), Err(NoAnswer::Interrupted));
    assert_eq!(find(SUBAGENT.lines()), Err(NoAnswer::Interrupted));
    let error = find(FAILED.lines()).unwrap_err();
    assert_eq!(error.to_string(), "no answer: API error: mock 400");
}

#[test]
fn the_answer_of_a_turn_with_tools_is_its_last_message() {
    let answer = find(ROLLOUT.lines()).unwrap();
    assert!(answer.text.starts_with("FINAL after tool. Result was:"), "{answer:?}");
    assert!(answer.prompt.unwrap().starts_with("MOCK:spawn"));
    let early = at(ROLLOUT, "\"Delegating.\"", 0).unwrap();
    assert!(!early.ended, "a message before a tool call ends nothing");
}

#[test]
fn a_prompt_that_steers_a_turn_is_not_its_prompt() {
    let line = |kind: &str, rest: &str| {
        format!(
            r#"{{"timestamp":"t","type":"event_msg","payload":{{"type":"{kind}","turn_id":"a",{rest}}}}}"#
        )
    };
    let user = |text: &str| {
        let item = format!(
            r#""item":{{"type":"UserMessage","content":[{{"type":"text","text":"{text}"}}]}}"#
        );
        line("item_completed", &item)
    };
    let lines = [
        line("task_started", r#""x":1"#),
        user("first"),
        line(
            "item_completed",
            r#""item":{"type":"AgentMessage","id":"m1","content":[{"text":"one"}]}"#,
        ),
        user("steers"),
        line(
            "item_completed",
            r#""item":{"type":"AgentMessage","id":"m2","content":[{"text":"two"}]}"#,
        ),
        line("task_complete", r#""last_agent_message":"two""#),
    ];
    let answer = find(lines.iter().map(String::as_str)).unwrap();
    assert_eq!((answer.text.as_str(), answer.prompt.as_deref()), ("two", Some("first")));
    assert_eq!(answer.message, "m2");
    assert_eq!(find(lines[..4].iter().map(String::as_str)), Err(NoAnswer::NotYet));
}

#[test]
fn events_come_in_order_each_with_its_turn() {
    let events = events(ROLLOUT, 0);
    let prompts: Vec<(&str, bool)> = events
        .iter()
        .filter_map(|e| match e {
            RecordEvent::Prompt { text, human, .. } => Some((text.as_str(), *human)),
            _ => None,
        })
        .collect();
    assert_eq!(prompts[0], ("MOCK:bash touch hit ESC", true));
    assert_eq!(prompts[1], ("hi again", true));
    assert_eq!(prompts[2], ("MOCK:bash touch hit2 ESC", false), "it came by `codex queue`");
    let mut open = None;
    for event in &events {
        match event {
            RecordEvent::Prompt { turn, .. } => open = Some(turn.clone()),
            RecordEvent::Answer { turn, .. } => assert_eq!(*turn, open),
            RecordEvent::TurnEnd { turn } | RecordEvent::Interrupted { turn } => {
                assert_eq!(*turn, open.take());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(open, None);
    let error = RecordEvent::ApiError { code: None, text: "mock 400".to_owned() };
    assert_eq!(self::events(FAILED, 0).last(), Some(&error));
}

#[test]
fn what_was_before_or_was_read_is_not_told_again() {
    // 17:32:25 of the day on which the fixture was made; in between are two of the turns.
    let all = events(ROLLOUT, 0).len();
    let late = events(ROLLOUT, 1_796_059_945_000).len();
    assert!(late > 0 && late < all, "{late} of {all}");
    let mut transcript = Transcript::since(0);
    for line in ROLLOUT.lines() {
        transcript.line(line).unwrap();
    }
    transcript.restart();
    assert!(ROLLOUT.lines().all(|line| transcript.line(line).unwrap().is_empty()));
}

#[test]
fn a_form_that_is_not_known_is_named() {
    let lost = |from: &str, to: &str| {
        let changed = ROLLOUT.replace(from, to);
        match find(changed.lines()) {
            Err(NoAnswer::Malformed(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = lost("\"last_agent_message\"", "\"last_message\"");
    assert!(why.contains("`payload.last_agent_message`"), "{why}");
    // Every `turn_id`, in whatever line.
    let why = lost("\"turn_id\"", "\"turnId\"");
    assert!(why.contains("`payload.turn_id`"), "{why}");
    let why = lost("\"content\"", "\"contents\"");
    assert!(why.contains("`payload.item.content`"), "{why}");
    assert_eq!(parse_line("{\"type\":\"event"), Err(Unreadable::NotJson(LINE)));
    let unknown = r#"{"type":"a kind of the future","payload":"text"}"#;
    assert_eq!(parse_line(unknown).unwrap().kind, LineKind::Other);
}

#[test]
fn a_failed_requests_status_is_found() {
    let line = r#"{"type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":null,
        "error":{"message":"gone","codex_error_info":{"response_too_many_failed_attempts":{"http_status_code":503}}}}}"#;
    let why = find([line.replace('\n', " ").as_str()].into_iter()).unwrap_err();
    assert_eq!(why.to_string(), "no answer: API error 503: gone");
    let line = r#"{"type":"event_msg","payload":{"type":"turn_aborted","turn_id":"t","reason":"budget_limited"}}"#;
    assert!(find([line].into_iter()).unwrap_err().to_string().contains("budget_limited"));
}

#[test]
fn a_subagents_thread_is_told_from_a_persons() {
    let meta = |rollout: &str| parse_meta(rollout.lines().next().unwrap()).unwrap();
    let (own, sub) = (meta(ROLLOUT), meta(SUBAGENT));
    assert!(own.main && !sub.main);
    assert!(own.id.starts_with("01a22d82-d004"), "{own:?}");
    assert_eq!(own.cwd.as_deref(), Some("/home/dev/proj"));
    let why = parse_meta(r#"{"type":"session_meta","payload":{}}"#).unwrap_err();
    assert!(why.to_string().contains("`payload.id`"), "{why}");
}
