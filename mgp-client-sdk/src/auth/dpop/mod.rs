//! Tokens that are of use only to who holds a key: proof of possession (`DPoP`, RFC 9449).
//!
//! Applies to: outbound.

mod binding;
mod key;
mod nonces;
mod prover;

pub use binding::Dpop;
pub(super) use binding::{Binding, Schemes, Signs, binding};
pub use key::ProofKey;
pub(super) use nonces::Nonces;
pub(super) use prover::{Prover, RETRIES as NONCE_RETRIES, WANTS_NONCE};
