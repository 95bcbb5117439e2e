//! Where registrations and tokens are kept, by server and issuer (MCP authorization server binding).
//!
//! Applies to: outbound.

mod file;
mod memory;
mod turn;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::PrivateFileError;
use mgp_types::service::BoxFuture;
use serde::{Deserialize, Serialize};

pub use file::FileTokens;
pub use memory::MemoryTokens;
pub use turn::TokenTurn;

use super::dpop::ProofKey;
use super::scope::Scopes;
use super::secret::Secret;

/// How many entries our own stores hold; the one not saved for longest goes first.
const MOST: usize = 256;

/// Keeps what a client got from authorization servers.
///
/// An entry belongs to one server *and* one issuer: what one issuer gave is never shown to another.
pub trait TokenStore: Send + Sync + 'static {
    /// The entry of a server and an issuer.
    ///
    /// # Errors
    /// That the store cannot be read, or may not be trusted.
    fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> impl Future<Output = Result<Option<Stored>, StoreError>> + Send;

    /// The entry of a server that was saved last, whoever the issuer is.
    ///
    /// # Errors
    /// That the store cannot be read, or may not be trusted.
    fn latest(
        &self,
        server: &str,
    ) -> impl Future<Output = Result<Option<Stored>, StoreError>> + Send;

    /// Puts an entry in the place of what was there for its server and issuer.
    ///
    /// # Errors
    /// That the store cannot be written.
    fn save(&self, entry: Stored) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Waits until nobody else renews the tokens of a server and an issuer, and keeps others from it until what it gives is
    /// dropped; [`load`](Self::load) and [`save`](Self::save) are open to all meanwhile.
    ///
    /// A refresh token that is rotated may be shown once, and many issuers take back all tokens when it is shown again. So
    /// a store that several clients or processes share must give turns; unless this is written, nobody waits.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when it takes too long; after any other, tokens are renewed without a turn.
    ///
    /// # Cancel safety
    /// Dropping the future gives the turn up.
    fn turn(
        &self,
        server: &str,
        issuer: &str,
    ) -> impl Future<Output = Result<TokenTurn, StoreError>> + Send {
        let _ = (server, issuer);
        std::future::ready(Ok(TokenTurn::default()))
    }
}

/// What a client got from one issuer for one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stored {
    /// The server's URL, in its canonical form.
    pub server: String,
    /// The issuer, to the letter.
    pub issuer: String,
    /// Where the server's metadata is, if a challenge said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// Who the client is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// The key its tokens are bound to, if some are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ProofKey>,
    /// What it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// Who a client is to an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Registration {
    /// The client id.
    pub client_id: String,
    /// The client secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The second since 1970 from which the secret is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// How the client authenticates itself to the token endpoint.
    pub method: String,
    /// Where logins come back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// How it came to be.
    pub kind: RegistrationKind,
}

/// How a client came to its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegistrationKind {
    /// Its id is the address of its metadata document.
    Document,
    /// Its user gave it.
    Given,
    /// It registered itself.
    Dynamic,
}

/// How a token is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenKind {
    /// As it is: whoever has it can use it.
    #[default]
    Bearer,
    /// With a proof that who shows it holds the key it is bound to (RFC 9449).
    Dpop,
}

/// What a token endpoint gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// What is shown to the server.
    pub access: Secret,
    /// How it is shown.
    #[serde(default)]
    pub kind: TokenKind,
    /// What is shown to the authorization server for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// The second since 1970 when it was got.
    pub issued_at: u64,
    /// The second since 1970 from which it is no longer valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The scopes asked for, or granted where that is more.
    #[serde(default)]
    pub scopes: Scopes,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file holds something else.
    #[error("`{path}` holds no tokens: {why}; remove it to begin anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody else has been renewing the tokens for too long.
    #[error(
        "another process has been renewing the tokens for {patience:?}; look for one that hangs"
    )]
    Busy {
        /// How long was waited.
        patience: Duration,
    },
    /// Another store failed.
    #[error("the tokens could not be reached: {0}")]
    Other(String),
}

impl Stored {
    /// An empty entry.
    pub fn new(server: impl Into<String>, issuer: impl Into<String>) -> Self {
        let (server, issuer) = (server.into(), issuer.into());
        Self { server, issuer, metadata: None, registration: None, key: None, tokens: None }
    }
}

/// Entries in the order of saving.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Entries(Vec<Stored>);

impl Entries {
    fn load(&self, server: &str, issuer: &str) -> Option<Stored> {
        self.0.iter().find(|e| e.server == server && e.issuer == issuer).cloned()
    }

    fn latest(&self, server: &str) -> Option<Stored> {
        self.0.iter().rfind(|entry| entry.server == server).cloned()
    }

    fn save(&mut self, entry: Stored) {
        self.0.retain(|known| known.server != entry.server || known.issuer != entry.issuer);
        self.0.push(entry);
        let excess = self.0.len().saturating_sub(MOST);
        self.0.drain(..excess);
    }
}

/// A store whose type is forgotten.
pub(super) trait AnyStore: Send + Sync {
    fn load<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;

    fn latest<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;

    fn save(&self, entry: Stored) -> BoxFuture<'_, Result<(), StoreError>>;

    fn turn<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<TokenTurn, StoreError>>;
}

impl<S: TokenStore> AnyStore for S {
    fn load<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(TokenStore::load(self, server, issuer))
    }

    fn latest<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(TokenStore::latest(self, server))
    }

    fn save(&self, entry: Stored) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(TokenStore::save(self, entry))
    }

    fn turn<'a>(
        &'a self,
        server: &'a str,
        issuer: &'a str,
    ) -> BoxFuture<'a, Result<TokenTurn, StoreError>> {
        Box::pin(TokenStore::turn(self, server, issuer))
    }
}

/// Sharing a store is using it.
impl<S: TokenStore> TokenStore for Arc<S> {
    async fn load(&self, server: &str, issuer: &str) -> Result<Option<Stored>, StoreError> {
        S::load(self, server, issuer).await
    }

    async fn latest(&self, server: &str) -> Result<Option<Stored>, StoreError> {
        S::latest(self, server).await
    }

    async fn save(&self, entry: Stored) -> Result<(), StoreError> {
        S::save(self, entry).await
    }

    async fn turn(&self, server: &str, issuer: &str) -> Result<TokenTurn, StoreError> {
        S::turn(self, server, issuer).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_told_apart_by_server_and_issuer_and_bounded() {
        let mut entries = Entries::default();
        entries.save(Stored::new("s", "a"));
        entries.save(Stored::new("s", "b"));
        entries.save(Stored::new("t", "a"));
        assert_eq!(entries.latest("s").unwrap().issuer, "b");
        entries.save(Stored::new("s", "a"));
        assert_eq!(entries.latest("s").unwrap().issuer, "a");
        assert_eq!(entries.load("s", "c"), None);
        assert_eq!(entries.0.len(), 3);
        (0..MOST).for_each(|n| entries.save(Stored::new("u", n.to_string())));
        assert_eq!(entries.0.len(), MOST);
        assert_eq!(entries.latest("s"), None);
    }
}
