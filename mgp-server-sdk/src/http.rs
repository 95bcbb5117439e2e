//! Serving over HTTP.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use ::http::{Request, Response};
use hyper::body::{Body, Bytes, Incoming};
use mgp_lifecycle::Drain;
#[cfg(feature = "tls")]
use mgp_transport::http::ServerTls;
use mgp_transport::http::{
    ConnectionLimits, CorsLayer, HttpBody, HttpConfig, HttpService, Listener, listen,
};
use mgp_types::mgp::Extension;
use mgp_types::service::{BoxFuture, Principal, Stack};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::oneshot;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::ServeError;
use crate::pages::Pages;
use crate::server::Server;
use crate::signals::SignalGuard;

/// A type-erased HTTP service together with its authentication layer. The service is cloned for each request; cloning
/// an `Arc` of a function is cheaper than cloning a boxed service.
#[derive(Clone)]
struct BoxedService(Arc<dyn Fn(Request<Incoming>) -> ResponseFuture + Send + Sync>);

type ResponseFuture = BoxFuture<'static, Result<Response<HttpBody>, Infallible>>;

impl BoxedService {
    fn new<S>(service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<HttpBody>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(service.clone().call(request))))
    }

    /// Passes requests for `path`, which has no slash at its end, and for the paths below it, to another service.
    fn mounted(self, path: String, other: Self) -> Self {
        Self(Arc::new(move |request| {
            let below = request.uri().path().strip_prefix(&path);
            if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                (other.0)(request)
            } else {
                (self.0)(request)
            }
        }))
    }

    /// Answers requests for the pages, and passes all other requests to the service.
    fn beside(self, pages: Pages) -> Self {
        Self(Arc::new(move |request| match pages.answer(&request) {
            Some(answer) => Box::pin(ready(Ok(answer))),
            None => (self.0)(request),
        }))
    }
}

impl Service<Request<Incoming>> for BoxedService {
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> ResponseFuture {
        (self.0)(request)
    }
}

/// A server that will listen on an address.
///
/// ```no_run
/// use mgp_server_sdk::prelude::*;
///
/// # async fn run() -> Result<(), ServeError> {
/// let server = Server::new("clock", "1.0")
///     .tool(Tool::new("now", "The time", || async { "noon" }));
/// server.http("127.0.0.1:8000").no_auth().serve().await
/// # }
/// ```
#[must_use = "a server does nothing until it is served"]
pub struct HttpServer {
    server: Server,
    address: String,
    config: HttpConfig,
    limits: ConnectionLimits,
    authentication: Authentication,
    pages: Option<Pages>,
    /// A function that wraps the listener in TLS after the address was bound; `None` without TLS.
    tls: Option<Box<dyn FnOnce(TcpListener) -> Listener + Send>>,
    logs_warnings: bool,
}

/// The way in which callers are authenticated.
enum Authentication {
    /// The author has made no choice, so serving fails.
    Unset,
    /// The server does not authenticate callers.
    Off,
    /// This layer authenticates callers.
    Layer(Box<dyn FnOnce(HttpService) -> BoxedService + Send>),
}

impl Server {
    /// Serves over HTTP on an address, e.g. `127.0.0.1:8000`; with port 0 the system chooses a port.
    ///
    /// Callers authenticate with a key or token ([`HttpServer::auth`]); on a loopback address, authentication can be
    /// turned off ([`HttpServer::no_auth`]).
    pub fn http(self, address: impl Into<String>) -> HttpServer {
        let mut config = HttpConfig::default();
        config.multipart = self.offers(Extension::MultimodalSignatures);
        HttpServer {
            server: self,
            address: address.into(),
            config,
            limits: ConnectionLimits::default(),
            authentication: Authentication::Unset,
            pages: None,
            tls: None,
            logs_warnings: true,
        }
    }

    /// Converts the server to an HTTP service, which can be mounted in another router.
    ///
    /// The service reads the caller's identity from the extensions of the HTTP request: wrap it in an authentication
    /// layer, or set an identity for anonymous callers in the configuration. For web pages of other origins, add a
    /// [`CorsLayer`] around both.
    ///
    /// To shut down gracefully, drain the server through its [handle](Server::drain_handle). When it has drained, close
    /// the open streams by [`HttpService::end_streams`], and then shut down the router.
    ///
    /// # Errors
    /// Returns an error if the configuration has an endpoint that is not a path, or a host or origin in a form that no
    /// browser sends, or if [`Server::into_stack`] fails.
    pub fn into_http_service(self, config: HttpConfig) -> Result<HttpService, ServeError> {
        check_config(&config)?;
        Ok(HttpService::new(self.into_stack()?, config))
    }
}

impl HttpServer {
    /// Sets the path of the endpoint; it begins with `/`. Default: `/mcp`.
    pub fn endpoint(mut self, path: impl Into<String>) -> Self {
        self.config.endpoint = Some(path.into());
        self
    }

    /// Serves all callers without authentication, i.e. every program that can connect to this machine's loopback
    /// address. For an address that other machines can reach, [`bind`](Self::bind) fails. Replaces an earlier
    /// [`auth`](Self::auth).
    ///
    /// The callers are [`HttpConfig::anonymous`] or, if that is not set, [`Principal::local`].
    pub fn no_auth(mut self) -> Self {
        self.authentication = Authentication::Off;
        self
    }

    /// Authenticates callers by a layer that stores a [`Principal`] in the extensions of the request. Replaces an
    /// earlier [`no_auth`](Self::no_auth).
    ///
    /// The server refuses a request that passes the layer without a principal, unless [`HttpConfig::anonymous`] is set.
    /// Further layers of HTTP requests can be added in a tuple, e.g. `(log, authentication)`; the first is the
    /// outermost.
    pub fn auth<L>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService> + Send + 'static,
        L::Service: Service<Request<Incoming>, Response = Response<HttpBody>, Error = Infallible>,
        L::Service: Clone + Send + Sync + 'static,
        <L::Service as Service<Request<Incoming>>>::Future: Send + 'static,
    {
        self.authentication =
            Authentication::Layer(Box::new(move |service| BoxedService::new(layer.layer(service))));
        self
    }

    /// Also serves the tools to clients without MCP: `POST /tools/NAME` calls a tool with the body as its arguments,
    /// and `GET /tools` lists the tools. The same authentication and layers apply.
    pub fn tool_paths(mut self) -> Self {
        self.config.tool_paths = true;
        self
    }

    /// Changes the HTTP configuration: allowed hosts and origins, limits, time-outs.
    pub fn config(mut self, change: impl FnOnce(&mut HttpConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Serves pages in addition to the endpoint; callers need no credentials to read them.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = Some(pages);
        self
    }

    /// Serves over TLS (`https`); a renewed certificate is used without a restart of the server.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(Box::new(|listener| Listener::from(listener).tls(tls)));
        self
    }

    /// Suppresses the warnings about an address that other machines can reach. Use this in a program that itself warns
    /// of such an address, in the words of its own options.
    pub fn without_warnings(mut self) -> Self {
        self.logs_warnings = false;
        self
    }

    /// Changes the limits of connections.
    pub fn connections(mut self, change: impl FnOnce(&mut ConnectionLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Binds the address.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen on the address, if neither [`auth`](Self::auth) nor
    /// [`no_auth`](Self::no_auth) was called, if anonymous callers are served and other machines can reach the address,
    /// or for the reasons of [`Server::into_http_service`].
    ///
    /// # Cancel safety
    /// Dropping the future releases the address.
    pub async fn bind(self) -> Result<BoundServer, ServeError> {
        let Self { mut server, address, mut config, limits, authentication, .. } = self;
        let (pages, tls, logs_warnings) = (self.pages, self.tls, self.logs_warnings);
        check_config(&config)?;
        if matches!(authentication, Authentication::Off) {
            config.anonymous.get_or_insert_with(Principal::local);
        }
        let cannot = |source| ServeError::Listen { address: address.clone(), source };
        let addresses: Vec<SocketAddr> = lookup_host(&address).await.map_err(cannot)?.collect();
        for address in &addresses {
            match &authentication {
                Authentication::Unset => return Err(ServeError::Unguarded(*address)),
                // Check this even if there is an authentication layer, because the layer might accept anonymous
                // callers.
                _ if config.anonymous.is_some() && !address.ip().is_loopback() => {
                    return Err(ServeError::Exposed(*address));
                }
                _ => {}
            }
        }
        let listener = TcpListener::bind(addresses.as_slice()).await.map_err(cannot)?;
        let local = listener.local_addr().map_err(cannot)?;
        if logs_warnings {
            warn_of_exposure(local, tls.is_some(), &config);
        }
        // Allow requests whose header `Host` has the bound address. The unspecified address (`0.0.0.0`) is not a valid
        // host.
        match local.ip() {
            ip if ip.is_unspecified() => {}
            IpAddr::V4(ip) => config.hosts.push(ip.to_string()),
            IpAddr::V6(ip) => config.hosts.push(format!("[{ip}]")),
        }
        let listener = match tls {
            Some(with_tls) => with_tls(listener),
            None => listener.into(),
        };
        // Preflight requests of browsers contain no credentials, so the CORS layer is outside the authentication layer.
        let cors = CorsLayer::new(&config);
        let (drain, drains_on_signals) = (server.drain_handle(), !server.shutdown.leaves_signals);
        let open = limits.open.clone();
        crate::health::count_connections(&mut server.health, move || open.count() as u64);
        let stack = server.into_stack()?;
        let service = HttpService::new(stack.clone(), config);
        let boxed = match authentication {
            Authentication::Layer(authenticate) => {
                BoxedService::new(cors.layer(authenticate(service.clone())))
            }
            Authentication::Unset | Authentication::Off => {
                BoxedService::new(cors.layer(service.clone()))
            }
        };
        let boxed = match pages {
            Some(pages) => boxed.beside(pages),
            None => boxed,
        };
        Ok(BoundServer { listener, local, stack, service, boxed, limits, drain, drains_on_signals })
    }

    /// Binds the address and serves until the server has [drained](Server::drain_handle).
    ///
    /// SIGTERM and SIGINT drain the server, unless the program [handles them itself](Server::without_signals); a second
    /// signal ends the process.
    ///
    /// # Errors
    /// The errors of [`HttpServer::bind`].
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections and their calls.
    pub async fn serve(self) -> Result<(), ServeError> {
        self.bind().await?.serve().await;
        Ok(())
    }
}

/// Logs warnings about a bound address that other machines can reach.
fn warn_of_exposure(local: SocketAddr, has_tls: bool, config: &HttpConfig) {
    if !local.ip().is_loopback() && !has_tls {
        tracing::warn!(%local, "no TLS: keys and tokens cross the network unencrypted; use `HttpServer::tls` or a TLS proxy");
    }
    if local.ip().is_unspecified() && config.hosts.is_empty() {
        tracing::warn!(%local, "only local requests are served; add the server's host names to `HttpConfig::hosts`");
    }
}

/// Checks that the endpoint is a path, and that the listed hosts and origins have the form in which browsers send them.
/// An entry in any other form would match no request.
fn check_config(config: &HttpConfig) -> Result<(), ServeError> {
    if let Some(path) = config.endpoint.as_ref().filter(|path| !path.starts_with('/')) {
        return Err(ServeError::Endpoint(path.clone()));
    }
    let listed =
        |what, wrong: &String, right| Err(ServeError::Listed { what, wrong: wrong.clone(), right });
    let is_host = |host: &&String| {
        !host.is_empty() && !host.contains(['/', '@', ' ', '*']) && {
            // An IPv6 address contains colons, so it must be in brackets.
            host.starts_with('[') && host.ends_with(']') || !host.contains(':')
        }
    };
    if let Some(wrong) = config.hosts.iter().find(|host| !is_host(host)) {
        return listed("host", wrong, "the name alone, without scheme and port: `mcp.example.com`");
    }
    let is_origin = |origin: &&String| {
        // Browsers omit the default port, so an origin with it would never match.
        let secure = origin.strip_prefix("https://").filter(|rest| !rest.ends_with(":443"));
        let plain = origin.strip_prefix("http://").filter(|rest| !rest.ends_with(":80"));
        secure
            .or(plain)
            .is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '@', ' ', '*']))
    };
    if let Some(wrong) = config.origins.iter().find(|origin| !is_origin(origin)) {
        return listed(
            "origin",
            wrong,
            "scheme and host, nothing behind: `https://app.example.com`",
        );
    }
    Ok(())
}

mgp_types::opaque_debug!(HttpServer { address, config });

/// A server that has bound its address but does not accept connections yet.
#[must_use = "no caller is served until it runs"]
pub struct BoundServer {
    listener: Listener,
    local: SocketAddr,
    stack: Stack,
    service: HttpService,
    boxed: BoxedService,
    limits: ConnectionLimits,
    drain: Drain,
    drains_on_signals: bool,
}

impl BoundServer {
    /// Returns the bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the stack of the server, so that it can also be served over other transports.
    pub fn stack(&self) -> Stack {
        self.stack.clone()
    }

    /// Returns the HTTP service without its authentication layer, e.g. to inspect running calls.
    pub fn service(&self) -> HttpService {
        self.service.clone()
    }

    /// Serves another service at a path and all paths below it, e.g. `/console`; a service at `/` receives all
    /// requests, also those for the server's endpoint. The other service receives each request unchanged and must
    /// authenticate callers itself, because the server's authentication does not apply to it.
    pub fn mount<S, B>(mut self, path: impl Into<String>, service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
    {
        let other = BoxedService(Arc::new(move |request| {
            let answer = service.clone().call(request);
            Box::pin(async move { answer.await.map(|answer| answer.map(HttpBody::foreign)) })
        }));
        let path = path.into();
        let path = match path.trim_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        self.boxed = self.boxed.mounted(path, other);
        self
    }

    /// Serves like [`run`](Self::run), and handles signals in the same way as [`HttpServer::serve`].
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections and their calls.
    pub async fn serve(self) {
        let _signals = self.drains_on_signals.then(|| SignalGuard::drain(&self.drain));
        self.run().await;
    }

    /// Serves until the server has [drained](Server::drain_handle).
    ///
    /// Until then, new connections are still accepted, so that their calls fail with code 2001 (server draining)
    /// instead of being lost.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections and their calls.
    pub async fn run(self) {
        self.run_until(pending()).await;
    }

    /// Serves until `stop` completes or the server has [drained](Server::drain_handle), then waits for running
    /// responses, but not longer than [`ConnectionLimits::drain_timeout`].
    ///
    /// To wait for all running calls as well, use the [drain handle](Server::drain_handle) instead.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections and their calls.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let (stop_sender, stopped) = oneshot::channel();
        let (mut serving, mut stop) = (self.serving(stopped), pin!(stop));
        let mut stop_sender = Some(stop_sender);
        poll_fn(|task| {
            if stop_sender.is_some() && stop.as_mut().poll(task).is_ready() {
                stop_sender = None;
            }
            serving.as_mut().poll(task)
        })
        .await;
    }

    /// Serves until the sender of `stopped` is dropped, or until the server has drained.
    ///
    /// This function is not generic, so that the code of connections is compiled once with this crate, and not again
    /// with each program.
    fn serving(self, stopped: oneshot::Receiver<Infallible>) -> BoxFuture<'static, ()> {
        let Self { listener, service, boxed, limits, drain, .. } = self;
        Box::pin(async move {
            let end = async move {
                let (mut stopped, mut drained) = (pin!(stopped), pin!(drain.wait_ended()));
                poll_fn(|task| match stopped.as_mut().poll(task) {
                    Poll::Pending => drained.as_mut().poll(task),
                    Poll::Ready(_) => Poll::Ready(()),
                })
                .await;
                // End the open streams of clients, which would otherwise keep their connections open.
                service.end_streams();
            };
            listen(listener, boxed, limits, end).await;
        })
    }
}

mgp_types::opaque_debug!(BoundServer { local });
