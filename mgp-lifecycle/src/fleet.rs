//! Access to the servers to which a kernel forwards calls, for the methods whose params can name a `server_id` (MGP
//! §11.3, §11.4).

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::mgp::{PingResult, ShutdownParams, ShutdownResult, StatusResult};
use mgp_types::service::{Context, ServerId};

/// The servers to which a kernel forwards calls.
///
/// The methods with a `server` return `None` if that server does not exist, and also if the caller is not allowed to
/// see it. So the caller cannot distinguish the two cases.
///
/// Implement this trait with the `#[async_trait]` macro of the `async-trait` crate.
#[async_trait]
pub trait Fleet: Send + Sync + 'static {
    /// Pings a server.
    async fn ping(&self, cx: &Context, server: &ServerId) -> Option<Result<PingResult, RpcError>>;

    /// Requests the status of a server.
    async fn status(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> Option<Result<StatusResult, RpcError>>;

    /// Returns the number of tools that the caller sees, and how many of them can be called; the status of the kernel
    /// itself contains both numbers. If this method returns `None`, the default, the status contains the numbers of
    /// [`Health`](crate::Health).
    fn count_tools(&self, cx: &Context) -> Option<(u64, u64)> {
        let _ = cx;
        None
    }

    /// Returns the number of open connections of the caller's tenant; the status of the kernel itself contains it. If
    /// this method returns `None`, the default, the status contains the number of [`Health`](crate::Health).
    fn count_connections(&self, cx: &Context) -> Option<u64> {
        let _ = cx;
        None
    }

    /// Decides whether a caller is allowed to shut down the kernel itself. This method is not called for the process
    /// that started the kernel.
    ///
    /// A caller that is admitted here must also have operator authority, which is checked afterwards.
    async fn admit(&self, cx: &Context) -> Result<(), RpcError> {
        let _ = cx;
        Ok(())
    }

    /// Drains and stops a server, if the caller is allowed to do that.
    async fn shutdown(
        &self,
        cx: &Context,
        server: &ServerId,
        params: ShutdownParams,
    ) -> Option<Result<ShutdownResult, RpcError>>;
}
