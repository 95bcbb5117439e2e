//! Recent searches, which are remembered because a call of a found tool might follow.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::time::Instant;

use super::query::Owner;

const PENDING_TTL: Duration = Duration::from_mins(10);

/// The maximum number of remembered searches of a session; the oldest search is dropped.
const MAX_PER_SESSION: usize = 8;

/// The maximum number of sessions with remembered searches; the least recently used session is dropped.
const MAX_SESSIONS: usize = 1024;
/// The maximum number of sessions with remembered searches of one subject.
const MAX_SESSIONS_PER_SUBJECT: usize = 256;

/// The maximum number of found tools that are remembered for each search; a search never returns more tools.
const MAX_TOOLS_PER_SEARCH: usize = 50;

#[derive(Debug, Default)]
pub(super) struct PendingSearches {
    sessions: FxHashMap<(Owner, u64), Session>,
    last_use: u64,
}

#[derive(Debug)]
struct Session {
    searches: VecDeque<PendingSearch>,
    last_use: u64,
}

#[derive(Debug)]
struct PendingSearch {
    query: Box<str>,
    found: Vec<Box<str>>,
    at: Instant,
    /// `true` if a call of one of the found tools has followed the search.
    is_met: bool,
}

impl PendingSearches {
    pub(super) fn insert<T: AsRef<str>>(
        &mut self,
        owner: &Owner,
        session: impl Hash,
        query: &str,
        found: impl IntoIterator<Item = T>,
    ) {
        let found: Vec<Box<str>> =
            found.into_iter().take(MAX_TOOLS_PER_SEARCH).map(|tool| tool.as_ref().into()).collect();
        if found.is_empty() {
            return;
        }
        let at = Instant::now();
        self.last_use += 1;
        let last_use = self.last_use;
        let session = self
            .sessions
            .entry(key(owner, session))
            .or_insert_with(|| Session { searches: VecDeque::new(), last_use });
        let is_new = session.searches.is_empty();
        session.last_use = last_use;
        session.searches.retain(|search| *search.query != *query && at - search.at < PENDING_TTL);
        if session.searches.len() >= MAX_PER_SESSION {
            session.searches.pop_front();
        }
        session.searches.push_back(PendingSearch { query: query.into(), found, at, is_met: false });
        if is_new {
            self.enforce_bounds(at, owner);
        }
    }

    /// Returns the query of the newest search of the session that found this tool, and `true` if this is the first call
    /// after that search. Removes the tool from that search, so that the next call of the tool is assigned to an older
    /// search.
    pub(super) fn take(
        &mut self,
        owner: &Owner,
        session: impl Hash,
        tool: &str,
    ) -> Option<(Box<str>, bool)> {
        let key = key(owner, session);
        let session = self.sessions.get_mut(&key)?;
        let now = Instant::now();
        session.searches.retain(|search| now - search.at < PENDING_TTL);
        let query = session.searches.iter_mut().rev().find_map(|search| {
            let at = search.found.iter().position(|found| **found == *tool)?;
            search.found.swap_remove(at);
            Some((search.query.clone(), !std::mem::replace(&mut search.is_met, true)))
        });
        session.searches.retain(|search| !search.found.is_empty());
        if session.searches.is_empty() {
            self.sessions.remove(&key);
        }
        query
    }

    pub(super) fn remove(&mut self, is_meant: impl Fn(&Owner) -> bool) {
        self.sessions.retain(|(owner, _), _| !is_meant(owner));
    }

    pub(super) fn remove_tool(&mut self, tool: &str) {
        for session in self.sessions.values_mut() {
            for search in &mut session.searches {
                search.found.retain(|found| **found != *tool);
            }
        }
    }

    /// Drops sessions while there are too many: first the expired sessions; then the owner's least recently used
    /// session, if the owner has too many; then the least recently used session of all owners.
    fn enforce_bounds(&mut self, now: Instant, owner: &Owner) {
        if self.sessions.len() > MAX_SESSIONS {
            self.sessions.retain(|_, session| {
                session.searches.back().is_some_and(|search| now - search.at < PENDING_TTL)
            });
        }
        let mut own = self.sessions.iter().filter(|((of, _), _)| of == owner);
        let oldest = if own.clone().count() > MAX_SESSIONS_PER_SUBJECT {
            own.by_ref().min_by_key(|(_, of)| of.last_use).map(|(key, _)| key.clone())
        } else if self.sessions.len() > MAX_SESSIONS {
            self.sessions.iter().min_by_key(|(_, of)| of.last_use).map(|(key, _)| key.clone())
        } else {
            None
        };
        if let Some(key) = oldest {
            self.sessions.remove(&key);
        }
    }
}

/// Returns a key that includes the owner, so that sessions of two owners differ even if they have the same name.
fn key(owner: &Owner, session: impl Hash) -> (Owner, u64) {
    (owner.clone(), FxBuildHasher.hash_one(session))
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn owner(subject: &str) -> Owner {
        Owner { tenant: "t".into(), subject: subject.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_counted_once_for_the_newest_query_that_found_it() {
        let (mut pending, me) = (PendingSearches::default(), owner("me"));
        pending.insert(&me, 1, "old", ["a", "b"]);
        pending.insert(&me, 1, "new", ["b", "c"]);
        assert_eq!(pending.take(&me, 1, "b"), Some(("new".into(), true)));
        assert_eq!(pending.take(&me, 1, "b"), Some(("old".into(), true)));
        assert_eq!(pending.take(&me, 1, "b"), None);
        assert_eq!(pending.take(&me, 1, "x"), None, "it was not found");
        assert_eq!(pending.take(&me, 2, "a"), None, "another session");
        assert_eq!(pending.take(&owner("you"), 1, "a"), None, "another subject");
        assert_eq!(pending.take(&me, 1, "a"), Some(("old".into(), false)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_waits_ten_minutes() {
        let (mut pending, me) = (PendingSearches::default(), owner("me"));
        pending.insert(&me, 1, "q", ["a", "b"]);
        advance(PENDING_TTL * 9 / 10).await;
        assert!(pending.take(&me, 1, "a").is_some());
        advance(PENDING_TTL / 10).await;
        assert!(pending.take(&me, 1, "b").is_none());
        assert!(pending.sessions.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn pending_searches_are_bounded() {
        let (mut pending, me) = (PendingSearches::default(), owner("me"));
        for query in 0..100 {
            pending.insert(&me, 1, &query.to_string(), ["a"]);
        }
        assert_eq!(
            pending.sessions.values().map(|of| of.searches.len()).sum::<usize>(),
            MAX_PER_SESSION
        );
        pending.insert(&me, 1, "many", (0..1000).map(|tool| tool.to_string()));
        assert!(
            pending
                .sessions
                .values()
                .all(|of| of.searches.back().unwrap().found.len() <= MAX_TOOLS_PER_SEARCH)
        );
        for session in 0..3 * MAX_SESSIONS_PER_SUBJECT {
            pending.insert(&me, session, "q", ["a"]);
        }
        assert_eq!(pending.sessions.len(), MAX_SESSIONS_PER_SUBJECT);
        assert!(pending.take(&me, 3 * MAX_SESSIONS_PER_SUBJECT - 1, "a").is_some());
        assert!(pending.take(&me, 3, "a").is_none());
        for session in 0..3 * MAX_SESSIONS {
            pending.insert(&owner(&session.to_string()), 1, "q", ["a"]);
        }
        assert_eq!(pending.sessions.len(), MAX_SESSIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn erased_searches_are_no_longer_pending() {
        let mut pending = PendingSearches::default();
        pending.insert(&owner("me"), 1, "q", ["a", "b"]);
        pending.insert(&owner("you"), 1, "q", ["a", "b"]);
        pending.remove_tool("a");
        assert!(pending.take(&owner("me"), 1, "a").is_none());
        pending.remove(|owner| owner.subject.as_str() == "me");
        assert!(pending.take(&owner("me"), 1, "b").is_none());
        assert!(pending.take(&owner("you"), 1, "b").is_some());
    }
}
