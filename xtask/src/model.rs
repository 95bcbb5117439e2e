//! `model [DIR]`: makes the folder of the sentence encoder; and the step of `ci` that really runs it.
//!
//! The work is done by `mgp-toolindex`, where programs of users find it too; nothing of it is built into `xtask`.

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome, Program, Rigour, has},
};
use std::path::{Path, PathBuf};

/// How the program of `mgp-toolindex` ends where the packages cannot be downloaded.
const NO_DOWNLOAD: i32 = 3;

/// The tests that need the model, and those that need no more than the feature.
const WITH_MODEL: [&str; 4] = ["--test", "sentences", "--test", "sentence_library"];
const WITH_FEATURE: [&str; 2] = ["--lib", "sentence"];

/// Makes the folder, or checks the one that is there.
pub(crate) fn model(flags: &Flags) -> Outcome {
    let folder = match flags.words() {
        [] => place()?,
        [folder] => std::path::absolute(folder).context(folder)?,
        _ => return Err(Failure::new("one folder is enough")),
    };
    match make(&folder, "fastembed")? {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{} has no model", folder.display()))),
    }
}

/// Opens the encoder, asks it for vectors that are known, and gives it broken files.
pub(crate) fn encoder(rigour: Rigour) -> Outcome {
    let folder = place()?;
    // Without the one there is no other, and building the encoder takes minutes.
    if !folder.join("manifest.json").is_file() && !has("python3") {
        return rigour.skip("encoder", "python3 is not installed, which downloads the model");
    }
    // This feature contains the other; one of them is enough to build.
    let feature = "hub";
    match make(&folder, feature)? {
        0 => {}
        NO_DOWNLOAD => return rigour.skip("encoder", "the model cannot be downloaded"),
        _ => return Err(Failure::new(format!("{} has no model", folder.display()))),
    }
    let runner: &[&str] = if has("cargo-nextest") { &["nextest", "run"] } else { &["test"] };
    for tests in [&WITH_FEATURE[..], &WITH_MODEL] {
        let tests = Program::cargo(runner)
            .args(&["--package", "mgp-toolindex", "--features", feature])
            .args(tests);
        tests.env("MGP_MODEL", &folder).run()?;
    }
    Ok(())
}

/// Runs the program that makes it; returns how it ended.
fn make(folder: &Path, feature: &str) -> Outcome<i32> {
    let what = ["run", "--quiet", "--package", "mgp-toolindex", "--example", "model"];
    let program = Program::cargo(&what).args(&["--features", feature, "--"]).args(&[folder]);
    program.code()
}

/// Where the model of this user is.
pub(crate) fn place() -> Outcome<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = cache.or_else(home).context("HOME, or the folder for the model")?;
    Ok(cache.join("mgp/model"))
}
