//! A project's file taken over by the core: all of it, or nothing.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

mod sim;

use mado::proto::*;
use sim::{ALL, EDITOR, PROJECT, Sim, on};

fn load(sim: &mut Sim, text: &str) -> Result<LoadReply, ErrorInfo> {
    let p = LoadParams {
        project: PROJECT.into(),
        path: "routes.json".into(),
        text: String::new(),
        file: Some(mado::host::project_file::read("routes.json", text)?),
        provider: sim.providers.contains_key("usual").then(|| "usual".to_owned()),
        providers: sim.providers.clone(),
    };
    let Reply::Data(data) = sim.request(EDITOR, Request::Load(p))? else { panic!() };
    Ok(serde_json::from_value(data).unwrap())
}

fn save(sim: &mut Sim) -> String {
    let p = ScopeParams { project: PROJECT.into() };
    let Ok(Reply::Data(data)) = sim.request(EDITOR, Request::Save(p)) else { panic!() };
    data["text"].as_str().unwrap().to_owned()
}

fn pair() -> (Sim, AgentId, AgentId) {
    let mut sim = Sim::new();
    sim.editor_here();
    let a = sim.open("a", ALL);
    let b = sim.open("b", ALL);
    (sim, a, b)
}

const FILE: &str = r#"{
  "templates": {"review": "Review: {output}"},
  "routes": [{"source": "a", "target": "b", "trigger": "on-turn", "template": "@review", "max_rounds": 2}]
}"#;

#[test]
fn routes_of_the_file_are_made_and_fire() {
    let (mut sim, a, b) = pair();
    let reply = load(&mut sim, FILE).unwrap();
    assert_eq!(reply.made.len(), 1);
    assert!(reply.missing.is_empty() && reply.changed.is_empty() && reply.removed.is_empty());
    sim.human_prompt(a, "p");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits, ["Review: ECHO p"]);
    // The same file again changes nothing.
    let reply = load(&mut sim, FILE).unwrap();
    assert_eq!(reply, LoadReply::default());
    assert_eq!(sim.route(RouteId(1)).round, 1);
}

#[test]
fn a_changed_route_keeps_its_number_its_rounds_and_its_pause() {
    let (mut sim, a, b) = pair();
    load(&mut sim, FILE).unwrap();
    sim.human_prompt(a, "p");
    sim.run(10_000);
    let p = PauseParams { project: PROJECT.into(), route: Some("1".into()), hop: None };
    sim.request(EDITOR, Request::Pause(p)).unwrap();
    let changed = FILE.replace("Review:", "Look at:").replace(r#", "max_rounds": 2"#, "");
    let reply = load(&mut sim, &changed).unwrap();
    assert_eq!((reply.made.len(), reply.changed.len()), (0, 1));
    let route = sim.route(RouteId(1));
    assert_eq!((route.state, route.round, route.max_rounds), (RouteState::Paused, 1, 5));
    sim.resume();
    sim.human_prompt(a, "q");
    sim.run(10_000);
    assert_eq!(sim.fake(b).submits[1], "Look at: ECHO q");
}

#[test]
fn a_route_that_the_file_drops_goes_and_one_made_by_hand_stays() {
    let (mut sim, _, _) = pair();
    sim.connect("b", "a", on(Trigger::OnTurn));
    load(&mut sim, FILE).unwrap();
    let reply = load(&mut sim, r#"{"routes": []}"#).unwrap();
    assert_eq!(reply.removed, ["a->b"]);
    assert_eq!(sim.route(RouteId(1)).source, "b");
    // Loading it once more drops nothing that was made by hand.
    assert_eq!(load(&mut sim, r#"{"routes": []}"#).unwrap(), LoadReply::default());
}

#[test]
fn agents_that_do_not_run_are_named_and_nothing_is_done_before_they_do() {
    let (mut sim, _, _) = pair();
    let file = r#"{
      "agents": {"a": {"profile": "claude"}, "c": {"profile": "shell", "cwd": "sub", "args": ["-l"]}},
      "routes": [{"source": "a", "target": "b"}, {"source": "a", "target": "c"}]
    }"#;
    let reply = load(&mut sim, file).unwrap();
    assert_eq!(reply.missing.keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(reply.missing["c"].args, ["-l"]);
    assert!(reply.made.is_empty());
    sim.open("c", ALL);
    let reply = load(&mut sim, file).unwrap();
    assert_eq!(reply.made.len(), 2);
}

#[test]
fn a_mistake_anywhere_leaves_everything_as_it_was() {
    let (mut sim, _, _) = pair();
    load(&mut sim, FILE).unwrap();
    let before = sim.route(RouteId(1));
    for (routes, says) in [
        (
            r#"[{"source": "b", "target": "a"}, {"source": "a", "target": "nobody"}]"#,
            "routes[1].target",
        ),
        (r#"[{"source": "b", "target": "a"}, {"source": "a", "target": "a"}]"#, "into itself"),
        (r#"[{"source": "b", "target": "a"}, {"source": "b", "target": "a"}]"#, "twice"),
        (r#"[{"source": "b", "target": "a", "template": "@x"}]"#, "no template \"x\""),
        (r#"[{"source": "b", "target": "a", "template": "{x}"}]"#, "{x} at position 1"),
        (
            r#"[{"source": "b", "target": "a"}, {"source": "a", "target": "b", "max_rounds": 99}]"#,
            "max_rounds is 99",
        ),
        (r#"[{"source": "b", "target": "a", "trigger": "on-keyword"}]"#, "needs a pattern"),
    ] {
        let e = load(&mut sim, &format!(r#"{{"routes": {routes}}}"#)).unwrap_err();
        assert_eq!(e.code, "bad_project_file", "{e}");
        assert!(e.message.starts_with("routes.json") && e.message.contains(says), "{e}");
        assert_eq!(sim.route(RouteId(1)), before);
    }
}

#[test]
fn an_agent_of_the_file_works_inside_the_project() {
    let (mut sim, _, _) = pair();
    for cwd in ["/etc", "../other", "a/../../b"] {
        let file = format!(r#"{{"agents": {{"x": {{"profile": "shell", "cwd": "{cwd}"}}}}}}"#);
        let e = load(&mut sim, &file).unwrap_err();
        assert!(
            e.message.contains("agents.x.cwd") && e.message.contains("inside the project"),
            "{e}"
        );
    }
}

#[test]
fn what_is_saved_loads_as_the_same() {
    let (mut sim, _, _) = pair();
    let options = RouteOptions {
        trigger: Some(Trigger::OnKeyword),
        pattern: Some("done".into()),
        max_rounds: Some(7),
        stop_keyword: Some("LGTM".into()),
        idle_ms: Some(500),
        deliver: Some("paste".into()),
        confirm: Some(false),
        route_detached: Some(true),
        ..RouteOptions::default()
    };
    sim.connect("a", "b", options);
    // A later change counts.
    let p = TransformParams {
        project: PROJECT.into(),
        route: "1".into(),
        transform: Transform::Raw,
        template: None,
        ..TransformParams::default()
    };
    sim.request(EDITOR, Request::Transform(p)).unwrap();
    let text = save(&mut sim);
    assert!(
        text.contains("\"transform\": \"raw\"") && text.contains("\"deliver\": \"paste\""),
        "{text}"
    );
    let reply = load(&mut sim, &text).unwrap();
    assert_eq!(reply, LoadReply::default(), "nothing differs");
    let (mut other, _, _) = pair();
    load(&mut other, &text).unwrap();
    assert_eq!(save(&mut other), text);
}

#[test]
fn a_route_of_the_file_asks_the_provider_that_it_names_or_the_usual_one() {
    let (mut sim, a, _) = pair();
    let text = |provider: &str| {
        format!(
            r#"{{"routes": [{{"source": "a", "target": "b", "trigger": "on-turn",
                "transform": "ai-routing"{provider}}}]}}"#
        )
    };
    let e = load(&mut sim, &text("")).unwrap_err();
    assert!(e.message.contains("routes[0]") && e.message.contains("no provider"), "{e}");
    let spec = |model: &str| Provider { model: model.into(), ..Provider::default() };
    sim.providers = [("usual".to_owned(), spec("u")), ("other".to_owned(), spec("o"))].into();
    let e = load(&mut sim, &text(r#", "provider": "none""#)).unwrap_err();
    assert!(e.message.contains("routes[0]") && e.message.contains("other, usual"), "{e}");
    assert_eq!(sim.route_count(), 0);
    load(&mut sim, &text("")).unwrap();
    assert_eq!(sim.route(RouteId(1)).model.as_deref(), Some("u"));
    sim.human_prompt(a, "p");
    sim.run(5_000);
    assert_eq!(sim.asks.len(), 1);
    load(&mut sim, &text(r#", "provider": "other""#)).unwrap();
    assert_eq!(sim.route(RouteId(1)).model.as_deref(), Some("o"));
    assert!(save(&mut sim).contains(r#""provider": "other""#));
    assert!(sim.wrong.is_empty(), "{:?}", sim.wrong);
}
