//! The HTTP service of a server: one endpoint for legacy clients, which have sessions, and for modern clients, which
//! have none.
//!
//! A request passes these modules:
//!
//! 1. `listener`, `tls` and `timeout_socket` accept its connection and limit it;
//! 2. `headers` reads its headers, `origin_check` checks `Host` and `Origin`;
//! 3. `post` reads the message in its body (`request_body`, `multipart`), and passes it to the rules of its `era`:
//!    `legacy`, with sessions, or `modern`; `tool_paths` are for clients without MCP;
//! 4. `load` counts it while it runs;
//! 5. its answer is JSON or an event stream (`stream`, `event_body`, bounded by `event_budget`), or a `refusal`.

mod accept_failures;
mod address_limit;
mod body;
mod config;
mod cors;
mod era;
mod event_body;
mod event_budget;
mod handle_scopes;
mod headers;
#[cfg(feature = "http2")]
mod http2;
mod legacy;
mod listener;
mod load;
mod modern;
mod multipart;
mod origin_check;
mod post;
mod received_request;
mod refusal;
mod request_body;
mod stream;
#[cfg(test)]
mod tests;
mod timeout_socket;
mod tls;
mod tool_paths;
mod tracking;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use mgp_types::service::{BoxFuture, Stack};
use tower_service::Service;

pub use self::accept_failures::AcceptFailures;
pub use self::body::HttpBody;
pub use self::config::{AnswerMode, HttpConfig};
pub use self::cors::{Cors, CorsLayer};
use self::event_budget::{CallerBudget, EventBudget};
use self::handle_scopes::HandleScopes;
use self::headers::RequestHeaders;
use self::legacy::Sessions;
pub use self::listener::{ConnectionLimits, Listener, OpenConnections, listen};
use self::load::Load;
use self::received_request::ReceivedRequest;
use self::refusal::{Refusal, clip_text};
#[cfg(feature = "tls")]
pub use self::tls::{ServerTls, ServerTlsError};
use self::tool_paths::ToolPath;

/// An HTTP service that passes requests to a stack. Mount it in a router, or pass it to [`listen`].
///
/// The service reads the caller from the extensions of the HTTP request. An authenticating outer layer stores a
/// [`Principal`](mgp_types::service::Principal) there, and a [`CredentialGrant`](mgp_types::service::CredentialGrant) if
/// the credentials can expire. A request without a principal gets 401, unless the configuration sets a principal for
/// such requests ([`HttpConfig::anonymous`]).
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use http_body_util::{BodyExt, Full};
/// use mgp_transport::http::{HttpConfig, HttpService};
/// use mgp_types::method::Ping;
/// use mgp_types::service::{Router, Stack};
/// use tower_service::Service;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let stack = Stack::new(Router::new());
/// let mut service = HttpService::new(stack, HttpConfig::default());
/// let request = Request::post("/mcp").header("host", "evil.example").body(Full::<Bytes>::default());
/// let response = service.call(request.unwrap()).await.unwrap();
/// assert_eq!(response.status(), 403);
/// # });
/// ```
#[derive(Clone)]
pub struct HttpService(Arc<ServerState>);

/// State shared by all requests.
struct ServerState {
    stack: Stack,
    config: HttpConfig,
    budget: Arc<EventBudget>,
    /// The part of `budget` for modern requests, which belong to no session.
    modern_budget: Arc<CallerBudget>,
    sessions: Arc<Sessions>,
    handles: Arc<HandleScopes>,
    load: Arc<Load>,
}

impl HttpService {
    /// Creates a service for a stack.
    #[must_use]
    pub fn new(stack: Stack, config: HttpConfig) -> Self {
        let budget = EventBudget::new(&config);
        let sessions = Sessions::new(config.sessions, config.session_ttl, Arc::clone(&budget));
        Self(Arc::new(ServerState {
            stack,
            modern_budget: budget.without_session(),
            budget,
            sessions: Arc::new(sessions),
            handles: Arc::default(),
            load: Arc::default(),
            config,
        }))
    }

    /// Returns the number of open legacy sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.len()
    }

    /// Ends the GET streams of all legacy sessions, i.e. the streams that belong to no call, as soon as their clients
    /// have read them.
    ///
    /// Call this when the server stops, because these streams otherwise stay open as long as their clients do. Calls
    /// and their streams continue.
    pub fn end_streams(&self) {
        self.0.sessions.end_streams();
    }

    /// Returns the number of running requests.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.load.running()
    }

    /// Returns the total size, in bytes, of the request bodies in memory, and of the answers of batches that are not
    /// complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.0.load.body_bytes()
    }

    /// Returns the size, in bytes, of the events that wait to be read, or are kept for clients that resume a stream.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.0.budget.stored_bytes()
    }
}

mgp_types::opaque_debug!(HttpService);

impl<B> Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<HttpBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let state = Arc::clone(&self.0);
        Box::pin(async move { Ok(respond(&state, request).await) })
    }
}

async fn respond<B>(state: &Arc<ServerState>, request: Request<B>) -> Response<HttpBody>
where
    B: Body<Data = Bytes> + Send,
{
    let (parts, body) = request.into_parts();
    let is_of_tool = state.config.tool_paths && ToolPath::parse(parts.uri.path()).is_some();
    let mut response = match answer(state, &parts, body).await {
        Ok(response) => response,
        Err(refusal) if is_of_tool => refusal.into_plain_response(),
        Err(refusal) => refusal.into_response(None),
    };
    if parts.method == Method::POST {
        headers::reuse_map(parts.headers, response.headers_mut());
    }
    response
}

async fn answer<B>(
    state: &Arc<ServerState>,
    parts: &Parts,
    body: B,
) -> Result<Response<HttpBody>, Refusal>
where
    B: Body<Data = Bytes> + Send,
{
    let headers = RequestHeaders::read(&parts.headers)?;
    origin_check::check(&parts.uri, &headers, &state.config)?;
    let received = ReceivedRequest { state, parts, headers };
    if state.config.tool_paths
        && let Some(path) = ToolPath::parse(parts.uri.path())
    {
        return Box::pin(received.answer_tool_path(path, body)).await;
    }
    if let Some(served) = &state.config.endpoint
        && !is_endpoint(parts.uri.path(), served)
    {
        let requested = clip_text(parts.uri.path());
        return Err(Refusal::Path { requested, served: served.clone() });
    }
    match parts.method {
        Method::POST => post::post(&received, body).await,
        Method::GET => received.open_stream(),
        Method::DELETE => received.end_session(),
        _ => Err(Refusal::Method(clip_text(parts.method.as_str()))),
    }
}

/// Returns whether a path is the path of the endpoint, with or without a slash at the end. Many clients are configured
/// with that slash, because frameworks that mount an endpoint below a path serve it there.
fn is_endpoint(path: &str, served: &str) -> bool {
    path == served || without_slash(path) == without_slash(served)
}

fn without_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}
