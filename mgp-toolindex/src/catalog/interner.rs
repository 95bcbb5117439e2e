//! A table of shared values by key; a value is dropped when its last owner drops it (MGP §16.4).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The minimum number of entries of the table before entries of dropped values are removed.
const MIN_PURGED: usize = 256;

#[derive(Debug)]
pub(crate) struct Interner<T: ?Sized> {
    known: HashMap<Box<str>, Weak<T>, ahash::RandomState>,
    /// The number of entries of the table at which entries of dropped values are removed next.
    purge_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: HashMap::default(), purge_at: MIN_PURGED }
    }
}

impl<T: ?Sized> Interner<T> {
    /// Returns the shared value for a key; creates the value if it was dropped or never existed.
    pub(crate) fn get(&mut self, key: &str, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(key).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.purge_at {
            self.known.retain(|_, shared| shared.strong_count() > 0);
            self.purge_at = (2 * self.known.len()).max(MIN_PURGED);
        }
        let made = make();
        self.known.insert(key.into(), Arc::downgrade(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_an_owner_are_dropped() {
        let mut pool = Interner::default();
        let kept: Arc<str> = pool.get("kept", || "kept".into());
        for number in 0..10_000 {
            pool.get(&number.to_string(), || number.to_string().into());
        }
        assert!(pool.known.len() <= 2 * MIN_PURGED);
        assert!(Arc::ptr_eq(&kept, &pool.get("kept", || "other".into())));
    }
}
