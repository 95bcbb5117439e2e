//! Plain-text pages that a server serves in addition to its endpoint, e.g. for health probes.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use ::http::{HeaderValue, Method, Request, Response, StatusCode};
use mgp_transport::http::HttpBody;
use tower_service::Service;

/// Pages that every caller may read without credentials, by path. If this value is used as a separate service, it
/// answers requests for all other paths with 404.
///
/// ```
/// use http::{Request, StatusCode};
/// use mgp_server_sdk::Pages;
/// use tower_service::Service as _;
///
/// let mut pages = Pages::new().page("/healthz", || (StatusCode::OK, "ok\n".to_owned()));
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let answer = pages.call(Request::get("/healthz").body(()).unwrap()).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::OK);
/// # });
/// ```
#[derive(Clone, Default)]
#[must_use = "pages do nothing until they are served"]
pub struct Pages(Vec<(String, Arc<PageFn>)>);

type PageFn = dyn Fn() -> (StatusCode, String) + Send + Sync;

impl Pages {
    /// Creates a service without pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a page; `make` creates it for each request, and must not block.
    pub fn page(
        mut self,
        path: impl Into<String>,
        make: impl Fn() -> (StatusCode, String) + Send + Sync + 'static,
    ) -> Self {
        self.0.push((path.into(), Arc::new(make)));
        self
    }

    /// Returns the answer to a request for a page, or `None` if there is no page at the path of the request.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Option<Response<HttpBody>> {
        let (_, make) = self.0.iter().find(|(path, _)| path == request.uri().path())?;
        let (status, text) = match *request.method() {
            Method::GET | Method::HEAD => make(),
            _ => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
        };
        Some(plain(status, text))
    }
}

impl<B> Service<Request<B>> for Pages {
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Ready<Result<Response<HttpBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let missing = || plain(StatusCode::NOT_FOUND, String::new());
        ready(Ok(self.answer(&request).unwrap_or_else(missing)))
    }
}

mgp_types::opaque_debug!(Pages);

fn plain(status: StatusCode, text: String) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::from(text.into_bytes()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
