//! Random graphs: joins, conditions, fan-out, cycles, with people typing, pausing, and agents that end.

use super::check::check;
use super::world::{Op, World, edge, kind, op};
use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn wait() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0_u64), 2 => 0..200_u64, 3 => 200..4_000_u64]
}

/// What happens in a graph: mostly prompts, so that chains run, and all that gets in their way.
fn happening() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..5_usize).prop_map(Op::Prompt),
        5 => op(),
        1 => (0..5_usize).prop_map(Op::Exit),
        1 => (0..8_usize).prop_map(Op::Disconnect),
        2 => (0..8_usize, 1..30_000_u64).prop_map(|(r, t)| Op::PauseRoute(r, t)),
        1 => (0..8_usize).prop_map(Op::Fire),
    ]
}

/// What gets in the way of one target, without holding any one hop back.
fn nuisance() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_usize).prop_map(Op::Prompt),
        2 => (1..4_000_u64, any::<bool>()).prop_map(|(t, k)| Op::Dialog(3, t, k)),
        2 => (1..4_000_u64).prop_map(|t| Op::Draft(3, t)),
        1 => any::<bool>().prop_map(|s| Op::Key(3, s)),
        1 => (1..4_000_u64).prop_map(|t| Op::Freeze(3, t)),
        1 => (1..4_000_u64, 0..40_usize).prop_map(|(t, n)| Op::Clog(3, t, n)),
        1 => any::<u8>().prop_map(|n| Op::Send(3, n)),
    ]
}

/// Hops that are held back by a person let others pass; nothing else does.
const PASSING: [&str; 3] = ["paused", "no_editor", "confirm"];

/// Every hop begins to be typed in the order of its target's queue.
fn in_order(events: &[Event], passing: &[&str]) -> Result<(), TestCaseError> {
    let mut queues: BTreeMap<&str, Vec<HopId>> = BTreeMap::new();
    let mut last: BTreeMap<HopId, &HopInfo> = BTreeMap::new();
    let mut begun: BTreeSet<HopId> = BTreeSet::new();
    for event in events {
        let Event::Hop(hop) = event else { continue };
        last.insert(hop.id, hop);
        let queue = queues.entry(&hop.target).or_default();
        if hop.reason_code == "queued" && !queue.contains(&hop.id) {
            queue.push(hop.id);
        }
        if hop.state == HopState::Typing && begun.insert(hop.id) {
            for before in queue.iter().take_while(|h| **h != hop.id) {
                let other = last[before];
                let may = other.state.is_final()
                    || begun.contains(before)
                    || passing.contains(&other.reason_code.as_str());
                prop_assert!(may, "hop {} overtook hop {other:?}", hop.id);
            }
        }
    }
    Ok(())
}

/// What is joined is in one joined hop, and is never typed by itself.
fn joined_once(hops: &[HopInfo]) -> Result<(), TestCaseError> {
    let mut members: BTreeSet<HopId> = BTreeSet::new();
    for hop in hops {
        for member in &hop.joined {
            prop_assert!(members.insert(*member), "hop {member} is in two joined ones");
        }
    }
    for hop in hops.iter().filter(|h| members.contains(&h.id)) {
        prop_assert_eq!(hop.reason_code.as_str(), "joined");
        prop_assert!(hop.times.typing.is_none(), "{hop:?}");
    }
    let said = hops.iter().filter(|h| h.reason_code == "joined").count();
    prop_assert_eq!(said, members.len());
    Ok(())
}

/// Every hop is final, on its way, or says for what it waits, and the queue shows it.
fn all_say_why(w: &mut World) -> Result<(), TestCaseError> {
    let p = ListParams { project: PROJECT.into(), all: true };
    let Ok(Reply::Queue(queue)) = w.sim.request(EDITOR, Request::Queue(p)) else { panic!() };
    for hop in w.sim.hops().into_iter().filter(|h| !h.state.is_final()) {
        prop_assert!(!hop.reason_text.is_empty(), "{hop:?}");
        if hop.state == HopState::Queued {
            prop_assert!(queue.iter().any(|q| q.hop == hop.id), "{hop:?} is in no queue");
        }
    }
    Ok(())
}

fn writes(w: &mut World) -> usize {
    let text = |w: &(u64, String)| !(w.1.len() < 12 && w.1.ends_with('~'));
    (0..w.names.len())
        .map(|n| {
            let a = w.id(n);
            w.sim.fake(a).writes.iter().filter(|w| text(w)).count()
        })
        .sum()
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn in_any_graph_every_chain_ends_and_nothing_goes_twice_or_out_of_order(
        kinds in prop::collection::vec(kind(), 3..6),
        links in prop::collection::vec(edge(5), 2..9),
        ops in prop::collection::vec((happening(), wait()), 1..16),
    ) {
        let links: Vec<_> = links
            .into_iter()
            .map(|mut l| {
                (l.from, l.to) = (l.from % kinds.len(), l.to % kinds.len());
                l
            })
            .collect();
        let mut w = World::new(&kinds, &links);
        for (op, wait) in &ops {
            w.apply(op);
            w.sim.run(*wait);
            all_say_why(&mut w)?;
        }
        // Left to themselves, chains end.
        w.sim.run(3_600_000);
        all_say_why(&mut w)?;
        let (hops, wrote) = (w.sim.hops().len(), writes(&mut w));
        w.sim.run(7_200_000);
        prop_assert_eq!((w.sim.hops().len(), writes(&mut w)), (hops, wrote), "it goes on and on");
        w.calm();
        check(&mut w)?;
        let hops = w.sim.hops();
        in_order(&w.sim.events, &PASSING)?;
        joined_once(&hops)?;
    }

    #[test]
    fn when_every_route_of_a_graph_is_paused_not_one_more_byte_is_written(
        kinds in prop::collection::vec(kind(), 4),
        links in prop::collection::vec(edge(4), 2..8),
        prompts in prop::collection::vec((0..4_usize, wait()), 1..8),
        more in 0..3_000_u64,
    ) {
        let mut w = World::new(&kinds, &links);
        for (agent, wait) in &prompts {
            w.apply(&Op::Prompt(*agent));
            w.sim.run(*wait);
        }
        w.sim.run(more);
        for n in 0..w.routes.len() {
            w.apply(&Op::PauseRoute(n, 10_000_000));
        }
        let before = writes(&mut w);
        w.sim.run(600_000);
        prop_assert_eq!(writes(&mut w), before);
        all_say_why(&mut w)?;
    }
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn routes_that_fight_over_one_target_are_served_in_the_order_of_its_queue(
        kinds in prop::collection::vec(kind(), 4),
        links in prop::collection::vec((edge(3), 0..3_usize), 2..4),
        ops in prop::collection::vec((nuisance(), wait()), 2..20),
    ) {
        let links: Vec<_> = links
            .into_iter()
            .map(|(mut l, from)| {
                (l.from, l.to) = (from, 3);
                l
            })
            .collect();
        let mut w = World::new(&kinds, &links);
        for (op, wait) in &ops {
            w.apply(op);
            w.sim.run(*wait);
        }
        w.sim.run(60_000);
        in_order(&w.sim.events, &[])?;
        w.calm();
        check(&mut w)?;
        in_order(&w.sim.events, &PASSING)?;
    }
}
