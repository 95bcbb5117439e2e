//! Scopes: what a caller's session may do, within what the operator's configuration allows (extension `scopes`).
//!
//! - `sessions.rs` manages the sessions, whose tokens are stored as hashes.
//! - `held.rs` describes the scopes that a call has; `layer.rs` adds them to each call.
//! - The [decision](crate::decision) compares the scopes of a call with the scopes that its tool requires.

mod held;
mod layer;
mod refused;
mod sessions;

pub(crate) use held::{HeldScopes, covers};
pub use layer::{ScopeLayer, ScopeService};
pub use refused::{ScopesMissing, SessionEnded};
pub use sessions::Scopes;
