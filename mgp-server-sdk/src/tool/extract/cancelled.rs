//! The cancellation of the call, for tools that end by themselves.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_stream::CancelSignal;
use mgp_types::RpcError;

use super::{FromCall, ToolRequest};

/// A handle on the cancellation of the call.
///
/// A cancelled async tool is dropped where it waits, so most tools need no handle.
/// One that waits on [`Cancelled::cancelled`] is not dropped: it is told, and ends by itself.
/// A tool on the blocking pool cannot be dropped; it looks at [`Cancelled::is_cancelled`] now and then.
///
/// ```
/// use mgp_server_sdk::Cancelled;
/// use mgp_server_sdk::prelude::*;
///
/// let work = Tool::new("work", "Works until it is told to stop", |cancelled: Cancelled| async move {
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
    /// Resolves when the call is cancelled; from now on the call is no longer dropped for that.
    ///
    /// # Cancel safety
    /// The future may be dropped and asked for again.
    pub async fn cancelled(&self) {
        match &self.0 {
            Some(signal) => signal.listen().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the call was cancelled.
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
