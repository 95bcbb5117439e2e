//! The vocabulary.
mod canonical;
#[cfg(feature = "seal")]
mod seal;
pub mod service;
pub use canonical::{Hash, canonical, canonical_hash};
#[cfg(feature = "seal")]
pub use seal::{NotValid, Sealer};
mod wire;
mod stub;
pub use stub::*;
pub use wire::{Category, ErrorCode, Id, Payload, Recovery, RetryStrategy, RpcError};
