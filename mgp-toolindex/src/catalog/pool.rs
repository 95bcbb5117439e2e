//! Keeps what many tools share once, as long as one of them has it (MGP §16.4).
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Below so many entries nobody looks for dead ones.
const LEAST: usize = 256;

/// Things that are the same under the same key.
#[derive(Debug)]
pub(crate) struct Pool<T: ?Sized> {
    known: HashMap<Box<str>, Weak<T>, ahash::RandomState>,
    /// With so many entries the dead ones are thrown out.
    purge_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { known: HashMap::default(), purge_at: LEAST }
    }
}

impl<T: ?Sized> Pool<T> {
    /// What is known under the key, else what is made.
    pub(crate) fn get(&mut self, key: &str, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(key).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.purge_at {
            self.known.retain(|_, shared| shared.strong_count() > 0);
            self.purge_at = (2 * self.known.len()).max(LEAST);
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
    fn what_nobody_has_is_forgotten() {
        let mut pool = Pool::default();
        let kept: Arc<str> = pool.get("kept", || "kept".into());
        for number in 0..10_000 {
            pool.get(&number.to_string(), || number.to_string().into());
        }
        assert!(pool.known.len() <= 2 * LEAST);
        assert!(Arc::ptr_eq(&kept, &pool.get("kept", || "other".into())));
    }
}
