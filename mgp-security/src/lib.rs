//! Permissions, tool security, access and audit for the Model General Protocol, as tower layers (MGP §3–§7).
//!
//! Applies to: both.

mod trace;

pub use trace::{Trace, TraceLayer};
