//! What a client shares with others through the store: whose tokens are newer, and whose turn it is to renew them.
//!
//! Applies to: outbound.

use tracing::{debug, warn};
use url::Url;

use super::address;
use super::discovery::Discovered;
use super::dpop::Dpop;
use super::error::AuthError;
use super::session::{Session, is_stale};
use super::store::{RegistrationKind, StoreError, Stored, TokenKind, TokenTurn, Tokens};

impl Session {
    /// Waits for the turn to renew tokens: whoever has it reads the store, shows the refresh token, and writes what came of
    /// it before anybody else shows the same one.
    pub(super) async fn turn(
        &self,
        server: &Url,
        found: &Discovered,
    ) -> Result<TokenTurn, AuthError> {
        if self.plan.is_machine() {
            // It has no refresh tokens.
            return Ok(TokenTurn::default());
        }
        let server = address::canonical(server);
        match self.plan.store.turn(&server, &found.server.issuer).await {
            Err(error) if !matches!(error, StoreError::Busy { .. }) => {
                warn!(%error, "tokens are renewed without a turn; another process may do the same");
                Ok(TokenTurn::default())
            }
            turn => Ok(turn?),
        }
    }

    /// The entry of an issuer: what is known now, or what another process kept if that is newer.
    pub(super) async fn entry_of(
        &self,
        server: &Url,
        found: &Discovered,
        known: Option<Stored>,
    ) -> Result<Stored, AuthError> {
        let (server, issuer) = (address::canonical(server), &found.server.issuer);
        let known = known.filter(|known| known.issuer == *issuer);
        let kept = self.plan.store.load(&server, issuer).await?;
        self.saw(kept.as_ref());
        let kept = kept.and_then(|kept| self.ours(kept));
        let issued = |entry: &Stored| entry.tokens.as_ref().map(|tokens| tokens.issued_at);
        // Within one second the store knows better: another process has written it since this one did.
        let is_newer =
            |kept: &Stored, known: &Stored| issued(kept).is_some() && issued(kept) >= issued(known);
        let mut entry = match (known, kept) {
            (Some(known), Some(kept)) if is_newer(&kept, &known) => kept,
            (Some(known), _) => known,
            (None, kept) => kept.unwrap_or_else(|| Stored::new(server, issuer)),
        };
        entry.metadata.clone_from(&found.metadata);
        Ok(entry)
    }

    /// Takes what another process got in the place of tokens that are no longer good; `false` where there is nothing.
    pub(super) async fn take_instead(&self, dead: &Tokens, entry: &Stored) -> bool {
        let kept = self.plan.store.load(&entry.server, &entry.issuer).await.ok().flatten();
        let kept = kept.and_then(|kept| self.ours(kept)).filter(|kept| {
            let is_other = |tokens: &Tokens| tokens.access != dead.access && !is_stale(tokens);
            kept.tokens.as_ref().is_some_and(is_other)
        });
        let Some(kept) = kept else { return false };
        self.saw(Some(&kept));
        self.take(kept);
        true
    }

    /// Shows an entry from now on, and keeps it. A login is worth more than its record: where it cannot be kept, it still
    /// serves this process.
    pub(super) async fn keep(&self, entry: Stored) {
        self.take(entry.clone());
        match self.plan.store.save(entry.clone()).await {
            Ok(()) => self.saw(Some(&entry)),
            Err(error) => warn!(%error, "tokens could not be kept; the next start needs a login"),
        }
    }

    /// The same of an entry without new tokens: where another process has got some since the store was read, those stay.
    pub(super) async fn keep_poorer(&self, entry: Stored) {
        let kept = self.plan.store.load(&entry.server, &entry.issuer).await.ok().flatten();
        let Some(kept) = kept.filter(|kept| self.is_overtaken_by(kept)) else {
            return self.keep(entry).await;
        };
        debug!("another process has got tokens meanwhile");
        self.take(self.ours(kept).unwrap_or(entry));
    }

    /// An entry that was made with the credentials that are in use; its tokens only if they may be used.
    pub(super) fn ours(&self, entry: Stored) -> Option<Stored> {
        let mut entry = Some(entry).filter(|entry| self.is_ours(entry))?;
        entry.tokens = entry.tokens.filter(|tokens| match self.plan.dpop {
            Dpop::Offered => true,
            Dpop::Always => tokens.kind == TokenKind::Dpop,
            Dpop::Never => tokens.kind == TokenKind::Bearer,
        });
        Some(entry)
    }

    /// Whether an entry was made with the credentials that are in use.
    pub(super) fn is_ours(&self, entry: &Stored) -> bool {
        let given = entry.registration.as_ref().filter(|r| r.kind == RegistrationKind::Given);
        match (given, self.plan.bound_id()) {
            (Some(registration), bound) => {
                let given = self.plan.given.as_ref().map(|given| given.id.as_str());
                Some(registration.client_id.as_str()) == bound.or(given)
            }
            (None, Some(_)) => entry.registration.is_none(),
            (None, None) => true,
        }
    }
}
