//! API keys: `mgp_<id>_<secret>`, made here, shown once, and known by the hash of their secret.
//!
//! A secret is 256 random bits, so one SHA-256 of it is enough: a slow hash protects secrets people think up, which
//! these are not. A key is looked up by its id, and its hash compared in constant time; an id nobody has costs the
//! same work.
//!
//! Decisions read a snapshot in memory. What this process changes holds at once; what another process changes in the
//! store holds within 250 ms, see [`KeyStore::stamp`].
//!
//! Applies to: inbound.

mod error;
mod file;
mod keys;
mod record;
mod store;
#[cfg(test)]
mod tests;
mod text;

pub use error::{KeyError, StoreError};
pub use file::FileKeys;
pub use keys::{ApiKeys, NewKey};
pub use record::{KeyGrant, KeyRecord};
pub use store::{KeyStore, MemoryKeys};

pub(super) use keys::Looked;

/// No store holds more keys.
pub const MAX_KEYS: usize = 10_000;
