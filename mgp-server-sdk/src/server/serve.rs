//! Serves one peer over a pair of byte streams, or over stdin and stdout.

use mgp_lifecycle::ProcessOwner;
use mgp_transport::{CloseReason, Connection, take_stdio};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Server;
use crate::drain::CloseWhenDrained;
use crate::error::ServeError;
use crate::health;
use crate::signals::SignalGuard;

impl Server {
    /// Serves one peer over a pair of byte streams until it disconnects or the server has
    /// [drained](Self::drain_handle).
    ///
    /// # Errors
    /// Returns an error if [`Server::into_stack`] or the connection fails, but not at a disconnect or a shutdown.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection and its calls.
    pub async fn serve<R, W>(mut self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (limits, drain) = (self.wire_limits.clone(), self.drain_handle());
        let principal = self.principal.clone();
        let is_owned = self.shutdown.is_owned;
        // Over a pair of streams, a server has exactly one connection.
        health::count_connections(&mut self.health, || 1);
        let connection = Connection::new(reader, writer, self.into_stack()?);
        let connection = connection.limits(limits).principal(principal);
        if is_owned {
            ProcessOwner::mark(connection.scope());
        }
        let _leaving = CloseWhenDrained::when_drained(drain.clone(), connection.close_handle());
        match connection.run().await {
            CloseReason::Eof | CloseReason::Local => Ok(()),
            // Log only a warning: the shutdown was requested, so a supervisor must not regard it as a failure.
            closed if drain.is_draining() => {
                tracing::warn!(%closed, "closed before the peer had read all messages");
                Ok(())
            }
            closed => Err(ServeError::Connection(closed)),
        }
    }

    /// Serves the process that started this one (its parent) over stdin and stdout.
    ///
    /// Redirects standard output to standard error first, so that a stray `println!` cannot corrupt the protocol.
    ///
    /// The parent process owns the server, so it may shut it down. SIGTERM and SIGINT drain the server, unless the
    /// program [handles them itself](Self::without_signals); a second signal ends the process. A tool that blocks its
    /// thread cannot be stopped: it prevents the runtime, and therefore the process, from ending.
    ///
    /// # Errors
    /// Returns the errors of [`Server::serve`], or an error if stdin and stdout cannot be used.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection and its calls.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let (reader, writer) = take_stdio()?;
        let _signals =
            (!self.shutdown.leaves_signals).then(|| SignalGuard::drain(&self.shutdown.drain));
        self.owned_by_peer().serve(reader, writer).await
    }
}
