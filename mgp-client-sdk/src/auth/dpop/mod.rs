//! Proof of possession (`DPoP`, RFC 9449).

mod binding;
mod key;
mod nonces;
mod prover;

pub use binding::DpopMode;
pub(super) use binding::{Binding, ProofSupport, Schemes, binding};
pub use key::ProofKey;
pub(super) use nonces::Nonces;
pub(super) use prover::{MAX_RETRIES as NONCE_RETRIES, Prover, WANTS_NONCE};
