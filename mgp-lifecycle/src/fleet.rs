//! Access to the servers behind this one, for the methods of §11 with a `server_id` (MGP §11.3, §11.4).

use mgp_types::RpcError;
use mgp_types::mgp::{PingResult, ShutdownParams, ShutdownResult, StatusResult};
use mgp_types::service::{BoxFuture, Context, ServerId};

/// The servers behind a kernel.
///
/// Methods return `None` if there is no such server, or if the caller may not see it: both look the same.
pub trait Fleet: Send + Sync + 'static {
    /// Pings a server.
    fn ping(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> BoxFuture<'static, Option<Result<PingResult, RpcError>>>;

    /// Requests the status of a server.
    fn status(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> BoxFuture<'static, Option<Result<StatusResult, RpcError>>>;

    /// Decides whether a caller may shut down the kernel itself; the caller that started it is not asked about.
    ///
    /// An admitted caller must still have operator authority.
    fn admit(&self, cx: &Context) -> BoxFuture<'static, Result<(), RpcError>> {
        let _ = cx;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Drains and stops a server, if the caller may do that.
    fn shutdown(
        &self,
        cx: &Context,
        server: &ServerId,
        params: ShutdownParams,
    ) -> BoxFuture<'static, Option<Result<ShutdownResult, RpcError>>>;
}
