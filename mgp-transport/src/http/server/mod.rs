//! The HTTP service of a server: one endpoint for legacy clients, with sessions, and for modern ones, without.

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
mod timeout_socket;
mod tls;
mod tool_paths;
mod tracking;

use std::convert::Infallible;
use std::ops::RangeInclusive;
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

/// A header map is reused for the connection's next request if its capacity is in this range. Reusing a smaller map
/// costs more than creating a map, and a larger map would occupy memory for as long as the connection exists.
const REUSED_HEADERS: RangeInclusive<usize> = 7..=32;

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
    let (mut parts, body) = request.into_parts();
    let is_of_tool = state.config.tool_paths && ToolPath::parse(parts.uri.path()).is_some();
    let mut response = match answer(state, &parts, body).await {
        Ok(response) => response,
        Err(refusal) if is_of_tool => refusal.into_plain_response(),
        Err(refusal) => refusal.into_response(None),
    };
    if parts.method == Method::POST && REUSED_HEADERS.contains(&parts.headers.capacity()) {
        // Moves the headers of the response into the map of the request. The connection then reuses that map for its
        // next request.
        parts.headers.clear();
        parts.headers.extend(std::mem::take(response.headers_mut()));
        *response.headers_mut() = parts.headers;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::{BodyExt as _, Full};
    use mgp_types::service::{CredentialGrant, Principal, Reply, Router};
    use tokio::time::sleep;

    use super::*;

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

    /// Returns a modern ping, or else the first request of a legacy client.
    fn request(is_modern: bool, accept: &str) -> Request<Full<Bytes>> {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("accept", accept)
            .header("content-type", "application/json")
            .header("user-agent", "test")
            .header("x-secret", "1");
        if is_modern {
            request =
                request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "ping");
        }
        let body = if is_modern { PING } else { INITIALIZE };
        request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
    }

    fn local() -> HttpConfig {
        HttpConfig { anonymous: Some(Principal::local()), ..HttpConfig::default() }
    }

    async fn send(stack: Stack, is_modern: bool, accept: &str) -> Response<HttpBody> {
        HttpService::new(stack, local()).call(request(is_modern, accept)).await.unwrap()
    }

    fn answers_after(delay: Duration) -> Stack {
        Stack::from_fn(move |_| async move {
            sleep(delay).await;
            Ok(Reply::empty())
        })
    }

    #[tokio::test]
    async fn an_answer_has_no_header_of_its_request() {
        let accept = "application/json, text/event-stream";
        let response = send(Stack::new(Router::new()), true, accept).await;
        let names: Vec<_> = response.headers().keys().map(http::HeaderName::as_str).collect();
        assert_eq!(names, ["content-type"]);
        assert!(response.headers().capacity() >= 7, "it has the room of the request's");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_accepts_one_form_of_answers_gets_that_form() {
        let fast = answers_after(Duration::ZERO);
        let slow = answers_after(HttpConfig::default().stream_delay * 2);
        let (json_type, event_stream) = ("application/json", "text/event-stream");
        for is_modern in [true, false] {
            for (stack, accept, form) in [
                (&fast, json_type, json_type),
                (&fast, "*/*", json_type),
                (&fast, event_stream, event_stream),
                (&slow, json_type, json_type),
                (&slow, "*/*", event_stream),
                (&slow, event_stream, event_stream),
            ] {
                let response = send(stack.clone(), is_modern, accept).await;
                assert_eq!(response.status(), 200, "{accept} {is_modern}");
                assert_eq!(response.headers()["content-type"], form, "{accept} {is_modern}");
            }
            assert_eq!(send(fast.clone(), is_modern, "text/html").await.status(), 406);
        }
    }

    #[tokio::test]
    async fn a_client_that_accepts_only_json_gets_json_from_a_server_that_prefers_streams() {
        for is_modern in [true, false] {
            let config = HttpConfig { answer_mode: AnswerMode::Streams, ..local() };
            let mut service = HttpService::new(answers_after(Duration::ZERO), config);
            for (accept, form) in
                [("application/json", "application/json"), ("*/*", "text/event-stream")]
            {
                let response = service.call(request(is_modern, accept)).await.unwrap();
                assert_eq!(response.headers()["content-type"], form, "{accept} {is_modern}");
            }
        }
    }

    #[tokio::test]
    async fn no_json_is_sent_to_a_client_whose_credentials_became_invalid_while_it_waited() {
        for is_modern in [true, false] {
            let mut request = request(is_modern, "application/json");
            request.extensions_mut().insert(CredentialGrant::new(["a"], || false));
            let mut service = HttpService::new(answers_after(Duration::ZERO), local());
            assert_eq!(service.call(request).await.unwrap().status(), 401, "{is_modern}");
        }
        let mut request = Request::get("/tools").header("host", "localhost");
        let extensions = request.extensions_mut().unwrap();
        extensions.insert(CredentialGrant::new(["a"], || false));
        let config = HttpConfig { tool_paths: true, ..local() };
        let mut service = HttpService::new(answers_after(Duration::ZERO), config);
        let response = service.call(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 401, "of a client without MCP");
    }

    #[tokio::test]
    async fn a_call_has_the_values_that_were_read_from_its_request() {
        struct Secret(String);
        let stack = Stack::from_fn(|call| async move {
            let secret = call.cx().extensions.get::<Secret>().map(|secret| secret.0.as_str());
            assert_eq!(secret, Some("1 of a layer"));
            Ok(Reply::empty())
        });
        let mut config = local();
        let joint = "of".to_owned();
        config.on_request(move |request, extensions| {
            let header = request.headers["x-secret"].to_str().unwrap();
            let owner = request.extensions.get::<&'static str>().unwrap();
            extensions.insert(Secret(format!("{header} {joint} {owner}")));
        });
        let mut service = HttpService::new(stack, config);
        for is_modern in [true, false] {
            let mut request = request(is_modern, "*/*");
            request.extensions_mut().insert("a layer");
            assert_eq!(service.call(request).await.unwrap().status(), 200, "{is_modern}");
        }
    }

    /// Regression test: the Python SDK reported an error for each comment on a stream whose events have ids.
    #[tokio::test(start_paused = true)]
    async fn no_empty_line_follows_a_keep_alive_comment() {
        let config = HttpConfig::default();
        let delay = config.stream_delay + config.keep_alive_interval + Duration::from_secs(1);
        let response = send(answers_after(delay), true, "*/*").await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.starts_with(b": \nevent: message\ndata: {"), "{body:?}");
    }

    #[tokio::test]
    async fn a_slash_at_the_end_of_the_endpoint_does_not_matter() {
        for (endpoint, path, status) in [
            ("/mcp", "/mcp", 401),
            ("/mcp", "/mcp/", 401),
            ("/mcp", "/mcp/?x=1", 401),
            ("/mcp/", "/mcp", 401),
            ("/", "/", 401),
            ("/mcp", "/mcp//", 404),
            ("/mcp", "/mcp/x", 404),
            ("/mcp", "/mc", 404),
            ("/mcp", "/", 404),
        ] {
            let config =
                HttpConfig { endpoint: Some(endpoint.to_owned()), ..HttpConfig::default() };
            let request = Request::get(path).header("host", "localhost");
            let request = request.body(Full::<Bytes>::default()).unwrap();
            let stack = Stack::new(Router::new());
            let response = HttpService::new(stack, config).call(request).await.unwrap();
            assert_eq!(response.status(), status, "{path} for {endpoint}");
        }
    }
}
