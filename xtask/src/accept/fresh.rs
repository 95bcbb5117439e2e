//! `core.fresh`, `kernel.demo`: a fresh clone and the Rust toolchain are enough.

use super::Verdict;
use crate::run::{Context, Failure, Outcome, Program, now, root, seconds, target};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long `ci` may take on two cores.
const BOUND: Duration = Duration::from_mins(20);

/// How long the demonstration may take with its release build, on two cores, from cached sources.
const DEMO: Duration = Duration::from_mins(10);

/// The programs of the Rust toolchain.
const TOOLCHAIN: &[&str] = &[
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "clippy-driver",
    "rustc",
    "rustdoc",
    "rustfmt",
    "rustup",
];

/// Clones what is committed, hides every other tool, and runs the two commands of the README.
pub(super) fn core_fresh() -> Outcome<Verdict> {
    let fresh = Fresh::new()?;
    fresh.demo()?;
    println!("the demonstration shows everything");
    let start = now();
    fresh.cargo(&["xtask", "ci"]).run()?;
    let took = start.elapsed();
    fresh.end()?;
    Ok(Verdict {
        pass: took <= BOUND,
        figure: format!("both commands work, ci in {}", seconds(took)),
        bound: format!("ci in {}", seconds(BOUND)),
    })
}

/// `kernel.demo`: the first of them alone, with the time its release build takes.
pub(super) fn kernel_demo() -> Outcome<Verdict> {
    let fresh = Fresh::new()?;
    let start = now();
    let steps = fresh.demo()?;
    let took = start.elapsed();
    fresh.end()?;
    Ok(Verdict {
        pass: took <= DEMO,
        figure: format!("{steps} steps seen, built and run in {}", seconds(took)),
        bound: format!("all seen, in {}", seconds(DEMO)),
    })
}

/// A clone of what is committed, and a search path with the toolchain only.
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

    /// Runs the demonstration; says how many steps it showed.
    fn demo(&self) -> Outcome<usize> {
        let told = self.cargo(&["mgp", "demo", "--json"]).output()?;
        let told: Value = serde_json::from_str(&told).context("the demonstration")?;
        match told["steps"].as_array() {
            Some(steps) if told["ok"] == true => Ok(steps.len()),
            _ => Err(Failure::new(format!("the demonstration: {told}"))),
        }
    }

    fn end(self) -> Outcome {
        fs::remove_dir_all(&self.place).context(self.place.display())
    }
}

/// A search path with the toolchain, a linker and the usual small programs.
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
