//! The main job: two agents in one working directory, one routed into the other, again and again.

use crate::claudes::Claudes;
use crate::common::claude;
use crate::common::mock::Reply;
use crate::world::lines;
use serde_json::{Value, json};
use std::time::Duration;

/// Answers that a careless hand would cut, wrap or run.
fn answer(n: usize) -> String {
    match n % 4 {
        0 => format!("answer {n}"),
        1 => format!("answer {n}\n\n    indented 日本語 🙂\n- a list\n- its end"),
        2 => format!("/help is no command here, {{round}} stays, see @file{n}"),
        _ => format!(
            "answer {n}: {}",
            "a longer line that wraps at the edge of the screen ".repeat(4).trim()
        ),
    }
}

/// `n` answers of `a` go to `b` by a route with these options; each arrives wrapped, once, and is the
/// answer of the turn that fired.
async fn answers_arrive(n: usize, options: Value, vars: &[(&str, &str)]) -> Claudes {
    answers_arrive_until(n, options, vars, |_| false).await
}

/// The same, done earlier when `enough` says so.
async fn answers_arrive_until(
    n: usize,
    options: Value,
    vars: &[(&str, &str)],
    enough: impl Fn(&Claudes) -> bool,
) -> Claudes {
    let c = Claudes::new(&claude::binary(), vars).await;
    let (a, b) = (c.open("a", &[]), c.open("b", &[]));
    let w = &c.world;
    let mut all = json!({
        "transform": "prompt-wrap", "template": "{source} said ({round}/{maxRounds}):\n{output}",
        "cooldown_ms": 1000,
    });
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let route = w.connect("a", "b", all);
    for i in 0..n {
        a.script(vec![Reply::text(answer(i))]);
        let sent = w.send("a", &format!("question {i}"));
        w.wait_state(sent, "answered");
        let hop = w.wait_route_hop(route, i + 1, "answered");
        assert_eq!(hop["answer"], answer(i), "the answer of turn {i}");
        let turn = hop["turn"].as_str().expect("the turn is named");
        assert_eq!(w.hop(sent)["answered_by"], turn, "of the very turn that was asked for");
        let wrapped = format!("a said (1/5):\n{}", answer(i));
        let arrived = b.prompts();
        assert_eq!(arrived.len(), i + 1, "{}", c.mock.describe());
        assert_eq!(arrived[i], wrapped);
        if enough(&c) {
            break;
        }
    }
    let n = a.prompts().len();
    w.never("one more", Duration::from_millis(500), || b.prompts().len() > n);
    assert_eq!(b.prompts().len(), n);
    c
}

#[tokio::test]
async fn real_claude_each_answer_arrives_wrapped_once_on_turn() {
    let c = answers_arrive(4, json!({"trigger": "on-turn"}), &[]).await;
    c.world.stop_and_replay();
}

#[tokio::test]
async fn real_claude_an_answer_arrives_after_eight_seconds_of_silence_on_idle() {
    let c = answers_arrive(1, json!({"trigger": "on-idle"}), &[]).await;
    // Counted from the end of the turn on.
    let hops = c.world.hops();
    let at = |n: usize, key: &str| hops[n]["times"][key].as_u64().unwrap();
    let silence = at(1, "fired") - at(0, "answered");
    assert!((7_500..12_000).contains(&silence), "fired {silence} ms after the answer");
}

#[tokio::test]
#[ignore = "long: 20 turns"]
async fn real_claude_twenty_answers_arrive_wrapped_once_on_turn() {
    answers_arrive(20, json!({"trigger": "on-turn"}), &[]).await;
}

#[tokio::test]
#[ignore = "long: 20 turns with 8 s of silence each"]
async fn real_claude_twenty_answers_arrive_wrapped_once_on_idle() {
    answers_arrive(20, json!({"trigger": "on-idle"}), &[]).await;
}

/// Whether the last turn of the first agent ended with its Stop hook before (`Less`) or after its
/// record's answer, by the trace.
fn hook_against_record(c: &Claudes) -> std::cmp::Ordering {
    let trace = lines(&c.world.site.path().join("trace.jsonl"));
    let last = |key: &str, event: &str| {
        let is = |step: &&Value| {
            let input = &step["input"][key];
            input["agent"] == 1 && input["event"].get(event).is_some()
        };
        let found = trace.iter().rfind(is).unwrap_or_else(|| panic!("no {event} in the trace"));
        found["now"]["mono"].as_u64().unwrap()
    };
    last("hook", "stop").cmp(&last("record", "answer"))
}

#[tokio::test]
async fn real_claude_the_turns_own_answer_goes_out_whether_hook_or_record_comes_first() {
    let on_turn = || json!({"trigger": "on-turn"});
    // By itself the hook comes first, about 100 ms; a busy machine may delay its process now and then.
    let first = |c: &Claudes| hook_against_record(c).is_lt();
    let c = answers_arrive_until(10, on_turn(), &[], first).await;
    assert!(first(&c), "the hook never came first");
    drop(c);
    let late = [("MADO_TIMING", "hook_delay_ms=1500")];
    let c = answers_arrive(2, on_turn(), &late).await;
    assert!(hook_against_record(&c).is_gt(), "held back, the hook came first");
}

#[tokio::test]
async fn real_claude_two_agents_in_a_ring_stop_visibly_at_the_limit() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let (a, b) = (c.open("a", &[]), c.open("b", &[]));
    let w = &c.world;
    let options = json!({
        "trigger": "on-turn", "max_rounds": 2, "cooldown_ms": 1000,
        "template": "round {round} of {maxRounds}: {output}",
    });
    let both = json!({"source": "a", "target": "b", "both": true, "options": options});
    let routes = w.ask("connect", both);
    let (forth, back) = (routes[0]["id"].as_u64().unwrap(), routes[1]["id"].as_u64().unwrap());
    w.send("a", "MOCK:say begin");
    let stopped = w.wait("a route to stop", || {
        [forth, back].map(|r| w.route(r)).into_iter().find(|r| r["state"] == "stopped")
    });
    assert_eq!(stopped["reason_code"], "max_rounds");
    assert!(stopped["reason_text"].as_str().unwrap().contains("2 rounds are done"), "{stopped}");
    w.wait("rest", || {
        let rest = ["a", "b"].iter().all(|n| w.agent(n)["phase"] == "idle");
        (rest && w.hops().iter().all(|h| h["state"] != "submitted" && h["state"] != "accepted"))
            .then_some(())
    });
    assert_eq!((a.prompts().len(), b.prompts().len()), (3, 2), "{}", c.mock.describe());
    let stops: Vec<Value> = w.hops().into_iter().filter(|h| h["state"] == "stopped").collect();
    assert_eq!(stops.len(), 1, "one visible stop: {stops:?}");
    w.stop_and_replay();
}
