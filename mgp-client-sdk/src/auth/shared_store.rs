//! Sharing of tokens with other processes through the store.

use tracing::{debug, warn};
use url::Url;

use super::address;
use super::credentials::{CurrentCredentials, is_stale};
use super::discovery::Discovered;
use super::dpop::DpopMode;
use super::error::AuthError;
use super::store::{RegistrationKind, RenewalLock, TokenEntry, TokenKind, TokenStoreError, Tokens};

impl CurrentCredentials {
    /// Waits for the exclusive right to renew tokens. The holder reads the store, uses the refresh token and stores
    /// the result, so that no other process uses the same refresh token.
    pub(super) async fn lock_renewal(
        &self,
        server: &Url,
        found: &Discovered,
    ) -> Result<RenewalLock, AuthError> {
        if self.config.is_machine() {
            // Without a person who logs in there are no refresh tokens, so no lock is needed.
            return Ok(RenewalLock::default());
        }
        let server = address::canonical(server);
        match self.config.store.lock_renewal(&server, &found.server.issuer).await {
            Err(error) if !matches!(error, TokenStoreError::Busy { .. }) => {
                warn!(%error, "renewing tokens without a lock; another process may do the same");
                Ok(RenewalLock::default())
            }
            lock => Ok(lock?),
        }
    }

    /// Returns the entry of an issuer: the entry in memory, a newer entry that another process has stored, or else an
    /// empty entry.
    pub(super) async fn load_entry(
        &self,
        server: &Url,
        found: &Discovered,
        known: Option<TokenEntry>,
    ) -> Result<TokenEntry, AuthError> {
        let (server, issuer) = (address::canonical(server), &found.server.issuer);
        let known = known.filter(|known| known.issuer == *issuer);
        let stored = self.config.store.load(&server, issuer).await?;
        self.note_stored(stored.as_ref());
        let stored = stored.and_then(|stored| self.usable(stored));
        let issued = |entry: &TokenEntry| entry.tokens.as_ref().map(|tokens| tokens.issued_at);
        // If both were issued in the same second, the stored entry counts as newer, because another process wrote it.
        let is_newer = |stored: &TokenEntry, known: &TokenEntry| {
            issued(stored).is_some() && issued(stored) >= issued(known)
        };
        let mut entry = match (known, stored) {
            (Some(known), Some(stored)) if is_newer(&stored, &known) => stored,
            (Some(known), _) => known,
            (None, stored) => stored.unwrap_or_else(|| TokenEntry::new(server, issuer)),
        };
        entry.metadata.clone_from(&found.metadata);
        Ok(entry)
    }

    /// Replaces invalid tokens by tokens that another process has stored. Returns `false` if the store contains no
    /// other tokens that can be used.
    pub(super) async fn adopt_stored(&self, dead: &Tokens, entry: &TokenEntry) -> bool {
        let stored = self.config.store.load(&entry.server, &entry.issuer).await.ok().flatten();
        let stored = stored.and_then(|stored| self.usable(stored)).filter(|stored| {
            let is_other = |tokens: &Tokens| tokens.access != dead.access && !is_stale(tokens);
            stored.tokens.as_ref().is_some_and(is_other)
        });
        let Some(stored) = stored else { return false };
        self.note_stored(Some(&stored));
        self.take(stored);
        true
    }

    /// Makes an entry the current entry, and stores it. If storing fails, the tokens can still be used in this process.
    pub(super) async fn save(&self, entry: TokenEntry) {
        self.take(entry.clone());
        match self.config.store.save(entry.clone()).await {
            Ok(()) => self.note_stored(Some(&entry)),
            Err(error) => warn!(%error, "storing tokens failed; the next start needs a login"),
        }
    }

    /// Stores renewed tokens, unless a login or a logout has changed the store since it was last read. Both wait only a
    /// short time for a renewal, so they can come before the end of this one.
    ///
    /// After a login, its tokens are used. After a logout, the renewed tokens are revoked, and the renewal fails.
    pub(super) async fn save_renewed(&self, mut entry: TokenEntry) -> Result<(), AuthError> {
        match self.config.store.load(&entry.server, &entry.issuer).await {
            Ok(Some(stored)) if self.is_newer_in_store(&stored) => {
                debug!("another process stored tokens during the renewal");
                self.note_stored(Some(&stored));
                self.take(self.usable(stored).unwrap_or(entry));
            }
            Ok(stored)
                if self.has_seen_tokens()
                    && stored.as_ref().is_none_or(|stored| stored.tokens.is_none()) =>
            {
                let deleted = entry.clone();
                entry.tokens = None;
                self.note_stored(None);
                self.take(entry);
                if let Err(error) = Box::pin(self.revoke(&deleted)).await {
                    warn!(%error, "not all tokens of a deleted login were revoked");
                }
                return Err(AuthError::Expired);
            }
            // The store is unchanged. If it cannot be read, storing fails too, and reports it.
            _ => self.save(entry).await,
        }
        Ok(())
    }

    /// Stores an entry without tokens, unless another process has stored new tokens since the store was last read.
    pub(super) async fn save_without_tokens(&self, entry: TokenEntry) {
        let stored = self.config.store.load(&entry.server, &entry.issuer).await.ok().flatten();
        let Some(stored) = stored.filter(|stored| self.is_newer_in_store(stored)) else {
            return self.save(entry).await;
        };
        debug!("another process stored tokens meanwhile");
        self.take(self.usable(stored).unwrap_or(entry));
    }

    /// Returns an entry if it was obtained with the configured credentials. Removes its tokens if the configured
    /// [`DpopMode`] does not allow their kind.
    pub(super) fn usable(&self, entry: TokenEntry) -> Option<TokenEntry> {
        let mut entry = Some(entry).filter(|entry| self.is_from_our_credentials(entry))?;
        entry.tokens = entry.tokens.filter(|tokens| match self.config.dpop {
            DpopMode::Offered => true,
            DpopMode::Always => tokens.kind == TokenKind::Dpop,
            DpopMode::Never => tokens.kind == TokenKind::Bearer,
        });
        Some(entry)
    }

    pub(super) fn is_from_our_credentials(&self, entry: &TokenEntry) -> bool {
        let preregistered =
            entry.registration.as_ref().filter(|r| r.kind == RegistrationKind::Preregistered);
        match (preregistered, self.config.bound_id()) {
            (Some(registration), bound) => Some(registration.client_id.as_str()) == bound,
            (None, Some(_)) => entry.registration.is_none(),
            (None, None) => true,
        }
    }
}
