//! The service: one endpoint, both eras.
//!
//! Applies to: inbound.

mod addresses;
mod body;
mod config;
mod cors;
mod events;
mod guard;
mod handles;
mod heads;
mod legacy;
mod listener;
mod load;
mod mirror;
mod modern;
mod post;
mod read;
mod refusal;
mod socket;
mod stream;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use mgp_types::service::{BoxFuture, Pass, Principal, Stack};
use tower_service::Service;

pub use self::body::HttpBody;
pub use self::config::{Answers, HttpConfig};
pub use self::cors::{Cors, CorsLayer};
use self::events::{Events, Reader};
use self::handles::Handles;
use self::heads::Heads;
use self::legacy::{Session, Sessions};
pub use self::listener::{ConnectionLimits, OpenConnections, listen};
use self::load::Load;
use self::refusal::{Refusal, empty, events, short};
use self::stream::{EventId, Store};

/// A stack at a URL: mount it in a router, or give it to [`listen`].
///
/// Who calls is read from the request's extensions, where an authenticating layer around this service puts a
/// [`Principal`], and a [`Pass`] where credentials may end.
/// A request without one is refused, unless the configuration says who it is for ([`HttpConfig::anonymous`]).
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
    handles: Arc<Handles>,
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
            handles: Arc::default(),
            load: Arc::default(),
            config,
        }))
    }

    /// Legacy sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.len()
    }

    /// Ends the streams of the legacy sessions that belong to no call, once their readers have what there is.
    ///
    /// They would keep a server from ending that waits for its connections. Calls and their streams go on.
    pub fn end_streams(&self) {
        self.0.sessions.end_streams();
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
    answer(shared, &parts, body).await.unwrap_or_else(|refusal| refusal.of(None))
}

async fn answer<B>(
    shared: &Arc<Shared>,
    parts: &Parts,
    body: B,
) -> Result<Response<HttpBody>, Refusal>
where
    B: Body<Data = Bytes> + Send,
{
    let heads = Heads::read(&parts.headers)?;
    guard::check(&parts.uri, &heads, &shared.config)?;
    if let Some(served) = &shared.config.endpoint
        && served != parts.uri.path()
    {
        let came = short(parts.uri.path());
        return Err(Refusal::Path { came, served: served.clone() });
    }
    let came = Came { shared, parts, heads };
    match parts.method {
        Method::POST => post::post(&came, body).await,
        Method::GET => came.get(),
        Method::DELETE => came.delete(),
        _ => Err(Refusal::Method(short(parts.method.as_str()))),
    }
}

/// A request that came.
struct Came<'a> {
    shared: &'a Arc<Shared>,
    parts: &'a Parts,
    heads: Heads<'a>,
}

impl Came<'_> {
    /// Opens the stream of a session, or goes on with one that was cut.
    fn get(&self) -> Result<Response<HttpBody>, Refusal> {
        let session = self.stateful()?;
        if !self.heads.takes_events() {
            return Err(Refusal::Accept);
        }
        let (stream, after) = match self.heads.last_event {
            None => (session.standalone(), None),
            Some(last) => {
                let unknown = || Refusal::UnknownEvent(short(last));
                let event = EventId::parse(last).ok_or_else(unknown)?;
                (session.stream_of(event).ok_or_else(unknown)?, Some(event.number))
            }
        };
        let body = Events::new(Reader::new(&stream, after), self.shared.config.keep_alive)
            .for_holder_of(self.pass());
        Ok(events(HttpBody::events(body)))
    }

    /// Ends a session.
    fn delete(&self) -> Result<Response<HttpBody>, Refusal> {
        let session = self.stateful()?;
        self.shared.sessions.close(&session);
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session of a request that only makes sense in one.
    fn stateful(&self) -> Result<Arc<Session>, Refusal> {
        if self.heads.is_modern() {
            return Err(Refusal::Stateless);
        }
        self.session(&self.principal()?)
    }

    /// The session a legacy request names, which its headers must agree with.
    fn session(&self, principal: &Principal) -> Result<Arc<Session>, Refusal> {
        let id = self.heads.session.ok_or(Refusal::NoSession)?;
        let found = self.shared.sessions.find(id, principal);
        let session = found.ok_or(Refusal::UnknownSession)?;
        self.heads.legacy(session.rules().revision())?;
        Ok(session)
    }

    /// For whom the request is made.
    fn principal(&self) -> Result<Principal, Refusal> {
        let known = self.parts.extensions.get::<Principal>();
        known.or(self.shared.config.anonymous.as_ref()).cloned().ok_or(Refusal::Nobody)
    }

    /// What its caller showed.
    fn pass(&self) -> Option<Pass> {
        self.parts.extensions.get::<Pass>().cloned()
    }
}
