//! Starting and stopping servers: the interface that a supervisor uses (MGP §11.5).

use std::fmt;
use std::sync::Arc;

use super::BoxFuture;
use crate::mgp::ShutdownReason;

/// A way to start a server any number of times: as a process, as a container, or by connecting to a URL.
///
/// ```
/// use mgp_types::mgp::ShutdownReason;
/// use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
///
/// /// A server that is ready at once and exits at once.
/// struct Brief;
///
/// impl Spawn for Brief {
///     type Server = Self;
///
///     fn start(&self) -> BoxFuture<'static, Result<Self, SpawnError>> {
///         Box::pin(async { Ok(Self) })
///     }
/// }
///
/// impl Spawned for Brief {
///     /// The client of the server; unused here.
///     type Client = ();
///
///     fn ready(&self) -> BoxFuture<'static, Result<(), SpawnError>> {
///         Box::pin(async { Ok(()) })
///     }
///
///     fn wait(&self) -> BoxFuture<'static, Exit> {
///         Box::pin(async { Exit::success("exited with code 0") })
///     }
///
///     fn stop(&self, _: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
///         Box::pin(async {})
///     }
///
///     fn kill(&self) {}
/// }
/// ```
// The methods of this trait and of `Spawned` return boxed futures instead of being `async`: the supervisor stores these
// futures together with the value that returned them.
pub trait Spawn: Send + Sync + 'static {
    /// The type of a server that was started.
    type Server: Spawned;

    /// Starts the server. The future completes before the server is ready: as soon as there is a process or connection
    /// that can be stopped.
    ///
    /// If the future is dropped, everything that was started is killed.
    fn start(&self) -> BoxFuture<'static, Result<Self::Server, SpawnError>>;
}

/// A started server; dropping it kills the server with its whole process tree.
///
/// The futures of its methods borrow nothing, and dropping them does not affect the server.
pub trait Spawned: Send + Sync + 'static {
    /// The client with which a ready server is called.
    type Client: Clone + Send + Sync + 'static;

    /// Waits until the handshake is complete and the server can be called; returns the client. The supervisor calls
    /// this once.
    fn ready(&self) -> BoxFuture<'static, Result<Self::Client, SpawnError>>;

    /// Waits until the server has ended, and returns the way in which it ended.
    fn wait(&self) -> BoxFuture<'static, Exit>;

    /// Returns whether a failed start is followed by another start in a different way, e.g. in an older era of the
    /// protocol. The other start follows immediately, does not count as a restart, and must not be followed by a
    /// further start in this way.
    fn continues_start(&self) -> bool {
        false
    }

    /// Stops the server and everything that it started; the future completes when all of it has ended.
    ///
    /// If there is a reason, the stop is graceful: the server is notified and completes its running requests. Without a
    /// reason, the server has failed and may have ended already, so it is not notified. A server that is not ready yet
    /// can be stopped too.
    fn stop(&self, reason: Option<&ShutdownReason>) -> BoxFuture<'static, ()>;

    /// Kills the server and everything it started, without waiting; has no effect if the server has ended.
    fn kill(&self);
}

/// The way in which a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// `true` if the server ended without a failure: its process exited with code 0, or it closed the connection.
    pub is_success: bool,
    /// A description of the end, e.g. "exited with code 1".
    pub description: String,
    /// The reason that the server announced for its end; `None` if it announced none.
    pub reason: Option<ShutdownReason>,
}

impl Exit {
    /// Describes a server that ended without a failure.
    #[must_use]
    pub fn success(how: impl Into<String>) -> Self {
        Self { is_success: true, description: how.into(), reason: None }
    }

    /// Describes a server that ended because of a failure.
    #[must_use]
    pub fn failure(how: impl Into<String>) -> Self {
        Self { is_success: false, description: how.into(), reason: None }
    }

    /// Adds the reason that the server announced (`notifications/mgp.lifecycle`).
    #[must_use]
    pub fn because(mut self, reason: ShutdownReason) -> Self {
        self.reason = Some(reason);
        self
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// The error of a server that did not start.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the server did not start: {cause}")]
pub struct SpawnError {
    cause: Arc<dyn std::error::Error + Send + Sync>,
    is_permanent: bool,
}

impl SpawnError {
    /// Creates the error from its cause.
    #[must_use]
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { cause: Arc::from(source.into()), is_permanent: false }
    }

    /// Marks a failure that a further start cannot correct, e.g. a missing program.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.is_permanent = true;
        self
    }

    /// Returns whether a further start would fail in the same way.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }
}
