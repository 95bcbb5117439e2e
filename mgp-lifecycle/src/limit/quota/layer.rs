//! The layer that refuses tool calls of principals whose quota is used up.
//!
//! Applies to: inbound and outbound.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready as ready_or_return};

use bytestring::ByteString;
use mgp_types::service::{Call, CallKey, Either, MgpService, Principal, Reply};
use mgp_types::{Category, ErrorCode, RpcError};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::super::caller::Caller;
use super::charge::Charge;
use super::counters::QuotaCounters;
use super::{Quota, QuotaUse};
use crate::error::LifecycleError;

/// Layer that refuses a tool call with code 3002 (quota exceeded) if its principal has used up the quota. Passes on all
/// other methods.
///
/// A call is charged when it arrives, and only once even if it takes several rounds of questions. The charge is
/// refunded if an inner layer refuses the call, or if the call is dropped before it gets a permit. A call that ran and
/// failed is not refunded. The counters are in memory, so they start from zero when the process is restarted.
///
/// ```
/// use mgp_lifecycle::{Quota, QuotaLayer};
/// use mgp_types::service::{Principal, Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let quota = QuotaLayer::new(Quota::per_day(1));
/// let mut client = mock::client(Stack::new(quota.layer(Stack::from_fn(|_| async { Ok(Reply::empty()) }))));
/// assert!(client.request("tools/call", r#"{"name":"a"}"#).await.is_ok());
/// assert_eq!(quota.used(&Principal::local()).calls, 1);
///
/// let refused = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
/// assert_eq!(refused.code().0, 3002);
/// assert!(!refused.as_recovery().unwrap().is_retryable());
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct QuotaLayer(Arc<QuotaCounters>);

impl QuotaLayer {
    /// Creates a layer that gives each principal this quota. All stacks that are built with the layer share the
    /// counters.
    pub fn new(quota: Quota) -> Self {
        Self(Arc::new(QuotaCounters::new(quota)))
    }

    /// Returns the usage of a principal in this period.
    #[must_use]
    pub fn used(&self, principal: &Principal) -> QuotaUse {
        self.0.used(&Caller::of(principal))
    }
}

impl From<Quota> for QuotaLayer {
    fn from(quota: Quota) -> Self {
        Self::new(quota)
    }
}

mgp_types::layer_service! {
    /// The service that [`QuotaLayer`] creates.
    pub QuotaService for QuotaLayer
}

impl<S: MgpService> Service<Call> for QuotaService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let charge = match call.tool() {
            None => None,
            Some(_) => match Charge::begin(&self.layer.0, call.cx()) {
                Ok(charge) => Some(Arc::new(charge)),
                Err(exceeded) => {
                    return Either::Right {
                        future: ready(Err(LifecycleError::from(exceeded).into())),
                    };
                }
            },
        };
        let (key, logical) = (call.cx().key, call.cx().logical.clone());
        if let Some(charge) = &charge {
            call.cx_mut().extensions.insert_shared(Arc::clone(charge));
        }
        Either::Left {
            future: ResponseFuture { future: self.inner.call(call), charge, key, logical },
        }
    }
}

pin_project! {
    /// Response future of [`QuotaService`].
    pub struct ResponseFuture<F> {
        #[pin]
        future: F,
        charge: Option<Arc<Charge>>,
        key: CallKey,
        logical: Option<ByteString>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = ready_or_return!(this.future.poll(task));
        let Some(charge) = this.charge.take() else { return Poll::Ready(outcome) };
        match &outcome {
            Ok(Reply::InputRequired(_)) => {
                // If the call has no logical id, the key of this round becomes its id, and identifies its next round.
                let logical = this.logical.take();
                charge.keep_open(logical.unwrap_or_else(|| this.key.to_text()));
            }
            Err(error) if never_ran(error) => charge.refund(),
            _ => {}
        }
        Poll::Ready(outcome)
    }
}

/// Returns whether an error means that the call had no effect.
#[must_use]
pub fn never_ran(error: &RpcError) -> bool {
    let details = error.as_recovery().and_then(|hints| hints.details.as_ref());
    let started = details.and_then(|details| details.decode::<bool>("started").ok().flatten());
    if let Some(started) = started {
        return !started;
    }
    match error.code() {
        ErrorCode::INVALID_PARAMS
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::METHOD_NOT_FOUND
        | ErrorCode::HEADER_MISMATCH
        | ErrorCode::MISSING_CLIENT_CAPABILITY
        | ErrorCode::SERVER_DRAINING
        | ErrorCode::SERVER_RESTARTING
        | ErrorCode::RATE_LIMITED
        | ErrorCode::RESOURCE_EXHAUSTED
        | ErrorCode::QUOTA_EXCEEDED => true,
        code => matches!(code.category(), Some(Category::Security | Category::Validation)),
    }
}

#[cfg(test)]
mod tests;
