//! Errors of managing API keys.

use std::path::PathBuf;

use mgp_types::PrivateFileError;
use mgp_types::service::AuditError;

use super::MAX_KEYS;

/// An error of creating, changing or reading keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a key.
    #[error(
        "malformed key; a key is `mgp_<id>_<secret>` with letters, digits and `-` in the id, also `_` in the secret"
    )]
    Malformed,
    /// A key with this id exists.
    #[error("a key with the id `{id}` already exists")]
    Exists {
        /// The id.
        id: String,
    },
    /// No key has this id.
    #[error("there is no key with the id `{id}`")]
    Unknown {
        /// The id.
        id: String,
    },
    /// The store has reached its limit.
    #[error("the limit of {MAX_KEYS} keys is reached; remove revoked or expired ones")]
    Full,
    /// The system provides no random bytes.
    #[error("the system has no randomness: {0}")]
    NoRandomness(getrandom::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] KeyStoreError),
    /// The change cannot be recorded: no key was created, or a key was revoked without a record in the log.
    #[error("the change of the key was not recorded: {0}")]
    Unaudited(#[from] AuditError),
}

/// An error of a key store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyStoreError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file has another format.
    #[error("`{path}` is not a valid key file: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The flaw.
        why: String,
    },
    /// Another kind of store failed.
    #[error("the store of keys failed: {0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
