//! A list that can change while it is served: entries are found by key, and listed in pages that are encoded once.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use mgp_types::mcp::{CacheScope, Era, ResultType};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};

use crate::subscribers::{ListKind, Subscribers};

/// The time for which a modern client may cache a list, in milliseconds. It limits how long a client sees an old list
/// if a change notification was lost.
pub(crate) const LIST_TTL_MS: u64 = 60_000;

/// The default number of entries on a page of a list such as `tools/list`.
const DEFAULT_PAGE_SIZE: usize = 500;

/// An entry of a catalog.
pub(crate) trait Entry: fmt::Debug + Send + Sync + 'static {
    /// The list to which the entry belongs.
    const LIST: ListKind;

    /// Returns the key by which the entry is found.
    fn key(&self) -> &str;

    fn encode(entries: &[Arc<Self>], fields: PageFields) -> Result<Payload, RpcError>;
}

/// The fields that a page has in addition to its entries.
#[derive(Clone, Debug)]
pub(crate) struct PageFields {
    /// The cursor of the next page.
    pub(crate) next: Option<String>,
    /// This field, `ttl_ms` and `cache_scope` are set only for callers of revisions since 2026-07-28, which require
    /// them.
    pub(crate) result_type: Option<ResultType>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) cache_scope: Option<CacheScope>,
}

impl PageFields {
    pub(crate) fn of(era: Era, next: Option<String>) -> Self {
        let modern = era == Era::Modern;
        Self {
            next,
            result_type: modern.then_some(ResultType::Complete),
            ttl_ms: modern.then_some(LIST_TTL_MS),
            cache_scope: modern.then_some(CacheScope::Private),
        }
    }
}

/// A list of tools, prompts or the like that clones share, and that can change while it is served.
pub(crate) struct Catalog<E>(Arc<CatalogState<E>>);

struct CatalogState<E> {
    snapshot: Mutex<Arc<Snapshot<E>>>,
    subscribers: Subscribers,
}

/// The entries at one moment. A change replaces the snapshot as a whole, so that a call can use its snapshot without
/// holding a lock.
#[derive(Debug)]
pub(crate) struct Snapshot<E> {
    order: Vec<Arc<E>>,
    by_key: HashMap<String, Arc<E>>,
    /// The id of this version of the list, which its cursors contain. Equal lists have the same id in all processes, so
    /// a cursor is valid in each of them.
    revision: u32,
    /// The state after hashing all keys, from which `revision` follows.
    hasher: DefaultHasher,
    page_size: usize,
    /// The cursor that the last page returns, if the list continues in another source, e.g. in a set of resources.
    final_cursor: Option<String>,
    pages: Vec<[OnceLock<Result<Payload, RpcError>>; 2]>,
}

impl<E: Entry> Catalog<E> {
    pub(crate) fn new(subscribers: Subscribers) -> Self {
        let snapshot = Mutex::new(Arc::new(Snapshot::new(Vec::new(), DEFAULT_PAGE_SIZE, None)));
        Self(Arc::new(CatalogState { snapshot, subscribers }))
    }

    /// Adds an entry to the list, or replaces the entry with the same key; returns `true` if it replaced one.
    pub(crate) fn add(&self, entry: E) -> bool {
        let entry = Arc::new(entry);
        let replaced = !self.push(&entry)
            && self.change(|order| {
                let old = order.iter().position(|old| old.key() == entry.key());
                match old {
                    Some(index) => order[index] = entry,
                    None => order.push(entry),
                }
                old.is_some()
            });
        self.0.subscribers.changed(E::LIST);
        replaced
    }

    /// Removes the entry with this key; returns `true` if there was one.
    pub(crate) fn remove(&self, key: &str) -> bool {
        let removed = self.change(|order| {
            let before = order.len();
            order.retain(|entry| entry.key() != key);
            order.len() < before
        });
        if removed {
            self.0.subscribers.changed(E::LIST);
        }
        removed
    }

    /// Sets the number of entries on a page, and the cursor that the last page returns. An argument that is `None`
    /// keeps the current value.
    pub(crate) fn set_paging(&self, page_size: Option<usize>, final_cursor: Option<String>) {
        let mut current = self.0.snapshot.lock();
        let page_size = page_size.unwrap_or(current.page_size).max(1);
        *current = Arc::new(Snapshot::new(
            current.order.clone(),
            page_size,
            final_cursor.or_else(|| current.final_cursor.clone()),
        ));
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot<E>> {
        Arc::clone(&self.0.snapshot.lock())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.snapshot.lock().order.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<E>> {
        self.0.snapshot.lock().by_key.get(key).cloned()
    }

    /// Adds an entry with a new key to the snapshot if no call uses the snapshot, so that adding thousands of entries
    /// to a new server is fast. Returns whether it added the entry.
    fn push(&self, entry: &Arc<E>) -> bool {
        let mut current = self.0.snapshot.lock();
        let unused = Arc::get_mut(&mut current);
        let Some(unused) = unused.filter(|unused| !unused.by_key.contains_key(entry.key())) else {
            return false;
        };
        unused.push(Arc::clone(entry));
        unused.reset_pages();
        true
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<E>>) -> T) -> T {
        let (result, old) = {
            let mut current = self.0.snapshot.lock();
            let mut order = current.order.clone();
            let result = change(&mut order);
            let new = Snapshot::new(order, current.page_size, current.final_cursor.clone());
            (result, std::mem::replace(&mut *current, Arc::new(new)))
        };
        // Drop the old entries only after the lock is released, because this can run code of the author, which may use
        // this catalog.
        drop(old);
        result
    }
}

impl<E> Clone for Catalog<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

mgp_types::opaque_debug!(Catalog<E>);

impl<E: Entry> Snapshot<E> {
    fn new(order: Vec<Arc<E>>, page_size: usize, final_cursor: Option<String>) -> Self {
        let mut snapshot = Self {
            order: Vec::with_capacity(order.len()),
            by_key: HashMap::with_capacity(order.len()),
            revision: 0,
            hasher: DefaultHasher::new(),
            page_size,
            final_cursor,
            pages: Vec::new(),
        };
        for entry in order {
            snapshot.push(entry);
        }
        snapshot.reset_pages();
        snapshot
    }

    fn push(&mut self, entry: Arc<E>) {
        entry.key().hash(&mut self.hasher);
        self.by_key.insert(entry.key().to_owned(), Arc::clone(&entry));
        self.order.push(entry);
    }

    /// Replaces the encoded pages by empty ones, and updates the revision, after entries were added.
    fn reset_pages(&mut self) {
        self.revision = u32::try_from(self.hasher.finish() >> 32).unwrap_or_default();
        let pages = self.order.len().div_ceil(self.page_size).max(1);
        self.pages = std::iter::repeat_with(Default::default).take(pages).collect();
    }

    pub(crate) fn entries(&self) -> &[Arc<E>] {
        &self.order
    }

    /// Returns the page at a cursor; `None` if the cursor does not belong to this version of the list. Each page is
    /// encoded only once per era, and then reused.
    pub(crate) fn page(&self, cursor: Option<&str>, era: Era) -> Option<Result<Payload, RpcError>> {
        let number = match cursor {
            None => 0,
            Some(cursor) => self.number(cursor)?,
        };
        let ready = &self.pages.get(number)?[usize::from(era == Era::Modern)];
        Some(ready.get_or_init(|| self.encode(number, era)).clone())
    }

    fn encode(&self, number: usize, era: Era) -> Result<Payload, RpcError> {
        let start = number * self.page_size;
        let end = self.order.len().min(start + self.page_size);
        let next = if number + 1 < self.pages.len() {
            Some(format!("p{}.{:x}", number + 1, self.revision))
        } else {
            self.final_cursor.clone()
        };
        E::encode(&self.order[start..end], PageFields::of(era, next))
    }

    fn number(&self, cursor: &str) -> Option<usize> {
        let (number, revision) = cursor.strip_prefix('p')?.split_once('.')?;
        (u32::from_str_radix(revision, 16) == Ok(self.revision)).then_some(())?;
        number.parse().ok().filter(|number| *number > 0)
    }
}

/// Returns −32602 (invalid params) for a cursor that is invalid, or belongs to an earlier version of the list.
pub(crate) fn bad_cursor() -> RpcError {
    RpcError::invalid_params(
        "`cursor` is not one of this list, or the list has changed; start again without it",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// An entry that removes another entry when it is dropped.
    #[derive(Debug)]
    struct Companion(&'static str, Option<(Catalog<Self>, &'static str)>);

    impl Entry for Companion {
        const LIST: ListKind = ListKind::Prompts;

        fn key(&self) -> &str {
            self.0
        }

        fn encode(_entries: &[Arc<Self>], _fields: PageFields) -> Result<Payload, RpcError> {
            Ok(Payload::empty_object())
        }
    }

    impl Drop for Companion {
        fn drop(&mut self) {
            if let Some((catalog, other)) = self.1.take() {
                assert!(catalog.remove(other));
            }
        }
    }

    #[test]
    fn an_entry_that_is_added_while_a_call_uses_the_list_gives_the_same_list() {
        let catalogs = [(); 2].map(|()| Catalog::new(Subscribers::default()));
        let mut used = Vec::new();
        for key in ["a", "b", "c"] {
            assert!(!catalogs[0].add(Companion(key, None)));
            used.push(catalogs[1].snapshot());
            assert!(!catalogs[1].add(Companion(key, None)));
        }
        let [unused, shared] = catalogs.map(|catalog| catalog.snapshot());
        assert_eq!(unused.revision, shared.revision);
        assert_eq!((unused.entries().len(), shared.entries().len()), (3, 3));
        assert!(used.iter().enumerate().all(|(at, old)| old.entries().len() == at));
    }

    #[test]
    fn an_entry_may_change_the_catalog_when_it_is_dropped() {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let catalog = Catalog::new(Subscribers::default());
            for key in ["a", "b", "c"] {
                catalog.add(Companion(key, None));
            }
            catalog.add(Companion("removed", Some((catalog.clone(), "a"))));
            catalog.add(Companion("replaced", Some((catalog.clone(), "b"))));
            assert!(catalog.remove("removed"));
            assert!(catalog.add(Companion("replaced", None)));
            done.send(catalog.len()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(2));
    }
}
