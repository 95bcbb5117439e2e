//! The servers behind this one, as the methods of §11 reach them by `server_id` (MGP §11.3, §11.4).
//!
//! Applies to: both.

use mgp_types::RpcError;
use mgp_types::mgp::{PingResult, ShutdownParams, ShutdownResult, StatusResult};
use mgp_types::service::{BoxFuture, Context, ServerId};

/// Finds the servers a kernel stands before.
///
/// Each answer is `None` where there is no such server, or none the caller may see: both look the same.
pub trait Fleet: Send + Sync + 'static {
    /// Asks a server whether it is alive.
    fn ping(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> BoxFuture<'static, Option<Result<PingResult, RpcError>>>;

    /// Asks a server how it is.
    fn status(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> BoxFuture<'static, Option<Result<StatusResult, RpcError>>>;

    /// Judges whoever wants to shut down the server before the fleet; the one who started that is not judged.
    ///
    /// Whom it admits is still to be an operator.
    fn admit(&self, cx: &Context) -> BoxFuture<'static, Result<(), RpcError>> {
        let _ = cx;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Drains and stops a server; whether the caller may is decided here.
    fn shutdown(
        &self,
        cx: &Context,
        server: &ServerId,
        params: ShutdownParams,
    ) -> BoxFuture<'static, Option<Result<ShutdownResult, RpcError>>>;
}
