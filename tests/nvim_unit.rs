//! Runs the Lua tests of `tests/nvim/` in a real Neovim, a process for each file, and holds what the
//! plugin and the program must agree on.
//!
//! `MADO_TEST_NVIM` names the Neovim; without it the tests fail, since a test that skips itself proves
//! nothing.

use std::path::Path;
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn nvim() -> String {
    std::env::var("MADO_TEST_NVIM")
        .expect("MADO_TEST_NVIM must name a Neovim, as `make test` does: scripts/neovim.sh prints one")
}

fn run(file: &str) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(nvim())
        .args(["--clean", "--headless", "-l"])
        .arg(Path::new(ROOT).join("tests/nvim").join(file))
        .current_dir(&dir)
        .env("XDG_STATE_HOME", dir.path())
        .env("XDG_CACHE_HOME", dir.path())
        .env("XDG_DATA_HOME", dir.path())
        .env("TMPDIR", dir.path())
        .env_remove("NVIM")
        .env_remove("MADO_BIN")
        .env_remove("MADO_STATE_DIR")
        .env_remove("MADO_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "{file} failed: {}", output.status);
}

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { run(concat!(stringify!($name), ".lua")); })*

        #[test]
        fn every_lua_test_file_is_run() {
            let mut found: Vec<String> = std::fs::read_dir(Path::new(ROOT).join("tests/nvim"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.ends_with("_test.lua"))
                .collect();
            found.sort();
            let mut run = vec![$(concat!(stringify!($name), ".lua")),*];
            run.sort_unstable();
            assert_eq!(found, run);
        }
    };
}

files!(commands_test, config_test, events_test, window_test);

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

#[test]
fn plugin_and_program_speak_the_same_protocol_and_have_one_version() {
    let rpc = read("lua/mado/rpc.lua");
    let line = format!("M.PROTOCOL = {}\n", mado::proto::PROTOCOL);
    assert!(rpc.contains(&line), "lua/mado/rpc.lua must say {line}");
    let version = read("lua/mado/version.lua");
    let line = format!("return '{}'\n", env!("CARGO_PKG_VERSION"));
    assert!(version.contains(&line), "lua/mado/version.lua must say {line}");
}

/// A wait would stop every agent's screen in the editor, and the host.
#[test]
fn no_lua_of_the_plugin_waits() {
    for entry in std::fs::read_dir(Path::new(ROOT).join("lua/mado")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for banned in ["vim.wait", "uv.sleep", "rpcrequest", "vim.fn.system("] {
            assert!(!text.contains(banned), "{} uses {banned}", path.display());
        }
    }
}
