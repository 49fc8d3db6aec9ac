//! What runs in a terminal that is to be adopted: the process that is the agent, and its profile.

use super::fit;
use crate::core::profile::{Dialect, Profile};
use crate::host::paths::Paths;
use crate::host::procs::{Process, breadth_first};
use crate::host::profiles::{self, Overrides};
use crate::proto::{AdoptParams, ErrorInfo, Foreign, Found, Rung};

/// A process of the terminal, and its name.
type Named = (Process, String);

/// Finds the agent in a terminal. Reads the process tree once; changes nothing.
pub fn find(paths: &Paths, params: &AdoptParams) -> Result<(Profile, Found), ErrorInfo> {
    let (root, place) = match &params.terminal {
        Foreign::Nvim { buffer, pid, .. } => (*pid, format!("buffer {buffer}")),
        Foreign::Tmux { pane, pid, .. } => (*pid, format!("tmux pane {pane}")),
    };
    let Some(leader) = Process::of(root) else {
        return Err(ErrorInfo::new(
            "dead_job",
            format!("the program of {place} (pid {root}) has ended"),
            "adopt a terminal whose program runs",
        ));
    };
    let tree = terminal_tree(leader);
    refuse_views(&tree, &place)?;
    let known = |name: &str| profiles::load(paths, name, &params.profiles);
    let (profile, process) = match &params.profile {
        Some(name) => {
            let profile = known(name)?;
            let process = named(&profile, leader, &tree, &place)?;
            (profile, process)
        }
        None => guess(paths, &params.profiles, &tree, &place)?,
    };
    let mut profile = fit(&profile, params.terminal.owner());
    let mut limits: Vec<String> = vec!["ends with its terminal".into(), "no hooks".into()];
    if profile.records.dialect == Dialect::Demo && demo_transcript(process).is_none() {
        profile.records.dialect = Dialect::None;
        profile.evidence.rungs.retain(|r| *r != Rung::Record);
        limits.push("no records".into());
    }
    match params.terminal {
        Foreign::Nvim { .. } => {
            limits.push("no cursor, no colours".into());
            if process.written().is_none() {
                limits.push("looked at up to 10 ms late".into());
            }
        }
        Foreign::Tmux { .. } => {
            limits.push("keys of people are seen to the second".into());
            limits.push("only some rows are compared at Enter".into());
        }
    }
    if process.terminal().is_none() {
        limits.push("its foreground is not known".into());
    }
    let found = Found {
        pid: process.pid,
        start: process.start,
        place,
        limits,
        cwd: process.cwd().map(|c| c.display().to_string()).unwrap_or_default(),
        ..Found::default()
    };
    Ok((profile, found))
}

/// The terminal's first process and those below it that have the same terminal: an agent inside an editor
/// inside the terminal has another one.
fn terminal_tree(leader: Process) -> Vec<Named> {
    let own = leader.terminal().map(|t| t.tty);
    let same = |p: &Process| *p == leader || own.is_none() || p.terminal().map(|t| t.tty) == own;
    let tree = breadth_first(leader.pid).into_iter().filter(same);
    tree.filter_map(|p| Some((p, p.name()?))).collect()
}

/// The demo agent, not another command of the same program.
fn is_demo(process: Process) -> bool {
    process.args().get(1).is_some_and(|a| a == "demo-agent")
}

fn refuse_views(tree: &[Named], place: &str) -> Result<(), ErrorInfo> {
    let view = |p: &Process| {
        let args = p.args();
        args.first().is_some_and(|a| a.rsplit('/').next() == Some("mado"))
            && args.get(1).is_some_and(|a| a == "attach")
    };
    if tree.iter().any(|(p, _)| view(p)) {
        let message = format!("{place} shows an agent of mado's already");
        return Err(ErrorInfo::new("is_a_view", message, ":Mado agents lists them"));
    }
    Ok(())
}

/// Whether a process is the program of a profile. Its own name, or the name of what it was started as.
fn is_program(profile: &Profile, (process, name): &Named) -> bool {
    profile.program.process.iter().any(|wanted| {
        wanted == name && (profile.records.dialect != Dialect::Demo || is_demo(*process))
    })
}

fn named(
    profile: &Profile,
    leader: Process,
    tree: &[Named],
    place: &str,
) -> Result<Process, ErrorInfo> {
    if profile.program.process.is_empty() {
        return Ok(leader);
    }
    tree.iter().find(|n| is_program(profile, n)).map(|(p, _)| *p).ok_or_else(|| {
        let wanted = profile.program.process.join(" or ");
        ErrorInfo::new(
            "not_this_profile",
            format!("no {wanted} runs in {place}, only {}", list(tree)),
            format!("name another profile than {}, or none", profile.name),
        )
    })
}

fn guess(
    paths: &Paths,
    overrides: &Overrides,
    tree: &[Named],
    place: &str,
) -> Result<(Profile, Process), ErrorInfo> {
    // A profile that cannot be read is in the way only of those who name it.
    let profiles: Vec<Profile> = profiles::names(paths, overrides)
        .iter()
        .filter_map(|name| profiles::load(paths, name, overrides).ok())
        .collect();
    for process in tree {
        if let Some(profile) = profiles.iter().find(|p| is_program(p, process)) {
            return Ok((profile.clone(), process.0));
        }
    }
    Err(ErrorInfo::new(
        "no_profile_fits",
        format!("no profile knows what runs in {place}: {}", list(tree)),
        "name one, such as profile=shell (--profile shell)",
    ))
}

fn list(tree: &[Named]) -> String {
    let mut names: Vec<&str> = tree.iter().map(|(_, n)| n.as_str()).collect();
    names.dedup();
    names.truncate(8);
    names.join(", ")
}

/// Where a demo agent writes its turns.
pub(super) fn demo_transcript(process: Process) -> Option<std::path::PathBuf> {
    let args = process.args();
    let at = args.iter().position(|a| a == "--transcript")?;
    let path = std::path::PathBuf::from(args.get(at + 1)?);
    Some(process.cwd()?.join(path))
}

/// The transcript that a profile does not name and the process does.
#[must_use]
pub fn transcript(profile: &Profile, process: Process) -> std::path::PathBuf {
    match profile.records.dialect {
        Dialect::Demo => demo_transcript(process).unwrap_or_default(),
        _ => std::path::PathBuf::new(),
    }
}
