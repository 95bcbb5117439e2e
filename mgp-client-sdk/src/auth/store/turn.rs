//! Turns at renewing tokens: a refresh token that is rotated may be shown once, whoever shares it (OAuth 2.1 §4.3.1).
//!
//! Applies to: outbound.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// How many entries can be renewed at one time: a bound on what is kept for it.
pub(super) const SLOTS: usize = 16;

/// How long somebody else may take: longer than a document may, twice over.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The right to renew the tokens of an entry; it ends when this is dropped.
///
/// The default is the right that nobody contests.
#[derive(Default)]
#[must_use = "the turn ends when it is dropped"]
pub struct TokenTurn(Option<Box<dyn Any + Send>>);

impl TokenTurn {
    /// A turn that ends when a guard is dropped.
    pub fn holding(guard: impl Send + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for TokenTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a turn" } else { "a turn nobody contests" })
    }
}

/// Where the turn of an entry is taken; the same in every process. Entries that share one wait for each other.
pub(super) fn slot(server: &str, issuer: &str) -> usize {
    let mut hash = Sha256::new();
    hash.update(server);
    hash.update([0]);
    hash.update(issuer);
    usize::from(hash.finalize()[0]) % SLOTS
}
