//! Permissions, tool security, access and audit for the Model General Protocol, as tower layers (MGP §3–§7).
//!
//! Applies to: both.

mod audit;
mod error;
mod trace;

pub use audit::{Audit, AuditLayer};
pub use error::Refusal;
pub use trace::{Trace, TraceLayer};
