//! The endpoints of health, as a layer and as a router (MGP §11.3).
//!
//! Applies to: inbound.

use std::fmt;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::method::{HealthPing, HealthStatusGet};
use mgp_types::service::{BoxFuture, Call, Either, Kind, MgpService, Reply, Router};
use tower_layer::Layer;
use tower_service::Service;

use super::registry::Health;

impl Health {
    /// Answers `mgp/health/ping` and `mgp/health/status`; who names another server is answered for that one.
    #[must_use]
    pub fn router(&self) -> Router {
        let (ping, status) = (self.clone(), self.clone());
        Router::new()
            .on::<HealthPing, _, _>(move |cx, params| ping.clone().answer_ping(cx, params))
            .on::<HealthStatusGet, _, _>(move |cx, params| status.clone().answer_status(cx, params))
    }
}

/// Answers health requests above whatever may wait or refuse: limits, gates, a drain; other calls pass.
///
/// See [`Health`] for an example.
#[derive(Clone)]
#[must_use]
pub struct HealthLayer {
    router: Router,
}

impl HealthLayer {
    /// A layer that tells this health.
    #[expect(clippy::needless_pass_by_value, reason = "a layer is built from what it holds")]
    pub fn new(health: Health) -> Self {
        Self { router: health.router() }
    }
}

impl fmt::Debug for HealthLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HealthLayer")
    }
}

impl<S> Layer<S> for HealthLayer {
    type Service = HealthService<S>;

    fn layer(&self, inner: S) -> HealthService<S> {
        HealthService { inner, router: self.router.clone() }
    }
}

/// Service of [`HealthLayer`].
#[derive(Clone)]
pub struct HealthService<S> {
    inner: S,
    router: Router,
}

impl<S> fmt::Debug for HealthService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HealthService")
    }
}

impl<S: MgpService> Service<Call> for HealthService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<BoxFuture<'static, Result<Reply, RpcError>>, S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        // Two names of other lengths than most: cheaper than a look into a table.
        let asks = call.is::<HealthPing>() || call.is::<HealthStatusGet>();
        if asks && call.kind() == Kind::Request {
            return Either::Left { future: self.router.call(call) };
        }
        Either::Right { future: self.inner.call(call) }
    }
}
