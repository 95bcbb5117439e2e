//! Category trees that are asked for with each list of tools (MGP §16.3).
//!
//! Applies to: inbound.

use std::sync::{Arc, Mutex, PoisonError};

use super::snapshot::Snapshot;
use crate::catalog::{Bitmap, CategoryTree};

/// How many trees are kept; most callers see one of a few sets of tools.
const MOST: usize = 16;

/// The trees of one state of the index; the one that was asked for last stands last.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    generation: u64,
    trees: Vec<(Option<Arc<Bitmap>>, Arc<CategoryTree>)>,
}

impl Trees {
    /// The categories of a set of tools, or of all.
    pub(crate) fn of(&self, now: &Snapshot, within: Option<&Arc<Bitmap>>) -> Arc<CategoryTree> {
        if let Some(tree) = self.lock().get(now.generation, within) {
            return tree;
        }
        let tree = Arc::new(CategoryTree::of(&now.catalog, within.map(|within| &**within)));
        self.lock().put(now.generation, within.cloned(), &tree);
        tree
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Whole entries are put in and taken out, so that a panic leaves none half made.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
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
            // Whoever still sees the index as it was is soon done.
            return;
        }
        if self.generation < generation {
            self.generation = generation;
            self.trees.clear();
        }
        if self.trees.len() >= MOST {
            self.trees.remove(0);
        }
        self.trees.push((within, Arc::clone(tree)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_made_once_for_a_state_and_a_set() {
        let trees = Trees::default();
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
        assert!(!Arc::ptr_eq(&late, &trees.of(&now, None)), "what was is not kept");
        assert_eq!(trees.lock().trees.len(), 1);
        for slot in 0..100 {
            trees.of(&next, set(slot).as_ref());
        }
        assert_eq!(trees.lock().trees.len(), MOST);
    }
}
