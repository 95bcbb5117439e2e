//! Routers, which select the handler of a call by its method name.
//!
//! Applies to: inbound and outbound.

use std::future::Future;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tower_layer::Layer;
use tower_service::Service;

use super::{BoxFuture, Call, Context, Kind, MgpService, Reply, Stack};
use crate::method::{Notification, Request, ToolsCall};
use crate::wire::RpcError;

/// A service that passes each call to the handler of its method. Calls of methods without a handler go to the fallback,
/// if any.
///
/// ```
/// use mgp_types::method::Ping;
/// use mgp_types::service::{Router, Stack, mock};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let router = Router::new().on::<Ping, _, _>(|_cx, _params| async { Ok(Default::default()) });
/// let mut client = mock::client(Stack::new(router));
/// assert!(client.request("ping", "{}").await.is_ok());
/// assert_eq!(client.request("pong", "{}").await.unwrap_err().code().0, -32601);
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Router {
    routes: Arc<FxHashMap<&'static str, Stack>>,
    fallback: Option<Stack>,
}

impl Router {
    /// Creates a router without handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the handler of a method, if the router has one.
    #[must_use]
    pub fn get(&self, method: &str) -> Option<&Stack> {
        self.routes.get(method)
    }

    /// Adds a function as the handler of the request method `R`. The router decodes the params for it, and encodes its
    /// result.
    #[must_use]
    pub fn on<R, F, Fut>(self, handler: F) -> Self
    where
        R: Request,
        F: Fn(Context, R::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R::Result, RpcError>> + Send + 'static,
    {
        self.route(
            R::METHOD,
            Stack::from_fn(move |call: Call| {
                let (_, params, cx) = call.into_parts();
                // Decode the params and call the handler immediately, so that calls keep their order. Only the future
                // of the handler is awaited later.
                let running = params.get::<R::Params>().map(|params| handler(cx, params));
                async move { Reply::of(&running?.await?) }
            }),
        )
    }

    /// Adds a function as the handler of the notification method `N`. The router decodes the params for it.
    #[must_use]
    pub fn on_notification<N, F, Fut>(self, handler: F) -> Self
    where
        N: Notification,
        F: Fn(Context, N::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), RpcError>> + Send + 'static,
    {
        self.route(
            N::METHOD,
            Stack::from_fn(move |call: Call| {
                let (_, params, cx) = call.into_parts();
                let running = params.get::<N::Params>().map(|params| handler(cx, params));
                async move {
                    running?.await?;
                    Ok(Reply::None)
                }
            }),
        )
    }

    /// Adds a service as the handler of a method.
    #[must_use]
    pub fn route(mut self, method: &'static str, service: Stack) -> Self {
        Arc::make_mut(&mut self.routes).insert(method, service);
        self
    }

    /// Adds the handlers and the fallback of another router. They replace this router's handlers of the same methods,
    /// and its fallback.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let routes = Arc::make_mut(&mut self.routes);
        routes.extend(other.routes.iter().map(|(method, service)| (*method, service.clone())));
        self.fallback = other.fallback.or(self.fallback);
        self
    }

    /// Adds the handlers and the fallback of a router that has no method in common with this router.
    ///
    /// # Panics
    /// In debug builds, panics if both routers have a handler for the same method.
    #[must_use]
    pub fn merge_disjoint(self, other: Self) -> Self {
        let shared = other.methods().find(|method| self.routes.contains_key(method));
        debug_assert_eq!(shared, None, "both routers have a handler for this method");
        self.merge(other)
    }

    /// Uses a service for the calls of methods that have no handler.
    #[must_use]
    pub fn fallback(mut self, service: Stack) -> Self {
        self.fallback = Some(service);
        self
    }

    /// Returns the names of the methods that have a handler, in any order.
    pub fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.routes.keys().copied()
    }

    /// Converts the router to a layer. The layer handles the router's methods and passes all other calls to the inner
    /// service; the router's fallback is dropped.
    pub fn into_layer(self) -> RouterLayer {
        RouterLayer(self.routes)
    }
}

crate::opaque_debug!(Router);

impl Service<Call> for Router {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    crate::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        match (self.routes.get(call.method().as_str()), &self.fallback) {
            (Some(route), _) => route.send(call),
            (None, Some(fallback)) => fallback.send(call),
            (None, None) => Box::pin(std::future::ready(unknown(&call))),
        }
    }
}

/// Answers a call of an unknown method: a request is answered with an error, a notification is not answered.
fn unknown(call: &Call) -> Result<Reply, RpcError> {
    match call.kind() {
        Kind::Request => Err(RpcError::method_not_found(call.method().as_str())),
        Kind::Notification => Ok(Reply::None),
    }
}

/// The layer of a [`Router`].
#[derive(Clone)]
#[must_use]
pub struct RouterLayer(Arc<FxHashMap<&'static str, Stack>>);

crate::opaque_debug!(RouterLayer);

impl<S> Layer<S> for RouterLayer {
    type Service = RoutedService<S>;

    fn layer(&self, inner: S) -> RoutedService<S> {
        RoutedService {
            routes: Arc::clone(&self.0),
            inner,
            has_tools: self.0.contains_key(ToolsCall::METHOD),
        }
    }
}

/// The service of a [`RouterLayer`].
#[derive(Clone)]
pub struct RoutedService<S> {
    routes: Arc<FxHashMap<&'static str, Stack>>,
    inner: S,
    has_tools: bool,
}

crate::opaque_debug!(RoutedService<S>);

impl<S: MgpService> Service<Call> for RoutedService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = super::Either<BoxFuture<'static, Result<Reply, RpcError>>, S::Future>;
    crate::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        // Most calls are tool calls. If the router has no handler for them, this check passes them on faster than a
        // search in the table of handlers.
        if !self.has_tools && call.tool().is_some() {
            return super::Either::Right { future: self.inner.call(call) };
        }
        match self.routes.get(call.method().as_str()) {
            Some(route) => super::Either::Left { future: route.send(call) },
            None => super::Either::Right { future: self.inner.call(call) },
        }
    }
}
