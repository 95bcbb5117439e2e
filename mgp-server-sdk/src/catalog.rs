//! A list that can change while it is served: looked up by key, listed in encoded pages.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mgp_types::mcp::{CacheScope, Era, ResultType};
use mgp_types::{Payload, RpcError};

use crate::audience::{Audience, List};

/// The time for which a modern client may cache a list; changes are announced, so it only covers a lost message.
pub(crate) const LIST_TTL_MS: u64 = 60_000;

/// The default number of entries on a page.
const PAGE: usize = 500;

/// An entry of a catalog.
pub(crate) trait Entry: fmt::Debug + Send + Sync + 'static {
    /// The list that contains the entry.
    const LIST: List;

    /// Returns the key of lookups.
    fn key(&self) -> &str;

    /// Encodes one page.
    fn encode(entries: &[Arc<Self>], around: Around) -> Result<Payload, RpcError>;
}

/// The fields of a page besides its entries.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    /// The cursor of the next page.
    pub(crate) next: Option<String>,
    /// Required since 2026-07-28, as are the next two.
    pub(crate) result_type: Option<ResultType>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) cache_scope: Option<CacheScope>,
}

impl Around {
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

/// A shared, changeable list.
pub(crate) struct Catalog<E>(Arc<Inner<E>>);

struct Inner<E> {
    now: Mutex<Arc<Snapshot<E>>>,
    audience: Audience,
}

/// The entries at one moment; a change replaces the snapshot, so calls and lists never wait.
#[derive(Debug)]
pub(crate) struct Snapshot<E> {
    order: Vec<Arc<E>>,
    by_key: HashMap<String, Arc<E>>,
    /// Identifies this version of the list in cursors; equal in all processes with the same list.
    revision: u32,
    page: usize,
    /// The cursor after the last page.
    then: Option<String>,
    pages: Vec<[OnceLock<Result<Payload, RpcError>>; 2]>,
}

impl<E: Entry> Catalog<E> {
    pub(crate) fn new(audience: Audience) -> Self {
        let now = Mutex::new(Arc::new(Snapshot::new(Vec::new(), PAGE, None)));
        Self(Arc::new(Inner { now, audience }))
    }

    /// Adds an entry or replaces the one with its key; returns `true` if it replaced one.
    pub(crate) fn add(&self, entry: E) -> bool {
        let entry = Arc::new(entry);
        let replaced = self.change(|order| {
            let old = order.iter().position(|old| old.key() == entry.key());
            match old {
                Some(place) => order[place] = entry,
                None => order.push(entry),
            }
            old.is_some()
        });
        self.0.audience.changed(E::LIST);
        replaced
    }

    /// Removes an entry; returns `true` if there was one.
    pub(crate) fn remove(&self, key: &str) -> bool {
        let removed = self.change(|order| {
            let before = order.len();
            order.retain(|entry| entry.key() != key);
            order.len() < before
        });
        if removed {
            self.0.audience.changed(E::LIST);
        }
        removed
    }

    /// Sets the number of entries on a page, and the cursor after the last page.
    pub(crate) fn shape(&self, page: Option<usize>, then: Option<String>) {
        let mut now = self.now();
        let page = page.unwrap_or(now.page).max(1);
        *now = Arc::new(Snapshot::new(now.order.clone(), page, then.or_else(|| now.then.clone())));
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot<E>> {
        Arc::clone(&self.now())
    }

    pub(crate) fn len(&self) -> usize {
        self.now().order.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<E>> {
        self.now().by_key.get(key).cloned()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<E>>) -> T) -> T {
        let mut now = self.now();
        let mut order = now.order.clone();
        let result = change(&mut order);
        *now = Arc::new(Snapshot::new(order, now.page, now.then.clone()));
        result
    }

    fn now(&self) -> MutexGuard<'_, Arc<Snapshot<E>>> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> Clone for Catalog<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Entry> fmt::Debug for Catalog<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.snapshot().order.iter().map(|entry| entry.key())).finish()
    }
}

impl<E: Entry> Snapshot<E> {
    fn new(order: Vec<Arc<E>>, page: usize, then: Option<String>) -> Self {
        let by_key =
            order.iter().map(|entry| (entry.key().to_owned(), Arc::clone(entry))).collect();
        let mut hasher = DefaultHasher::new();
        for entry in &order {
            entry.key().hash(&mut hasher);
        }
        let revision = u32::try_from(hasher.finish() >> 32).unwrap_or_default();
        let pages = order.len().div_ceil(page).max(1);
        let pages = std::iter::repeat_with(Default::default).take(pages).collect();
        Self { order, by_key, revision, page, then, pages }
    }

    /// Returns the entries in order.
    pub(crate) fn entries(&self) -> &[Arc<E>] {
        &self.order
    }

    /// Returns one page, encoded once per era; `None` for a cursor that is not a page of this list.
    pub(crate) fn page(&self, cursor: Option<&str>, era: Era) -> Option<Result<Payload, RpcError>> {
        let number = match cursor {
            None => 0,
            Some(cursor) => self.number(cursor)?,
        };
        let ready = &self.pages.get(number)?[usize::from(era == Era::Modern)];
        Some(ready.get_or_init(|| self.encode(number, era)).clone())
    }

    fn encode(&self, number: usize, era: Era) -> Result<Payload, RpcError> {
        let start = number * self.page;
        let end = self.order.len().min(start + self.page);
        let next = if number + 1 < self.pages.len() {
            Some(format!("p{}.{:x}", number + 1, self.revision))
        } else {
            self.then.clone()
        };
        E::encode(&self.order[start..end], Around::of(era, next))
    }

    fn number(&self, cursor: &str) -> Option<usize> {
        let (number, revision) = cursor.strip_prefix('p')?.split_once('.')?;
        (u32::from_str_radix(revision, 16) == Ok(self.revision)).then_some(())?;
        number.parse().ok().filter(|number| *number > 0)
    }
}

/// Returns −32602 for an invalid cursor, or one of a list that has changed since.
pub(crate) fn bad_cursor() -> RpcError {
    RpcError::invalid_params(
        "`cursor` is not one of this list, or the list has changed; start again without it",
    )
}
