//! The method `mgp/lifecycle/shutdown`. Only the owner is allowed to call it; repeated calls are harmless.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::method::{LifecycleShutdown, Request as _};
use mgp_types::mgp::{ShutdownParams, ShutdownReason, ShutdownResult};
use mgp_types::service::{BoxFuture, Call, Context, Reply, Router, ServerId, Stack};

use super::handle::Drain;
use super::owner::ProcessOwner;
use crate::error::LifecycleError;

/// The status in the answer about a server that does not exist or that the caller is not allowed to see.
const NOT_FOUND: &str = "not_found";

/// The maximum length of a shutdown reason, in bytes; a longer reason is clipped.
const MAX_REASON_BYTES: usize = 512;

type ShutdownFuture = BoxFuture<'static, Result<ShutdownResult, RpcError>>;

impl Drain {
    /// Returns a router for `mgp/lifecycle/shutdown`, for stacks without the [layer](crate::DrainLayer).
    ///
    /// Only the [`ProcessOwner`] is allowed to call the method. The default reason is `operator_request`, the default
    /// time-out [`DrainConfig::timeout`](crate::DrainConfig::timeout). A further call returns how many calls are still
    /// running, and can shorten the remaining time. If the params contain a `server_id`, that server of the
    /// [fleet](Drain::fleet) is shut down.
    ///
    /// ```
    /// use mgp_lifecycle::{Drain, ProcessOwner};
    /// use mgp_types::service::{Stack, mock};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let drain = Drain::default();
    /// let mut client = mock::client(Stack::new(drain.router()));
    /// let stranger = client.request("mgp/lifecycle/shutdown", "{}").await;
    /// assert_eq!(stranger.unwrap_err().code().0, 1000);
    ///
    /// ProcessOwner::mark(&client.cx.scope);
    /// let answer = client.request("mgp/lifecycle/shutdown", r#"{"timeout_ms":5000}"#).await.unwrap();
    /// assert_eq!(answer.as_str(), r#"{"accepted":true,"pending_requests":0,"estimated_drain_ms":0}"#);
    /// drain.wait_ended().await;
    /// # });
    /// ```
    #[must_use]
    pub fn router(&self) -> Router {
        let drain = self.clone();
        let answer = Stack::from_fn(move |call| drain.answer(call));
        Router::new().route(LifecycleShutdown::METHOD, answer)
    }

    /// Begins the drain that a shutdown request asks for. The drain begins before this returns, so that calls sent
    /// after the request are refused.
    pub(super) fn answer(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let (_, params, cx) = call.into_parts();
        let shutdown = match params.get() {
            // A caller who is not the owner gets the error `NotOwner`, even if the params are invalid (−32602) as well.
            Err(_) if !ProcessOwner::is(&cx) => Err(LifecycleError::NotOwner.into()),
            params => params.map(|params| self.dispatch(&cx, params)),
        };
        Box::pin(async move { Reply::of(&shutdown?.await?) })
    }

    fn dispatch(&self, cx: &Context, params: ShutdownParams) -> ShutdownFuture {
        let server_id = params.server_id.as_deref().map(ServerId::from);
        let Some(server) = server_id.filter(|id| self.config().server_id.as_ref() != Some(id))
        else {
            return match self.servers() {
                Some(fleet) if !ProcessOwner::is_here(cx) => {
                    let (fleet, drain, cx) = (Arc::clone(fleet), self.clone(), cx.clone());
                    Box::pin(async move {
                        fleet.admit(&cx).await?;
                        drain.shut_down(&cx, params)
                    })
                }
                _ => Box::pin(ready(self.shut_down(cx, params))),
            };
        };
        let Some(fleet) = self.servers().cloned() else {
            return Box::pin(ready(Ok(not_found(&server))));
        };
        let cx = cx.clone();
        Box::pin(async move {
            let answer = fleet.shutdown(&cx, &server, params).await;
            answer.unwrap_or_else(|| Ok(not_found(&server)))
        })
    }

    fn shut_down(&self, cx: &Context, params: ShutdownParams) -> Result<ShutdownResult, RpcError> {
        if !ProcessOwner::is(cx) {
            tracing::warn!(principal = ?cx.principal, "denied shutdown: the caller is not the owner");
            return Err(LifecycleError::NotOwner.into());
        }
        let reason = params.reason.map_or(ShutdownReason::OperatorRequest, bounded);
        let timeout = params.timeout_ms.map_or(self.config().timeout, Duration::from_millis);
        let remaining = self.begin(reason, timeout);
        let mut accepted = ShutdownResult::new(true);
        accepted.pending_requests = Some(u64::try_from(remaining.calls).unwrap_or(u64::MAX));
        accepted.estimated_drain_ms = Some(mgp_types::millis(remaining.estimate));
        Ok(accepted)
    }
}

/// Clips a reason to the maximum length, because every refusal during the drain contains it.
fn bounded(reason: ShutdownReason) -> ShutdownReason {
    let words = reason.as_str();
    match words.trim() {
        "" => ShutdownReason::OperatorRequest,
        _ if words.len() <= MAX_REASON_BYTES => reason,
        _ => ShutdownReason::from(&words[..words.floor_char_boundary(MAX_REASON_BYTES)]),
    }
}

/// Returns the result for a server that does not exist, or that the caller is not allowed to see.
fn not_found(server: &ServerId) -> ShutdownResult {
    let mut unknown = ShutdownResult::new(false);
    unknown.server_id = Some(server.to_string());
    unknown.status = Some(NOT_FOUND.to_owned());
    unknown
}
