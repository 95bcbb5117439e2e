//! The command `tidy`: checks the rules of the workspace that a program can check. It is a step of `ci`, and also a
//! test.
//!
//! Each rule is a function that returns violations. The tests of a rule contain a sample that it must refuse.

mod arrows;
mod circles;
pub(crate) mod exports;
mod figures;
mod layout;
mod reach;
mod services;
pub(crate) mod source;
mod text;
mod weight;
mod words;

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome, metadata, root},
};
use source::Source;
use std::{fmt, fs, path::Path};

/// A violation of a rule: the place in the workspace, and a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    place: String,
    what: String,
}

impl Violation {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    fn at(source: &Source, at: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{}:{}", source.path, source.line(at)), what)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// The files and the metadata that the rules read.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    rust: Vec<Source>,
    /// Other text files, e.g. Markdown: path and contents.
    prose: Vec<(String, String)>,
    /// The output of `cargo metadata --no-deps`.
    packages: serde_json::Value,
}

/// Runs all rules over the workspace.
pub(crate) fn tidy(_: &Flags) -> Outcome {
    let tree = Tree::read(&root())?;
    let violations = check(&tree);
    for violation in &violations {
        println!("{violation}");
    }
    let files = tree.rust.len() + tree.prose.len();
    println!("tidy: {files} files, {} violations", violations.len());
    if violations.is_empty() { Ok(()) } else { Err(Failure::new("the rules are broken")) }
}

/// Applies every rule, and returns all violations.
fn check(tree: &Tree) -> Vec<Violation> {
    let architecture = tree.prose("ARCHITECTURE.md");
    let mut found = arrows::optional(&tree.packages);
    found.extend(arrows::written_down(&tree.packages, architecture));
    found.extend(arrows::no_anyhow(&tree.packages));
    found.extend(weight::light_by_default(&tree.packages));
    found.extend(weight::complete_program(&tree.packages));
    for source in &tree.rust {
        found.extend(layout::length(source));
        found.extend(layout::function_length(source));
        found.extend(layout::name(source));
        found.extend(layout::header(source));
        found.extend(layout::lib_without_logic(source));
        found.extend(text::method_literals(source));
        found.extend(text::attributes(source));
        found.extend(text::unfinished(&source.path, &source.text));
        found.extend(words::forbidden(source));
        found.extend(words::first_words(source));
    }
    for (path, content) in &tree.prose {
        found.extend(text::unfinished(path, content));
        if has_extension(path, "md") {
            found.extend(words::forbidden_in_markdown(path, content));
        }
    }
    found.extend(reach::configurations(&tree.rust));
    found.extend(circles::circles(&tree.rust));
    found.extend(exports::twice(&tree.libraries()));
    found.extend(services::listed(tree.prose("docs/governance.md"), &tree.rust));
    found.extend(figures::agree(tree.prose("README.md"), tree.prose("docs/benchmarks.md")));
    found
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

impl Tree {
    /// Returns the published packages with their `lib.rs`.
    pub(crate) fn libraries(&self) -> Vec<(&str, &Source)> {
        let mut libraries = Vec::new();
        for (name, folder) in published(&self.packages) {
            let lib = format!("{folder}/src/lib.rs");
            if let Some(source) = self.rust.iter().find(|source| source.path == lib) {
                libraries.push((name, source));
            }
        }
        libraries
    }

    pub(crate) fn rust(&self) -> &[Source] {
        &self.rust
    }

    pub(crate) fn read(root: &Path) -> Outcome<Self> {
        let mut tree = Self { packages: metadata()?, ..Self::default() };
        tree.walk(root, "")?;
        Ok(tree)
    }

    fn walk(&mut self, root: &Path, below: &str) -> Outcome {
        let folder = root.join(below);
        for entry in fs::read_dir(&folder).context(folder.display())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !matches!(&*name, "target" | "node_modules") {
                    self.walk(root, &path)?;
                }
            } else if let Some((_, extension @ ("rs" | "md" | "toml"))) = name.rsplit_once('.') {
                let text = fs::read_to_string(entry.path()).context(&path)?;
                if extension == "rs" {
                    self.rust.push(Source::new(path, text));
                } else {
                    self.prose.push((path, text));
                }
            }
        }
        Ok(())
    }

    fn prose(&self, path: &str) -> Option<&str> {
        self.prose.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_str())
    }
}

/// Returns the names and the folders of the published packages.
pub(crate) fn published(packages: &serde_json::Value) -> impl Iterator<Item = (&str, String)> {
    let is_published = |name: &str| {
        let all = packages["packages"].as_array().into_iter().flatten();
        all.into_iter().any(|package| package["name"] == name && package["publish"].is_null())
    };
    members(packages).filter(move |(name, _)| is_published(name))
}

/// Returns the names of all packages, and their folders relative to the workspace root.
fn members(packages: &serde_json::Value) -> impl Iterator<Item = (&str, String)> {
    let root = packages["workspace_root"].as_str().unwrap_or_default();
    packages["packages"].as_array().into_iter().flatten().map(move |package| {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let folder = manifest.trim_end_matches("/Cargo.toml").strip_prefix(root);
        let folder = folder.unwrap_or_default().trim_start_matches('/').to_owned();
        (package["name"].as_str().unwrap_or_default(), folder)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let violations = check(&Tree::read(&root()).unwrap());
        let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}
