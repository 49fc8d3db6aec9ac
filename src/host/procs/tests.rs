use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A shell with children, ended with all of them.
struct Tree(Child);

impl Tree {
    /// Runs a script, which must print a line when it is ready.
    fn new(script: &str, mark: &str) -> Tree {
        let mut child = Command::new("/bin/bash")
            .args(["-c", script])
            .env(AGENT_MARK, mark)
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Tree(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for process in breadth_first(self.pid()).iter().skip(1) {
            let pid = rustix::process::Pid::from_raw(process.pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process of the name in the background of a script.
fn named(name: &str) -> String {
    format!(
        "bash -c 'printf {name} > /proc/self/comm; while :; do read -t 5 < <(:); sleep 5; done' & "
    )
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|n| (*n).to_owned()).collect()
}

/// Waits until the tree holds a process of the name.
fn wait_for_name(root: u32, name: &str) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !breadth_first(root).iter().any(|p| p.name().as_deref() == Some(name)) {
        assert!(std::time::Instant::now() < until, "no process is named {name}");
        std::thread::yield_now();
    }
}

#[test]
fn the_agent_is_found_below_the_terminals_child() {
    let tree = Tree::new(&format!("{} echo ready; read", named("claude")), "t1");
    wait_for_name(tree.pid(), "claude");
    let agent = find_agent(tree.pid(), &names(&["claude"])).unwrap();
    assert_ne!(agent.pid, tree.pid());
    assert_eq!(agent.name().as_deref(), Some("claude"));
    assert!(is_descendant(agent.pid, tree.pid()) && !is_descendant(tree.pid(), agent.pid));
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
}

#[test]
fn leftovers_are_found_by_record_and_by_mark() {
    let mark = format!("leftover-{}", std::process::id());
    let tree = Tree::new("setsid -f sleep 30 & echo ready; read", &mark);
    let root = Process::of(tree.pid()).unwrap();
    let other = Process { pid: std::process::id(), start: 1 };
    // The sleep is in a session of its own and has lost its parent: only its mark tells.
    wait_for_mark(&mark, 2);
    let found = leftovers(&[root, other], std::slice::from_ref(&mark));
    assert!(found.contains(&root));
    let sleep = found.iter().find(|p| p.name().as_deref() == Some("sleep")).unwrap();
    assert!(!found.iter().any(|p| p.pid == std::process::id()));
    assert!(leftovers(&[other], &[]).is_empty());
    let pid = rustix::process::Pid::from_raw(sleep.pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn wait_for_mark(mark: &str, count: usize) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let marks = [mark.to_owned()];
    let asleep = |p: &Process| p.name().as_deref() == Some("sleep");
    loop {
        let found = leftovers(&[], &marks);
        if found.len() >= count && found.iter().any(asleep) {
            return;
        }
        assert!(std::time::Instant::now() < until, "{found:?}");
        std::thread::yield_now();
    }
}

#[test]
fn both_ways_to_ask_the_system_agree() {
    let tree = Tree::new(&format!("{} echo ready; read", named("claude")), "t5");
    wait_for_name(tree.pid(), "claude");
    let pid = tree.pid();
    assert_eq!(portable::children(pid), sys::children(pid));
    assert_eq!(portable::stat(pid).map(|s| s.parent), sys::stat(pid).map(|s| s.parent));
    assert_eq!(portable::name(pid), sys::name(pid));
    assert_eq!(portable::environ(pid).unwrap()[AGENT_MARK], "t5");
    assert_eq!(sys::environ(pid).unwrap()[AGENT_MARK], "t5");
    assert_eq!(portable::cwd(pid), sys::cwd(pid));
    assert!(portable::all().contains(&pid) && sys::all().contains(&pid));
}
