//! The client's end of streamable HTTP (MCP transports, 2025-03-26 and later; MGP §1.4).
//!
//! An [`HttpConnection`] is to an endpoint what [`Connection`](crate::Connection) is to a pair of byte streams:
//! a peer to call, and something to drive for what the server sends of its own.
//!
//! A request is one POST; its answer is JSON or a stream of events.
//! In the legacy era there is a session around them, a stream for what belongs to no request, and streams that were cut are
//! taken up again; in the modern era every request stands alone.
//!
//! **Which calls may be sent twice.** A call is sent again in two cases, and in both the server said that it did not run it:
//! after 401 or 403 with new credentials, and once after 404 for a session the server no longer has, in a new session.
//! A call whose connection broke is not sent again, because it may have run.
//!
//! Applies to: outbound.

mod answer;
mod config;
mod connection;
mod core;
mod dispatch;
mod endpoint;
mod eras;
mod error;
mod headers;
mod link;
mod listen;
mod pool;
mod request;
mod runner;
mod session;
mod sse;
mod wire;

pub use self::config::{Bearer, HttpClientConfig};
pub use self::connection::HttpConnection;
pub use self::endpoint::Endpoint;
pub(super) use self::endpoint::is_loopback;
pub use self::eras::EraCache;
pub use self::error::HttpClientError;
pub(super) use self::pool::{Connector, Security, causes, connector};
