//! Which era the servers speak that were met before, so that a second connection does not try the other one (MCP versioning).
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::mcp::Era;
use tokio::time::Instant;

/// How many origins are remembered; above it the oldest is forgotten.
const ORIGINS: usize = 256;
/// How long: servers get newer.
const HOLD: Duration = Duration::from_hours(1);

/// Remembers eras by origin; cheap to clone, clones share what they know.
///
/// It is a hint only: whoever connects forgets an era that turns out wrong.
///
/// ```
/// use mgp_transport::http::EraCache;
/// use mgp_types::mcp::Era;
///
/// let eras = EraCache::new();
/// eras.note("https://mcp.example:443", Era::Legacy);
/// assert_eq!(eras.clone().of("https://mcp.example:443"), Some(Era::Legacy));
/// ```
#[derive(Clone, Default)]
pub struct EraCache(Arc<Mutex<HashMap<String, (Era, Instant)>>>);

impl EraCache {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The one of this process.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: LazyLock<EraCache> = LazyLock::new(EraCache::new);
        SHARED.clone()
    }

    /// The era of an origin, if it is known.
    #[must_use]
    pub fn of(&self, origin: &str) -> Option<Era> {
        let known = self.known();
        let (era, since) = known.get(origin)?;
        (since.elapsed() < HOLD).then_some(*era)
    }

    /// Notes the era of an origin.
    pub fn note(&self, origin: &str, era: Era) {
        let mut known = self.known();
        if known.len() >= ORIGINS && !known.contains_key(origin) {
            let oldest = known.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(origin.to_owned(), (era, Instant::now()));
    }

    /// Forgets an origin.
    pub fn forget(&self, origin: &str) {
        self.known().remove(origin);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (Era, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EraCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EraCache({} origins)", self.known().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_bounded_and_ages() {
        let eras = EraCache::new();
        for number in 0..=ORIGINS {
            eras.note(&format!("http://h{number}:80"), Era::Legacy);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(eras.known().len(), ORIGINS);
        assert_eq!(eras.of("http://h0:80"), None);
        assert_eq!(eras.of("http://h1:80"), Some(Era::Legacy));
        tokio::time::advance(HOLD).await;
        assert_eq!(eras.of("http://h1:80"), None);
    }
}
