//! Streamable HTTP, both eras on one endpoint (MCP transports; MGP §1.4).
//!
//! Applies to: both.

mod credentials;

pub use credentials::{Credentials, Refused};
