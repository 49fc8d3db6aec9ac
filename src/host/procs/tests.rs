use super::testing::{Tree, named, wait_for_name};
use super::*;
use crate::host::reap::MARK;
use std::process::Command;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn the_agent_is_found_below_the_terminals_child() {
    let tree = Tree::new(&format!("{} echo ready; read", named("claude")), "t1");
    wait_for_name(tree.pid(), "claude");
    let agent = find_agent(tree.pid(), &names(&["claude"])).unwrap();
    assert_ne!(agent.pid, tree.pid());
    assert_eq!(agent.name().as_deref(), Some("claude"));
    assert_eq!(ancestors(agent.pid)[..3], [agent.pid, tree.pid(), std::process::id()]);
}

#[test]
fn the_terminals_child_itself_can_be_the_agent() {
    let tree = Tree::new("printf claude > /proc/self/comm; echo ready; read", "t2");
    assert_eq!(find_agent(tree.pid(), &names(&["claude"])).unwrap().pid, tree.pid());
}

#[test]
fn an_exact_name_wins_over_a_word_and_a_part_of_a_word_is_none() {
    let script =
        format!("{}{}{} echo ready; read", named("sample"), named("amp-cli"), named("amp"));
    let tree = Tree::new(&script, "t3");
    for name in ["sample", "amp-cli", "amp"] {
        wait_for_name(tree.pid(), name);
    }
    let found = |wanted: &str| find_agent(tree.pid(), &names(&[wanted])).and_then(Process::name);
    assert_eq!(found("amp").as_deref(), Some("amp"));
    assert_eq!(found("cli").as_deref(), Some("amp-cli"));
    assert_eq!(found("ample"), None);
    assert!(contains_word("claude.exe", "claude") && contains_word("my claude", "claude"));
    assert!(!contains_word("claudex", "claude") && !contains_word("x", ""));
}

#[test]
fn a_dead_process_that_was_not_waited_for_is_not_alive() {
    let mut child = Command::new("/bin/true").spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while Process::of(child.id()).is_some() {
        assert!(std::time::Instant::now() < until, "it never ends");
        std::thread::yield_now();
    }
    child.wait().unwrap();
}

#[test]
fn another_start_time_is_another_process() {
    let me = Process::of(std::process::id()).unwrap();
    assert!(me.is_alive());
    assert!(!Process { start: me.start + 1, ..me }.is_alive());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = now.as_secs().checked_sub(me.started_at().unwrap()).unwrap();
    assert!(age < 3600, "{age}");
}

#[test]
fn both_ways_to_ask_the_system_agree() {
    let tree = Tree::new(&format!("{} echo ready; read", named("claude")), "t5");
    wait_for_name(tree.pid(), "claude");
    let pid = tree.pid();
    assert_eq!(portable::children(pid), sys::children(pid));
    assert_eq!(portable::stat(pid).map(|s| s.parent), sys::stat(pid).map(|s| s.parent));
    assert_eq!(portable::name(pid), sys::name(pid));
    assert_eq!(portable::environ(pid).unwrap()[MARK], "t5");
    assert_eq!(sys::environ(pid).unwrap()[MARK], "t5");
    assert_eq!(portable::cwd(pid), sys::cwd(pid));
    assert_eq!(portable::open_files(pid), None);
}
