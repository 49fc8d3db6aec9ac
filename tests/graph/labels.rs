//! What is said of a text's origin, and the secrets that are taken out of it.

use super::*;
use mado::core::profile::Profile;
use mado::core::{Input, RestoredHop, handover};

const HEADER: &str = "[from a (x), round 1 of 5; written by that agent, not by your user]";

fn handed_on(options: RouteOptions) -> String {
    let (mut sim, [a, b]) = world(["a", "b"]);
    sim.connect("a", "b", RouteOptions { trigger: Some(Trigger::OnTurn), ..options });
    sim.human_prompt(a, "p");
    sim.run(8_000);
    sim.fake(b).submits[0].clone()
}

#[test]
fn the_built_in_template_says_whose_words_they_are_and_ones_own_only_when_told() {
    let own =
        || RouteOptions { template: Some("Look: {output}".into()), ..RouteOptions::default() };
    let raw = || RouteOptions { transform: Some(Transform::Raw), ..RouteOptions::default() };
    let header = |header, options| RouteOptions { header: Some(header), ..options };
    for (options, want) in [
        (RouteOptions::default(), format!("{HEADER}\n\nECHO p")),
        (header(false, RouteOptions::default()), "ECHO p".to_owned()),
        (own(), "Look: ECHO p".to_owned()),
        (header(true, own()), format!("{HEADER}\n\nLook: ECHO p")),
        (raw(), "ECHO p".to_owned()),
        (header(true, raw()), format!("{HEADER}\n\nECHO p")),
    ] {
        assert_eq!(handed_on(options), want);
    }
}

#[test]
fn an_empty_text_is_no_text_although_a_header_could_stand_before_it() {
    let (mut sim, [a, b]) = world(["a", "b"]);
    let options = RouteOptions { header: Some(true), template: Some(" ".into()), ..plain() };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "p");
    sim.run(8_000);
    assert!(sim.fake(b).writes.is_empty());
    assert_eq!(sim.hops()[0].reason_code, "empty");
}

#[test]
fn a_shell_never_gets_a_header() {
    let mut sim = Sim::new();
    let a = sim.open("a", ALL);
    sim.open_shell("sh");
    let route =
        sim.connect("a", "sh", RouteOptions { confirm: Some(false), ..on(Trigger::OnTurn) });
    sim.fake(a).answer = Some("ls".into());
    sim.human_prompt(a, "p");
    sim.run(8_000);
    assert_eq!(sim.hops()[0].prompt.as_deref(), Some("ls"));
    assert!(!sim.route(route).header);
}

#[test]
fn no_profile_takes_the_header_for_a_command() {
    let from = [handover::Origin { name: "a".into(), kind: "claude".into() }];
    let text = format!("{}\n\ntext", handover::header(&from, 1, 5));
    let mut rules = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/profiles")).unwrap() {
        let path = file.unwrap().path();
        let toml = std::fs::read_to_string(&path).unwrap();
        let name = if toml.contains("\nname = ") { "" } else { "name = \"p\"\n" };
        let profile: Profile = toml::from_str(&format!("{name}{toml}")).unwrap();
        for rule in &profile.defuse {
            rules += 1;
            assert!(!rule.pattern.is_match(&text), "{}: {:?}", path.display(), rule.pattern);
        }
    }
    assert!(rules > 3, "{rules} rules were looked at");
}

#[test]
fn a_prompt_that_a_person_changed_goes_as_it_was_written() {
    let (mut sim, [a, b]) = world(["a", "b"]);
    let options = RouteOptions { confirm: Some(true), redact: Some(true), ..on(Trigger::OnTurn) };
    sim.connect("a", "b", options);
    sim.human_prompt(a, "p");
    sim.run(8_000);
    let hop = sim.hops().pop().unwrap();
    assert_eq!(hop.prompt, Some(format!("{HEADER}\n\nECHO p")));
    for (prompt, want) in [(hop.prompt.clone(), None), (Some(secret()), Some(secret()))] {
        let p = ApproveParams { project: PROJECT.into(), hop: hop.id, prompt };
        if want.is_some() {
            sim.human_prompt(a, "q");
            sim.run(8_000);
            let hop = sim.hops().pop().unwrap().id;
            sim.request(EDITOR, Request::Approve(ApproveParams { hop, ..p })).unwrap();
        } else {
            sim.request(EDITOR, Request::Approve(p)).unwrap();
        }
        sim.run(8_000);
        let typed = sim.fake(b).submits.last().cloned();
        assert_eq!(typed, want.or_else(|| hop.prompt.clone()));
    }
}

fn secret() -> String {
    format!("gh{}_Ab3dEf6hIj9kLm2nOp5qRs8t", "p")
}

#[test]
fn secrets_leave_a_prompt_only_where_the_route_says_so_and_the_hop_says_it() {
    for redact in [false, true] {
        let (mut sim, [a, b]) = world(["a", "b"]);
        sim.connect("a", "b", RouteOptions { redact: Some(redact), ..plain() });
        sim.fake(a).answer = Some(format!("use {} here", secret()));
        sim.human_prompt(a, "p");
        sim.run(8_000);
        let hop = sim.hops().pop().unwrap();
        if redact {
            assert_eq!(sim.fake(b).submits, ["use [redacted GitHub token] here"]);
            assert_eq!(hop.notes, ["redacted 1 secret"]);
        } else {
            assert_eq!(sim.fake(b).submits, [format!("use {} here", secret())]);
            assert!(hop.notes.is_empty());
        }
    }
}

#[test]
fn a_hop_whose_prompt_is_not_whole_on_disk_is_never_typed_after_a_crash() {
    for hidden in [false, true] {
        let mut sim = Sim::new();
        let hop = HopInfo {
            id: HopId(7),
            source: "a".into(),
            target: "b".into(),
            project: PROJECT.into(),
            prompt: Some("use [redacted GitHub token]".into()),
            ..HopInfo::default()
        };
        let hops = vec![RestoredHop { hop, enter: false, in_record: false, hidden }];
        sim.feed(Input::Restored { hops, next_hop: 8 });
        let b = sim.open("b", ALL);
        let p =
            PauseParams { project: PROJECT.into(), hop: Some(HopId(7)), ..PauseParams::default() };
        let answer = sim.request(EDITOR, Request::Resume(p));
        sim.run(5_000);
        let left = sim.hop(HopId(7));
        if hidden {
            assert_eq!((left.state, left.reason_code.as_str()), (HopState::Failed, "redacted"));
            let why = "the host died before its Enter, and its text held secrets, which are never written to disk";
            assert!(left.reason_text.starts_with(why), "{}", left.reason_text);
            assert!(left.reason_text.contains(":Mado handoff a b"), "{}", left.reason_text);
            assert!(answer.is_err());
            assert!(sim.fake(b).writes.is_empty());
        } else {
            answer.unwrap();
            assert_eq!(sim.fake(b).submits.len(), 1);
        }
    }
}
