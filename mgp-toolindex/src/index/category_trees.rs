//! A cache of category trees; every `tools/list` needs one (MGP §16.3).

use std::sync::Arc;

use mgp_types::sync::Mutex;

use super::snapshot::Snapshot;
use crate::catalog::{Bitmap, CategoryTree};

/// The maximum number of cached trees. A few are enough, because most callers see one of a few sets of tools.
const MAX_TREES: usize = 16;

/// The category trees of the current index, the most recently used last. A change of the index empties the cache.
#[derive(Debug, Default)]
pub(crate) struct CategoryTreeCache {
    cached: Mutex<CachedTrees>,
}

#[derive(Debug, Default)]
struct CachedTrees {
    generation: u64,
    trees: Vec<(Option<Arc<Bitmap>>, Arc<CategoryTree>)>,
}

impl CategoryTreeCache {
    /// Returns the categories of the tools in `within`; `None` means all tools.
    pub(crate) fn of(&self, now: &Snapshot, within: Option<&Arc<Bitmap>>) -> Arc<CategoryTree> {
        if let Some(tree) = self.cached.lock().get(now.generation, within) {
            return tree;
        }
        let tree = Arc::new(CategoryTree::of(&now.catalog, within.map(|within| &**within)));
        self.cached.lock().put(now.generation, within.cloned(), &tree);
        tree
    }
}

impl CachedTrees {
    fn get(&mut self, generation: u64, within: Option<&Arc<Bitmap>>) -> Option<Arc<CategoryTree>> {
        if self.generation != generation {
            return None;
        }
        let at = self.trees.iter().position(|(set, _)| set.as_ref() == within)?;
        let found = self.trees.remove(at);
        let tree = Arc::clone(&found.1);
        self.trees.push(found);
        Some(tree)
    }

    fn put(&mut self, generation: u64, within: Option<Arc<Bitmap>>, tree: &Arc<CategoryTree>) {
        if self.generation > generation {
            // Do not cache the tree of an older snapshot: only searches that are already running still use it.
            return;
        }
        if self.generation < generation {
            self.generation = generation;
            self.trees.clear();
        }
        if self.trees.len() >= MAX_TREES {
            self.trees.remove(0);
        }
        self.trees.push((within, Arc::clone(tree)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_computed_once_per_generation_and_set() {
        let trees = CategoryTreeCache::default();
        let now = Snapshot { generation: 1, ..Snapshot::default() };
        let set = |slot: u32| Some(Arc::new([slot].into_iter().collect::<Bitmap>()));
        let all = trees.of(&now, None);
        assert!(Arc::ptr_eq(&all, &trees.of(&now, None)));
        let some = trees.of(&now, set(3).as_ref());
        assert!(!Arc::ptr_eq(&some, &all));
        assert!(Arc::ptr_eq(&some, &trees.of(&now, set(3).as_ref())), "an equal set is the same");
        assert!(!Arc::ptr_eq(&some, &trees.of(&now, set(4).as_ref())));
        let next = Snapshot { generation: 2, ..Snapshot::default() };
        assert!(!Arc::ptr_eq(&all, &trees.of(&next, None)), "the index changed");
        let late = trees.of(&now, None);
        assert!(!Arc::ptr_eq(&late, &trees.of(&now, None)), "what was is not cached");
        assert_eq!(trees.cached.lock().trees.len(), 1);
        for slot in 0..100 {
            trees.of(&next, set(slot).as_ref());
        }
        assert_eq!(trees.cached.lock().trees.len(), MAX_TREES);
    }
}
