//! The service: one endpoint, both eras.
//!
//! Applies to: inbound.

mod body;
mod config;
mod events;
mod guard;
mod legacy;
mod listener;
mod load;
mod mirror;
mod modern;
mod post;
mod read;
mod refusal;
mod stream;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use http_body::Body;
use mgp_types::service::{BoxFuture, Principal, Stack};
use tower_service::Service;

pub use self::body::HttpBody;
pub use self::config::{Answers, HttpConfig};
use self::events::{Events, Reader};
use self::guard::only;
use self::legacy::{Session, Sessions};
pub use self::listener::{ConnectionLimits, listen};
use self::load::Load;
use self::mirror::Announced;
use self::modern::Callers;
use self::refusal::{Refusal, empty, events};
use self::stream::{EventId, Store};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A stack at a URL: mount it in a router, or give it to [`listen`].
///
/// Who calls is read from the request's extensions, where an authenticating layer around this service puts a
/// [`Principal`]; without one everybody is [`Principal::local`].
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
pub struct HttpService(Arc<Shared>);

/// What all requests share.
struct Shared {
    stack: Stack,
    config: HttpConfig,
    store: Arc<Store>,
    sessions: Arc<Sessions>,
    callers: Arc<Callers>,
    load: Arc<Load>,
}

impl HttpService {
    /// A service over a stack.
    #[must_use]
    pub fn new(stack: Stack, config: HttpConfig) -> Self {
        let store = Store::new(config.store_bytes, config.replay_bytes, config.stall, config.retry);
        let store = Arc::new(store);
        let sessions = Sessions::new(config.sessions, config.idle, Arc::clone(&store));
        Self(Arc::new(Shared {
            stack,
            store,
            sessions: Arc::new(sessions),
            callers: Arc::default(),
            load: Arc::default(),
            config,
        }))
    }

    /// Legacy sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.len()
    }

    /// Requests that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.load.running()
    }

    /// Bytes of bodies that are held for them.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.0.load.held()
    }

    /// Bytes of events that wait to be read, or for clients that come back.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.0.store.held()
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService")
            .field("sessions", &self.sessions())
            .field("running", &self.running())
            .finish_non_exhaustive()
    }
}

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
        let shared = Arc::clone(&self.0);
        Box::pin(async move { Ok(respond(&shared, request).await) })
    }
}

async fn respond<B>(shared: &Arc<Shared>, request: Request<B>) -> Response<HttpBody>
where
    B: Body<Data = Bytes> + Send,
{
    let (parts, body) = request.into_parts();
    let checked =
        guard::check(&parts, &shared.config).and_then(|()| match &shared.config.endpoint {
            Some(endpoint) if endpoint != parts.uri.path() => {
                Err(Refusal::Path(parts.uri.path().to_owned()))
            }
            _ => Ok(()),
        });
    if let Err(refusal) = checked {
        return refusal.of(None);
    }
    let outcome = match parts.method {
        Method::POST => post::post(shared, &parts, body).await,
        Method::GET => get(shared, &parts),
        Method::DELETE => delete(shared, &parts),
        _ => Err(Refusal::Method(parts.method.to_string())),
    };
    outcome.unwrap_or_else(|refusal| refusal.of(None))
}

/// Opens the stream of a session, or goes on with one that was cut.
fn get(shared: &Arc<Shared>, parts: &Parts) -> Result<Response<HttpBody>, Refusal> {
    let session = stateful(shared, parts)?;
    if !accepts(&parts.headers, "text/event-stream") {
        return Err(Refusal::Accept);
    }
    let last = only(&parts.headers, &LAST_EVENT).map_err(|()| Refusal::Twice("Last-Event-ID"))?;
    let (stream, after) = match last {
        None => (session.standalone(), None),
        Some(last) => {
            let unknown = || Refusal::UnknownEvent(last.chars().take(100).collect());
            let event = EventId::parse(last).ok_or_else(unknown)?;
            (session.stream_of(event).ok_or_else(unknown)?, Some(event.number))
        }
    };
    let body = Events::new(Reader::new(&stream, after), shared.config.keep_alive);
    Ok(events(HttpBody::events(body)))
}

/// Ends a session.
fn delete(shared: &Arc<Shared>, parts: &Parts) -> Result<Response<HttpBody>, Refusal> {
    let session = stateful(shared, parts)?;
    shared.sessions.close(&session);
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The session of a request that only makes sense in one.
fn stateful(shared: &Arc<Shared>, parts: &Parts) -> Result<Arc<Session>, Refusal> {
    let announced = Announced::read(parts)?;
    if announced.is_modern() {
        return Err(Refusal::Stateless);
    }
    let session = session(shared, parts)?.ok_or(Refusal::NoSession)?;
    announced.legacy(session.rules().revision())?;
    Ok(session)
}

/// The session a request names.
fn session(shared: &Arc<Shared>, parts: &Parts) -> Result<Option<Arc<Session>>, Refusal> {
    let id = only(&parts.headers, &SESSION).map_err(|()| Refusal::Twice("Mcp-Session-Id"))?;
    let Some(id) = id else { return Ok(None) };
    let found = shared.sessions.find(id, &principal(parts));
    found.map(Some).ok_or(Refusal::UnknownSession)
}

/// For whom a request is made.
fn principal(parts: &Parts) -> Principal {
    parts.extensions.get::<Principal>().cloned().unwrap_or_else(Principal::local)
}

/// Whether a type may be answered; who says nothing takes anything.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut ranges = headers.get_all(header::ACCEPT).iter().peekable();
    if ranges.peek().is_none() {
        return true;
    }
    let family = wanted.split_once('/').map_or(wanted, |(family, _)| family);
    ranges.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim();
        range.eq_ignore_ascii_case(wanted)
            || range == "*/*"
            || range.strip_suffix("/*").is_some_and(|prefix| prefix.eq_ignore_ascii_case(family))
    })
}

/// Whether both forms of an answer are taken; nearly every client says so in the same words.
fn accepts_both(headers: &HeaderMap) -> bool {
    let usual = headers
        .get(header::ACCEPT)
        .is_some_and(|value| value.as_bytes() == b"application/json, text/event-stream");
    usual || accepts(headers, "application/json") && accepts(headers, "text/event-stream")
}
