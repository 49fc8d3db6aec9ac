//! Real Codexes in a world: a home of their own, the mock as their model.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::codex;
use crate::common::mock::{Mock, View};
use crate::world::{Open, World};

/// What agents of this kind share.
pub struct Kit {
    pub home: tempfile::TempDir,
    bin: PathBuf,
}

impl Kit {
    /// For a world, whose folder is trusted.
    pub fn new(world: &World) -> Kit {
        let home = codex::home(&[&world.site.work()]);
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(codex::binary(), bin.join("codex")).unwrap();
        Kit { home, bin }
    }

    /// An agent's environment.
    pub fn env(&self) -> BTreeMap<String, String> {
        let mut env = codex::env(self.home.path());
        let path = format!("{}:{}", self.bin.display(), env["PATH"]);
        env.insert("PATH".into(), path);
        env
    }

    /// Opens an agent and does not wait for it; its requests go to `mock.agent(name)`.
    pub fn begin(&self, world: &World, mock: &Mock, name: &str, profile: Option<Value>) {
        let args = codex::args(&mock.url_for(name));
        world.open("codex", name, Open { env: self.env(), args, cwd: None, profile });
    }

    /// Opens an agent and waits until it is idle.
    pub fn open(&self, world: &World, mock: &Mock, name: &str) -> View {
        self.begin(world, mock, name, None);
        world.wait_phase(name, "idle");
        mock.agent(name)
    }
}

/// A world with Codexes alone.
pub struct Codexes {
    pub world: World,
    pub mock: Mock,
    pub kit: Kit,
}

impl Codexes {
    /// Starts a host, with these variables beside the usual ones.
    pub async fn new(vars: &[(&str, &str)]) -> Codexes {
        let mock = Mock::start().await;
        let world = World::new(vars);
        let kit = Kit::new(&world);
        Codexes { world, mock, kit }
    }

    /// Opens an agent and does not wait for it.
    pub fn begin(&self, name: &str, profile: Option<Value>) {
        self.kit.begin(&self.world, &self.mock, name, profile);
    }

    /// Opens an agent and waits until it is idle.
    pub fn open(&self, name: &str) -> View {
        self.kit.open(&self.world, &self.mock, name)
    }
}
