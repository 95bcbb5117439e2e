//! Checks that `mgp` compiles from the packed packages alone, as `cargo install` from a registry would compile it.

use crate::run::{Context, Outcome, Program, root, target};
use serde_json::Value;
use std::{fmt::Write as _, fs, path::Path};

/// The `.crate` file of a packed package, by the package's name and version.
#[derive(Debug)]
pub(super) struct CrateFile {
    name: String,
    version: String,
}

/// Returns the `.crate` file of a workspace member.
pub(super) fn crate_file(packages: &Value, name: &str) -> Outcome<CrateFile> {
    let mut all = packages["packages"].as_array().into_iter().flatten();
    let package = all.find(|package| package["name"] == name).context(name)?;
    let version = package["version"].as_str().context(format!("version of {name}"))?.to_owned();
    Ok(CrateFile { name: name.to_owned(), version })
}

/// Unpacks the packages into an empty folder, and runs `cargo check` for `mgp` there. The unpacked packages replace the
/// packages of the registry.
///
/// The profiles and the lock file are copied from the workspace, so that third-party crates are compiled only once.
pub(super) fn check(crates: &[CrateFile]) -> Outcome {
    let packed = target()?.join("package");
    let folder = packed.join("unpacked");
    if folder.exists() {
        fs::remove_dir_all(&folder).context(folder.display())?;
    }
    fs::create_dir_all(&folder).context(folder.display())?;
    for CrateFile { name, version } in crates {
        let file = packed.join(format!("{name}-{version}.crate"));
        // Use `-m`, which gives the unpacked files the current time. In a `.crate`, all files have the same old time,
        // so cargo would not notice that sources have changed since its last build.
        Program::new("tar").args(&["-xzmf"]).args(&[&file]).dir(&folder).output()?;
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("Cargo.toml")?;
    write(&folder.join("Cargo.toml"), &workspace(crates, profiles(&manifest)))?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    write(&folder.join("Cargo.lock"), &lock)?;
    let check = Program::cargo(&["check", "--quiet", "--package", "mgp"]).dir(&folder);
    check.env("CARGO_TARGET_DIR", target()?).run()
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).context(path.display())
}

/// Returns a workspace manifest for `mgp` in which the unpacked packages replace the packages of the registry.
fn workspace(crates: &[CrateFile], profiles: &str) -> String {
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"mgp-[0-9]*\"]\n".to_owned();
    manifest.push_str("\n[patch.crates-io]\n");
    for CrateFile { name, version } in crates.iter().filter(|packed| packed.name != "mgp") {
        let _ = writeln!(manifest, "{name} = {{ path = \"{name}-{version}\" }}");
    }
    format!("{manifest}\n{profiles}")
}

/// Returns the profile sections of the workspace manifest, which are at its end.
fn profiles(manifest: &str) -> &str {
    manifest.find("[profile.").map_or("", |start| &manifest[start..])
}
