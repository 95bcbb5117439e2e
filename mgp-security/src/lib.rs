//! Permissions, tool security, access and audit for the Model General Protocol, as tower layers (MGP §3–§7).
//!
//! Features: `auth` (API keys and access tokens, for HTTP servers).
//!
//! Applies to: both.

mod audit;
#[cfg(feature = "auth")]
pub mod auth;
mod error;
mod trace;

pub use audit::{Audit, AuditLayer};
pub use error::Refusal;
pub use trace::{Trace, TraceLayer};
