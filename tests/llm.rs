//! Providers of models, each in every way that a call can end.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

#[path = "common/llm.rs"]
mod service;

use mado::core::question::{NotTold, Told};
use mado::host::llm::{Call, ask};
use mado::proto::{Provider, ProviderKind, Usage};
use service::{Say, Service, anthropic, openai, wait};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const KEY: &str = "sk-very-secret-key-0123456789";
const HTTP: [ProviderKind; 2] = [ProviderKind::Anthropic, ProviderKind::Openai];

fn call_of(kind: ProviderKind, url: &str) -> Call {
    Call {
        name: "mine".into(),
        spec: Provider {
            kind,
            base_url: url.into(),
            model: "model-1".into(),
            key_env: "MINE_KEY".into(),
            silence_ms: Some(20_000),
            timeout_ms: Some(60_000),
            ..Provider::default()
        },
        stable: "the instructions \"quoted\"\nand rules".into(),
        variable: "the answer ä 🙂".into(),
        env: BTreeMap::from([
            ("MINE_KEY".to_owned(), format!(" {KEY}\n")),
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("MADO_AGENT_ID".to_owned(), "inherited".to_owned()),
        ]),
        folder: std::env::temp_dir(),
    }
}

fn good(kind: ProviderKind, text: &str) -> String {
    match kind {
        ProviderKind::Anthropic => anthropic(text, "end_turn"),
        _ => openai(text, "stop"),
    }
}

async fn told(call: &Call) -> Told {
    ask(call).await.unwrap_or_else(|e| panic!("{e:?}"))
}

/// The call fails, and neither the key nor anything but one line is in what it says.
async fn fails(call: &Call, code: &str, parts: &[&str]) -> NotTold {
    let why = ask(call).await.expect_err("it is to fail");
    assert_eq!(why.code, code, "{why:?}");
    for part in parts.iter().chain(&["mine"]) {
        assert!(why.text.contains(part), "{part:?} is not in {:?}", why.text);
    }
    assert!(!format!("{why:?}").contains(KEY), "the key is in {why:?}");
    assert!(!why.text.contains(['\n', '\u{1b}']), "{:?}", why.text);
    assert!(why.text.chars().count() < 800, "{} characters", why.text.chars().count());
    why
}

#[tokio::test]
async fn an_answer_is_read_with_its_usage_and_the_request_is_what_the_service_wants() {
    for kind in HTTP {
        let service = Service::start();
        service.script([Say::Stream(good(kind, "Please review src/a.rs 🙂 now"))]);
        let answer = told(&call_of(kind, &service.url)).await;
        assert_eq!(answer.text, "Please review src/a.rs 🙂 now");
        assert_eq!(answer.usage, Usage { input: 100, cached: 90, output: 12 }, "{kind:?}");
        assert!(answer.notes.is_empty());
        assert_eq!(answer.input, "the instructions \"quoted\"\nand rules\n\nthe answer ä 🙂");
        let seen = service.seen().remove(0);
        let body = seen.json();
        assert_eq!(
            (body["model"].as_str(), body["stream"].as_bool()),
            (Some("model-1"), Some(true))
        );
        assert_eq!(body["max_tokens"], 4096);
        if kind == ProviderKind::Anthropic {
            assert_eq!(seen.path, "/v1/messages");
            assert_eq!(seen.header("x-api-key"), Some(KEY));
            assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
            assert_eq!(body["system"][0]["text"], "the instructions \"quoted\"\nand rules");
            assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
            assert_eq!(body["messages"][0]["content"][0]["text"], "the answer ä 🙂");
            assert!(body["messages"][0]["content"][0].get("cache_control").is_none());
        } else {
            assert_eq!(seen.path, "/chat/completions");
            assert_eq!(seen.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
            assert_eq!(body["messages"][0]["role"], "system");
            assert_eq!(body["messages"][1]["content"], "the answer ä 🙂");
            assert_eq!(body["stream_options"]["include_usage"], true);
        }
    }
}

#[tokio::test]
async fn two_calls_are_the_same_byte_for_byte_up_to_what_differs() {
    for kind in HTTP {
        let service = Service::start();
        service.otherwise(Say::Stream(good(kind, "yes")));
        let mut call = call_of(kind, &service.url);
        call.stable = "rules ".repeat(500);
        for variable in ["one answer", "quite another answer"] {
            call.variable = variable.into();
            told(&call).await;
        }
        let bodies: Vec<String> = service.seen().iter().map(|s| s.text()).collect();
        let start = |n: usize, text: &str| bodies[n].find(text).expect("the variable part");
        let (one, two) = (start(0, "one answer"), start(1, "quite another"));
        assert_eq!(one, two, "{kind:?}");
        assert_eq!(bodies[0].as_bytes()[..one], bodies[1].as_bytes()[..two]);
        assert!(bodies[0][..one].contains(&call.stable), "the stable part comes after it");
        assert!(one > call.stable.len());
    }
}

#[tokio::test]
async fn a_service_that_does_not_stream_and_one_without_a_key_are_understood() {
    let service = Service::start();
    let message = serde_json::json!({"type": "message", "content": [{"type": "text", "text": "whole"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 4}});
    service.script([Say::json(message)]);
    let answer = told(&call_of(ProviderKind::Anthropic, &format!("{}/v1/", service.url))).await;
    assert_eq!((answer.text.as_str(), answer.usage.output), ("whole", 4));
    assert_eq!(service.seen()[0].path, "/v1/messages");
    let completion = serde_json::json!({"choices": [
        {"message": {"content": "<think>\nhm\n</think>\n\nwhole"}, "finish_reason": "stop"}]});
    service.script([Say::json(completion)]);
    let mut call = call_of(ProviderKind::Openai, &format!("{}/v1", service.url));
    call.spec.key_env = String::new();
    call.spec.headers = BTreeMap::from([("x-team".to_owned(), "blue".to_owned())]);
    assert_eq!(told(&call).await.text, "whole");
    let seen = service.seen().remove(1);
    assert_eq!((seen.path.as_str(), seen.header("authorization")), ("/v1/chat/completions", None));
    assert_eq!(seen.header("x-team"), Some("blue"));
}

#[tokio::test]
async fn a_refused_key_names_the_provider_and_where_the_key_is_from_and_is_not_tried_again() {
    for kind in HTTP {
        for status in [401, 403] {
            let service = Service::start();
            let echo =
                format!("{{\"error\": {{\"message\": \"wrong key\\u001b[31m {KEY}\\nindeed\"}}}}");
            service.script([Say::status(status, &echo)]);
            let call = call_of(kind, &service.url);
            fails(&call, "unauthorized", &[&status.to_string(), "MINE_KEY", "wrong key … indeed"])
                .await;
            assert_eq!(service.seen().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_wrong_url_a_wrong_model_and_a_refused_request_are_told_apart() {
    for kind in HTTP {
        let service = Service::start();
        let call = call_of(kind, &service.url);
        service.script([Say::status(404, "{\"error\": \"model not found\"}")]);
        fails(&call, "not_found", &["404", "model-1", &service.url, "model not found"]).await;
        let elsewhere = vec![("location", "https://elsewhere.example/".to_owned())];
        service.script([Say::Status(302, elsewhere, String::new())]);
        fails(&call, "not_found", &["redirects", "elsewhere.example"]).await;
        service.script([Say::status(400, "max_tokens too large")]);
        fails(&call, "bad_request", &["HTTP 400", "max_tokens too large"]).await;
        assert_eq!(service.seen().len(), 3, "none of it was tried again");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_and_said() {
    for kind in HTTP {
        let service = Service::start();
        let ok = || Say::Stream(good(kind, "fine"));
        for script in [
            vec![Say::status(429, "slow down"), Say::status(500, "oops"), ok()],
            vec![Say::status(529, "overloaded"), Say::Close, ok()],
        ] {
            let before = service.seen().len();
            service.script(script);
            let answer = told(&call_of(kind, &service.url)).await;
            assert_eq!((answer.text.as_str(), answer.notes.len()), ("fine", 2), "{answer:?}");
            assert!(answer.notes.iter().all(|n| n.starts_with("asked again: mine ")), "{answer:?}");
            let times: Vec<Instant> = service.seen()[before..].iter().map(|s| s.at).collect();
            assert!(times[1] - times[0] >= Duration::from_millis(500), "no pause");
            assert!(times[2] - times[1] >= Duration::from_millis(1000), "no longer pause");
        }
    }
}

#[tokio::test]
async fn a_call_is_tried_so_often_and_no_more() {
    for kind in HTTP {
        for (status, code) in [(429, "rate_limited"), (500, "server_error"), (529, "server_error")]
        {
            let service = Service::start();
            service.otherwise(Say::status(status, "no"));
            let mut call = call_of(kind, &service.url);
            call.spec.retries = Some(1);
            fails(&call, code, &[&format!("HTTP {status}"), "tried 2 times"]).await;
            assert_eq!(service.seen().len(), 2);
            call.spec.retries = Some(0);
            let why = fails(&call, code, &[]).await;
            assert!(!why.text.contains("tried"), "{why:?}");
            assert_eq!(service.seen().len(), 3);
        }
    }
}

#[tokio::test]
async fn retry_after_is_honoured_and_one_that_is_too_long_is_said() {
    for kind in HTTP {
        let service = Service::start();
        let after = |v: &str| Say::Status(429, vec![("retry-after", v.to_owned())], "wait".into());
        service.script([after("2"), Say::Stream(good(kind, "fine"))]);
        let call = call_of(kind, &service.url);
        told(&call).await;
        let times: Vec<Instant> = service.seen().iter().map(|s| s.at).collect();
        assert!(times[1] - times[0] >= Duration::from_secs(2), "{:?}", times[1] - times[0]);
        service.script([after("3600")]);
        fails(&call, "rate_limited", &["asks to wait for 3600 s", "at most 60 s"]).await;
        service.script([after("Fri, 31 Dec 9999 23:59:59 GMT")]);
        fails(&call, "rate_limited", &["at most 60 s"]).await;
        assert_eq!(service.seen().len(), 4);
        // A date that has passed: at once.
        service.script([after("Sun, 06 Nov 1994 08:49:37 GMT"), Say::Stream(good(kind, "fine"))]);
        told(&call).await;
        assert_eq!(service.seen().len(), 6);
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named_with_its_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for kind in HTTP {
        let mut call = call_of(kind, &url);
        call.spec.retries = Some(1);
        fails(&call, "no_connection", &[&url, "refused", "tried 2 times"]).await;
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for kind in HTTP {
        let service = Service::start();
        let whole = good(kind, "half an answer and");
        let half = &whole[..whole.len() * 2 / 3];
        for say in [Say::Cut(half.to_owned()), Say::Stream(half.to_owned())] {
            service.script([say]);
            fails(&call_of(kind, &service.url), "cut_off", &["broke off after"]).await;
        }
        assert_eq!(service.seen().len(), 2, "what was begun is not paid for twice");
        let event = match kind {
            ProviderKind::Anthropic => {
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
            }
            _ => "data: {\"error\":{\"message\":\"Overloaded\"}}\n\n",
        };
        service.script([Say::Stream(event.to_owned())]);
        fails(&call_of(kind, &service.url), "server_error", &["Overloaded"]).await;
    }
}

#[tokio::test]
async fn nonsense_is_named_with_what_was_expected_and_a_literal_excerpt() {
    for kind in HTTP {
        let service = Service::start();
        let call = call_of(kind, &service.url);
        let html =
            format!("<html>\u{1b}]0;x\u{7}<h1>It works!</h1> {KEY} {}</html>", "y".repeat(9000));
        let html = Say::Status(200, vec![("content-type", "text/html".into())], html);
        let other = Say::json(serde_json::json!({"hello": "there"}));
        let stream = Say::Stream("data: not json at all\n\n".into());
        for (say, said) in [(html, "It works!"), (other, "hello"), (stream, "not json at all")] {
            service.script([say]);
            fails(&call, "bad_answer", &["did not answer with a", said, &service.url]).await;
        }
        service.script([Say::status(200, "")]);
        fails(&call, "bad_answer", &["it said: nothing"]).await;
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_at_its_limit_or_refused_is_no_prompt() {
    for (kind, cut, refused) in [
        (ProviderKind::Anthropic, anthropic("half", "max_tokens"), anthropic("no", "refusal")),
        (ProviderKind::Openai, openai("half", "length"), openai("no", "content_filter")),
    ] {
        let service = Service::start();
        service.script([Say::Stream(cut), Say::Stream(refused)]);
        let call = call_of(kind, &service.url);
        let why = fails(&call, "too_long", &["max_tokens = 4096"]).await;
        assert_eq!(why.usage, Some(Usage { input: 100, cached: 90, output: 12 }));
        fails(&call, "refused", &["did not want to answer"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_ends_a_call_before_its_time_and_time_ends_one_that_drips() {
    for kind in HTTP {
        let service = Service::start();
        let mut call = call_of(kind, &service.url);
        call.spec.silence_ms = Some(400);
        let whole = good(kind, "the beginning and then nothing");
        for say in [Say::Silence, Say::Hang(whole[..whole.len() / 2].to_owned())] {
            service.script([say]);
            fails(&call, "silence", &["nothing for 0.4 s"]).await;
        }
        service.wait_gone(2);
        call.spec.timeout_ms = Some(1500);
        service.script([Say::Drip(Duration::from_millis(50))]);
        let begun = Instant::now();
        fails(&call, "timeout", &["within 1.5 s"]).await;
        assert!(begun.elapsed() >= Duration::from_millis(1500));
        service.wait_gone(3);
        assert_eq!(service.seen().len(), 3, "none of it was tried again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_hangs_up_at_once() {
    for kind in HTTP {
        let service = Service::start();
        let half = good(kind, "x").split_at(40).0.to_owned();
        for (n, say) in [Say::Silence, Say::Hang(half), Say::Drip(Duration::from_millis(50))]
            .into_iter()
            .enumerate()
        {
            service.script([say]);
            let call = call_of(kind, &service.url);
            let task = tokio::spawn(async move { ask(&call).await });
            let watch = service.clone();
            tokio::task::spawn_blocking(move || watch.wait_seen(n + 1)).await.unwrap();
            assert_eq!(service.gone(), n);
            task.abort();
            let watch = service.clone();
            let begun = Instant::now();
            tokio::task::spawn_blocking(move || watch.wait_gone(n + 1)).await.unwrap();
            assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        }
    }
}

#[tokio::test]
async fn a_missing_key_names_its_variable_and_a_key_can_come_from_a_program() {
    let service = Service::start();
    let mut call = call_of(ProviderKind::Anthropic, &service.url);
    call.spec.key_env = "NO_SUCH_KEY_ANYWHERE".into();
    fails(&call, "no_key", &["NO_SUCH_KEY_ANYWHERE is not set"]).await;
    call.env.insert("NO_SUCH_KEY_ANYWHERE".into(), "  ".into());
    fails(&call, "no_key", &["NO_SUCH_KEY_ANYWHERE is not set"]).await;
    call.env.insert("NO_SUCH_KEY_ANYWHERE".into(), "two\nlines".into());
    fails(&call, "no_key", &["characters that no header can hold"]).await;
    assert!(service.seen().is_empty());

    let program = |script: &str| vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
    call.spec.key_command = program(&format!("echo {KEY}; echo more"));
    service.script([Say::Stream(good(ProviderKind::Anthropic, "fine"))]);
    told(&call).await;
    assert_eq!(service.seen()[0].header("x-api-key"), Some(KEY));
    service.script([Say::status(401, KEY)]);
    fails(&call, "unauthorized", &["the output of sh (key_command)"]).await;
    call.spec.key_command = program(&format!("echo {KEY} >&2; exit 3"));
    fails(&call, "no_key", &["key_command sh failed", "3"]).await;
    call.spec.key_command = program("true");
    fails(&call, "no_key", &["printed nothing"]).await;
    call.spec.key_command = vec!["no-such-program-anywhere".into()];
    fails(&call, "no_key", &["no-such-program-anywhere cannot be started"]).await;
}

fn command(folder: &Path, script: &str) -> Call {
    let mut call = call_of(ProviderKind::Command, "");
    call.spec.command = vec!["sh".into(), "-c".into(), script.into()];
    (call.spec.key_env, call.spec.model) = (String::new(), String::new());
    call.spec.silence_ms = None;
    call.folder = PathBuf::from(folder);
    call
}

#[tokio::test]
async fn a_program_gets_the_prompt_and_its_output_is_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let script = "cat; pwd; echo \"[$MADO_AGENT_ID]\"; echo noise >&2";
    let answer = told(&command(dir.path(), script)).await;
    let here = dir.path().canonicalize().unwrap();
    let expected = format!("{}{}\n[]", answer.input, here.display());
    assert_eq!(answer.text, expected, "the prompt, an empty folder, none of mado's variables");
    // One that does not read its input does as well, however long that is.
    let mut call = command(dir.path(), "echo done");
    call.variable = "x".repeat(1 << 20);
    assert_eq!(told(&call).await.text, "done");
}

#[tokio::test]
async fn a_program_that_fails_says_how() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fails(
        &command(at, "echo half; echo 'not \u{1b}[1mlogged in' >&2; exit 7"),
        "command_failed",
        &["sh failed", "7", "not logged in"],
    )
    .await;
    fails(&command(at, "kill -9 $$"), "command_failed", &["signal: 9"]).await;
    fails(&command(at, "echo hm >&2"), "bad_answer", &["printed nothing", "hm"]).await;
    fails(&command(at, "yes"), "too_long", &["200000 characters"]).await;
    let mut call = command(at, "");
    call.spec.command = vec!["no-such-program-anywhere".into()];
    fails(&call, "no_command", &["no-such-program-anywhere is not found"]).await;
    let mut call = command(at, "echo beginning; sleep 100");
    call.spec.timeout_ms = Some(800);
    fails(&call, "timeout", &["within 0.8 s"]).await;
    call.spec.silence_ms = Some(300);
    fails(&call, "silence", &["nothing for 0.3 s"]).await;
}

fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // A zombie that nobody has waited for yet does nothing any more.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn pids(file: &Path) -> Vec<String> {
    wait("the pids", || {
        let text = std::fs::read_to_string(file).ok()?;
        let pids: Vec<String> = text.lines().map(str::to_owned).collect();
        (pids.len() == 2 && text.ends_with('\n')).then_some(pids)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_called_off_is_gone_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let call = command(dir.path(), "sleep 1000 & echo $! > p; echo $$ >> p; mv p pids; wait");
    let task = tokio::spawn(async move { ask(&call).await });
    let pids = pids(&dir.path().join("pids"));
    assert!(pids.iter().all(|p| runs(p)), "{pids:?}");
    task.abort();
    wait("its process group to be gone", || (!pids.iter().any(|p| runs(p))).then_some(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_leaves_something_running_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let script = "sleep 1000 & echo $! > p; echo $$ >> p; mv p pids; echo the answer";
    let answer = told(&command(dir.path(), script)).await;
    assert_eq!(answer.text, "the answer");
    let left = pids(&dir.path().join("pids")).remove(0);
    wait("what it left to be gone", || (!runs(&left)).then_some(()));
}
