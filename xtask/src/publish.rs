//! The steps of `ci` about publishing: packages that contain all they need, licences and advisories, the MSRV.

use crate::{
    run::{Context, Failure, Outcome, Program, Rigour, has, metadata, root},
    tidy::{Tree, published, source::Source},
};
use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// Macros that read another file while compiling.
const READS: &[&str] = &["include_str!", "include_bytes!", "include!"];

/// Packs each published package, and checks that its sources read no file outside it.
///
/// The packages are not compiled again (`--no-verify`): that would take as long as the rest of `ci`.
pub(crate) fn package() -> Outcome {
    let packages = metadata()?;
    let mut pack = vec!["package", "--no-verify", "--allow-dirty", "--quiet"];
    let names: Vec<(&str, String)> = published(&packages).collect();
    for (name, _) in &names {
        pack.extend(["--package", *name]);
    }
    Program::cargo(&pack).run()?;
    let tree = Tree::read(&root())?;
    let mut missing = Vec::new();
    for (name, folder) in &names {
        let list = ["package", "--list", "--allow-dirty", "--quiet", "--package", *name];
        let list = Program::cargo(&list).output()?;
        let files: Vec<&str> = list.lines().collect();
        if !files.contains(&"src/lib.rs") && !files.contains(&"src/main.rs") {
            missing.push(format!("{name}: src/lib.rs or src/main.rs"));
        }
        let nested: Vec<String> = names.iter().map(|(_, other)| format!("{other}/")).collect();
        for source in tree.rust() {
            let Some(path) = source.path.strip_prefix(&format!("{folder}/")) else { continue };
            let of_another = nested.iter().any(|other| {
                other.len() > folder.len() + 1 && source.path.starts_with(other.as_str())
            });
            let lib = format!("{folder}/src/lib.rs");
            let lib = tree.rust().iter().find(|source| source.path == lib);
            let doctest = lib.is_some_and(|lib| is_doctest(&lib.text, path));
            if path.starts_with("src/") && !of_another && !doctest {
                missing
                    .extend(not_packed(source, path, &files).map(|file| format!("{name}: {file}")));
            }
        }
    }
    println!("package: {} packages, {} missing files", names.len(), missing.len());
    if missing.is_empty() { Ok(()) } else { Err(Failure::new(missing.join("; "))) }
}

/// Returns the files that a source reads while compiling and that its package does not contain.
fn not_packed<'a>(
    source: &'a Source,
    path: &'a str,
    files: &'a [&str],
) -> impl Iterator<Item = String> + 'a {
    source.strings.iter().filter_map(move |literal| {
        let before = source.code[..literal.start].trim_end_matches(['"', '(', '#', 'r', ' ']);
        let reads = READS.iter().any(|reads| before.ends_with(reads))
            || before.trim_end_matches('=').trim_end().ends_with("#[path");
        if !reads || source.is_test(literal.start) {
            return None;
        }
        let read = &source.text[literal.clone()];
        let target = normal(&Path::new(path).parent()?.join(read));
        let packed = target.as_deref().is_some_and(|target| files.contains(&target));
        (!packed).then(|| format!("{path} reads {read}"))
    })
}

/// Returns whether a `lib.rs` declares the module of a file for documentation tests only.
fn is_doctest(lib: &str, path: &str) -> bool {
    let name = path.trim_start_matches("src/").trim_end_matches(".rs");
    lib.contains(&format!("#[cfg(doctest)]\nmod {name};"))
}

/// Resolves `..`; `None` if the path leaves the package.
fn normal(path: &Path) -> Option<String> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            part => normal.push(part),
        }
    }
    Some(normal.to_string_lossy().into_owned())
}

/// Checks the licences and sources of all dependencies against `deny.toml`; `cargo deny`, if it is installed, also
/// checks advisories.
///
/// Advisories come from a repository on the network, so a machine without it checks the rest.
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

/// Evaluates an SPDX expression of `AND`, `OR` and parentheses; `/` is the old spelling of `OR`.
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

/// Checks that each member has the workspace's `rust-version`, and that this toolchain is not older.
///
/// Building with that very version needs a second toolchain; when the versions are equal, the other steps are that build.
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
    fn files_outside_the_package_are_noticed() {
        let missing = |text: &str| {
            let source = Source::new("a/src/b.rs", text);
            let files = ["src/lib.rs", "src/c.txt"];
            not_packed(&source, "src/b.rs", &files).count()
        };
        assert_eq!(missing("const A: &str = include_str!(\"c.txt\");"), 0);
        assert_eq!(missing("const A: &str = include_str!(\"d.txt\");"), 1);
        assert_eq!(missing("#[path = \"../../b/examples/e.rs\"]\nmod e;"), 1);
        assert_eq!(missing("#[cfg(test)]\nmod t { const A: &str = include_str!(\"d.txt\"); }"), 0);
        assert_eq!(missing("const A: &str = \"../x\";"), 0);
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
