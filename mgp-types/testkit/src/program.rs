//! Finds and builds programs for tests: those of `xtask/programs`, and examples of packages.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of a program of `xtask/programs`, built with the same profile as the running test. If the program
/// does not exist, all programs are built, because some of them start other programs.
///
/// An existing program is not built again. So after a change of a program, build it by running the tests of the whole
/// workspace or of `mgp-programs`.
///
/// # Panics
/// Panics if the programs cannot be built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    built("", name, &["--package", "mgp-programs", "--bins"])
}

/// Returns the path of an example of a package of this workspace; builds it if necessary.
///
/// # Panics
/// Panics if the example cannot be built.
#[must_use]
pub fn example(package: &str, name: &str) -> PathBuf {
    built("examples", name, &["--package", package, "--example", name])
}

/// Returns the path of a program in a subfolder of the build folder of the profile. If the program does not exist, runs
/// `cargo build` with the given options.
fn built(subfolder: &str, name: &str, options: &[&str]) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.ancestors().nth(2).expect("a test is two folders below that of its profile");
    let path = profile.join(subfolder).join(name);
    let path = path.with_extension(std::env::consts::EXE_EXTENSION);
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let release = profile.ends_with("release").then_some("--release");
        let build =
            Command::new(cargo).args(["build", "--quiet"]).args(options).args(release).status();
        assert!(build.is_ok_and(|status| status.success()), "`{name}` does not build");
    }
    path
}
