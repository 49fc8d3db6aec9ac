//! The whole host with the real Claude Code: two agents in one directory, one routed into the other.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation fails the test")]

mod common;
#[path = "common/host.rs"]
mod host;

use common::claude;
use common::mock::{Mock, Reply, echo_of};
use host::Site;
use std::path::Path;

/// Two agents of one version in one working directory, each with a mock of its own.
async fn routed(binary: &Path) {
    let mock = Mock::start().await;
    let mut site = Site::new();
    let trace = site.path().join("trace");
    site.set("MADO_TRACE", trace.to_str().unwrap());
    let work = site.work();
    let home = claude::home(&[&work]);
    let bin = site.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(binary, bin.join("claude")).unwrap();
    for name in ["a", "b"] {
        let mut env = claude::claude_env(home.path(), &mock.url_for(name));
        let path = format!("{}:{}", bin.display(), env["PATH"]);
        env.insert("PATH".into(), path);
        site.open_with("claude", name, &env, &[]);
    }
    site.ok(&["connect", "a", "b", "trigger=on-turn", "template=Review: {output}"]);
    mock.agent("a").script(vec!["the first answer".into(), Reply::text("second\nanswer")]);
    for (round, (prompt, answer)) in
        [("do it", "the first answer"), ("again", "second\nanswer")].into_iter().enumerate()
    {
        let sent = site.json(&["send", "a", prompt, "--json"])[0]["id"].to_string();
        site.ok(&["wait", &format!("hop={sent}"), "--timeout", "60s"]);
        let hop = sent.parse::<u64>().unwrap() + 1;
        let ran = site.run(&["wait", &format!("hop={hop}"), "--timeout", "60s", "--json"]);
        assert!(ran.ok, "{ran:?}\n{}", site.ok(&["log", "--hop", &hop.to_string()]));
        let hop = &ran.json()[0];
        let wrapped = format!("Review: {answer}");
        assert_eq!(mock.agent("b").prompts()[round], wrapped, "{}", mock.describe());
        assert_eq!(hop["prompt"], wrapped);
        assert_eq!(hop["answer"], answer);
        assert!(hop["turn"].is_string(), "{hop}");
        let shown = site.ok(&["answer", "b"]);
        assert_eq!(shown.trim_end(), echo_of(&wrapped));
    }
    assert_eq!(mock.agent("a").prompts(), ["do it", "again"]);
    assert_eq!(mock.agent("b").prompts().len(), 2);
    // The hook rung spoke, and by the ancestry of its process for the right agent.
    let text = std::fs::read_to_string(&trace).unwrap();
    for agent in [1, 2] {
        let hook = format!("{{\"hook\":{{\"agent\":{agent},\"event\":{{\"stop\"");
        assert!(text.contains(&hook), "no Stop hook of agent {agent}");
    }
    // Started again, it goes on in its session.
    let session = |site: &Site| site.json(&["ls", "--json"])[0]["session"].clone();
    let before = session(&site);
    assert!(before.is_string());
    site.ok(&["restart", "a"]);
    site.ok(&["wait", "agent=a", "phase=idle", "--timeout", "60s"]);
    assert_eq!(session(&site), before);
    assert_eq!(site.ok(&["answer", "a"]).trim_end(), "second\nanswer");
    assert_eq!(mock.agent("a").prompts().len(), 2, "the restart sent something");
    site.ok(&["stop"]);
    let replayed = site.ok(&["replay", trace.to_str().unwrap()]);
    assert!(replayed.contains("the same effects"), "{replayed}");
}

#[tokio::test]
async fn real_claude_is_routed_into_a_second_one_in_the_same_directory() {
    routed(&claude::binary()).await;
}

#[tokio::test]
async fn real_claude_of_the_older_version_is_routed_as_well() {
    routed(&claude::old_binary()).await;
}
