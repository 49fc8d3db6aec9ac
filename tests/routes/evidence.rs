//! What mado knows of a real agent: each rung of the ladder alone, and what changes under way.

use crate::claudes::Claudes;
use crate::common::claude;
use crate::common::mock::{Matcher, Reply};
use serde_json::json;
use std::fs;
use std::time::Duration;

#[tokio::test]
async fn real_claude_each_rung_alone_is_enough() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    let b = c.open("b", &[]);
    for (n, rung) in ["hook", "record", "status", "title", "screen"].into_iter().enumerate() {
        let name = format!("a-{rung}");
        c.begin(&name, &[], Some(json!({"evidence": {"rungs": [rung]}})));
        w.wait_phase(&name, "idle");
        // The title and the screen are no record of the agent's own, so `on-turn` does not take them.
        let weak = matches!(rung, "title" | "screen");
        let options = if weak {
            json!({"trigger": "on-idle", "idle_ms": 1500, "template": "<{output}>"})
        } else {
            json!({"trigger": "on-turn", "template": "<{output}>"})
        };
        let route = w.connect(&name, "b", options);
        let answer = format!("answer by {rung}");
        c.mock.agent(&name).script(vec![Reply::text(answer.as_str())]);
        let sent = w.send(&name, "a question");
        w.wait_state(sent, "answered");
        let hop = w.wait_route_hop(route, 1, "answered");
        assert_eq!(hop["rung"], rung, "{hop}");
        assert!(hop["answer"].as_str().unwrap().contains(&answer), "{hop}");
        assert_eq!(b.prompts().len(), n + 1);
        assert!(b.prompts()[n].contains(&answer), "{:?}", b.prompts());
        assert!(!b.prompts()[n].contains("Worked for"), "{:?}", b.prompts());
        w.ask("close", json!({"agent": name}));
    }
}

#[tokio::test]
async fn real_claude_is_followed_through_clear_and_resume() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    let (a, b) = (c.open("a", &[]), c.open("b", &[]));
    let options = json!({"trigger": "on-turn", "template": "{output}", "cooldown_ms": 1000});
    let route = w.connect("a", "b", options);
    let turn = |n: usize, answer: &str| {
        a.script(vec![Reply::text(answer)]);
        let sent = w.send("a", &format!("question {n}"));
        w.wait_state(sent, "answered");
        let hop = w.wait_route_hop(route, n, "answered");
        assert_eq!(hop["answer"], answer);
        assert_eq!(b.prompts().last().unwrap(), answer);
        w.agent("a")["session"].as_str().expect("a session").to_owned()
    };
    let first = turn(1, "before the clear");
    let person = w.viewer("a");
    person.write("/clear");
    person.wait_text("❯\u{a0}/clear", crate::world::PATIENCE).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    person.write("\r");
    w.wait("a new session", || {
        w.agent("a")["session"].as_str().is_some_and(|s| s != first).then_some(())
    });
    w.wait_phase("a", "idle");
    let second = turn(2, "after the clear");
    assert_ne!(first, second);
    w.restart("a");
    let route_again = w.route(route);
    if route_again["state"] == "stopped" {
        w.ask("resume", json!({"route": route.to_string()}));
    }
    let third = turn(3, "after the resume");
    assert_eq!(second, third, "its own session was resumed");
    assert_eq!(a.prompts().len(), 3);
}

#[tokio::test]
async fn real_claude_with_its_folder_elsewhere_and_settings_of_its_own_is_followed_as_well() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    let elsewhere = c.home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let config = ".claude.json";
    fs::rename(c.home.path().join(config), elsewhere.join(config)).unwrap();
    let mut env = c.env("a");
    env.insert("CLAUDE_CONFIG_DIR".into(), elsewhere.display().to_string());
    let called = w.site.path().join("called");
    let own = json!({"hooks": {"Stop": [{"hooks": [
        {"type": "command", "command": format!("touch {}", called.display())}
    ]}]}});
    c.begin_in("a", env, &["--settings", &own.to_string()], None);
    w.wait_phase("a", "idle");
    let sent = w.send("a", "MOCK:say from elsewhere");
    w.wait_state(sent, "answered");
    let answer = w.ask("answer", json!({"agent": "a"}));
    assert_eq!(answer["text"], "from elsewhere");
    assert_eq!(w.agent("a")["rung"], "hook");
    w.wait("the user's own hook", || called.exists().then_some(()));
    assert!(!c.home.path().join(".claude").exists(), "nothing is where it usually is");
}

#[tokio::test]
async fn real_claude_a_background_task_keeps_its_turn_open() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    let a = c.open("a", &["--allowed-tools", "Bash"]);
    let b = c.open("b", &[]);
    let options = json!({"trigger": "on-idle", "idle_ms": 500, "template": "{output}"});
    let route = w.connect("a", "b", options);
    let go = w.site.path().join("go");
    let command = format!("while [ ! -e {} ]; do sleep 0.2; done", go.display());
    let tool = Reply::Tool {
        name: "Bash".into(),
        input: json!({"command": command, "description": "wait", "run_in_background": true}),
    };
    // The last is for the turn that the task's end begins by itself.
    a.script(vec![tool, "it runs in the background".into(), "the background task is done".into()]);
    let sent = w.send("a", "start it");
    w.wait_screen("a", "the first part", |s| s.contains("it runs in the background"));
    w.wait("it to rest", || {
        let agent = w.agent("a");
        (agent["reason_code"] == "background").then_some(())
    });
    w.never("a hop while it runs", Duration::from_secs(3), || {
        !w.hops_of(route).is_empty() || w.agent("a")["phase"] != "busy"
    });
    fs::write(go, "").unwrap();
    let hop = w.wait_route_hop(route, 1, "answered");
    assert_eq!(hop["answer"], "the background task is done");
    assert_eq!(b.prompts(), ["the background task is done"]);
    w.wait_state(sent, "answered");
}

#[tokio::test]
async fn real_claude_a_failed_and_an_interrupted_turn_stop_their_hops_with_the_reason() {
    let c = Claudes::new(&claude::binary(), &[]).await;
    let w = &c.world;
    let mut env = c.env("a");
    env.insert("CLAUDE_CODE_MAX_RETRIES".into(), "1".into());
    c.begin_in("a", env, &[], None);
    w.wait_phase("a", "idle");
    let (a, b) = (c.mock.agent("a"), c.open("b", &[]));
    let options = json!({"trigger": "on-turn", "template": "{output}", "cooldown_ms": 1000});
    let route = w.connect("a", "b", options);
    a.on(Matcher::Equals("fail".into()), Reply::Error { status: 529, times: u32::MAX });
    w.broken_turns_stop_their_hops("a", route, "529");
    assert_eq!(b.prompts(), ["well again"]);
    w.stop_and_replay();
}
