//! A fixture: a kernel that serves HTTP.

use std::fs;
use std::process::Stdio;

use mgp_testkit::KilledChild;
use serde_json::Value;

use crate::world::World;

/// A running `mgp serve --http` at a free port; dropping this value kills it.
pub(crate) struct Serving {
    pub(crate) kernel: KilledChild,
    ready: Value,
}

impl Serving {
    /// Starts the kernel, and waits until it serves.
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        Self::start_with(world, args, Stdio::null())
    }

    /// Does the same as [`start`](Self::start), with this standard error.
    pub(crate) fn start_with(world: &World, args: &[&str], stderr: Stdio) -> Self {
        // Remove the ready file that a killed kernel may have left.
        let _ = fs::remove_file(world.ready_file());
        let kernel = world
            .mgp(&["--http", "127.0.0.1:0", "--ready-file"])
            .arg(world.ready_file())
            .args(args)
            .stdin(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Self { kernel: KilledChild(kernel), ready: world.ready() }
    }

    pub(crate) fn url(&self) -> String {
        self.ready["http"].as_str().unwrap().to_owned()
    }
}
