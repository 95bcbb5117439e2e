//! Unmet searches, i.e. searches that found nothing, or after which no found tool was called. They show which tools
//! agents lack.

use std::collections::{BTreeMap, HashSet};
#[cfg(feature = "sqlite")]
use std::mem;

use super::query::Owner;

/// The maximum number of unmet searches of one subject; the oldest search is dropped.
const MAX_PER_OWNER: usize = 200;
/// The maximum number of unmet searches in total; the oldest search is dropped.
const MAX_TOTAL: usize = 5000;

/// A query that found no tool, or after which no found tool was called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmetSearch {
    /// The text of the query.
    pub query: String,
    /// The number of times that the query found nothing.
    pub found_nothing: u32,
    /// The number of times that the query found tools, but none of them was called.
    pub not_called: u32,
    /// The time of the last such search, in seconds since 1970.
    pub last: u64,
}

/// The key of an unmet search: the tenant and the subject of the searcher, and the query.
pub(super) type UnmetKey = ((Box<str>, Box<str>), Box<str>);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnmetCounts {
    pub(super) found_nothing: u32,
    pub(super) not_called: u32,
    pub(super) last: u64,
}

#[derive(Debug, Default)]
pub(super) struct UnmetSearches {
    searches: BTreeMap<UnmetKey, UnmetCounts>,
    /// The keys of the searches to write to the database; `None` without a database.
    changed: Option<HashSet<UnmetKey>>,
}

impl UnmetSearches {
    /// Adds a search, which counts as unmet until a found tool is called.
    pub(super) fn add(&mut self, owner: &Owner, query: &str, has_found: bool, now: u64) {
        let key = (names(owner), query.into());
        self.mark_changed(&key);
        let counts = self.searches.entry(key).or_default();
        let count = if has_found { &mut counts.not_called } else { &mut counts.found_nothing };
        *count = count.saturating_add(1);
        counts.last = now;
        self.enforce_bounds(&names(owner));
    }

    /// Subtracts a search that led to a call of a found tool; removes the query if it has no other unmet searches.
    pub(super) fn met(&mut self, owner: &Owner, query: &str) {
        let key: UnmetKey = (names(owner), query.into());
        let Some(counts) = self.searches.get_mut(&key) else { return };
        counts.not_called = counts.not_called.saturating_sub(1);
        if counts.not_called == 0 && counts.found_nothing == 0 {
            self.searches.remove(&key);
        }
        self.mark_changed(&key);
    }

    /// Returns the unmet searches of an owner, newest first.
    pub(super) fn of(&self, owner: &Owner) -> Vec<UnmetSearch> {
        let names = names(owner);
        let own = self.searches.iter().filter(|((of, _), _)| *of == names);
        let mut own: Vec<UnmetSearch> = own
            .map(|((_, query), counts)| UnmetSearch {
                query: query.to_string(),
                found_nothing: counts.found_nothing,
                not_called: counts.not_called,
                last: counts.last,
            })
            .collect();
        own.sort_by_key(|search| std::cmp::Reverse(search.last));
        own
    }

    /// Removes the searches of each owner for which `is_meant`, called with tenant and subject, returns `true`.
    pub(super) fn remove(&mut self, is_meant: impl Fn(&str, &str) -> bool) {
        self.searches
            .retain(|(tenant_subject, _), _| !is_meant(&tenant_subject.0, &tenant_subject.1));
    }

    fn enforce_bounds(&mut self, names: &(Box<str>, Box<str>)) {
        let own = self.searches.iter().filter(|((of, _), _)| of == names);
        let oldest = |(key, counts): (&UnmetKey, &UnmetCounts)| (counts.last, key.clone());
        let dropped = if own.clone().count() > MAX_PER_OWNER {
            own.map(oldest).min()
        } else if self.searches.len() > MAX_TOTAL {
            self.searches.iter().map(oldest).min()
        } else {
            None
        };
        if let Some((_, key)) = dropped {
            self.searches.remove(&key);
            self.mark_changed(&key);
        }
    }

    fn mark_changed(&mut self, key: &UnmetKey) {
        if let Some(changed) = &mut self.changed {
            changed.insert(key.clone());
        }
    }
}

#[cfg(feature = "sqlite")]
impl UnmetSearches {
    /// Adds a search that was read from the database.
    pub(super) fn restore(&mut self, key: UnmetKey, counts: UnmetCounts) {
        if self.searches.len() < MAX_TOTAL {
            self.searches.insert(key, counts);
        }
    }

    /// Begins to record changes, so that they can be written to the database.
    pub(super) fn track_changes(&mut self) {
        self.changed = Some(HashSet::new());
    }

    pub(super) fn has_changed(&self) -> bool {
        self.changed.as_ref().is_some_and(|changed| !changed.is_empty())
    }

    /// Returns the changed searches to write, and clears the list of changes; a search without counts must be deleted
    /// from the database.
    pub(super) fn take_changed(&mut self) -> Vec<(UnmetKey, Option<UnmetCounts>)> {
        let changed = self.changed.as_mut().map(mem::take).unwrap_or_default();
        changed.into_iter().map(|key| (key.clone(), self.searches.get(&key).copied())).collect()
    }

    /// Marks changes as not written, so that they are written later.
    ///
    /// If writing fails for so long that the list of changes becomes very long, deletions are dropped from the list, so
    /// that it stays bounded.
    pub(super) fn not_written(&mut self, keys: impl IntoIterator<Item = UnmetKey>) {
        let Some(changed) = &mut self.changed else { return };
        for key in keys {
            if self.searches.contains_key(&key) || changed.len() < 2 * MAX_TOTAL {
                changed.insert(key);
            }
        }
    }
}

fn names(owner: &Owner) -> (Box<str>, Box<str>) {
    (owner.tenant.as_str().into(), owner.subject.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_unmet_until_a_call_follows_and_their_number_is_bounded() {
        let owner = |subject: &str| Owner { tenant: "t".into(), subject: subject.into() };
        let (mut unmet, me) = (UnmetSearches::default(), owner("me"));
        unmet.add(&me, "send a fax", false, 1);
        unmet.add(&me, "read mail", true, 2);
        unmet.add(&me, "read mail", true, 3);
        unmet.met(&me, "read mail");
        let found = unmet.of(&me);
        assert_eq!((found[0].query.as_str(), found[0].not_called), ("read mail", 1));
        assert_eq!((found[1].query.as_str(), found[1].found_nothing), ("send a fax", 1));
        unmet.met(&me, "read mail");
        assert_eq!(unmet.of(&me).len(), 1);
        assert!(unmet.of(&owner("you")).is_empty());
        for at in 0..2 * MAX_PER_OWNER as u64 {
            unmet.add(&me, &at.to_string(), false, 10 + at);
        }
        assert_eq!(unmet.of(&me).len(), MAX_PER_OWNER);
        assert!(unmet.of(&me).iter().all(|search| search.query != "send a fax"));
    }

    #[test]
    fn without_a_database_no_changes_are_collected() {
        let me = Owner { tenant: "t".into(), subject: "me".into() };
        let mut unmet = UnmetSearches::default();
        unmet.add(&me, "send a fax", true, 1);
        unmet.met(&me, "send a fax");
        assert_eq!(unmet.changed, None);
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn changes_that_cannot_be_written_are_bounded_and_include_all_searches_that_are_left() {
        let me = Owner { tenant: "t".into(), subject: "me".into() };
        let mut unmet = UnmetSearches::default();
        unmet.track_changes();
        for round in 0..3 * MAX_TOTAL as u64 / 100 {
            for at in 0..100 {
                unmet.add(&me, &format!("{round} {at}"), false, 100 * round + at);
            }
            let failed: Vec<_> = unmet.take_changed().into_iter().map(|(key, _)| key).collect();
            assert!(failed.len() <= 2 * MAX_TOTAL + 2 * MAX_PER_OWNER, "{}", failed.len());
            unmet.not_written(failed);
        }
        let changed = unmet.changed.unwrap();
        assert!(unmet.searches.keys().all(|key| changed.contains(key)));
    }
}
