//! The step `package` of `ci`: every published package must contain all that it needs, and `mgp` must compile from the
//! packages alone.

use super::install;
use crate::{
    run::{Failure, Outcome, Program, metadata, root},
    tidy::{Tree, published, source::Source},
};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// Macros that read another file at compile time.
const READS: &[&str] = &["include_str!", "include_bytes!", "include!"];

/// The files that each package must contain in addition to its sources.
const NEEDED: &[&str] = &["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs each published package, checks its files and its manifest, and checks that `mgp` compiles from the packages.
///
/// The packages are not built one by one (`--no-verify`), because that would take the same time as all other steps of
/// `ci` together.
pub(crate) fn package() -> Outcome {
    let packages = metadata()?;
    let mut pack = vec!["package", "--no-verify", "--allow-dirty", "--quiet"];
    let names: Vec<(&str, String)> = published(&packages).collect();
    for (name, _) in &names {
        pack.extend(["--package", *name]);
    }
    Program::cargo(&pack).run()?;
    let tree = Tree::read(&root())?;
    let mut faults = Vec::new();
    for package in packages["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, folder)) = names.iter().find(|(published, _)| *published == name) else {
            continue;
        };
        let list = ["package", "--list", "--allow-dirty", "--quiet", "--package", name];
        let list = Program::cargo(&list).output()?;
        let files: Vec<&str> = list.lines().collect();
        let mut found = missing_files(&files);
        found.extend(manifest_faults(package));
        found.extend(unpacked_reads(&tree, folder, &files));
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    println!("package: {} packages, {} faults", names.len(), faults.len());
    if !faults.is_empty() {
        return Err(Failure::new(faults.join("; ")));
    }
    let versions = names.iter().map(|(name, _)| install::crate_file(&packages, name));
    install::check(&versions.collect::<Outcome<Vec<_>>>()?)
}

/// Returns a message for each required file that a package does not contain.
fn missing_files(files: &[&str]) -> Vec<String> {
    let needed = NEEDED.iter().filter(|file| !files.contains(file));
    let mut missing: Vec<_> = needed.map(|file| format!("no {file}")).collect();
    if !files.contains(&"src/lib.rs") && !files.contains(&"src/main.rs") {
        missing.push("no src/lib.rs or src/main.rs".to_owned());
    }
    missing
}

/// Returns a message for each manifest entry that the registry page or the documentation needs and the package lacks.
fn manifest_faults(package: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if package["description"].as_str().unwrap_or_default().is_empty() {
        faults.push("no description".to_owned());
    }
    for member in ["categories", "keywords"] {
        // Refuse more than five keywords or categories, because the registry refuses them too.
        let count = package[member].as_array().map_or(0, Vec::len);
        if !(1..=5).contains(&count) {
            faults.push(format!("{count} {member}, 1 to 5 are needed"));
        }
    }
    if package["metadata"]["docs"]["rs"]["all-features"] != true {
        faults.push("no `all-features = true` in [package.metadata.docs.rs]".to_owned());
    }
    faults
}

/// Returns a message for each file that a package lacks although its sources read the file at compile time.
fn unpacked_reads(tree: &Tree, folder: &str, files: &[&str]) -> Vec<String> {
    let lib = format!("{folder}/src/lib.rs");
    let lib = tree.rust().iter().find(|source| source.path == lib);
    let mut missing = Vec::new();
    for source in tree.rust() {
        let Some(path) = source.path.strip_prefix(&format!("{folder}/")) else { continue };
        let doctest = lib.is_some_and(|lib| is_doctest(&lib.text, path));
        if path.starts_with("src/") && !doctest {
            missing.extend(not_packed(source, path, files));
        }
    }
    missing
}

/// Returns a message for each file that the package lacks although this source file reads it at compile time.
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

/// Returns whether `lib.rs` declares a file's module for documentation tests only.
fn is_doctest(lib: &str, path: &str) -> bool {
    let name = path.trim_start_matches("src/").trim_end_matches(".rs");
    lib.contains(&format!("#[cfg(doctest)]\nmod {name};"))
}

/// Resolves `..` in a path; returns `None` if the path leaves the package.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn a_package_without_readme_or_licence_is_refused() {
        let whole = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];
        assert!(missing_files(&whole).is_empty());
        for gone in 0..whole.len() {
            let files: Vec<&str> =
                whole.iter().filter(|file| **file != whole[gone]).copied().collect();
            assert_eq!(missing_files(&files).len(), 1, "without {}", whole[gone]);
        }
    }

    #[test]
    fn a_manifest_that_a_registry_shows_badly_is_refused() {
        let whole = json!({
            "description": "a", "categories": ["b"], "keywords": ["c"],
            "metadata": { "docs": { "rs": { "all-features": true } } },
        });
        assert!(manifest_faults(&whole).is_empty());
        for (member, bad) in [
            ("description", json!("")),
            ("categories", json!([])),
            ("keywords", json!(["1", "2", "3", "4", "5", "6"])),
            ("metadata", json!(null)),
        ] {
            let mut package = whole.clone();
            package[member] = bad;
            assert_eq!(manifest_faults(&package).len(), 1, "{member}");
        }
    }
}
