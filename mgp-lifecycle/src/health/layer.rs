//! The health endpoints, as a layer and as a router (MGP §11.3).
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::method::{HealthPing, HealthStatusGet};
use mgp_types::service::{BoxFuture, Call, Either, Kind, MgpService, Reply, Router};
use tower_layer::Layer;
use tower_service::Service;

use super::registry::Health;

impl Health {
    /// Returns a router for `mgp/health/ping` and `mgp/health/status`. It answers for this server, and for the servers
    /// of its `Fleet` if it has one.
    #[must_use]
    pub fn router(&self) -> Router {
        let (ping, status) = (self.clone(), self.clone());
        Router::new()
            .on::<HealthPing, _, _>(move |cx, params| ping.clone().answer_ping(cx, params))
            .on::<HealthStatusGet, _, _>(move |cx, params| status.clone().answer_status(cx, params))
    }
}

/// Layer that answers health requests and passes on all other calls. Place it outside all layers that can delay or
/// refuse a call, e.g. limits, access checks and a drain.
///
/// See [`Health`] for an example.
#[derive(Clone)]
#[must_use]
pub struct HealthLayer {
    router: Router,
}

impl HealthLayer {
    /// Creates a layer that answers health requests from this registry.
    #[expect(clippy::needless_pass_by_value, reason = "a layer takes its parts by value")]
    pub fn new(health: Health) -> Self {
        Self { router: health.router() }
    }
}

mgp_types::opaque_debug!(HealthLayer);

impl<S> Layer<S> for HealthLayer {
    type Service = HealthService<S>;

    fn layer(&self, inner: S) -> HealthService<S> {
        HealthService { inner, router: self.router.clone() }
    }
}

/// The service that [`HealthLayer`] creates.
#[derive(Clone)]
pub struct HealthService<S> {
    inner: S,
    router: Router,
}

mgp_types::opaque_debug!(HealthService<S>);

impl<S: MgpService> Service<Call> for HealthService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<BoxFuture<'static, Result<Reply, RpcError>>, S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        // Compare the two names first, which is cheaper than a lookup in the router's table.
        let is_health = call.is::<HealthPing>() || call.is::<HealthStatusGet>();
        if is_health && call.kind() == Kind::Request {
            return Either::Left { future: self.router.call(call) };
        }
        Either::Right { future: self.inner.call(call) }
    }
}
