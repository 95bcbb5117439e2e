//! The client's end of streamable HTTP (MCP transports, 2025-03-26 and later; MGP §1.4).
//!
//! An [`HttpConnection`], which also says what may be sent twice, is to an endpoint what [`Connection`](crate::Connection) is to a pair of byte streams:
//! a peer to call, and something to drive for what the server sends of its own.
//!
//! A request is one POST; its answer is JSON or a stream of events.
//! In the legacy era there is a session around them, a stream for what belongs to no request, and streams that were cut are
//! taken up again; in the modern era every request stands alone.
//!
//! Applies to: outbound.

mod again;
mod answer;
mod config;
mod connection;
mod connector;
mod core;
mod dispatch;
mod endpoint;
mod eras;
mod error;
mod fresh;
mod headers;
mod link;
mod listen;
mod pool;
mod request;
mod runner;
mod session;
mod sse;
mod trust;
mod wire;
mod wishes;

pub use self::config::{Bearer, HttpClientConfig};
pub use self::connection::HttpConnection;
pub(super) use self::connector::{Connector, Security, connector};
pub use self::endpoint::Endpoint;
pub use self::eras::EraCache;
pub use self::error::HttpClientError;
pub(super) use self::error::causes;
pub(super) use self::trust::Roots;
