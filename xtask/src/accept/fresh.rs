//! The acceptance checks `core.fresh` and `kernel.demo`: the README commands must work in a fresh clone on a machine
//! that has only the Rust toolchain.

use super::Verdict;
use crate::run::{Context, Failure, Outcome, Program, now, root, seconds, target};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The time limit of `cargo xtask ci` on two cores.
const CI_TIMEOUT: Duration = Duration::from_mins(20);

/// The time limit for building and running `mgp demo` on two cores, with dependencies already downloaded.
const DEMO_TIMEOUT: Duration = Duration::from_mins(3);

/// The programs of the Rust toolchain that the check can use.
#[rustfmt::skip]
const TOOLCHAIN: &[&str] = &[
    "cargo", "cargo-clippy", "cargo-fmt", "clippy-driver", "rustc", "rustdoc", "rustfmt", "rustup",
];

/// Clones the committed state, limits `PATH` to the Rust toolchain and the programs of the system, and runs the two
/// commands of the README: the demonstration and `cargo xtask ci`.
pub(super) fn core_fresh() -> Outcome<Verdict> {
    let fresh = Fresh::new()?;
    fresh.demo()?;
    println!("the demonstration shows everything");
    let start = now();
    fresh.cargo(&["xtask", "ci"]).run()?;
    let took = start.elapsed();
    fresh.end()?;
    Ok(Verdict {
        pass: took <= CI_TIMEOUT,
        figure: format!("both commands work, ci in {}", seconds(took)),
        bound: format!("ci in {}", seconds(CI_TIMEOUT)),
    })
}

/// Runs the check `kernel.demo`: builds and runs the demonstration in a fresh clone, and checks the time this takes.
pub(super) fn kernel_demo() -> Outcome<Verdict> {
    let fresh = Fresh::new()?;
    let start = now();
    let steps = fresh.demo()?;
    let took = start.elapsed();
    fresh.end()?;
    Ok(Verdict {
        pass: took <= DEMO_TIMEOUT,
        figure: format!("{steps} steps seen, built and run in {}", seconds(took)),
        bound: format!("all seen, in {}", seconds(DEMO_TIMEOUT)),
    })
}

/// A clone of the committed state, and a `PATH` that contains only the toolchain and the system's programs.
struct Fresh {
    place: PathBuf,
    clone: PathBuf,
    path: String,
}

impl Fresh {
    fn new() -> Outcome<Self> {
        let place = target()?.join("fresh");
        if place.exists() {
            fs::remove_dir_all(&place).context(place.display())?;
        }
        let (clone, tools) = (place.join("clone"), place.join("tools"));
        fs::create_dir_all(&tools)?;
        let (from, to) = (root(), clone.clone());
        Program::new("git").args(&["clone", "--quiet"]).args(&[&from, &to]).run()?;
        let path = only_the_toolchain(&tools)?;
        Ok(Self { place, clone, path })
    }

    fn cargo(&self, args: &[&str]) -> Program {
        let cargo = Program::new("cargo").args(args).dir(&self.clone).env("PATH", &self.path);
        cargo.without("CARGO_TARGET_DIR").without("CARGO").without("CARGO_MANIFEST_DIR")
    }

    /// Runs the demonstration; returns the number of its steps, or fails if one of them failed.
    fn demo(&self) -> Outcome<usize> {
        let output = self.cargo(&["mgp", "demo", "--json"]).output()?;
        let report: Value = serde_json::from_str(&output).context("the demonstration")?;
        match report["steps"].as_array() {
            Some(steps) if report["ok"] == true => Ok(steps.len()),
            _ => Err(Failure::new(format!("the demonstration: {report}"))),
        }
    }

    fn end(self) -> Outcome {
        fs::remove_dir_all(&self.place).context(self.place.display())
    }
}

/// Returns a `PATH` with links to the toolchain, and the system's folders for the linker and the usual small programs.
fn only_the_toolchain(tools: &Path) -> Outcome<String> {
    let search = std::env::var_os("PATH").context("PATH")?;
    for tool in TOOLCHAIN {
        let found = std::env::split_paths(&search).map(|dir| dir.join(tool)).find(|p| p.is_file());
        if let Some(found) = found {
            link(&found, &tools.join(tool)).context(tool)?;
        }
    }
    Ok(format!("{}:/usr/bin:/bin", tools.display()))
}

#[cfg(unix)]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(from, to)
}

#[cfg(not(unix))]
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to).map(|_| ())
}
