//! Where the issuer's keys come from: given, or fetched and kept (RFC 7517; `OpenID` Connect Core §10.1.1).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::service::{FetchRequest, Fetcher};
use tokio::sync::Mutex as Flight;
use tokio::time::{Instant, timeout};

use super::jwks::{BadJwks, JwkSet};
use crate::auth::refused::AuthRefused;

/// How long fetched keys are used without another look.
const FRESH: Duration = Duration::from_mins(10);
/// How long keys are used when they cannot be fetched again.
const MAX_AGE: Duration = Duration::from_hours(24);
/// How often keys are fetched because of a token, which anybody can send.
const BETWEEN_FETCHES: Duration = Duration::from_mins(1);
/// How often they are fetched while there are none, so that a server that started before its issuer soon works.
const BETWEEN_FIRST_FETCHES: Duration = Duration::from_secs(5);
/// No fetch takes longer.
const MAX_FETCH: Duration = Duration::from_secs(10);

/// Keys of an issuer.
#[derive(Clone, Debug)]
pub(super) enum KeySource {
    Given(Arc<JwkSet>),
    Fetched(Arc<FetchedKeys>),
}

/// Keys at a URL.
///
/// A request that waits for a fetch does not own it: a caller who leaves cannot keep others from the new keys.
pub(super) struct FetchedKeys {
    url: String,
    fetcher: Fetcher,
    kept: Mutex<Kept>,
    /// Held by the one fetch there is.
    flight: Arc<Flight<()>>,
}

#[derive(Default)]
struct Kept {
    set: Option<(Arc<JwkSet>, Instant)>,
    tried: Option<Instant>,
}

/// Why keys were not fetched; for the log.
#[derive(Debug, thiserror::Error)]
enum NoKeys {
    #[error(transparent)]
    Fetch(#[from] mgp_types::service::FetchError),
    #[error("the answer did not come within {} s", MAX_FETCH.as_secs())]
    TooSlow,
    #[error("the answer has status {0}")]
    Status(u16),
    #[error(transparent)]
    Bad(#[from] BadJwks),
    #[error("none of the keys can be used")]
    Empty,
}

// === impl KeySource ===

impl KeySource {
    pub(super) fn fetched(url: impl Into<String>, fetcher: Fetcher) -> Self {
        Self::Fetched(Arc::new(FetchedKeys {
            url: url.into(),
            fetcher,
            kept: Mutex::default(),
            flight: Arc::default(),
        }))
    }

    /// The keys to look at first.
    pub(super) async fn current(&self) -> Result<Arc<JwkSet>, AuthRefused> {
        match self {
            Self::Given(set) => Ok(Arc::clone(set)),
            Self::Fetched(keys) => keys.current().await,
        }
    }

    /// Keys that came after those in which one was not found.
    pub(super) async fn newer(&self, seen: &Arc<JwkSet>) -> Option<Arc<JwkSet>> {
        match self {
            Self::Given(_) => None,
            Self::Fetched(keys) => keys.newer(seen).await,
        }
    }
}

// === impl FetchedKeys ===

impl FetchedKeys {
    async fn current(self: &Arc<Self>) -> Result<Arc<JwkSet>, AuthRefused> {
        if let Some(set) = self.kept().younger_than(FRESH) {
            return Ok(set);
        }
        let old = self.kept().younger_than(MAX_AGE);
        let turn = match &old {
            // While somebody fetches, the old ones do.
            Some(_) => Arc::clone(&self.flight).try_lock_owned().ok(),
            None => Some(Arc::clone(&self.flight).lock_owned().await),
        };
        let Some(turn) = turn else { return old.ok_or(AuthRefused::Unavailable) };
        if self.kept().younger_than(FRESH).is_none() {
            self.fetch(turn).await;
        }
        self.kept().younger_than(MAX_AGE).ok_or(AuthRefused::Unavailable)
    }

    async fn newer(self: &Arc<Self>, seen: &Arc<JwkSet>) -> Option<Arc<JwkSet>> {
        let is_newer = |set: &Arc<JwkSet>| !Arc::ptr_eq(set, seen);
        let turn = Arc::clone(&self.flight).lock_owned().await;
        // Somebody else may have fetched while this one waited.
        if let Some(set) = self.kept().younger_than(MAX_AGE).filter(is_newer) {
            return Some(set);
        }
        self.fetch(turn).await;
        self.kept().younger_than(MAX_AGE).filter(is_newer)
    }

    /// Fetches, unless that was tried a moment ago.
    async fn fetch(self: &Arc<Self>, turn: tokio::sync::OwnedMutexGuard<()>) {
        if !self.kept().may_try() {
            return;
        }
        let this = Arc::clone(self);
        let fetch = tokio::spawn(async move {
            let _turn = turn;
            match this.download().await {
                Ok(set) => this.kept().set = Some((Arc::new(set), Instant::now())),
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    url = mgp_types::service::shown_url(&this.url),
                    "the keys of the issuer were not fetched"
                ),
            }
        });
        // A fetch that panicked was one that failed.
        let _ = fetch.await;
    }

    async fn download(&self) -> Result<JwkSet, NoKeys> {
        let request = FetchRequest::get(self.url.as_str()).header("accept", "application/json");
        let answer = timeout(MAX_FETCH, self.fetcher.fetch(request));
        let answer = answer.await.map_err(|_| NoKeys::TooSlow)??;
        if answer.status != 200 {
            return Err(NoKeys::Status(answer.status));
        }
        let set = JwkSet::parse(&answer.body)?;
        if set.is_empty() { Err(NoKeys::Empty) } else { Ok(set) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FetchedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keys at {}", self.url)
    }
}

// === impl Kept ===

impl Kept {
    fn younger_than(&self, age: Duration) -> Option<Arc<JwkSet>> {
        let (set, since) = self.set.as_ref()?;
        (since.elapsed() < age).then(|| Arc::clone(set))
    }

    /// Takes the next attempt, if it is due.
    fn may_try(&mut self) -> bool {
        let has_keys = self.younger_than(MAX_AGE).is_some();
        let pause = if has_keys { BETWEEN_FETCHES } else { BETWEEN_FIRST_FETCHES };
        if self.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return false;
        }
        self.tried = Some(Instant::now());
        true
    }
}
