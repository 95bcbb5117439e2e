//! CORS: lets allowed web pages read the answers to their calls (Fetch, cross-origin requests).
//!
//! The layer must be outside of authentication, because a browser's preflight request contains no credentials.
//!
//! Applies to: inbound.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use mgp_types::service::BoxFuture;
use tower_service::Service;

use super::config::HttpConfig;
use super::origin_check::is_known_origin;
use super::refusal::{Refusal, clip_text};

/// A layer that allows web pages to read answers: pages of loopback hosts, and of the origins in an [`HttpConfig`].
#[derive(Clone, Debug)]
#[must_use]
pub struct CorsLayer(Arc<HttpConfig>);

impl CorsLayer {
    /// Creates a layer for the origins of a configuration.
    pub fn new(config: &HttpConfig) -> Self {
        Self(Arc::new(config.clone()))
    }
}

mgp_types::layer_service! {
    /// The service that [`CorsLayer`] creates.
    pub Cors for CorsLayer
}

impl<S, B, R> Service<Request<B>> for Cors<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
    S::Future: Send + 'static,
    R: From<Bytes> + 'static,
{
    type Response = Response<R>;
    type Error = Infallible;
    type Future = Either<
        S::Future,
        Either<
            Ready<Result<Response<R>, Infallible>>,
            BoxFuture<'static, Result<Response<R>, Infallible>>,
        >,
    >;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(origin) = request.headers().get(header::ORIGIN).cloned() else {
            return Either::Left(self.inner.call(request));
        };
        // Reject unknown origins before authentication, because their pages must not be able to make the user log in.
        if !origin.to_str().is_ok_and(|origin| is_known_origin(origin, &self.layer.0)) {
            let shown = clip_text(&String::from_utf8_lossy(origin.as_bytes()));
            let refused = Refusal::Origin(shown).into_response(None);
            return Either::Right(Either::Left(ready(Ok(refused))));
        }
        if *request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        {
            return Either::Right(Either::Left(ready(Ok(preflight(request.headers(), origin)))));
        }
        let answering = self.inner.call(request);
        Either::Right(Either::Right(Box::pin(async move {
            let mut response = answering.await?;
            let headers = response.headers_mut();
            allow(headers, origin);
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("mcp-session-id, www-authenticate"),
            );
            Ok(response)
        })))
    }
}

fn preflight<R: From<Bytes>>(request: &HeaderMap, origin: HeaderValue) -> Response<R> {
    let mut response = Response::new(R::from(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    allow(headers, origin);
    let methods = HeaderValue::from_static("GET, POST, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    // An allowed page is free to choose its headers, so all requested headers are allowed.
    if let Some(names) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::super::HttpService;
    use super::*;
    use mgp_types::service::{Router, Stack};
    use tower_layer::Layer as _;

    async fn answer(method: Method, origin: &str) -> Response<super::super::HttpBody> {
        let mut config = HttpConfig::default();
        config.origins.push("https://app.example".to_owned());
        let service = HttpService::new(Stack::new(Router::new()), config.clone());
        let request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "mcp-method,mcp-param-x")
            .body(Full::<Bytes>::default())
            .unwrap();
        CorsLayer::new(&config).layer(service).call(request).await.unwrap()
    }

    #[tokio::test]
    async fn pages_that_may_call_may_read() {
        for origin in ["https://app.example", "http://localhost:3000"] {
            let response = answer(Method::OPTIONS, origin).await;
            assert_eq!(response.status(), 204);
            assert_eq!(response.headers()["access-control-allow-origin"], origin);
            assert_eq!(
                response.headers()["access-control-allow-headers"],
                "mcp-method,mcp-param-x"
            );
            let response = answer(Method::GET, origin).await;
            assert_eq!(response.status(), 401);
            assert_eq!(response.headers()["access-control-allow-origin"], origin);
        }
        for method in [Method::OPTIONS, Method::POST] {
            let response = answer(method, "https://evil.example").await;
            assert_eq!(response.status(), 403);
            assert!(!response.headers().contains_key("access-control-allow-origin"));
        }
    }
}
