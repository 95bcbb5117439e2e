//! Permissions, tool security, access and audit for the Model General Protocol, as tower layers (MGP §3–§7).
//!
//! Features: `auth` (API keys and access tokens, for HTTP servers), `sqlite` (grants in a file).
//!
//! Applies to: both.

mod access;
mod approval;
mod audit;
#[cfg(feature = "auth")]
pub mod auth;
mod definition;
mod error;
mod permission;
mod policy;
mod state;
mod tool;
mod trace;

pub use approval::{About, Approver, Decision, Question};
pub use audit::{Audit, AuditLayer, EventSource};
pub use audit::{
    AuditLog, AuditPage, AuditQuery, Bad, DigestKey, Flaw, Fsync, Head, Keep, LogConfig, LogError,
    verify,
};
pub use error::Refusal;
pub use policy::{ConfirmFrom, Policies, ServerPolicy};
pub use state::ChangeError;
pub use tool::Assessment;
pub use trace::{Trace, TraceLayer};
