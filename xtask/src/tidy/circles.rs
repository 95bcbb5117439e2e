//! The rule of `tidy` about import cycles inside a crate: groups of files that use each other, directly or indirectly.

use super::{
    Violation,
    exports::{Export, uses},
    source::Source,
};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of files in an import cycle.
const MAX_FILES: usize = 4;

/// The maximum length of a chain of re-exports; stops cycles among re-exports.
const MAX_HOPS: usize = 8;

/// Refuses cycles of more than [`MAX_FILES`] files; imports in tests are ignored.
pub(super) fn circles(sources: &[Source]) -> Vec<Violation> {
    let mut crates: BTreeMap<String, Crate<'_>> = BTreeMap::new();
    for source in sources {
        if let Some((root, module)) = module_of(&source.path).filter(|_| !source.is_test(0)) {
            crates.entry(root).or_default().add(module, source);
        }
    }
    let mut found = Vec::new();
    for files in crates.values() {
        for mut circle in files.components() {
            if circle.len() > MAX_FILES {
                circle.sort_unstable();
                let count = circle.len();
                let what = format!("is in a circle of {count} files: {}", circle.join(", "));
                found.push(Violation::new(circle[0], what));
            }
        }
    }
    found
}

/// Returns the root folder of the crate to which a file belongs, and the path of the file's module.
fn module_of(path: &str) -> Option<(String, Vec<String>)> {
    let (package, inside) = path.split_once("/src/")?;
    let mut root = format!("{package}/src");
    let mut parts: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
    // Treat each folder or file in `bin` as a separate crate.
    if parts[0] == "bin" && parts.len() > 1 {
        root = format!("{root}/bin/{}", parts[1]);
        parts.drain(..2);
    }
    if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    Some((root, parts.into_iter().map(str::to_owned).collect()))
}

/// The modules of one crate; a library and a `main.rs` in the same folder count as one crate.
#[derive(Default)]
struct Crate<'a> {
    modules: BTreeMap<Vec<String>, Module<'a>>,
}

#[derive(Default)]
struct Module<'a> {
    path: &'a str,
    imports: Vec<Vec<String>>,
    /// All items that `use` statements make visible in this module, privately or publicly.
    exports: Vec<Export>,
}

impl<'a> Crate<'a> {
    fn add(&mut self, name: Vec<String>, source: &'a Source) {
        let module = self.modules.entry(name).or_default();
        module.path = &source.path;
        for found in uses(source) {
            for export in found.exports {
                // Do not count a public re-export as an import of this module: it is an import of the modules that use
                // the re-exported item.
                if !found.public
                    && matches!(export.path.first().map_or("", |part| part), "crate" | "super")
                {
                    let path = export.path.iter().chain([&export.item]);
                    module.imports.push(path.cloned().collect());
                }
                // Add private imports as well, because child modules can use them.
                module.exports.push(export);
            }
        }
    }

    /// Returns the module to which a path refers if it is written in the module `from`; follows re-exports.
    fn resolve(&self, from: &[String], path: &[String], hops: usize) -> Option<&Vec<String>> {
        let mut at = from.to_vec();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            Some(first) => {
                let mut child = at.clone();
                child.push(first.to_owned());
                self.modules.get(&child)?;
            }
            None => return None,
        }
        while let Some(part) = rest.first() {
            at.push(part.clone());
            if !self.modules.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let (name, module) = self.modules.get_key_value(&at)?;
        if let Some(item) = rest.first().filter(|_| hops < MAX_HOPS)
            && let Some(export) = module.exports.iter().find(|export| export.name == *item)
        {
            let mut target = export.path.clone();
            target.push(export.item.clone());
            if let Some(found) = self.resolve(name, &target, hops + 1) {
                return Some(found);
            }
        }
        Some(name)
    }

    /// Returns the strongly connected components of the import graph, as lists of file paths.
    fn components(&self) -> Vec<Vec<&'a str>> {
        let names: Vec<&Vec<String>> = self.modules.keys().collect();
        let index = |name: &Vec<String>| names.binary_search(&name).ok();
        let edges: Vec<BTreeSet<usize>> = self
            .modules
            .iter()
            .map(|(name, module)| {
                let targets = module.imports.iter().filter_map(|path| self.resolve(name, path, 0));
                targets.filter(|target| *target != name).filter_map(index).collect()
            })
            .collect();
        let mut back: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); edges.len()];
        for (from, targets) in edges.iter().enumerate() {
            for target in targets {
                back[*target].insert(from);
            }
        }
        let mut order = Vec::new();
        let mut seen = vec![false; edges.len()];
        for start in 0..edges.len() {
            visit(start, &edges, &mut seen, &mut order);
        }
        let mut seen = vec![false; edges.len()];
        let mut components = Vec::new();
        for start in order.into_iter().rev() {
            let mut component = Vec::new();
            visit(start, &back, &mut seen, &mut component);
            components.push(component.into_iter().map(|at| self.modules[names[at]].path).collect());
        }
        components
    }
}

/// Visits every unvisited node that can be reached from `start`, and appends each node after its successors.
fn visit(start: usize, edges: &[BTreeSet<usize>], seen: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    for next in &edges[start] {
        visit(*next, edges, seen, order);
    }
    order.push(start);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a crate of `count` files, each of which uses the next one.
    fn chain(count: usize, last: &str) -> Vec<Source> {
        let mut sources: Vec<Source> = (0..count)
            .map(|at| {
                let text = match at + 1 {
                    next if next == count => last.to_owned(),
                    next => format!("use crate::m{next}::Item{next};"),
                };
                Source::new(format!("a/src/m{at}.rs"), text)
            })
            .collect();
        sources.push(Source::new("a/src/lib.rs", "mod m0;\npub use m0::X;"));
        sources
    }

    #[test]
    fn a_large_circle_is_refused() {
        let found = circles(&chain(5, "use super::m0::X;"));
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("circle of 5 files"), "{}", found[0]);
    }

    #[test]
    fn a_circle_over_a_reexport_is_found() {
        assert_eq!(circles(&chain(5, "use crate::X;")).len(), 1);
    }

    #[test]
    fn small_circles_chains_and_tests_are_fine() {
        assert_eq!(circles(&chain(4, "use crate::m0::X;")), []);
        assert_eq!(circles(&chain(9, "use std::fmt;")), []);
        assert_eq!(circles(&chain(5, "#[cfg(test)]\nmod tests { use crate::m0::X; }")), []);
    }

    #[test]
    fn programs_are_crates_of_their_own() {
        let module = |path: &str| module_of(path).unwrap();
        assert_eq!(module("a/src/b/mod.rs"), ("a/src".to_owned(), vec!["b".to_owned()]));
        assert_eq!(module("a/src/bin/x/main.rs"), ("a/src/bin/x".to_owned(), vec![]));
        assert!(module_of("a/tests/b.rs").is_none());
    }
}
