//! `mgp/lifecycle/shutdown`: for the owner only, and the same however often it is asked.
//!
//! Applies to: inbound.

use std::future::ready;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::method::{LifecycleShutdown, Request as _};
use mgp_types::mgp::{ShutdownParams, ShutdownReason, ShutdownResult};
use mgp_types::service::{BoxFuture, Call, Context, Reply, Router, ServerId, Stack};

use super::handle::Drain;
use super::owner::Owner;
use crate::error::Refusal;

/// What a server is called that is not there, or that its caller may not see.
const NOT_FOUND: &str = "not_found";

/// The longest reason, in bytes; a longer one is cut.
const REASON: usize = 512;

type Answer = BoxFuture<'static, Result<ShutdownResult, RpcError>>;

impl Drain {
    /// Answers `mgp/lifecycle/shutdown`, where the [layer](crate::DrainLayer) does not stand.
    ///
    /// Only the [`Owner`] may ask. Without a reason it is `operator_request`, without a time-out
    /// [`DrainConfig::timeout`](crate::DrainConfig::timeout); asked again it answers what is left, and shortens the time if told so.
    /// A `server_id` names a server of the [fleet](Drain::fleet).
    ///
    /// ```
    /// use mgp_lifecycle::{Drain, Owner};
    /// use mgp_types::service::{Stack, mock};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let drain = Drain::default();
    /// let mut client = mock::client(Stack::new(drain.router()));
    /// let stranger = client.request("mgp/lifecycle/shutdown", "{}").await;
    /// assert_eq!(stranger.unwrap_err().code().0, 1000);
    ///
    /// Owner::mark(&client.cx.scope);
    /// let answer = client.request("mgp/lifecycle/shutdown", r#"{"timeout_ms":5000}"#).await.unwrap();
    /// assert_eq!(answer.as_str(), r#"{"accepted":true,"pending_requests":0,"estimated_drain_ms":0}"#);
    /// drain.ended().await;
    /// # });
    /// ```
    #[must_use]
    pub fn router(&self) -> Router {
        let drain = self.clone();
        let answer = Stack::from_fn(move |call| drain.answer(call));
        Router::new().route(LifecycleShutdown::METHOD, answer)
    }

    /// It begins here, in wire order: what comes behind it on the wire comes too late.
    pub(super) fn answer(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let (_, params, cx) = call.into_parts();
        let asked = match params.get() {
            // Who may not ask is told so before what is asked is judged.
            Err(_) if !Owner::is(&cx) => Err(Refusal::NotOwner.into()),
            params => params.map(|params| self.asked(&cx, params)),
        };
        Box::pin(async move { Reply::of(&asked?.await?) })
    }

    fn asked(&self, cx: &Context, params: ShutdownParams) -> Answer {
        let named = params.server_id.as_deref().map(ServerId::from);
        let Some(server) = named.filter(|id| self.config().server_id.as_ref() != Some(id)) else {
            return match self.servers() {
                Some(fleet) if !Owner::is_here(cx) => {
                    let (admitted, drain, cx) = (fleet.admit(cx), self.clone(), cx.clone());
                    Box::pin(async move {
                        admitted.await?;
                        drain.own(&cx, params)
                    })
                }
                _ => Box::pin(ready(self.own(cx, params))),
            };
        };
        let Some(asked) = self.servers().map(|fleet| fleet.shutdown(cx, &server, params)) else {
            return Box::pin(ready(Ok(not_found(&server))));
        };
        Box::pin(async move { asked.await.unwrap_or_else(|| Ok(not_found(&server))) })
    }

    fn own(&self, cx: &Context, params: ShutdownParams) -> Result<ShutdownResult, RpcError> {
        if !Owner::is(cx) {
            tracing::warn!(principal = ?cx.principal, "refused to shut down: it is not the owner who asks");
            return Err(Refusal::NotOwner.into());
        }
        let reason = params.reason.map_or(ShutdownReason::OperatorRequest, short);
        let timeout = params.timeout_ms.map_or(self.config().timeout, Duration::from_millis);
        let remaining = self.begin(reason, timeout);
        let mut accepted = ShutdownResult::new(true);
        accepted.pending_requests = Some(u64::try_from(remaining.calls).unwrap_or(u64::MAX));
        let estimate = u64::try_from(remaining.estimate.as_millis()).unwrap_or(u64::MAX);
        accepted.estimated_drain_ms = Some(estimate);
        Ok(accepted)
    }
}

/// A reason that everybody can be told: it stands in each refusal from now on.
fn short(reason: ShutdownReason) -> ShutdownReason {
    let words = reason.as_str();
    match words.trim() {
        "" => ShutdownReason::OperatorRequest,
        _ if words.len() <= REASON => reason,
        _ => ShutdownReason::from(&words[..words.floor_char_boundary(REASON)]),
    }
}

/// Nothing was shut down: there is no such server, or none the caller may know of.
fn not_found(server: &ServerId) -> ShutdownResult {
    let mut unknown = ShutdownResult::new(false);
    unknown.server_id = Some(server.to_string());
    unknown.status = Some(NOT_FOUND.to_owned());
    unknown
}
