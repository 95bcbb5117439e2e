//! Finds and builds the programs of `xtask/programs`, and examples.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of a program of `xtask/programs`, built with the same profile as the running test. If the program
/// does not exist, all programs are built, because some of them start others.
///
/// An existing program is not built again. After a change of a program, run the tests of the whole workspace or of
/// `mgp-programs`.
///
/// # Panics
/// Panics if the programs cannot be built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().nth(2).expect("a test is two folders below the programs");
    let path = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        let build = ["build", "--quiet", "--package", "mgp-programs", "--bins"];
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let release = folder.ends_with("release").then_some("--release");
        let built = Command::new(cargo).args(build).args(release).status();
        assert!(built.is_ok_and(|status| status.success()), "`{name}` does not build");
    }
    path
}

/// Returns the path of an example of a package of this workspace; builds it if necessary.
///
/// # Panics
/// Panics if the example cannot be built.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.ancestors().nth(2).expect("a test is two folders below the examples");
    let path = folder.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let release = folder.ends_with("release").then_some("--release");
        let build = ["build", "-q", "-p", package, "--example", name];
        let built = Command::new(cargo).args(build).args(release).status();
        assert!(built.is_ok_and(|status| status.success()), "`{name}` does not build");
    }
    path
}
