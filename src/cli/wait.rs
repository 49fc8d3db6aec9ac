//! `mado wait` and `mado events`: what happens, as it happens.

use super::args::{ListScope, WaitArgs};
use super::client::{Client, unexpected};
use super::{out, verbs};
use mado::host::paths::Paths;
use mado::proto::{
    AgentInfo, ErrorInfo, Event, HopId, HopInfo, HopState, HopsParams, ListParams, Phase, Reply,
    Request,
};
use serde_json::{Value, json};
use std::time::Instant;

/// What is waited for.
enum Goal {
    Agent { name: String, phases: Vec<String> },
    Hop { id: HopId, state: Option<String> },
}

fn goal(words: &[String]) -> Result<Goal, ErrorInfo> {
    let bad = |why: String| {
        let remedy = "say agent=NAME phase=PHASE, or hop=N, or hop=N state=STATE";
        ErrorInfo::new("bad_wait", why, remedy)
    };
    let (mut agent, mut phase, mut hop, mut state) = (None, None, None, None);
    for word in words {
        match word.split_once('=') {
            Some(("agent", v)) => agent = Some(v.to_owned()),
            Some(("phase", v)) => phase = Some(v.to_owned()),
            Some(("hop", v)) => {
                let id = v.parse().map_err(|_| bad(format!("hop: {v:?} is not a number")))?;
                hop = Some(HopId(id));
            }
            Some(("state", v)) => state = Some(v.to_owned()),
            _ => return Err(bad(format!("{word:?} is not one of the keys of wait"))),
        }
    }
    let known = |value: &str, is: fn(&Value) -> bool, what: &str| {
        if is(&json!(value)) { Ok(()) } else { Err(bad(format!("{what}: {value:?} is unknown"))) }
    };
    match (agent, phase, hop, state) {
        (Some(name), Some(phase), None, None) => {
            let phases: Vec<String> = phase.split(['|', ',']).map(str::to_owned).collect();
            for phase in &phases {
                known(phase, names::<Phase>, "phase")?;
            }
            Ok(Goal::Agent { name, phases })
        }
        (None, None, Some(id), state) => {
            if let Some(state) = &state {
                known(state, names::<HopState>, "state")?;
            }
            Ok(Goal::Hop { id, state })
        }
        _ => Err(bad("nothing to wait for".to_owned())),
    }
}

/// Whether a value is one of a type's names.
fn names<T: serde::de::DeserializeOwned>(value: &Value) -> bool {
    serde_json::from_value::<T>(value.clone()).is_ok()
}

/// `mado wait`.
pub fn wait(a: &WaitArgs) -> Result<(), ErrorInfo> {
    let goal = goal(&a.what)?;
    let until = Instant::now() + a.timeout;
    let project = verbs::project(a.scope.project.as_deref())?;
    let mut client = Client::connect(&Paths::from_env()?, &project)?;
    // Listening begins before the look at what is: nothing can happen unseen in between.
    let all = matches!(goal, Goal::Hop { .. });
    let events = ListParams { project: project.clone(), all };
    client.ask(&Request::Events(events))?;
    let mut last = match &goal {
        Goal::Agent { name, .. } => {
            let list = Request::Agents(ListParams { project, all: false });
            let Reply::Agents(agents) = client.ask(&list)? else {
                return Err(unexpected(&Reply::Done));
            };
            let Some(agent) = agents.into_iter().find(|a| a.name == *name) else {
                let message = format!("there is no agent {name:?} in this project");
                return Err(ErrorInfo::new("unknown_agent", message, "`mado ls` lists them"));
            };
            Event::Agent(agent)
        }
        Goal::Hop { id, .. } => {
            let params = HopsParams { project, all: true, hop: Some(*id), ..HopsParams::default() };
            let Reply::Hops(hops) = client.ask(&Request::Hops(params))? else {
                return Err(unexpected(&Reply::Done));
            };
            let Some(hop) = hops.into_iter().next() else {
                let message = format!("there is no hop {id}");
                return Err(ErrorInfo::new("unknown_hop", message, "`mado log` lists them"));
            };
            Event::Hop(hop)
        }
    };
    let mut seen = String::new();
    loop {
        match (&goal, &last) {
            (Goal::Agent { name, phases }, Event::Agent(info)) if info.name == *name => {
                seen = format!("{} ({})", info.phase.name(), info.reason_text);
                if phases.iter().any(|p| p == info.phase.name()) {
                    print_agent(info, a.scope.json);
                    return Ok(());
                }
            }
            (Goal::Agent { name, .. }, Event::AgentGone { name: gone, .. }) if gone == name => {
                let message = format!("{name} has ended");
                return Err(ErrorInfo::new("agent_gone", message, ""));
            }
            (Goal::Hop { id, state }, Event::Hop(hop)) if hop.id == *id => {
                seen = format!("{} ({})", state_name(hop), hop.reason_text);
                if let Some(end) = judge(hop, state.as_deref()) {
                    print_hop(hop, a.scope.json);
                    return end;
                }
            }
            _ => {}
        }
        let Some(event) = client.event(Some(until))? else {
            let message = format!("it did not come within {:?}; last seen: {seen}", a.timeout);
            return Err(ErrorInfo::new("timeout", message, "give a longer --timeout"));
        };
        last = event;
    }
}

fn state_name(hop: &HopInfo) -> String {
    json!(hop.state).as_str().unwrap_or_default().to_owned()
}

/// How far a state is on the way; `held` is not on it.
fn rank(state: HopState) -> u8 {
    match state {
        HopState::Queued | HopState::Held => 0,
        HopState::Typing => 1,
        HopState::Submitted => 2,
        HopState::Accepted => 3,
        _ => 4,
    }
}

/// Whether the wait is over, and how.
fn judge(hop: &HopInfo, wanted: Option<&str>) -> Option<Result<(), ErrorInfo>> {
    let failed = || {
        let message = format!("hop {} is {}: {}", hop.id, state_name(hop), hop.reason_text);
        ErrorInfo::new(&hop.reason_code, message, format!("see `mado log --hop {}`", hop.id))
    };
    let wanted: HopState = match wanted {
        Some(name) => serde_json::from_value(json!(name)).unwrap_or(HopState::Answered),
        None => HopState::Answered,
    };
    // A state on the way has been reached when a later one of success has.
    let passed = !wanted.is_final()
        && wanted != HopState::Held
        && rank(hop.state) >= rank(wanted)
        && (!hop.state.is_final() || hop.state == HopState::Answered);
    if hop.state == wanted || passed {
        Some(Ok(()))
    } else if hop.state.is_final() {
        Some(Err(failed()))
    } else {
        None
    }
}

fn print_agent(info: &AgentInfo, as_json: bool) {
    if as_json {
        out::json(info);
    } else {
        out::line(&format!("{} is {}", info.name, info.phase.name()));
    }
}

fn print_hop(hop: &HopInfo, as_json: bool) {
    if as_json {
        out::json(hop);
    } else {
        out::line(&format!("hop {} is {}", hop.id, state_name(hop)));
    }
}

/// `mado events`: until it is interrupted or the host ends.
pub fn events(l: &ListScope) -> Result<(), ErrorInfo> {
    let project = verbs::project(l.scope.project.as_deref())?;
    let mut client = Client::connect(&Paths::from_env()?, &project)?;
    client.ask(&Request::Events(ListParams { project, all: l.all }))?;
    loop {
        match client.event(None) {
            Ok(Some(event)) if l.scope.json => out::json(&event),
            Ok(Some(event)) => out::line(&describe(&event)),
            Ok(None) => {}
            // The stream's end is no failure of the command.
            Err(e) if e.code == "host_gone" => return Ok(()),
            Err(e) => return Err(e),
        }
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Agent(a) => {
            let draft = if a.draft { ", draft" } else { "" };
            format!("agent {}: {}{draft} ({})", a.name, a.phase.name(), a.reason_text)
        }
        Event::AgentGone { name, .. } => format!("agent {name}: gone"),
        Event::Route(r) => {
            let state = json!(r.state);
            let state = state.as_str().unwrap_or_default();
            format!("route {} {} -> {}: {state} ({})", r.id, r.source, r.target, r.reason_text)
        }
        Event::RouteGone { id, .. } => format!("route {id}: gone"),
        Event::Hop(h) => {
            let from = if h.source.is_empty() { "you" } else { h.source.as_str() };
            format!("hop {} {from} -> {}: {} ({})", h.id, h.target, state_name(h), h.reason_text)
        }
        Event::Notice(n) => format!("notice: {}", n.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(state: HopState) -> HopInfo {
        HopInfo { state, ..HopInfo::default() }
    }

    #[test]
    fn a_wait_for_a_hop_ends_well_only_with_what_was_wanted() {
        assert!(matches!(judge(&hop(HopState::Answered), None), Some(Ok(()))));
        assert!(matches!(judge(&hop(HopState::Failed), None), Some(Err(_))));
        assert!(judge(&hop(HopState::Accepted), None).is_none());
        assert!(matches!(judge(&hop(HopState::Answered), Some("accepted")), Some(Ok(()))));
        assert!(matches!(judge(&hop(HopState::Stopped), Some("accepted")), Some(Err(_))));
        assert!(matches!(judge(&hop(HopState::Stopped), Some("stopped")), Some(Ok(()))));
        assert!(judge(&hop(HopState::Queued), Some("held")).is_none());
    }

    #[test]
    fn what_cannot_be_waited_for_is_named() {
        let e = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            goal(&words).err().map(|e| e.message).unwrap_or_default()
        };
        assert!(e(&["agent=x", "phase=asleep"]).contains("\"asleep\" is unknown"));
        assert!(e(&["hop=x"]).contains("\"x\" is not a number"));
        assert!(e(&["agent=x"]).contains("nothing to wait for"));
        assert!(e(&["agent=x", "phase=idle|busy"]).is_empty());
    }
}
