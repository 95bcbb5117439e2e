//! Tokens that are gone with the process.
//!
//! Applies to: outbound.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::timeout;

use super::turn::{PATIENCE, SLOTS, slot};
use super::{Entries, StoreError, Stored, TokenStore, TokenTurn};

/// Keeps tokens in memory.
#[derive(Debug, Default)]
pub struct MemoryTokens {
    entries: Mutex<Entries>,
    turns: [Arc<tokio::sync::Mutex<()>>; SLOTS],
}

impl MemoryTokens {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, run: impl FnOnce(&mut Entries) -> T) -> T {
        run(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
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

    async fn turn(&self, server: &str, issuer: &str) -> Result<TokenTurn, StoreError> {
        let turn = Arc::clone(&self.turns[slot(server, issuer)]).lock_owned();
        let turn = timeout(PATIENCE, turn).await;
        turn.map(TokenTurn::holding).map_err(|_| StoreError::Busy { patience: PATIENCE })
    }
}
