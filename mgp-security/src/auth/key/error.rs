//! What can fail around API keys, for whoever administers them.
//!
//! Applies to: inbound.

use std::path::PathBuf;

use mgp_types::PrivateFileError;
use mgp_types::service::Unaudited;

use super::MAX_KEYS;

/// Why keys could not be made, changed or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is no key.
    #[error(
        "a key is `mgp_<id>_<secret>`: letters, digits and `-` in the id, also `_` in the secret"
    )]
    Malformed,
    /// A key with this id exists.
    #[error("there is a key with the id `{id}`")]
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
    /// The store is full.
    #[error("there are {MAX_KEYS} keys; remove some that are revoked or expired")]
    Full,
    /// The system gives no random bytes.
    #[error("the system has no randomness: {0}")]
    NoRandomness(getrandom::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change cannot be recorded: a key was not made, or one is gone and the log does not say so.
    #[error("the change of the key was not recorded: {0}")]
    Unaudited(#[from] Unaudited),
}

/// Why a store of keys failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file does not hold keys as we write them.
    #[error("`{path}` is no file of keys: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Another kind of store failed.
    #[error("the store of keys failed: {0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
