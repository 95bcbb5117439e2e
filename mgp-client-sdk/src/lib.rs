//! Write clients for the Model General Protocol and MCP, and pass calls on between servers.
//!
//! - [`Client`] connects to one server and calls it.
//! - [`Switchboard`] passes the calls of one side on to several servers, whatever era each side speaks.
//!
//! Applies to: outbound.

mod client;
mod inbound;
mod outbound;
mod switchboard;

pub use client::{Client, ClientConfig};
pub use switchboard::{Hop, Switchboard};
