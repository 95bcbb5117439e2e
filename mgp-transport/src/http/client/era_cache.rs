//! A cache of the protocol eras of known servers, so that later connections try the right era first (MCP versioning).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mgp_types::mcp::Era;
use mgp_types::sync::Mutex;
use tokio::time::Instant;

/// The maximum number of origins in the cache; at the maximum, a new entry replaces the oldest entry.
const MAX_ORIGINS: usize = 256;
/// The time after which an entry expires, because the server might have been upgraded.
const ERA_TTL: Duration = Duration::from_hours(1);

/// A cache of protocol eras by origin; clones share one cache.
///
/// An entry is only a hint: a client removes an era that proves to be wrong.
///
/// ```
/// use mgp_transport::http::EraCache;
/// use mgp_types::mcp::Era;
///
/// let eras = EraCache::new();
/// eras.insert("https://mcp.example:443", Era::Legacy);
/// assert_eq!(eras.clone().get("https://mcp.example:443"), Some(Era::Legacy));
/// ```
#[derive(Clone, Default)]
pub struct EraCache(Arc<Mutex<HashMap<String, (Era, Instant)>>>);

impl EraCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the cache of this process.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: LazyLock<EraCache> = LazyLock::new(EraCache::new);
        SHARED.clone()
    }

    /// Returns the era of an origin; `None` if it is unknown or older than an hour.
    #[must_use]
    pub fn get(&self, origin: &str) -> Option<Era> {
        let known = self.0.lock();
        let (era, since) = known.get(origin)?;
        (since.elapsed() < ERA_TTL).then_some(*era)
    }

    /// Inserts the era of an origin; if the cache is full, removes the oldest entry.
    pub fn insert(&self, origin: &str, era: Era) {
        let mut known = self.0.lock();
        if known.len() >= MAX_ORIGINS && !known.contains_key(origin) {
            let oldest = known.iter().min_by_key(|(_, (_, since))| *since);
            if let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) {
                known.remove(&oldest);
            }
        }
        known.insert(origin.to_owned(), (era, Instant::now()));
    }

    /// Removes an origin, so that the next connection to it finds out its era.
    pub fn remove(&self, origin: &str) {
        self.0.lock().remove(origin);
    }
}

mgp_types::opaque_debug!(EraCache);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_bounded_and_ages() {
        let eras = EraCache::new();
        for number in 0..=MAX_ORIGINS {
            eras.insert(&format!("http://h{number}:80"), Era::Legacy);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(eras.0.lock().len(), MAX_ORIGINS);
        assert_eq!(eras.get("http://h0:80"), None);
        assert_eq!(eras.get("http://h1:80"), Some(Era::Legacy));
        tokio::time::advance(ERA_TTL).await;
        assert_eq!(eras.get("http://h1:80"), None);
    }
}
