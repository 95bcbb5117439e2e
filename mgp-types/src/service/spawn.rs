//! Starting and stopping servers, as a supervisor needs to know it (MGP §11.5).
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;

use super::BoxFuture;

/// Starts a server, again and again: a process, a container, a connection to a URL.
///
/// ```
/// use std::sync::Arc;
/// use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
///
/// /// A server that ends at once, and well.
/// #[derive(Debug)]
/// struct Brief;
///
/// impl Spawn for Brief {
///     fn start(&self) -> BoxFuture<'static, Result<Arc<dyn Spawned>, SpawnError>> {
///         Box::pin(async { Ok(Arc::new(Self) as Arc<dyn Spawned>) })
///     }
/// }
///
/// impl Spawned for Brief {
///     fn stop(&self) -> BoxFuture<'static, ()> {
///         Box::pin(async {})
///     }
///
///     fn ended(&self) -> BoxFuture<'static, Exit> {
///         Box::pin(async { Exit::success("exited with code 0") })
///     }
/// }
/// ```
pub trait Spawn: Send + Sync + 'static {
    /// Starts the server; the future completes once it is ready to be called, its handshake done.
    ///
    /// Dropping the future stops what was started, its whole tree.
    fn start(&self) -> BoxFuture<'static, Result<Arc<dyn Spawned>, SpawnError>>;
}

/// A server that was started; dropping the last of it stops the server, its whole tree.
pub trait Spawned: Send + Sync + 'static {
    /// Stops the server and everything it started: gracefully first, then by force. Completes when all is gone.
    fn stop(&self) -> BoxFuture<'static, ()>;

    /// Waits until the server has ended, for whatever reason, and says how.
    fn ended(&self) -> BoxFuture<'static, Exit>;
}

/// How a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// Whether it ended well: a process by code 0, a connection because the server closed it.
    pub is_success: bool,
    /// How it ended, in words: "exited with code 1".
    pub how: String,
}

impl Exit {
    /// An end that is no failure.
    #[must_use]
    pub fn success(how: impl Into<String>) -> Self {
        Self { is_success: true, how: how.into() }
    }

    /// A failure.
    #[must_use]
    pub fn failure(how: impl Into<String>) -> Self {
        Self { is_success: false, how: how.into() }
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
    pub fn new(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }
}
