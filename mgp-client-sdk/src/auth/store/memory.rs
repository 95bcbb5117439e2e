//! Tokens in memory.

use std::sync::Arc;

use async_trait::async_trait;
use mgp_types::sync::Mutex;
use tokio::time::timeout;

use super::{
    Entries, MAX_LOCKS, RENEWAL_LOCK_TIMEOUT, RenewalLock, TokenEntry, TokenStore, TokenStoreError,
    lock_index,
};

/// A token store in memory.
#[derive(Debug, Default)]
pub struct MemoryTokens {
    entries: Mutex<Entries>,
    renewals: [Arc<tokio::sync::Mutex<()>>; MAX_LOCKS],
}

impl MemoryTokens {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl TokenStore for MemoryTokens {
    async fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<Option<TokenEntry>, TokenStoreError> {
        Ok(self.entries.lock().load(server, issuer))
    }

    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        Ok(self.entries.lock().latest(server))
    }

    async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError> {
        self.entries.lock().save(entry);
        Ok(())
    }

    async fn lock_renewal(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<RenewalLock, TokenStoreError> {
        let lock = Arc::clone(&self.renewals[lock_index(server, issuer)]).lock_owned();
        let lock = timeout(RENEWAL_LOCK_TIMEOUT, lock).await;
        lock.map(RenewalLock::new)
            .map_err(|_| TokenStoreError::Busy { timeout: RENEWAL_LOCK_TIMEOUT })
    }
}
