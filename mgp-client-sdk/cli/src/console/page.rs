//! One type for the handlers of all pages.

use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use mgp_types::service::BoxFuture;

use super::Console;

/// The handler of a page. Because all handlers have this type, the compiler builds axum's services once, and not again
/// for each page.
#[derive(Clone)]
pub(super) struct Page(
    Arc<dyn Fn(Request, Arc<Console>) -> BoxFuture<'static, Response> + Send + Sync>,
);

impl Page {
    pub(super) fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, Arc<Console>>,
    {
        Self(Arc::new(move |request, console| Box::pin(handler.clone().call(request, console))))
    }
}

impl Handler<(), Arc<Console>> for Page {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, console: Arc<Console>) -> Self::Future {
        (self.0)(request, console)
    }
}

pub(super) fn get<H, T>(handler: H) -> MethodRouter<Arc<Console>>
where
    H: Handler<T, Arc<Console>>,
{
    routing::get(Page::new(handler))
}

pub(super) fn post<H, T>(handler: H) -> MethodRouter<Arc<Console>>
where
    H: Handler<T, Arc<Console>>,
{
    routing::post(Page::new(handler))
}
