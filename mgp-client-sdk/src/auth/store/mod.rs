//! Stores of registrations and tokens, by server and issuer (MCP authorization server binding).

mod file;
mod memory;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::PrivateFileError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use file::FileTokens;
pub use memory::MemoryTokens;

use super::dpop::ProofKey;
use super::scope::Scopes;
use super::secret::Secret;

/// The maximum number of entries in the stores of this crate. The entry that was saved longest ago is dropped
/// first.
const MAX_ENTRIES: usize = 256;

/// A store of registrations and tokens.
///
/// An entry belongs to one server *and* one issuer: credentials of one issuer are never sent to another. Implement this
/// trait with the attribute `#[async_trait]` of the crate `async-trait`.
///
/// ```
/// use async_trait::async_trait;
/// use mgp_client_sdk::auth::{TokenEntry, TokenStore, TokenStoreError};
/// use mgp_client_sdk::types::sync::Mutex;
///
/// /// All entries as one text, as a keyring of the system keeps them; the newest is the last.
/// struct Keyring(Mutex<String>);
///
/// fn failed(error: serde_json::Error) -> TokenStoreError {
///     TokenStoreError::Other(error.to_string())
/// }
///
/// impl Keyring {
///     fn entries(&self) -> Result<Vec<TokenEntry>, TokenStoreError> {
///         serde_json::from_str(&self.0.lock()).map_err(failed)
///     }
/// }
///
/// #[async_trait]
/// impl TokenStore for Keyring {
///     async fn load(&self, server: &str, issuer: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
///         let mut entries = self.entries()?.into_iter();
///         Ok(entries.find(|entry| entry.server == server && entry.issuer == issuer))
///     }
///
///     async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
///         Ok(self.entries()?.into_iter().rfind(|entry| entry.server == server))
///     }
///
///     async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError> {
///         let mut text = self.0.lock();
///         let mut entries: Vec<TokenEntry> = serde_json::from_str(&text).map_err(failed)?;
///         entries.retain(|known| known.server != entry.server || known.issuer != entry.issuer);
///         entries.push(entry);
///         *text = serde_json::to_string(&entries).map_err(failed)?;
///         Ok(())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let (server, issuer) = ("https://mcp.example.com/mcp", "https://login.example.com");
/// let store = Keyring(Mutex::new("[]".to_owned()));
/// store.save(TokenEntry::new(server, issuer)).await.unwrap();
/// assert_eq!(store.latest(server).await.unwrap().unwrap().issuer, issuer);
/// # });
/// ```
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the entry of a server and an issuer.
    ///
    /// If an entry, or its tokens, disappears while the tokens are renewed, that counts as a logout: the new tokens are
    /// revoked, not saved.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the store cannot be read or trusted.
    async fn load(&self, server: &str, issuer: &str)
    -> Result<Option<TokenEntry>, TokenStoreError>;

    /// Returns the most recently saved entry of a server, whatever its issuer.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the store cannot be read or trusted.
    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError>;

    /// Saves an entry; it replaces the entry with the same server and issuer.
    ///
    /// # Errors
    /// [`TokenStoreError`] if the store cannot be written.
    async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError>;

    /// Waits until no other client renews the tokens of a server and an issuer, and locks their renewal until the
    /// returned lock is dropped. The lock does not affect [`load`](Self::load) and [`save`](Self::save).
    ///
    /// A rotated refresh token may be used only once, and many issuers revoke all tokens if it is used again. So a
    /// store that several clients or processes share must implement this method. Default: nothing is locked.
    ///
    /// # Errors
    /// [`TokenStoreError::Busy`] if another client has the lock for too long; after any other error tokens are renewed
    /// without a lock.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the lock.
    async fn lock_renewal(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<RenewalLock, TokenStoreError> {
        let _ = (server, issuer);
        Ok(RenewalLock::default())
    }
}

/// All data that a client keeps for one server and one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenEntry {
    /// The server's URL, in its canonical form.
    pub server: String,
    /// The issuer: exactly the text in its metadata, or the origin of a server without metadata.
    pub issuer: String,
    /// The URL of the server's metadata, if a challenge named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// The client's registration at the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// The key to which the tokens are bound, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ProofKey>,
    /// The tokens that the issuer issued for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// A client's registration at an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Registration {
    /// The client id.
    pub client_id: String,
    /// The client secret, if the client has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The time from which the secret is invalid, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The client's authentication method at the token endpoint, by its name in RFC 7591.
    pub method: String,
    /// The registered redirect URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// The origin of the client id.
    pub kind: RegistrationKind,
}

/// The origin of a client id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegistrationKind {
    /// The client id is the URL of the client's metadata document.
    Document,
    /// The user configured the client id.
    #[serde(rename = "given")]
    Preregistered,
    /// The authorization server assigned the client id in a dynamic registration.
    Dynamic,
}

/// The authentication scheme of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenKind {
    /// A bearer token, usable by anyone who has it.
    #[default]
    Bearer,
    /// A token bound to a key; it is sent with a proof of possession of the key (RFC 9449).
    Dpop,
}

/// The tokens from a token endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// The access token.
    pub access: Secret,
    /// The kind of the access token.
    #[serde(default)]
    pub kind: TokenKind,
    /// The refresh token, if the issuer sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// The time when the access token was issued, in seconds since 1970.
    pub issued_at: u64,
    /// The time from which the access token is invalid, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The union of the requested and the granted scopes.
    #[serde(default)]
    pub scopes: Scopes,
}

/// An error of a token store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenStoreError {
    /// The file with the tokens cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file does not contain tokens.
    #[error("`{path}` is not a token file: {why}; remove it to start again")]
    Damaged {
        /// The path of the damaged file.
        path: PathBuf,
        /// The reason why the file is not a token file.
        why: String,
    },
    /// Another process has been renewing the tokens for too long.
    #[error("another process has been renewing the tokens for {}; check whether it hangs", mgp_types::duration_words(*.timeout))]
    Busy {
        /// The time that this process waited.
        timeout: Duration,
    },
    /// The token store failed for another reason.
    #[error("the token store failed: {0}")]
    Other(String),
}

impl TokenEntry {
    /// Creates the entry of a server and an issuer, without a registration and without tokens.
    pub fn new(server: impl Into<String>, issuer: impl Into<String>) -> Self {
        let (server, issuer) = (server.into(), issuer.into());
        Self { server, issuer, metadata: None, registration: None, key: None, tokens: None }
    }
}

/// The entries of a token store, in the order they were saved.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Entries(Vec<TokenEntry>);

impl Entries {
    fn load(&self, server: &str, issuer: &str) -> Option<TokenEntry> {
        self.0.iter().find(|e| e.server == server && e.issuer == issuer).cloned()
    }

    fn latest(&self, server: &str) -> Option<TokenEntry> {
        self.0.iter().rfind(|entry| entry.server == server).cloned()
    }

    fn save(&mut self, entry: TokenEntry) {
        self.0.retain(|known| known.server != entry.server || known.issuer != entry.issuer);
        self.0.push(entry);
        let excess = self.0.len().saturating_sub(MAX_ENTRIES);
        self.0.drain(..excess);
    }
}

/// A token store that several clients share.
#[async_trait]
impl<S: TokenStore> TokenStore for Arc<S> {
    async fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<Option<TokenEntry>, TokenStoreError> {
        S::load(self, server, issuer).await
    }

    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        S::latest(self, server).await
    }

    async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError> {
        S::save(self, entry).await
    }

    async fn lock_renewal(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<RenewalLock, TokenStoreError> {
        S::lock_renewal(self, server, issuer).await
    }
}

// === Locking ===

/// The number of renewal locks, and so the maximum number of entries that can be renewed at the same time.
const MAX_LOCKS: usize = 16;

/// The maximum time to wait for another process that renews the same tokens. A renewal can take several requests.
const RENEWAL_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The exclusive right to renew the tokens of an entry, until the lock is dropped.
///
/// The default value does not lock anything.
#[derive(Default)]
#[must_use = "the lock is released when it is dropped"]
pub struct RenewalLock {
    _guard: Option<Box<dyn Any + Send>>,
}

impl RenewalLock {
    /// Creates a lock that is released when the guard is dropped.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self { _guard: Some(Box::new(guard)) }
    }
}

mgp_types::opaque_debug!(RenewalLock);

/// Returns the index of an entry's lock. The index is the same in every process; entries with the same index wait for
/// each other.
fn lock_index(server: &str, issuer: &str) -> usize {
    let mut hash = Sha256::new();
    hash.update(server);
    hash.update([0]);
    hash.update(issuer);
    usize::from(hash.finalize()[0]) % MAX_LOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_keyed_by_server_and_issuer_and_bounded() {
        let mut entries = Entries::default();
        entries.save(TokenEntry::new("s", "a"));
        entries.save(TokenEntry::new("s", "b"));
        entries.save(TokenEntry::new("t", "a"));
        assert_eq!(entries.latest("s").unwrap().issuer, "b");
        entries.save(TokenEntry::new("s", "a"));
        assert_eq!(entries.latest("s").unwrap().issuer, "a");
        assert_eq!(entries.load("s", "c"), None);
        assert_eq!(entries.0.len(), 3);
        (0..MAX_ENTRIES).for_each(|n| entries.save(TokenEntry::new("u", n.to_string())));
        assert_eq!(entries.0.len(), MAX_ENTRIES);
        assert_eq!(entries.latest("s"), None);
    }
}
