//! Profile-guided optimisation. A first program counts how often each of its parts runs in the calls of `bench kernel`.
//! From these counts, the compiler inlines and arranges the code of a second program.

use super::build_with;
use crate::{
    bench::train,
    run::{Context, Outcome, Program, emptied, has, target},
};
use std::path::PathBuf;

/// Builds the program twice; between the builds, makes calls through the first program. Returns the path of the second
/// program.
pub(super) fn build() -> Outcome<PathBuf> {
    let merge = profdata()?;
    let folder = emptied(target()?.join("pgo"))?;
    let counts = folder.join("counts");
    train(&build_with(&format!("-Cprofile-generate={}", counts.display()))?)?;
    let merged = folder.join("merged.profdata");
    // `--sparse` leaves out functions that the benchmark never ran. With a count of zero, they would be compiled for
    // size, although users run some of them.
    let words = ["merge", "--sparse", "--output"];
    Program::new(merge).args(&words).args(&[&merged, &counts]).run()?;
    build_with(&format!("-Cprofile-use={}", merged.display()))
}

/// Returns the program that merges counts: the program of the toolchain if it is installed, because the format depends
/// on the version of LLVM, else the program in `PATH`.
fn profdata() -> Outcome<PathBuf> {
    let name = "llvm-profdata";
    let folder = Program::new("rustc").args(&["--print", "target-libdir"]).output()?;
    let own = PathBuf::from(folder.trim()).with_file_name("bin").join(name);
    if own.is_file() {
        return Ok(own);
    }
    has(name).then(|| name.into()).context("run `rustup component add llvm-tools` first")
}
