//! A connection to an HTTP endpoint: a handle to call the server, and a future that must be driven.

use std::sync::Arc;

use mgp_types::service::{Context, Peer, Principal, Scope, Stack};

use super::config::HttpClientConfig;
use super::core::Core;
use super::endpoint::Endpoint;
use super::error::HttpClientError;
use super::runner::Runner;
use super::sender::HttpSender;
use crate::connection::{CloseReason, ConnectionMonitor, Limits};

/// A connection over HTTP that is not driven yet; nothing is sent before the first call.
///
/// **Calls that are sent twice.** A call that the server might have run is not sent again, unless the call changes
/// nothing at the server. A call is sent again
/// - after 401 or 403, with other credentials, up to [`max_refusals`](HttpClientConfig::max_refusals) times;
/// - after 404 (unless only the method is unknown), or 400 with an error about the session, because the session is
///   lost: once, in a new session;
/// - after 307 or 308 to another path of the same origin, once;
/// - on another connection, if the pooled connection was closed before a byte of the call was written;
/// - once more, if the connection broke before the answer began and the call changes nothing at the server: lists,
///   reads, `server/discover`, pings.
///
/// A new session gets the subscriptions, log level and permissions of the lost session. The inbound stack gets the
/// notifications that all lists changed, at most every 30 s. A client can resend calls in further cases:
/// `mgp-client-sdk` repeats a tool call whose headers a server refused with HTTP 400 and code −32020 (header mismatch),
/// and a request for the state of a task.
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
    /// Creates a connection to an endpoint; `stack` handles the server's requests and notifications.
    ///
    /// Of `limits`, only `held_bytes`, `notifications` and `linger_timeout` are used; `config` contains the other
    /// limits. A notification that exceeds a limit is dropped.
    ///
    /// # Errors
    /// Returns [`HttpClientError`] if the URL needs TLS, which is not built in, if root certificates cannot be read, or
    /// if credentials or additional headers would be sent unencrypted.
    pub fn new(
        endpoint: Endpoint,
        stack: Stack,
        principal: Principal,
        limits: Limits,
        config: HttpClientConfig,
    ) -> Result<Self, HttpClientError> {
        let sender = HttpSender::new(endpoint, config)?;
        let (core, jobs) = Core::new(sender, stack, principal, limits);
        Ok(Self { runner: Runner::new(Arc::clone(&core), jobs), core })
    }

    /// Returns a handle through which this side calls the server.
    pub fn peer(&self) -> Peer {
        self.core.peer()
    }

    /// Returns the scope of this connection.
    pub fn scope(&self) -> &Scope {
        &self.core.scope
    }

    /// Creates a context for a call from this side to the server.
    pub fn context(&self) -> Context {
        self.core.context()
    }

    /// Returns a handle to the counters of this connection.
    pub fn monitor(&self) -> ConnectionMonitor {
        ConnectionMonitor::new(Arc::clone(&self.core.send_half), Arc::clone(&self.core.counters))
    }

    /// Drives everything that is not part of a call: the session's GET stream, the server's requests and notifications,
    /// cancellations.
    ///
    /// Completes after the connection was closed through its peer handle and a legacy session was ended at the server
    /// (DELETE).
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection; a legacy session is then ended at the server in the background, if the
    /// runtime still exists.
    pub async fn run(self) -> CloseReason {
        self.runner.run().await
    }
}

mgp_types::opaque_debug!(HttpConnection);
