//! Starting and stopping servers, as a supervisor needs to know it (MGP §11.5).

use std::fmt;
use std::sync::Arc;

use super::BoxFuture;
use crate::mgp::ShutdownReason;

/// Starts a server, again and again: a process, a container, a connection to a URL.
///
/// ```
/// use mgp_types::mgp::ShutdownReason;
/// use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
///
/// /// A server that is ready at once, and ends at once and well.
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
///     /// What calls go through; here nothing.
///     type Client = ();
///
///     fn ready(&self) -> BoxFuture<'static, Result<(), SpawnError>> {
///         Box::pin(async { Ok(()) })
///     }
///
///     fn ended(&self) -> BoxFuture<'static, Exit> {
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
pub trait Spawn: Send + Sync + 'static {
    /// A server that was started.
    type Server: Spawned;

    /// Starts the server; the future completes as soon as there is something to stop.
    ///
    /// Dropping the future ends what was started, its whole tree.
    fn start(&self) -> BoxFuture<'static, Result<Self::Server, SpawnError>>;
}

/// A server that was started; dropping it ends it, its whole tree.
///
/// Its futures hold what they need of it, and dropping one of them ends nothing.
pub trait Spawned: Send + Sync + 'static {
    /// What a ready server is called through.
    type Client: Clone + Send + Sync + 'static;

    /// Waits until the server can be called, its handshake done; asked for once.
    fn ready(&self) -> BoxFuture<'static, Result<Self::Client, SpawnError>>;

    /// Waits until the server has ended, for whatever reason, and says how.
    fn ended(&self) -> BoxFuture<'static, Exit>;

    /// Stops the server and everything it started; completes when all is gone.
    ///
    /// With a reason gracefully: it is told why and finishes what it has. Without one it failed, may have
    /// ended already, and is told nothing. A server that is not ready yet can be stopped as well.
    fn stop(&self, reason: Option<&ShutdownReason>) -> BoxFuture<'static, ()>;

    /// Ends the server and everything it started by force, without waiting; what has ended stays as it is.
    fn kill(&self);
}

/// How a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// Whether it ended well: a process by code 0, a connection because the server closed it.
    pub is_success: bool,
    /// How it ended, in words: "exited with code 1".
    pub how: String,
    /// Why it ended, if it told before.
    pub reason: Option<ShutdownReason>,
}

impl Exit {
    /// An end that is no failure.
    #[must_use]
    pub fn success(how: impl Into<String>) -> Self {
        Self { is_success: true, how: how.into(), reason: None }
    }

    /// A failure.
    #[must_use]
    pub fn failure(how: impl Into<String>) -> Self {
        Self { is_success: false, how: how.into(), reason: None }
    }

    /// The same end, for the reason that the server told before (`notifications/mgp.lifecycle`).
    #[must_use]
    pub fn because(mut self, reason: ShutdownReason) -> Self {
        self.reason = Some(reason);
        self
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.how)
    }
}

/// Why a server did not start.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the server did not start: {0}")]
pub struct SpawnError(Arc<dyn std::error::Error + Send + Sync>);

impl SpawnError {
    /// A start that failed for this reason.
    #[must_use]
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Arc::from(source.into()))
    }
}
