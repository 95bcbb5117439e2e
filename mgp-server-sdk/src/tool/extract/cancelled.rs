//! The extractor for tools that react to the cancellation of their call.

use std::sync::Arc;

use mgp_stream::CancelSignal;
use mgp_types::RpcError;

use super::{FromCall, ToolRequest};

/// A handle to the cancellation of the call.
///
/// If a call is cancelled, an async tool is dropped at its current await point, so most tools do not need this handle.
/// A tool that waits on [`Cancelled::cancelled`] is not dropped: the future completes, and the tool must return by
/// itself. A tool on the blocking pool cannot be dropped; it should check [`Cancelled::is_cancelled`] from time to
/// time.
///
/// ```
/// use mgp_server_sdk::Cancelled;
/// use mgp_server_sdk::prelude::*;
///
/// let work = Tool::new("work", "Works until it is cancelled", |cancelled: Cancelled| async move {
///     tokio::select! {
///         () = cancelled.cancelled() => "tidied up",
///         () = std::future::pending() => "done",
///     }
/// });
/// # drop(work);
/// ```
#[derive(Clone, Debug)]
pub struct Cancelled(Option<Arc<CancelSignal>>);

impl Cancelled {
    /// Waits until the call is cancelled. After this method was first used, a cancellation no longer drops the call.
    ///
    /// # Cancel safety
    /// The future may be dropped; calling the method again waits for the same cancellation.
    pub async fn cancelled(&self) {
        match &self.0 {
            Some(signal) => signal.listen().await,
            None => std::future::pending().await,
        }
    }

    /// Returns whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|signal| signal.is_cancelled())
    }
}

impl FromCall for Cancelled {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(request.cx.extensions.get_shared()))
    }
}
