//! The steps of `ci` about publishing: complete packages, licences and advisories, and the minimum Rust version (MSRV).

mod install;
mod package;

pub(crate) use package::package;

use crate::run::{Context, Failure, Outcome, Program, Rigour, has, metadata, root};
use std::fs;

/// Checks the licences and sources of all dependencies against `deny.toml`. If `cargo deny` is installed, it also
/// checks for security advisories.
///
/// Checking advisories needs the network; on a machine without it, only licences and sources are checked.
pub(crate) fn deny(_: Rigour) -> Outcome {
    let policy = fs::read_to_string(root().join("deny.toml")).context("deny.toml")?;
    let allowed = allowed_licences(&policy);
    let output = Program::cargo(&["metadata", "--format-version", "1", "--locked"]).output()?;
    let graph: serde_json::Value = serde_json::from_str(&output).context("cargo metadata")?;
    let mut faults = Vec::new();
    for package in graph["packages"].as_array().into_iter().flatten() {
        let text = |member: &str| package[member].as_str().unwrap_or_default();
        if !is_licence_allowed(text("license"), &allowed) {
            faults.push(format!(
                "{}: licence `{}` is not in deny.toml",
                text("name"),
                text("license")
            ));
        }
        let source = text("source");
        if !source.is_empty() && source != REGISTRY {
            faults.push(format!("{}: source {source} is not crates.io", text("name")));
        }
    }
    println!("deny: {} packages", graph["packages"].as_array().map_or(0, Vec::len));
    if !faults.is_empty() {
        return Err(Failure::new(faults.join("; ")));
    }
    if has("cargo-deny") { Program::cargo(&["deny", "check"]).run() } else { Ok(()) }
}

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Returns the strings of the `allow` list in the section `[licenses]`.
fn allowed_licences(policy: &str) -> Vec<&str> {
    let section = policy.split("[licenses]").nth(1).unwrap_or_default();
    let list = section.split("allow = [").nth(1).unwrap_or_default();
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Returns whether the allowed licences satisfy an SPDX expression; `/` is an old form of `OR`.
fn is_licence_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let result = any_of(&mut words, allowed);
    result && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut result = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        result |= all_of(words, allowed);
    }
    result
}

fn all_of(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut result = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words, allowed);
    }
    result
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let result = any_of(words, allowed);
        return words.next() == Some(")") && result;
    }
    let Some(name) = words.next() else { return false };
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().unwrap_or_default();
        return allowed.contains(&name) || allowed.contains(&&*format!("{name} WITH {exception}"));
    }
    allowed.contains(&name)
}

/// Checks that each workspace member has the same `rust-version`, and that the toolchain in use is not older.
///
/// This step builds nothing with exactly the minimum version (MSRV), because that would need a second toolchain. If the
/// current toolchain has this version, the other steps of `ci` already build with it.
pub(crate) fn msrv(rigour: Rigour) -> Outcome {
    let packages = metadata()?;
    let mut versions: Vec<&str> = Vec::new();
    for package in packages["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        versions.push(package["rust_version"].as_str().context(format!("rust-version of {name}"))?);
    }
    versions.sort_unstable();
    versions.dedup();
    let [wanted] = versions[..] else {
        return Err(Failure::new(format!(
            "several values of rust-version: {}",
            versions.join(", ")
        )));
    };
    let shown = Program::new("rustc").args(&["--version"]).output()?;
    let toolchain = version(shown.split(' ').nth(1).unwrap_or_default());
    let minimum = version(wanted);
    if toolchain < minimum {
        return Err(Failure::new(format!("rust-version is {wanted}, the toolchain {shown}")));
    }
    if toolchain[..2] != minimum[..2] {
        return rigour
            .skip("a build with the MSRV", &format!("this toolchain is {}", shown.trim()));
    }
    println!("msrv: {wanted}, built by {}", shown.trim());
    Ok(())
}

fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version("1.100.0") > version("1.95"));
        assert_eq!(version("1.95.0-nightly"), version("1.95"));
    }

    #[test]
    fn a_licence_is_allowed_if_one_alternative_is() {
        let allowed = allowed_licences("[licenses]\nallow = [\n  \"MIT\",\n  \"Apache-2.0\",\n]\n");
        assert_eq!(allowed, ["MIT", "Apache-2.0"]);
        let good =
            ["MIT", "MIT OR GPL-3.0", "MIT/GPL-3.0", "(MIT AND Apache-2.0) OR X", "MIT WITH Y"];
        for good in good {
            assert!(is_licence_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT MIT"] {
            assert!(!is_licence_allowed(bad, &allowed), "{bad}");
        }
    }
}
