use super::*;
use crate::core::dialect::iso_time;
use crate::core::dialect::{Answer, HookEvent, NoAnswer, StatusState};
use serde_json::json;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/claude/", $name))
    };
}

/// Real transcripts of the same session in both versions.
const TRANSCRIPTS: [(&str, &str); 2] = [
    ("2.1.197", fixture!("transcript-2.1.197.jsonl")),
    ("2.1.332", fixture!("transcript-2.1.332.jsonl")),
];
const HOOKS: [&str; 2] = [fixture!("hooks-2.1.197.jsonl"), fixture!("hooks-2.1.332.jsonl")];
const STATUS: [&str; 2] = [fixture!("status-2.1.197.jsonl"), fixture!("status-2.1.332.jsonl")];

fn find<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Answer, NoAnswer> {
    let mut finder = AnswerFinder::new();
    let lines: Vec<&str> = lines.collect();
    for line in lines.into_iter().rev() {
        if let Found::Done(result) = finder.line(line) {
            return result;
        }
    }
    finder.end()
}

/// The answer as it stands when the transcript ends with the first line that holds `mark`, and with
/// `more` lines after it.
fn at(transcript: &str, mark: &str, more: usize) -> Result<Answer, NoAnswer> {
    let n = transcript.lines().position(|l| l.contains(mark)).expect("the mark is in the fixture");
    find(transcript.lines().take(n + 1 + more))
}

fn prompt_id(transcript: &str, text: &str) -> String {
    transcript
        .lines()
        .find_map(|l| match parse_line(l).unwrap().kind {
            LineKind::Prompt { turn, text: t, .. } if t == text => Some(turn),
            _ => None,
        })
        .expect("the prompt is in the fixture")
}

#[test]
fn an_answer_comes_with_its_turn_and_prompt() {
    for (version, t) in TRANSCRIPTS {
        let answer = at(t, "ECHO \\\"hello there", 0).unwrap();
        assert_eq!(answer.text, "ECHO \"hello there\" ENDECHO", "{version}");
        assert_eq!(answer.prompt.as_deref(), Some("hello there"));
        assert_eq!(answer.turn, Some(prompt_id(t, "hello there")));
        assert!(!answer.ended, "the end's line is not there yet");
    }
}

#[test]
fn the_answer_before_is_not_the_answer_of_a_new_prompt() {
    for (version, t) in TRANSCRIPTS {
        assert_eq!(at(t, "\"content\":\"queued one\"},", 0), Err(NoAnswer::NotYet), "{version}");
        let lines: Vec<&str> = t.lines().collect();
        let start = lines.iter().position(|l| l.contains("\"content\":\"MOCK:slow 5\"")).unwrap();
        assert_eq!(find(lines[..=start].iter().copied()), Err(NoAnswer::NotYet));
    }
}

#[test]
fn the_turn_is_ended_once_the_record_says_so() {
    for (version, t) in TRANSCRIPTS {
        let n = t.lines().position(|l| l.contains("\"subtype\":\"turn_duration\"")).unwrap();
        let answer = find(t.lines().take(n + 1)).unwrap();
        assert!(answer.ended, "{version}");
        assert_eq!(answer.text, "ECHO \"hello there\" ENDECHO");
    }
}

#[test]
fn a_message_that_calls_a_tool_is_no_answer() {
    for (version, t) in TRANSCRIPTS {
        assert_eq!(at(t, "I will run a command.", 0), Err(NoAnswer::NotYet), "{version}");
        assert_eq!(at(t, "I will run a command.", 2), Err(NoAnswer::NotYet), "{version}");
        let answer = at(t, "Result was: (Bash completed", 0).unwrap();
        assert_eq!(answer.text, "FINAL after tool. Result was: (Bash completed with no output)");
        assert_eq!(answer.prompt.as_deref(), Some("MOCK:bash touch PERM"));
    }
}

#[test]
fn a_refused_tool_and_an_interruption_are_no_answers() {
    for (version, t) in TRANSCRIPTS {
        assert_eq!(at(t, "user for tool use]", 0), Err(NoAnswer::Interrupted), "{version}");
        assert_eq!(at(t, "[Request interrupted by user]", 0), Err(NoAnswer::Interrupted));
    }
}

#[test]
fn an_api_error_is_no_answer_and_names_its_code() {
    for (version, t) in TRANSCRIPTS {
        for more in [0, 1] {
            let error = at(t, "API Error: 400", more).unwrap_err();
            assert_eq!(error.to_string(), "no answer: API error 400: mock 400", "{version}");
        }
    }
}

#[test]
fn lines_after_the_answer_do_not_hide_it() {
    for (_, t) in TRANSCRIPTS {
        let lines: Vec<&str> = t.lines().collect();
        let end = lines.iter().position(|l| l.contains("\"turn_duration\"")).unwrap();
        let mut tail: Vec<&str> = lines[..=end].to_vec();
        // Attachments, requests, modes, a subagent's lines, remarks of the program.
        tail.extend(lines.iter().filter(|l| {
            matches!(parse_line(l).unwrap().kind, LineKind::Other) && !l.contains("turn_duration")
        }));
        tail.extend(fixture!("subagent-2.1.332.jsonl").lines());
        tail.extend(fixture!("subagent-2.1.197.jsonl").lines());
        tail.push(r#"{"type":"a kind of the future","message":[1]}"#);
        tail.push(r#"{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"No response requested."}]}}"#);
        assert!(tail.len() > end + 20);
        let answer = find(tail.into_iter()).unwrap();
        assert_eq!(answer.text, "ECHO \"hello there\" ENDECHO");
    }
}

#[test]
fn a_turn_that_a_background_task_began_has_its_own_answer() {
    for (version, t) in TRANSCRIPTS {
        let answer = find(t.lines()).unwrap();
        assert!(answer.prompt.unwrap().starts_with("<task-notification>"), "{version}");
        assert_ne!(answer.turn, Some(prompt_id(t, "hello there")));
        assert!(answer.text.starts_with("ECHO"));
        assert!(answer.ended);
    }
}

#[test]
fn local_commands_after_an_answer_do_not_hide_it() {
    // The 2.1.197 fixture ends with `/exit`, which is recorded as user lines.
    let (_, t) = TRANSCRIPTS[0];
    let last = t.lines().rfind(|l| l.contains("\"type\":\"user\"")).unwrap();
    assert!(last.contains("<local-command-stdout>"));
    assert!(find(t.lines()).is_ok());
}

#[test]
fn all_text_blocks_of_the_last_message_are_the_answer() {
    let prompt = r#"{"type":"user","promptId":"p","message":{"content":"q"},"uuid":"u"}"#;
    let block = |id: &str, b: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","stop_reason":"end_turn","content":[{b}]}}}}"#
        )
    };
    let lines = [
        prompt.to_owned(),
        block("m1", r#"{"type":"text","text":"earlier"}"#),
        block("m2", r#"{"type":"thinking","thinking":"hm"}"#),
        block("m2", r#"{"type":"text","text":"one"}"#),
        block("m2", r#"{"type":"text","text":"two"},{"type":"text","text":"three"}"#),
    ];
    let answer = find(lines.iter().map(String::as_str)).unwrap();
    assert_eq!((answer.text.as_str(), answer.message.as_str()), ("one\ntwo\nthree", "m2"));
}

#[test]
fn a_missing_field_is_named_and_no_older_answer_stands_in() {
    let (_, t) = TRANSCRIPTS[1];
    let end = t.lines().position(|l| l.contains("\"turn_duration\"")).unwrap();
    let good: Vec<&str> = t.lines().take(end + 1).collect();
    for (bad, field) in [
        (
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}}"#,
            "message.id",
        ),
        (r#"{"type":"assistant","message":{"id":"m"}}"#, "message.content"),
        (r#"{"type":"assistant","message":{"id":7,"content":[]}}"#, "message.id"),
        (r#"{"type":"user","uuid":"u"}"#, "message.content"),
        (r#"{"type":"user","message":{"content":"hi"}}"#, "promptId or uuid"),
    ] {
        let error = find(good.iter().copied().chain([bad])).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}`")), "{error}");
    }
}

#[test]
fn a_line_cut_by_a_crash_is_passed_over() {
    let (_, t) = TRANSCRIPTS[1];
    let end = t.lines().position(|l| l.contains("\"turn_duration\"")).unwrap();
    let lines = t.lines().take(end + 1).chain([r#"{"type":"assistant","mess"#]);
    assert!(find(lines).is_ok());
    assert!(matches!(find([r#"{"type":"ass"#].into_iter()), Err(NoAnswer::Malformed(_))));
}

#[test]
fn a_peers_message_begins_a_turn_though_it_is_meta() {
    let line = r#"{"type":"user","isMeta":true,"promptId":"p","origin":{"kind":"peer"},"message":{"content":"hi"}}"#;
    let kind = parse_line(line).unwrap().kind;
    assert_eq!(kind, LineKind::Prompt { turn: "p".into(), text: "hi".into(), human: false });
    let line = r#"{"type":"user","isMeta":true,"promptId":"p","message":{"content":"caveat"}}"#;
    assert_eq!(
        parse_line(line).unwrap().kind,
        LineKind::Within { turn: Some("p".into()), done: vec![] }
    );
}

#[test]
fn versions_without_prompt_ids_and_origins_are_understood() {
    let line = r#"{"type":"user","uuid":"u1","message":{"content":[{"type":"text","text":"hi"}]}}"#;
    let kind = parse_line(line).unwrap().kind;
    assert_eq!(kind, LineKind::Prompt { turn: "u1".into(), text: "hi".into(), human: true });
    let line = r#"{"type":"user","uuid":"u1","message":{"content":"<task-notification>\n</task-notification>"}}"#;
    assert!(matches!(parse_line(line).unwrap().kind, LineKind::Prompt { human: false, .. }));
}

#[test]
fn a_prompt_that_quotes_the_programs_own_marks_is_a_prompt() {
    let text = "<command-name>/exit</command-name> is what it writes";
    let line = format!(
        r#"{{"type":"user","promptId":"p","origin":{{"kind":"human"}},"message":{{"content":"{text}"}}}}"#
    );
    assert!(matches!(parse_line(&line).unwrap().kind, LineKind::Prompt { .. }));
}

fn events(transcript: &str, mut reader: Transcript) -> Vec<RecordEvent> {
    transcript.lines().flat_map(|l| reader.line(l).unwrap()).collect()
}

#[test]
fn a_transcript_read_forward_tells_turns_from_begin_to_end() {
    for (version, t) in TRANSCRIPTS {
        let events = events(t, Transcript::default());
        let mut open: Option<String> = None;
        let mut ended = 0;
        for event in &events {
            match event {
                RecordEvent::Prompt { turn, .. } => open = Some(turn.clone()),
                RecordEvent::Answer { turn, .. }
                | RecordEvent::Changed { turn, .. }
                | RecordEvent::Interrupted { turn } => {
                    assert_eq!(turn, &open, "{version}");
                }
                RecordEvent::TurnEnd { turn } => {
                    assert_eq!(turn, &open, "{version}");
                    ended += 1;
                }
                RecordEvent::ApiError { code, text } => {
                    assert_eq!((*code, text.as_str()), (Some(400), "mock 400"));
                }
            }
        }
        assert!(ended >= 8, "{version}: {ended}");
        let humans: Vec<&str> = events
            .iter()
            .filter_map(|e| match e {
                RecordEvent::Prompt { human: true, text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(humans[..3], ["hello there", "MOCK:slow 5", "queued one"], "{version}");
        assert!(humans.iter().all(|t| !t.starts_with('<')));
        let interruptions =
            events.iter().filter(|e| matches!(e, RecordEvent::Interrupted { .. })).count();
        assert_eq!(interruptions, 2, "{version}");
    }
}

#[test]
fn a_resumed_transcripts_old_turns_are_passed_over() {
    let (_, t) = TRANSCRIPTS[1];
    let started = [0, u64::MAX / 2_000_000];
    assert!(!events(t, Transcript::since(started[0])).is_empty());
    assert!(events(t, Transcript::since(started[1])).is_empty());
}

#[test]
fn a_replaced_transcript_repeats_nothing() {
    let (_, t) = TRANSCRIPTS[1];
    let half: Vec<&str> = t.lines().take(60).collect();
    let mut reader = Transcript::default();
    let mut got: Vec<RecordEvent> = half.iter().flat_map(|l| reader.line(l).unwrap()).collect();
    assert!(got.len() > 3);
    reader.restart();
    got.extend(t.lines().flat_map(|l| reader.line(l).unwrap()));
    assert_eq!(got, events(t, Transcript::default()));
}

#[test]
fn a_first_prompt_that_is_written_after_its_answer_is_its_prompt() {
    // Seen: 2.1.197 under load. The times are right, the order is not.
    for (version, t) in TRANSCRIPTS {
        let end = t.lines().position(|l| l.contains("\"turn_duration\"")).unwrap();
        let mut lines: Vec<&str> = t.lines().take(end + 1).collect();
        let prompt = lines.iter().position(|l| l.contains("\"type\":\"user\"")).unwrap();
        let prompt = lines.remove(prompt);
        assert!(events(&lines.join("\n"), Transcript::default()).is_empty(), "{version}");
        lines.push(prompt);
        let turn = Some(prompt_id(t, "hello there"));
        let answer = find(lines.iter().copied()).unwrap();
        assert_eq!((answer.text.as_str(), &answer.turn), ("ECHO \"hello there\" ENDECHO", &turn));
        assert!(answer.ended && answer.prompt.as_deref() == Some("hello there"));
        let told = events(&lines.join("\n"), Transcript::default());
        assert_eq!(told.len(), 3, "{version}");
        assert!(matches!(&told[0], RecordEvent::Prompt { text, .. } if text == "hello there"));
        assert!(matches!(&told[1], RecordEvent::Answer { turn: t, .. } if *t == turn));
        assert_eq!(told[2], RecordEvent::TurnEnd { turn });
    }
}

#[test]
fn times_are_written_as_claude_writes_them() {
    assert_eq!(iso_time(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(iso_time(1_796_028_428_579), "2026-11-30T08:47:08.579Z");
    assert_eq!(iso_time(951_782_399_999), "2000-02-28T23:59:59.999Z");
    assert_eq!(iso_time(951_782_400_000), "2000-02-29T00:00:00.000Z");
    assert_eq!(iso_time(1_735_689_599_000), "2024-12-31T23:59:59.000Z");
}

#[test]
fn every_hook_of_a_real_session_is_understood() {
    for hooks in HOOKS {
        let events: Vec<HookEvent> = hooks.lines().map(|l| parse_hook(l).unwrap()).collect();
        assert!(matches!(&events[0], HookEvent::SessionStart { transcript: Some(t), .. }
            if t.contains("-home-user-proj/")));
        assert!(matches!(&events[1], HookEvent::Prompt { text, turn: Some(_), .. }
            if text == "hello there"));
        assert!(matches!(&events[2], HookEvent::Stop { answer: Some(a), background: 0, .. }
            if a == "ECHO \"hello there\" ENDECHO"));
        let asked = events
            .iter()
            .filter(|e| matches!(e, HookEvent::PermissionAsked { tool } if tool == "Bash"));
        assert_eq!(asked.count(), 2);
        assert!(events.iter().any(|e| matches!(e, HookEvent::StopFailure { error, turn: Some(_) }
            if error == "API Error: 400 mock 400")));
        assert!(events.iter().any(|e| matches!(e, HookEvent::Stop { background: 1, .. })));
        assert!(events.iter().any(|e| matches!(e, HookEvent::ToolDone { tool } if tool == "Bash")));
        assert_eq!(events.last(), Some(&HookEvent::SessionEnd));
        let subagents = events
            .iter()
            .filter(|e| matches!(e, HookEvent::Other { name } if name.starts_with("Subagent")));
        assert_eq!(subagents.count(), 2);
    }
}

#[test]
fn a_hook_without_a_needed_field_names_it() {
    let error = parse_hook(r#"{"hook_event_name":"UserPromptSubmit","session_id":"s"}"#);
    assert!(error.unwrap_err().to_string().contains("`prompt`"));
    assert!(parse_hook("{}").unwrap_err().to_string().contains("`hook_event_name`"));
    assert!(matches!(parse_hook("{\"hook"), Err(Unreadable::NotJson(_))));
}

#[test]
fn the_status_file_of_a_real_session_is_understood() {
    for log in STATUS {
        let mut states = Vec::new();
        for entry in log.lines() {
            let (_, text): (f64, String) = serde_json::from_str(entry).unwrap();
            match parse_status(&text).unwrap() {
                Some(file) => {
                    assert!(file.proc_start.is_some() && file.started_at.is_some());
                    assert_eq!(
                        file.state == Some(StatusState::Waiting),
                        file.waiting_for.is_some()
                    );
                    states.push(file.state);
                }
                None => assert!(text.is_empty(), "2.1.197 was caught with an empty file"),
            }
        }
        assert_eq!(states[0], None);
        for state in
            [StatusState::Idle, StatusState::Busy, StatusState::Waiting, StatusState::Background]
        {
            assert!(states.contains(&Some(state)), "{state:?}");
        }
    }
}

#[test]
fn a_half_written_status_file_is_read_again_and_a_lacking_one_is_an_error() {
    assert_eq!(parse_status(""), Ok(None));
    assert_eq!(parse_status("{\"pid\":1,\"sess"), Ok(None));
    let error = parse_status("{\"pid\":1}").unwrap_err();
    assert!(error.to_string().contains("`sessionId`"), "{error}");
    let file = parse_status(r#"{"pid":1,"sessionId":"s","status":"pondering"}"#).unwrap().unwrap();
    assert_eq!((file.state, file.status.as_deref()), (None, Some("pondering")));
}

#[test]
fn project_folders_are_named_as_claude_names_them() {
    assert_eq!(cwd_to_project_dir("/home/user/my.proj_1"), "-home-user-my-proj-1");
    // One unit for é, two for an emoji.
    assert_eq!(cwd_to_project_dir("/é/🙂x"), "-----x");
    // Seen: claude 2.1.332.
    let part = |n: u32| format!("x_é.{n}{}", "y".repeat(40));
    let parts: Vec<String> = (0..5).map(part).collect();
    let long = format!("/tmp/clab-hb5xkbsh/{}/日本🙂", parts.join("/"));
    let name = cwd_to_project_dir(&long);
    assert_eq!((name.len(), &name[200..]), (207, "-rz1eot"));
}

/// A turn that edits: what was carried out is named, what failed, was refused or never ran is not.
fn edits() -> Vec<String> {
    let call = |n: u32, name: &str, input: serde_json::Value| {
        json!({"type": "assistant", "timestamp": format!("2026-11-30T10:00:{n:02}.000Z"), "message": {
            "id": format!("m{n}"), "model": "x", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": format!("t{n}"), "name": name, "input": input}],
        }})
        .to_string()
    };
    let result = |n: u32, error: bool| {
        json!({"type": "user", "promptId": "p", "timestamp": format!("2026-11-30T10:00:{n:02}.500Z"),
            "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": format!("t{n}"), "content": "x", "is_error": error},
            ]}})
        .to_string()
    };
    let prompt = json!({"type": "user", "promptId": "p", "timestamp": "2026-11-30T10:00:00.000Z",
        "origin": {"kind": "human"}, "message": {"role": "user", "content": "refactor"}});
    let last = json!({"type": "assistant", "timestamp": "2026-11-30T10:00:30.000Z", "message": {
        "id": "m30", "model": "x", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "done"}]}});
    let file = |path: &str| json!({"file_path": path, "old_string": "a", "new_string": "b"});
    vec![
        prompt.to_string(),
        call(1, "Edit", file("/w/src/auth/a.rs")),
        result(1, false),
        call(2, "Write", file("/w/src/auth/b.rs")),
        result(2, false),
        call(3, "Edit", file("/w/refused.rs")),
        result(3, true),
        call(4, "Bash", json!({"command": "touch /w/c.rs"})),
        result(4, false),
        call(5, "NotebookEdit", json!({"notebook_path": "/w/n.ipynb"})),
        result(5, false),
        call(6, "Edit", file("/w/src/auth/a.rs")),
        result(6, false),
        call(7, "Edit", file("/w/never.rs")),
        last.to_string(),
    ]
}

#[test]
fn a_turns_edits_are_named_and_those_that_failed_are_not() {
    let lines = edits();
    let mut finder = AnswerFinder::new();
    let found = lines.iter().rev().find_map(|l| match finder.line(l) {
        Found::Done(result) => Some(result),
        Found::More => None,
    });
    let answer = found.unwrap().unwrap();
    let expected = ["/w/src/auth/a.rs", "/w/src/auth/b.rs", "/w/n.ipynb"];
    assert_eq!(answer.changed.unwrap(), expected);

    let mut transcript = Transcript::default();
    let mut told = Vec::new();
    for line in &lines {
        for event in transcript.line(line).unwrap() {
            if let RecordEvent::Changed { turn, paths } = event {
                assert_eq!(turn.as_deref(), Some("p"));
                told.extend(paths);
            }
        }
    }
    assert_eq!(told, [&expected[..], &expected[..1]].concat());
}
