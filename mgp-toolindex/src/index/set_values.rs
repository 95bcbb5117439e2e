//! A cache of values that are computed from sets of tools, e.g. from the tools that a caller may find (MGP §16.3,
//! §16.5).

use std::sync::Arc;

use mgp_types::sync::Mutex;

use super::tool_sets::are_too_many;
use crate::catalog::Bitmap;

/// The values of sets of tools in the current version of the index, the most recently used value last. A new version
/// empties the cache.
#[derive(Debug)]
pub(crate) struct SetValues<T>(Mutex<CachedValues<T>>);

#[derive(Debug)]
struct CachedValues<T> {
    version: u64,
    values: Vec<(Option<Arc<Bitmap>>, Arc<T>)>,
}

impl<T> Default for SetValues<T> {
    fn default() -> Self {
        Self(Mutex::new(CachedValues { version: 0, values: Vec::new() }))
    }
}

impl<T> SetValues<T> {
    /// Returns the value of the tools in `within`, or of all tools if it is `None`: the cached value, or else the
    /// result of `compute`, which is then cached.
    ///
    /// `version` must increase with each change of the index that can change a value.
    pub(crate) fn of(
        &self,
        version: u64,
        within: Option<&Arc<Bitmap>>,
        compute: impl FnOnce() -> T,
    ) -> Arc<T> {
        if let Some(value) = self.0.lock().get(version, within) {
            return value;
        }
        let value = Arc::new(compute());
        self.0.lock().put(version, within.cloned(), &value);
        value
    }
}

impl<T> CachedValues<T> {
    fn get(&mut self, version: u64, within: Option<&Arc<Bitmap>>) -> Option<Arc<T>> {
        if self.version != version {
            return None;
        }
        let at = self.values.iter().position(|(set, _)| set.as_ref() == within)?;
        let found = self.values.remove(at);
        let value = Arc::clone(&found.1);
        self.values.push(found);
        Some(value)
    }

    fn put(&mut self, version: u64, within: Option<Arc<Bitmap>>, value: &Arc<T>) {
        if self.version < version {
            self.version = version;
            self.values.clear();
        }
        // Do not cache a value of an older version, because only searches that already run use that version. Also do
        // not cache a value that another search has cached meanwhile.
        if self.version > version || self.values.iter().any(|(set, _)| *set == within) {
            return;
        }
        self.values.push((within, Arc::clone(value)));
        while are_too_many(self.values.iter().filter_map(|(set, _)| set.as_deref())) {
            self.values.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tool_sets::MAX_SETS;
    use super::*;

    fn set(slot: u32) -> Arc<Bitmap> {
        Arc::new([slot].into_iter().collect())
    }

    #[test]
    fn a_value_is_computed_once_per_version_and_set() {
        let values = SetValues::default();
        let all = values.of(1, None, || 0);
        assert!(Arc::ptr_eq(&all, &values.of(1, None, || 1)));
        let some = values.of(1, Some(&set(3)), || 2);
        assert_eq!(*some, 2);
        assert!(Arc::ptr_eq(&some, &values.of(1, Some(&set(3)), || 3)), "an equal set");
        assert_eq!(*values.of(1, Some(&set(4)), || 4), 4);
        assert_eq!(*values.of(2, None, || 5), 5, "the index changed");
        assert_eq!((*values.of(1, None, || 6), *values.of(1, None, || 7)), (6, 7), "late");
        assert_eq!(values.0.lock().values.len(), 1);
        for slot in 0..300 {
            values.of(2, Some(&set(slot)), || 8);
        }
        assert_eq!(values.0.lock().values.len(), MAX_SETS);
    }

    #[test]
    fn two_searches_that_compute_a_value_at_once_cache_one() {
        let values = SetValues::default();
        let inner = || *values.of(1, Some(&set(3)), || 1);
        assert_eq!(*values.of(1, Some(&set(3)), || 1 + inner()), 2);
        assert_eq!(*values.of(1, Some(&set(3)), || 3), 1, "the first one");
        assert_eq!(values.0.lock().values.len(), 1);
    }

    #[test]
    fn large_sets_are_few() {
        let values = SetValues::default();
        for slot in 0..9 {
            // A set of 4 MiB.
            values.of(1, Some(&set((32 << 20) - 1 - slot)), || slot);
        }
        assert_eq!(values.0.lock().values.len(), 4);
    }
}
