//! A layer that authenticates requests with the header `X-Test-Mode: auth`, and accepts others without authentication.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};
use mgp_security::auth::{Auth, AuthLayer};
use mgp_transport::http::HttpBody;
use mgp_types::service::BoxFuture;
use tower::{Layer, Service};

/// A layer that passes a request through an [`AuthLayer`] if it has the header `X-Test-Mode: auth` or asks for
/// metadata. It passes any other request directly to the inner service.
#[derive(Clone, Debug)]
pub(crate) struct TestModeLayer(pub(crate) AuthLayer);

impl<S: Clone> Layer<S> for TestModeLayer {
    type Service = TestMode<S>;

    fn layer(&self, inner: S) -> TestMode<S> {
        TestMode { authenticated: self.0.layer(inner.clone()), inner }
    }
}

#[derive(Clone)]
pub(crate) struct TestMode<S> {
    authenticated: Auth<S>,
    inner: S,
}

type Answer = Result<Response<HttpBody>, Infallible>;

impl<S, B> Service<Request<B>> for TestMode<S>
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
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_test = request.headers().get("x-test-mode").is_some_and(|mode| mode == "auth");
        // Clients read the protected resource metadata without a token and without the header. Only the authentication
        // layer serves it, so pass such requests to that layer.
        let is_metadata = request.uri().path().starts_with("/.well-known/");
        if is_test || is_metadata {
            Box::pin(self.authenticated.call(request))
        } else {
            Box::pin(self.inner.call(request))
        }
    }
}
