//! What must hold in the end, whatever has happened.

use super::world::World;
use super::*;

pub fn check(w: &mut World) -> Result<(), TestCaseError> {
    prop_assert!(w.sim.wrong.is_empty(), "{:?}", w.sim.wrong);
    prop_assert!(w.sim.calls.is_empty(), "calls nobody waits for: {:?}", w.sim.calls);
    let hops = w.sim.hops();
    let limit = Timing::default().chain_limit;

    // Exactly one final state for each hop, and every hop has one in the end.
    let mut finals: BTreeMap<HopId, u32> = BTreeMap::new();
    for event in &w.sim.events {
        if let Event::Hop(h) = event {
            let seen = finals.entry(h.id).or_default();
            if h.state.is_final() {
                *seen += 1;
            } else {
                prop_assert_eq!(*seen, 0, "hop {} left its final state", h.id);
            }
        }
    }
    for h in &hops {
        let info = w.sim.info(&h.target);
        prop_assert!(h.state.is_final(), "hop {:?}\ntarget {:?}", h, info);
        prop_assert_eq!(finals.get(&h.id).copied(), Some(1), "hop {}", h.id);
    }

    // Every chain ends within its limit.
    let mut chains: BTreeMap<ChainId, u32> = BTreeMap::new();
    for h in hops.iter().filter(|h| h.times.submitted.is_some()) {
        *chains.entry(h.chain).or_default() += 1;
    }
    // A resume lets a chain go on as if it were new.
    let resumes = w
        .sim
        .trace
        .iter()
        .filter(|(_, i, _)| matches!(i, Input::Request { request: Request::Resume(_), .. }));
    let bound = limit * (1 + u32::try_from(resumes.count()).unwrap());
    for (chain, n) in &chains {
        prop_assert!(*n <= bound, "chain {chain} had {n} hops");
    }

    for n in 0..w.names.len() {
        let a = w.id(n);
        let fake = w.sim.fake(a);
        prop_assert_eq!(fake.approvals, 0);
        let submits = fake.submits.clone();
        let notices = fake.notices.clone();
        // What arrives is what was to be typed, whole, and once.
        let mut sends = Vec::new();
        for text in &submits {
            let mine: Vec<&HopInfo> = hops
                .iter()
                .filter(|h| h.target == w.names[n] && h.prompt.as_deref() == Some(text))
                .collect();
            // Nothing is delivered twice.
            let went = mine.iter().filter(|h| h.times.submitted.is_some()).count();
            let times = submits.iter().filter(|t| *t == text).count();
            let typed = w.human.iter().filter(|t| *t == text).count();
            prop_assert!(times <= went + typed + notices.len(), "{text:?} arrived {times} times");
            let own = w.human.contains(text) || notices.contains(text);
            prop_assert!(!mine.is_empty() || own, "{text:?} came from nowhere");
            if let [h] = mine.as_slice() {
                let times = submits.iter().filter(|t| *t == text).count();
                prop_assert_eq!(times, 1, "hop {:?} arrived {} times", h, times);
                if h.how == "send" {
                    sends.push(h.id);
                }
            }
        }
        prop_assert!(sends.is_sorted(), "order at {}: {sends:?}", w.names[n]);
        // Nothing is claimed that did not happen.
        for h in hops.iter().filter(|h| h.target == w.names[n]) {
            let text = h.prompt.clone().unwrap_or_default();
            if h.times.accepted.is_some() {
                prop_assert!(submits.contains(&text), "accepted, but never submitted: {h:?}");
            }
            let alone = hops.iter().filter(|o| o.prompt == h.prompt).count() == 1;
            if alone && submits.contains(&text) && h.state == HopState::Stopped {
                let broken = ["interrupted", "superseded"].contains(&h.reason_code.as_str());
                prop_assert!(broken, "submitted, but called stopped: {h:?}");
            }
        }
    }

    // A trace replays to the same effects.
    let mut hub = Hub::new(Timing::default());
    for (now, input, effects) in &w.sim.trace {
        prop_assert_eq!(&hub.step(*now, input.clone()), effects);
    }
    Ok(())
}
