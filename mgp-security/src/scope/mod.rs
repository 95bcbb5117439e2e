//! Scopes: what a caller's session may do, within what the operator's configuration allows (proposal 4).
//!
//! - `sessions.rs` has the sessions; their tokens are stored as hashes.
//! - `held.rs` has the scopes that a call holds, `layer.rs` adds them to each call.
//! - The [decision](crate::decision) compares them with the scopes that the tool requires.

mod held;
mod layer;
mod refused;
mod sessions;

pub(crate) use held::HeldScopes;
pub use layer::{ScopeLayer, ScopeService};
pub use refused::{ScopesMissing, SessionEnded};
pub use sessions::Scopes;
