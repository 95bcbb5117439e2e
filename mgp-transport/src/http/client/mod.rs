//! The client of streamable HTTP (MCP transports, 2025-03-26 and later; MGP §1.4).
//!
//! [`HttpConnection`] corresponds to [`Connection`](crate::Connection) for byte streams: it has a handle to call the
//! peer, and a future that must be driven for the server's messages. Its documentation lists the calls that can be sent
//! twice.
//!
//! A request is one POST; its answer is JSON or an event stream. In the legacy era (revisions with `initialize`),
//! requests belong to a session, the session has a GET stream for messages outside of calls, and interrupted streams
//! are resumed. In the modern era, every request is independent.

mod back_channel;
mod broken_connection;
mod certificates;
mod config;
mod connection;
mod connector;
mod core;
mod dispatch;
mod endpoint;
mod era_cache;
mod error;
mod fair_socket;
mod headers;
mod http_sse;
mod link;
mod listen;
mod permits;
mod pool;
mod proxy;
mod refusal_text;
mod request;
mod response;
mod runner;
mod sender;
mod session;
mod session_settings;
mod sse;

pub use self::back_channel::BackChannel;
pub(crate) use self::back_channel::SeenBackChannel;
pub(super) use self::certificates::Roots;
pub use self::config::{Bearer, HttpClientConfig};
pub use self::connection::HttpConnection;
pub(super) use self::connector::{Connector, Security, connector};
pub use self::endpoint::Endpoint;
pub use self::era_cache::EraCache;
pub use self::error::HttpClientError;
pub(super) use self::error::causes;
pub use self::http_sse::{HttpSseError, connect_http_sse};
pub use self::proxy::Proxy;
