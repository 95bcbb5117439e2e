//! Errors that occur when API keys are managed.

use std::path::PathBuf;

use mgp_types::PrivateFileError;
use mgp_types::service::AuditError;

use super::MAX_KEYS;

/// An error that occurs when API keys are created, changed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text does not have the form of a key.
    #[error(
        "malformed key; a key is `mgp_<id>_<secret>` with letters, digits and `-` in the id, also `_` in the secret"
    )]
    Malformed,
    /// A key with this id already exists.
    #[error("a key with the id `{id}` already exists")]
    Exists {
        /// The id of the existing key.
        id: String,
    },
    /// There is no key with this id.
    #[error("no key has the id `{id}`")]
    Unknown {
        /// The id that was not found.
        id: String,
    },
    /// The store already contains the maximum number of keys, and all of them are valid.
    #[error("the limit of {MAX_KEYS} keys is reached; revoke some")]
    Full,
    /// The system cannot provide random bytes for a new key.
    #[error("the system has no randomness: {0}")]
    NoRandomness(getrandom::Error),
    /// The store of the API keys failed.
    #[error(transparent)]
    Store(#[from] KeyStoreError),
    /// The audit log could not record the change. If a key was to be created, it does not exist; a revocation or
    /// removal took effect nevertheless.
    #[error("the change of the key was not recorded: {0}")]
    Unaudited(#[from] AuditError),
}

/// An error of a store of API keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyStoreError {
    /// The file cannot be read or written, or other users can access it.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The content of the file does not have the expected format.
    #[error("`{path}` is not a valid key file: {why}")]
    Unreadable {
        /// The path of the key file.
        path: PathBuf,
        /// The reason why the key file cannot be read.
        why: String,
    },
    /// A key store implemented outside this crate failed.
    #[error("the store of keys failed: {0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
