//! The categories of an index as a tree (MGP §16.4).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::catalog::Catalog;
use super::category::{SEPARATOR, is_in};
use super::{Bitmap, Labels};

#[derive(Debug, Default)]
pub(crate) struct CategoryTree {
    /// The top-level categories, sorted by number of tools, largest first.
    pub(crate) roots: Vec<CategoryNode>,
}

#[derive(Debug)]
pub(crate) struct CategoryNode {
    /// The full name of the category, e.g. `filesystem/read`.
    pub(crate) path: String,
    /// The number of tools in this category, including the categories within it.
    pub(crate) tools: usize,
    /// The subcategories, sorted by number of tools, largest first.
    pub(crate) below: Vec<Self>,
}

impl CategoryTree {
    /// Returns whether at least one category of the tree matches a filter. The filter is the full name of a category,
    /// or only the name of one level.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        fn any(nodes: &[CategoryNode], wanted: &str) -> bool {
            nodes.iter().any(|node| is_in(&node.path, wanted) || any(&node.below, wanted))
        }
        any(&self.roots, wanted)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Counts the tools of a catalogue by category; if `within` is given, counts only the tools in that set.
    pub(crate) fn of(catalog: &Catalog, within: Option<&Bitmap>) -> Self {
        // Many tools share one list of categories, so first count the tools of each list.
        let mut lists: FxHashMap<u32, (&Labels, usize)> = FxHashMap::default();
        for (slot, record) in catalog.records() {
            if within.is_none_or(|within| within.contains(slot)) {
                lists.entry(record.categories).or_insert((&record.entry.categories, 0)).1 += 1;
            }
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (labels, tools) in lists.into_values() {
            let mut paths: Vec<&str> =
                labels.words.iter().flat_map(|path| prefixes(path)).collect();
            // Remove duplicates, so that a tool in two subcategories counts only once in their parent.
            paths.sort_unstable();
            paths.dedup();
            for path in paths {
                *counts.entry(path).or_default() += tools;
            }
        }
        Self { roots: nest(&counts.into_iter().collect::<Vec<_>>(), "") }
    }
}

/// Returns the names of all parents of a category and of the category itself, outermost first.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices(SEPARATOR).map(|(at, _)| &path[..at]).chain([path])
}

/// Returns the nodes directly below the category `above`, each with its subcategories; `all` is sorted by path.
fn nest(all: &[(&str, usize)], above: &str) -> Vec<CategoryNode> {
    let mut nodes = Vec::new();
    for (path, tools) in all {
        let Some(rest) = path.strip_prefix(above) else { continue };
        if rest.is_empty() || rest.contains(SEPARATOR) {
            continue;
        }
        let prefix = format!("{path}{SEPARATOR}");
        let start = all.partition_point(|(other, _)| *other < &*prefix);
        let length =
            all[start..].iter().take_while(|(other, _)| other.starts_with(&prefix)).count();
        let below = nest(&all[start..start + length], &prefix);
        nodes.push(CategoryNode { path: (*path).to_owned(), tools: *tools, below });
    }
    nodes.sort_by(|a, b| b.tools.cmp(&a.tools).then_with(|| a.path.cmp(&b.path)));
    nodes
}
