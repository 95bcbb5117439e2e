//! A connection to an endpoint: a peer to call, and something to drive.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;

use mgp_types::service::{Context, Peer, Principal, Scope, Stack};

use super::config::HttpClientConfig;
use super::core::Core;
use super::endpoint::Endpoint;
use super::error::HttpClientError;
use super::runner::Runner;
use super::wire::Wire;
use crate::connection::{Closed, Limits, Monitor};

/// A connection over HTTP that is not driven yet; nothing is sent before the first call.
///
/// **Which calls are sent twice.** No call is that may have run, unless it changes nothing. Sent again is a call
/// - after 401 or 403, with other credentials, as often as the configuration says ([`refusals`](HttpClientConfig::refusals));
/// - after 404 for a session the server no longer has, once, in a new session;
/// - after 307 or 308 to another path of the same origin, once;
/// - on another connection, when the one from the pool was closed before a byte of the call was written;
/// - once more, when the connection broke before an answer began and the call changes nothing: lists, reads,
///   `server/discover`, signs of life.
///
/// In a new session subscriptions and the log level of the old one are asked for again.
/// A client may add cases of its own above: `mgp-client-sdk` makes a tool call again whose headers a server refused with
/// HTTP 400 and −32020, and asks again for what becomes of a task.
///
/// ```no_run
/// use mgp_transport::Limits;
/// use mgp_transport::http::{Endpoint, HttpClientConfig, HttpConnection};
/// use mgp_types::service::{Principal, Router, Stack};
///
/// # async fn run() -> Result<(), mgp_transport::http::HttpClientError> {
/// let endpoint = Endpoint::parse("http://127.0.0.1:8000/mcp")?;
/// let inbound = Stack::new(Router::new());
/// let config = HttpClientConfig::default();
/// let connection =
///     HttpConnection::new(endpoint, inbound, Principal::local(), Limits::default(), config)?;
/// let (peer, cx) = (connection.peer(), connection.context());
/// tokio::spawn(connection.run());
/// # drop((peer, cx));
/// # Ok(())
/// # }
/// ```
#[must_use = "a connection does nothing of its own until it is run"]
pub struct HttpConnection {
    core: Arc<Core>,
    runner: Runner,
}

impl HttpConnection {
    /// A connection to an endpoint; `stack` handles what the server sends of its own.
    ///
    /// Of the limits those of held bytes, waiting notifications and linger apply; the others are in the configuration.
    ///
    /// # Errors
    /// [`HttpClientError`]: TLS is needed and not there, or credentials or keys would go in clear.
    pub fn new(
        endpoint: Endpoint,
        stack: Stack,
        principal: Principal,
        limits: Limits,
        config: HttpClientConfig,
    ) -> Result<Self, HttpClientError> {
        let wire = Wire::new(endpoint, config)?;
        let (core, jobs) = Core::new(wire, stack, principal, limits);
        Ok(Self { runner: Runner::new(Arc::clone(&core), jobs), core })
    }

    /// The server.
    pub fn peer(&self) -> Peer {
        self.core.peer()
    }

    /// The scope of this connection.
    pub fn scope(&self) -> &Scope {
        &self.core.scope
    }

    /// The surroundings of a call of our own to the server.
    pub fn context(&self) -> Context {
        self.core.context()
    }

    /// A look at its tables.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(Arc::clone(&self.core.send_half), Arc::clone(&self.core.counters))
    }

    /// Drives what belongs to no call: the server's own stream, its requests and notifications, cancellations.
    ///
    /// It ends when the peer is closed, after a legacy server was told (DELETE).
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection; a legacy server is told on the runtime it ran on, as far as that still runs.
    pub async fn run(self) -> Closed {
        self.runner.run().await
    }
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection")
            .field("endpoint", &self.core.wire.endpoint)
            .field("config", &self.core.wire.config)
            .finish_non_exhaustive()
    }
}
