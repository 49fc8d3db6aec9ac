//! The text itself: what arrives at the receiver is what was meant, byte for byte.
#![allow(clippy::pedantic, reason = "style lints are for the product")]

use crate::world::World;
use serde_json::json;

/// Everything between paste marks, and everything outside of them.
fn pasted(bytes: &[u8]) -> (Vec<String>, String) {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (mut inside, mut outside) = (Vec::new(), String::new());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[200~") {
        outside.push_str(before);
        let (paste, after) = after.split_once("\u{1b}[201~").expect("every paste ends");
        inside.push(paste.to_owned());
        rest = after;
    }
    outside.push_str(rest);
    // Replies to the queries that the agent sent at its start.
    let keys = outside.split_once("$y").map_or(outside.clone(), |(_, keys)| keys.to_owned());
    (inside, keys)
}

#[test]
fn control_bytes_of_an_answer_never_reach_the_receiver_and_the_hop_says_so() {
    let w = World::new(&[]);
    let _a = w.demo("a", &["--think", "0"]);
    let b = w.demo("b", &["--think", "0"]);
    let route = w.connect("a", "b", json!({"trigger": "on-turn", "template": "{output}"}));
    w.send("a", "DEMO:escape");
    let hop = w.wait_route_hop(route, 1, "answered");
    // The answer as the record holds it has a paste's end with a carriage return, an OSC 52, C1, NUL
    // and bidi controls.
    let answer = hop["answer"].as_str().unwrap();
    for bad in ["\u{1b}[201~\r", "\u{1b}]52;", "\u{9b}", "\0", "\u{202e}", "\u{2066}"] {
        assert!(answer.contains(bad), "the test needs {bad:?} in {answer:?}");
    }
    let expected = "Answer 1 from a: ab c d e f g";
    assert_eq!(b.wait_submits(1), [expected]);
    let (pastes, keys) = pasted(&b.bytes());
    assert_eq!(pastes, [expected]);
    assert_eq!(keys, "\r", "nothing but the Enter was typed outside of the paste");
    let notes = hop["notes"].to_string();
    assert!(notes.contains("removed from the text"), "{notes}");
    assert_eq!(hop["prompt"], expected);
    w.stop_and_replay();
}

#[test]
fn a_text_that_the_receiver_would_run_or_complete_arrives_as_text() {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "0"]);
    let texts = ["/exit", "!rm -rf x", "#note", "look at @file", "  /help me", "plain"];
    for (n, text) in texts.into_iter().enumerate() {
        let hop = w.send("a", text);
        w.wait_state(hop, "answered");
        assert_eq!(a.submits().len(), n + 1, "{text} was submitted once");
        assert_eq!(a.submits()[n].trim(), text.trim(), "{text}");
    }
    for key in ["shell", "command", "complete"] {
        assert!(a.all(key).is_empty(), "{key}: {:?}", a.all(key));
    }
}

#[test]
fn lines_with_a_final_newline_are_one_prompt_typed_50_to_80_ms_apart() {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "0"]);
    let text = "first\n    second, indented\n\nfourth\n\n";
    let hop = w.send("a", text);
    w.wait_state(hop, "answered");
    // One more prompt shows that nothing of the first was left to be submitted.
    let next = w.send("a", "after");
    w.wait_state(next, "answered");
    assert_eq!(a.submits(), [text.trim_end(), "after"]);
    assert!(a.all("empty_enter").is_empty());
    let reads = a.reads();
    let lines: Vec<f64> = reads
        .iter()
        .filter(|(_, bytes)| bytes.starts_with(b"\x1b[200~"))
        .map(|(at, _)| *at)
        .take(4)
        .collect();
    for pair in lines.windows(2) {
        let gap = pair[1] - pair[0];
        // A read may come late on a busy machine, never early: the least that may be seen is the
        // least gap minus how late the first one was.
        assert!((40.0..400.0).contains(&gap), "lines came {gap} ms apart: {lines:?}");
    }
    let mean = (lines[3] - lines[0]) / 3.0;
    assert!((50.0..110.0).contains(&mean), "lines came {mean} ms apart on average: {lines:?}");
    let enter = reads.iter().find(|(_, bytes)| bytes == b"\r").expect("an Enter").0;
    assert!(enter - lines[3] >= 499.0, "Enter came {} ms after the text", enter - lines[3]);
}

#[test]
fn twenty_five_lines_of_wide_and_joined_characters_arrive_byte_identical() {
    let w = World::new(&[]);
    let a = w.demo("a", &["--think", "0"]);
    let kinds = [
        "日本語の文章、漢字とカナ",
        "e\u{301}a\u{308}o\u{302}\u{301} combining",
        "👩‍👩‍👧‍👦 👩‍💻 👍🏽 🇯🇵 joined",
        "한국어 \u{1112}\u{1161}\u{11ab} हिन्दी ไทย",
        "    indented 幅 wide",
    ];
    let lines: Vec<String> = (1..=25).map(|n| format!("{n:02} {}", kinds[n % 5])).collect();
    let text = lines.join("\n");
    for deliver in ["lines", "paste"] {
        let before = a.bytes().len();
        let params = json!({"target": "a", "text": text, "deliver": deliver});
        let hop = w.ask("send", params)["id"].as_u64().unwrap();
        w.wait_state(hop, "answered");
        assert_eq!(a.submits().last(), Some(&text), "{deliver}");
        let bytes = a.bytes()[before..].to_vec();
        let (pastes, keys) = pasted(&bytes);
        assert_eq!(pastes.concat(), text, "{deliver}");
        assert_eq!(pastes.len(), if deliver == "paste" { 1 } else { 25 });
        assert_eq!(keys, "\r", "{deliver}");
    }
}

#[test]
fn a_keyword_cut_by_reads_wrapped_at_the_edge_and_coloured_is_found_once() {
    let w = World::new(&[]);
    // Screen text alone, so that the terminal is what the keyword is found in.
    let screen_only = json!({"records": {"dialect": "none"}, "evidence": {"rungs": ["screen"]}});
    let open = |name: &str, args: &[&str]| {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let profile = Some(screen_only.clone());
        w.open("demo", name, crate::world::Open { args, profile, ..Default::default() });
        w.wait_phase(name, "idle");
    };
    open("a", &["--think", "0"]);
    let b = w.demo("b", &["--think", "0"]);
    let options = json!({
        "trigger": "on-keyword", "pattern": "keyword, reversed", "template": "got: {output}",
        "cooldown_ms": 1000,
    });
    let route = w.connect("a", "b", options);
    // Coloured inside: `key` plain, `word` blue, `reversed` reversed.
    w.send("a", "DEMO:ansi");
    w.wait_route_hop(route, 1, "answered");
    // Word by word, so that it comes in several reads; long enough to be wrapped at the edge.
    let filler = "x".repeat(96);
    w.send("a", &format!("DEMO:gap 30 DEMO:say {filler} and the keyword, reversed, ends it"));
    let hop = w.wait_route_hop(route, 2, "answered");
    assert!(hop["prompt"].as_str().unwrap().ends_with("keyword, reversed"), "{hop}");
    // Neither a repaint nor the echo of a prompt that quotes it counts.
    w.send("a", "say keyword, reversed DEMO:say something else");
    w.wait("the third turn", || w.screen("a").contains("something else").then_some(()));
    w.wait_phase("a", "idle");
    let person = w.viewer("a");
    person.resize(30, 100);
    person.write("x\x15");
    w.never("a third hop", std::time::Duration::from_secs(2), || w.hops_of(route).len() > 2);
    assert_eq!(b.submits().len(), 2);
}
