//! Queries that were just asked, until a call tells which of the tools they found was meant.
//!
//! Applies to: inbound.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::time::Instant;

use super::entry::Owner;

/// How long a query waits for a call.
const WAITS: Duration = Duration::from_mins(10);

/// How many queries of a session wait; the oldest goes.
const OF_SESSION: usize = 8;

/// How many sessions have queries that wait, in all and of one subject; the one that asked longest ago goes.
const SESSIONS: usize = 1024;
const OF_SUBJECT: usize = 256;

/// How many found tools of a query are remembered: as many as a search finds at most.
const FOUND: usize = 50;

/// Queries that wait for a call.
#[derive(Debug, Default)]
pub(super) struct Asks {
    sessions: FxHashMap<(Owner, u64), Session>,
    turn: u64,
}

#[derive(Debug)]
struct Session {
    asked: VecDeque<Ask>,
    turn: u64,
}

#[derive(Debug)]
struct Ask {
    query: Box<str>,
    found: Vec<Box<str>>,
    at: Instant,
}

impl Asks {
    /// A query found these tools.
    pub(super) fn asked<T: AsRef<str>>(
        &mut self,
        owner: &Owner,
        session: impl Hash,
        query: &str,
        found: impl IntoIterator<Item = T>,
    ) {
        let found: Vec<Box<str>> =
            found.into_iter().take(FOUND).map(|tool| tool.as_ref().into()).collect();
        if found.is_empty() {
            return;
        }
        let at = Instant::now();
        self.turn += 1;
        let turn = self.turn;
        let session = self
            .sessions
            .entry(key(owner, session))
            .or_insert_with(|| Session { asked: VecDeque::new(), turn });
        let is_new = session.asked.is_empty();
        session.turn = turn;
        session.asked.retain(|ask| *ask.query != *query && at - ask.at < WAITS);
        if session.asked.len() >= OF_SESSION {
            session.asked.pop_front();
        }
        session.asked.push_back(Ask { query: query.into(), found, at });
        if is_new {
            self.make_room(at, owner);
        }
    }

    /// The newest query that found this tool; a further call of it counts for an older one, or for none.
    pub(super) fn called(
        &mut self,
        owner: &Owner,
        session: impl Hash,
        tool: &str,
    ) -> Option<Box<str>> {
        let key = key(owner, session);
        let session = self.sessions.get_mut(&key)?;
        let now = Instant::now();
        session.asked.retain(|ask| now - ask.at < WAITS);
        let answered = session.asked.iter_mut().rev().find_map(|ask| {
            let at = ask.found.iter().position(|found| **found == *tool)?;
            ask.found.swap_remove(at);
            Some(ask.query.clone())
        });
        session.asked.retain(|ask| !ask.found.is_empty());
        if session.asked.is_empty() {
            self.sessions.remove(&key);
        }
        answered
    }

    pub(super) fn forget(&mut self, is_meant: impl Fn(&Owner) -> bool) {
        self.sessions.retain(|(owner, _), _| !is_meant(owner));
    }

    pub(super) fn forget_tool(&mut self, tool: &str) {
        for session in self.sessions.values_mut() {
            for ask in &mut session.asked {
                ask.found.retain(|found| **found != *tool);
            }
        }
    }

    /// What waits too long goes first, then the session that asked longest ago.
    fn make_room(&mut self, now: Instant, owner: &Owner) {
        if self.sessions.len() > SESSIONS {
            self.sessions
                .retain(|_, session| session.asked.back().is_some_and(|ask| now - ask.at < WAITS));
        }
        let mut own = self.sessions.iter().filter(|((of, _), _)| of == owner);
        let oldest = if own.clone().count() > OF_SUBJECT {
            own.by_ref().min_by_key(|(_, of)| of.turn).map(|(key, _)| key.clone())
        } else if self.sessions.len() > SESSIONS {
            self.sessions.iter().min_by_key(|(_, of)| of.turn).map(|(key, _)| key.clone())
        } else {
            None
        };
        if let Some(key) = oldest {
            self.sessions.remove(&key);
        }
    }
}

/// Two owners never have a session in common, whatever it is called.
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
    async fn a_call_belongs_to_the_newest_query_that_found_it_and_once() {
        let (mut asks, me) = (Asks::default(), owner("me"));
        asks.asked(&me, 1, "old", ["a", "b"]);
        asks.asked(&me, 1, "new", ["b", "c"]);
        assert_eq!(asks.called(&me, 1, "b").as_deref(), Some("new"));
        assert_eq!(asks.called(&me, 1, "b").as_deref(), Some("old"));
        assert_eq!(asks.called(&me, 1, "b"), None);
        assert_eq!(asks.called(&me, 1, "x"), None, "it was not found");
        assert_eq!(asks.called(&me, 2, "a"), None, "another session");
        assert_eq!(asks.called(&owner("you"), 1, "a"), None, "another subject");
        assert_eq!(asks.called(&me, 1, "a").as_deref(), Some("old"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_waits_ten_minutes() {
        let (mut asks, me) = (Asks::default(), owner("me"));
        asks.asked(&me, 1, "q", ["a", "b"]);
        advance(WAITS * 9 / 10).await;
        assert!(asks.called(&me, 1, "a").is_some());
        advance(WAITS / 10).await;
        assert!(asks.called(&me, 1, "b").is_none());
        assert!(asks.sessions.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_bounded() {
        let (mut asks, me) = (Asks::default(), owner("me"));
        for query in 0..100 {
            asks.asked(&me, 1, &query.to_string(), ["a"]);
        }
        assert_eq!(asks.sessions.values().map(|of| of.asked.len()).sum::<usize>(), OF_SESSION);
        asks.asked(&me, 1, "many", (0..1000).map(|tool| tool.to_string()));
        assert!(asks.sessions.values().all(|of| of.asked.back().unwrap().found.len() <= FOUND));
        for session in 0..3 * OF_SUBJECT {
            asks.asked(&me, session, "q", ["a"]);
        }
        assert_eq!(asks.sessions.len(), OF_SUBJECT);
        assert!(asks.called(&me, 3 * OF_SUBJECT - 1, "a").is_some());
        assert!(asks.called(&me, 3, "a").is_none());
        for session in 0..3 * SESSIONS {
            asks.asked(&owner(&session.to_string()), 1, "q", ["a"]);
        }
        assert_eq!(asks.sessions.len(), SESSIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_erased_waits_no_longer() {
        let mut asks = Asks::default();
        asks.asked(&owner("me"), 1, "q", ["a", "b"]);
        asks.asked(&owner("you"), 1, "q", ["a", "b"]);
        asks.forget_tool("a");
        assert!(asks.called(&owner("me"), 1, "a").is_none());
        asks.forget(|owner| owner.subject.as_str() == "me");
        assert!(asks.called(&owner("me"), 1, "b").is_none());
        assert!(asks.called(&owner("you"), 1, "b").is_some());
    }
}
