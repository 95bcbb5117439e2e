//! Sessions of the stateless era: each has a handle that only its principal can use (MGP §16.7, C40).
//!
//! A handle is 128 random bits, so it cannot be guessed; kept is its digest, so that looking it up tells nothing about
//! others. It ends when it was not used for a while. Their number is bounded for each principal and in all; where a
//! bound is reached the one that was not used for longest ends: the principal's own, or that of whoever has most.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::service::Principal;
use tokio::time::Instant;

use super::cache::Cache;
use crate::error::SessionError;

/// Bounds of sessions in the stateless era.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionLimits {
    /// How long a session waits for its next request: an hour.
    pub idle: Duration,
    /// How many sessions a principal has: 32.
    pub each: usize,
    /// How many sessions there are in all: 10,000.
    pub all: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { idle: Duration::from_hours(1), each: 32, all: 10_000 }
    }
}

type Digest = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct Handles(Mutex<HashMap<Digest, Handle>>);

#[derive(Debug)]
struct Handle {
    principal: Principal,
    used: Instant,
    cache: Arc<Cache>,
}

impl Handles {
    /// Opens a session for a principal and names it.
    pub(super) fn open(
        &self,
        principal: &Principal,
        limits: &SessionLimits,
    ) -> Result<(String, Arc<Cache>), SessionError> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|_| SessionError::NoRandomness)?;
        let name = mgp_types::to_hex(&secret);
        let cache = Arc::new(Cache::default());
        let handle = Handle {
            principal: principal.clone(),
            used: Instant::now(),
            cache: Arc::clone(&cache),
        };
        let mut table = self.lock();
        make_room(&mut table, principal, limits);
        table.insert(digest(&name), handle);
        Ok((name, cache))
    }

    /// Finds the session of a handle; that of another principal is not there.
    pub(super) fn find(
        &self,
        name: &str,
        principal: &Principal,
        limits: &SessionLimits,
    ) -> Result<Arc<Cache>, SessionError> {
        let digest = digest(name);
        let mut table = self.lock();
        let handle = table.get_mut(&digest).filter(|handle| handle.principal == *principal);
        let handle = handle.ok_or(SessionError::UnknownHandle)?;
        if handle.used.elapsed() >= limits.idle {
            table.remove(&digest);
            return Err(SessionError::UnknownHandle);
        }
        handle.used = Instant::now();
        Ok(Arc::clone(&handle.cache))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(name: &str) -> Digest {
    *blake3::hash(name.as_bytes()).as_bytes()
}

/// Ends sessions until one more of a principal is within the bounds.
fn make_room(table: &mut HashMap<Digest, Handle>, principal: &Principal, limits: &SessionLimits) {
    let own = table.values().filter(|handle| handle.principal == *principal).count();
    if own < limits.each && table.len() < limits.all {
        return;
    }
    table.retain(|_, handle| handle.used.elapsed() < limits.idle);
    let own = table.values().filter(|handle| handle.principal == *principal).count();
    if own >= limits.each {
        end_oldest(table, principal);
    } else if table.len() >= limits.all {
        let mut counts: HashMap<&Principal, usize> = HashMap::new();
        for handle in table.values() {
            *counts.entry(&handle.principal).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        if let Some(principal) = most.map(|(principal, _)| principal.clone()) {
            end_oldest(table, &principal);
        }
    }
}

fn end_oldest(table: &mut HashMap<Digest, Handle>, principal: &Principal) {
    let own = table.iter().filter(|(_, handle)| handle.principal == *principal);
    if let Some(oldest) = own.min_by_key(|(_, handle)| handle.used).map(|(digest, _)| *digest) {
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Principal {
        Principal::new("here", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_handle_is_its_principals_own_and_ends() {
        let (handles, limits) = (Handles::default(), SessionLimits::default());
        let (name, cache) = handles.open(&who("ann"), &limits).unwrap();
        assert_eq!(name.len(), 32);
        assert!(Arc::ptr_eq(&handles.find(&name, &who("ann"), &limits).unwrap(), &cache));
        for (name, principal) in [
            (name.as_str(), who("bob")),
            (name.as_str(), who("ann").agent("x")),
            (name.as_str(), Principal::new("there", "ann")),
            ("", who("ann")),
            (&name[1..], who("ann")),
        ] {
            assert!(handles.find(name, &principal, &limits).is_err(), "{name} {principal:?}");
        }
        tokio::time::advance(Duration::from_mins(59)).await;
        assert!(handles.find(&name, &who("ann"), &limits).is_ok());
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(handles.find(&name, &who("ann"), &limits).is_err());
        assert_eq!(handles.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_one_ends_its_own_sessions() {
        let handles = Handles::default();
        let limits = SessionLimits { each: 4, all: 6, ..SessionLimits::default() };
        let open = |name: &str| handles.open(&who(name), &limits).unwrap().0;
        let (ann, mallory) = (open("ann"), open("mallory"));
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
            open("mallory");
        }
        assert_eq!(handles.len(), 5);
        assert!(handles.find(&ann, &who("ann"), &limits).is_ok());
        assert!(handles.find(&mallory, &who("mallory"), &limits).is_err());
        let (bob, eve) = (open("bob"), open("eve"));
        assert_eq!(handles.len(), 6);
        for (name, principal) in [(&ann, "ann"), (&bob, "bob"), (&eve, "eve")] {
            assert!(handles.find(name, &who(principal), &limits).is_ok(), "{principal}");
        }
    }
}
