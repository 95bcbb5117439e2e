//! API keys `mgp_<id>_<secret>`: generated here, shown once, and stored as the hash of their secret.
//!
//! A secret has 256 random bits, so a single SHA-256 is enough; slow hashes are needed only for secrets that people
//! choose. A key is looked up by its id, and its hash is compared in constant time; an unknown id takes the same time.
//!
//! Decisions read a snapshot in memory. Changes made in this process take effect immediately; changes that another
//! process makes in the store take effect within 250 ms, see [`KeyStore::stamp`].

mod error;
mod file;
mod keys;
mod record;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod text;

pub use error::{KeyError, KeyStoreError};
pub use file::FileKeys;
pub use keys::{ApiKeys, NewKey};
pub use record::{KeyGrant, KeyRecord};
pub use store::{KeyStore, MemoryKeys};

pub(super) use keys::Lookup;

/// The maximum number of API keys in a store.
pub const MAX_KEYS: usize = 10_000;
