//! The import law: `proto ← core ← host ← main`. A room may use only the rooms before it, and the
//! core may use nothing that does IO.
#![allow(clippy::pedantic, reason = "style lints are for the product")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a failed expectation is a failed test"
)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(room: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.join(room)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the room exists") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("a readable file");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{room} has sources");
    found
}

/// Lines of code that hold one of the words, comments left out.
fn offences(room: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources(room) {
        for (n, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if let Some(word) = words.iter().find(|w| code.contains(**w)) {
                found.push(format!("{}:{}: {word}", path.display(), n + 1));
            }
        }
    }
    found
}

#[test]
fn proto_uses_no_other_room() {
    let words = ["crate::core", "crate::host", "crate::cli", "crate::demo", "tokio", "std::fs"];
    assert_eq!(offences("proto", &words), Vec::<String>::new());
}

#[test]
fn core_uses_proto_alone_and_does_no_io() {
    let words = [
        "crate::host",
        "crate::cli",
        "crate::demo",
        "tokio",
        "std::fs",
        "std::net",
        "std::io",
        "std::process",
        "std::env",
        "std::thread",
        "Instant",
        "SystemTime",
        "rustix",
        "nvim_rs",
        "println!",
        "eprintln!",
        "rand::",
    ];
    assert_eq!(offences("core", &words), Vec::<String>::new());
}

#[test]
fn host_does_not_use_the_command_line() {
    assert_eq!(offences("host", &["crate::cli", "crate::demo"]), Vec::<String>::new());
}

#[test]
fn the_demo_agent_shares_no_code_with_what_it_tests() {
    let words = ["crate::core", "crate::host", "crate::proto", "crate::cli"];
    assert_eq!(offences("demo", &words), Vec::<String>::new());
}

#[test]
fn the_search_finds_what_it_looks_for() {
    assert!(!offences("core", &["crate::proto"]).is_empty());
}
