//! Why the index refuses something, and the one place where reasons become codes (MGP §14.3, §16).
//!
//! Applies to: both.

use mgp_types::RpcError;

/// Why the index could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The keyword index failed; it is in memory, so memory is what it lacks, or one of its threads died.
    #[error("the keyword index failed: {0}")]
    Keywords(#[source] tantivy::TantivyError),
    /// A server without an id, or with one that is too long.
    #[error("a server id has 1 to {most} bytes, this one has {bytes}")]
    ServerId {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
}

impl From<tantivy::TantivyError> for IndexError {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Keywords(error)
    }
}

impl From<IndexError> for RpcError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Keywords(_) => Self::internal("the tool index failed").because(error),
            IndexError::ServerId { .. } => Self::invalid_params(error),
        }
    }
}
