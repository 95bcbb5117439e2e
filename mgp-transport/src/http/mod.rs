//! Streamable HTTP, both eras on one endpoint (MCP transports; MGP §1.4).
//!
//! Applies to: both.

mod credentials;
mod server;

pub use credentials::{Credentials, Refused};
pub use server::{Answers, ConnectionLimits, HttpBody, HttpConfig, HttpService, listen};
