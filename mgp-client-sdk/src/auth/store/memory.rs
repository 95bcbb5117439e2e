//! Tokens that are gone with the process.
//!
//! Applies to: outbound.

use std::sync::{Mutex, PoisonError};

use super::{Entries, StoreError, Stored, TokenStore};

/// Keeps tokens in memory.
#[derive(Debug, Default)]
pub struct MemoryTokens(Mutex<Entries>);

impl MemoryTokens {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, run: impl FnOnce(&mut Entries) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TokenStore for MemoryTokens {
    async fn load(&self, server: &str, issuer: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.with(|entries| entries.load(server, issuer)))
    }

    async fn latest(&self, server: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.with(|entries| entries.latest(server)))
    }

    async fn save(&self, entry: Stored) -> Result<(), StoreError> {
        self.with(|entries| entries.save(entry));
        Ok(())
    }
}
