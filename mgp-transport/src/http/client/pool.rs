//! The pool of connections to one origin: HTTP/1.1, with one request at a time per connection;
//! idle connections are reused.
//!
//! A connection is added to the pool when the head of its response arrives. It is reused when the body has been read,
//! which hyper reports (`is_ready`). The pool keeps at most [`HttpClientConfig::idle_connections`]; if there are more,
//! the oldest is dropped, and closes when its body has been read. A server can announce in `Keep-Alive` when it closes
//! idle connections; the pool sends no request on a connection that is about to be closed. Many servers announce
//! nothing, e.g. those on uvicorn, which close idle connections after 5 s. If such a server has closed a connection
//! after some idle time, the pool keeps idle connections for less than that time. The shortest observed time applies
//! for an hour.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderMap, HeaderName, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use mgp_types::sync::Mutex;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until, timeout};
use tower_service::Service;

use super::config::HttpClientConfig;
use super::connector::{Connector, Security, connector};
use super::endpoint::Endpoint;
use super::error::HttpClientError;
use crate::http::guard::Guard;

/// A request whose URI is only a path; its header `Host` contains the host.
pub(super) type Message = Request<Full<Bytes>>;

type Sender = SendRequest<Full<Bytes>>;
type SendResult = Result<Response<Incoming>, PoolError>;
type BoxError = Box<dyn StdError + Send + Sync>;

/// The minimum size of hyper's buffer of a connection, in bytes.
const MIN_BUFFER_BYTES: usize = 8 << 10;

/// The margin before the expected close of an idle connection. No request is sent on the connection during this time,
/// because the request could arrive after the server has closed it.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);

/// The shortest idle time that counts as the server's time limit when the server closes a connection. Earlier closes
/// have other causes, e.g. a restart of the server.
const MIN_CLOSE_AGE: Duration = Duration::from_secs(4);

/// The time for which the client uses a time limit that it has derived from a close. A close with another cause can
/// make the derived limit too short; without an expiry, such closes would shorten it more and more.
const LEARNED_TTL: Duration = Duration::from_hours(1);

pub(super) struct Pool<C = Connector<Guard>> {
    connector: C,
    to: Uri,
    connect_timeout: Duration,
    settings: Builder,
    idle: Arc<IdleConnections>,
}

/// The reason why no response was received.
#[derive(Debug, thiserror::Error)]
pub(super) enum PoolError {
    /// No connection could be opened.
    #[error("client error (Connect)")]
    Connect(#[source] BoxError),
    /// A new connection ended before a byte of the request was written.
    #[error("client error (Canceled)")]
    Unsent(#[source] hyper::Error),
    /// The connection broke; the server might have received the request.
    #[error("client error (SendRequest)")]
    Broken(#[source] hyper::Error),
}

impl PoolError {
    pub(super) fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

pub(super) fn pool(
    endpoint: &Endpoint,
    config: &HttpClientConfig,
) -> Result<Pool, HttpClientError> {
    let secure = if endpoint.is_https() { Security::Tls } else { Security::None };
    let place = endpoint.to_string();
    let resolver = Guard::for_url(endpoint.uri(), config.only_public)
        .map_err(|why| HttpClientError::Url { url: place.clone(), why: why.to_string() })?;
    let (proxy, roots, bound) = (&config.proxy, &config.roots, config.connect_timeout);
    let connector = connector(resolver, proxy, secure, roots, &place, bound)?;
    Ok(Pool::new(connector, endpoint.uri().clone(), config))
}

impl<C> Pool<C> {
    fn new(connector: C, to: Uri, config: &HttpClientConfig) -> Self {
        let mut settings = Builder::new();
        settings.max_buf_size(config.header_bytes.max(MIN_BUFFER_BYTES));
        let idle = IdleConnections::new(config.idle_connections, config.idle_timeout);
        let connect_timeout = config.connect_timeout;
        Self { connector, to, connect_timeout, settings, idle: Arc::new(idle) }
    }
}

impl<C> Pool<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync,
    C::Response: Read + Write + Unpin + Send + 'static,
{
    /// Sends a request on an idle connection or a new one; returns the response before its body is read.
    ///
    /// The request is sent again on another connection only if no byte of it was written, because then the server
    /// cannot have received it. If there is an idle connection, the request is passed to it immediately, before the
    /// returned future is polled.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection of the request.
    pub(super) fn send(&self, message: Message) -> impl Future<Output = SendResult> + Send {
        // Pass the request to hyper immediately, so that the returned future does not contain it: requests are large.
        match self.idle.take() {
            Checkout::Free(mut sender) => {
                let sent = Box::pin(sender.try_send_request(message));
                Either::Left(self.receive(sender, sent))
            }
            Checkout::Busy | Checkout::None => {
                Either::Right(Box::pin(self.send_elsewhere(message)))
            }
        }
    }

    /// Waits for the response on a connection that was used before. If the request was not written, sends it on another
    /// connection.
    async fn receive<F>(&self, sender: Sender, sent: Pin<Box<F>>) -> SendResult
    where
        F: Future<Output = Result<Response<Incoming>, TrySendError<Message>>>,
    {
        let elsewhere = match sent.await {
            Ok(response) => {
                IdleConnections::put(&self.idle, sender, response.headers());
                return Ok(response);
            }
            Err(mut error) => match error.take_message() {
                Some(unsent) => Box::pin(self.send_elsewhere(unsent)),
                None => return Err(PoolError::Broken(error.into_error())),
            },
        };
        drop(sender);
        elsewhere.await
    }

    /// Sends a request on another idle connection, or on a new one if none is idle. Tries again if an idle connection
    /// did not accept the request.
    async fn send_elsewhere(&self, mut message: Message) -> SendResult {
        loop {
            let (mut sender, is_new) = match self.checkout().await {
                Some(sender) => (sender, false),
                None => (self.open().await?, true),
            };
            match sender.try_send_request(message).await {
                Ok(response) => {
                    IdleConnections::put(&self.idle, sender, response.headers());
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_new => message = unsent,
                    Some(_) => return Err(PoolError::Unsent(error.into_error())),
                    None => return Err(PoolError::Broken(error.into_error())),
                },
            }
        }
    }

    /// Returns an idle connection that is ready for a request.
    async fn checkout(&self) -> Option<Sender> {
        match self.idle.take() {
            Checkout::Free(sender) => Some(sender),
            Checkout::None => None,
            // A connection that has just read its answer might become ready as soon as its own task has run, so let
            // that task run and try again.
            Checkout::Busy => {
                yield_now().await;
                match self.idle.take() {
                    Checkout::Free(sender) => Some(sender),
                    Checkout::None | Checkout::Busy => None,
                }
            }
        }
    }

    /// Opens a connection within the connect timeout, which includes the TLS handshake, and
    /// spawns the connection's task.
    async fn open(&self) -> Result<Sender, PoolError> {
        let bound = self.connect_timeout;
        let opening = async {
            let mut connector = self.connector.clone();
            poll_fn(|task| connector.poll_ready(task)).await?;
            connector.call(self.to.clone()).await
        };
        let Ok(opened) = timeout(bound, opening).await else {
            let bound = mgp_types::duration_words(bound);
            return Err(PoolError::Connect(format!("no connection within {bound}").into()));
        };
        let io = opened.map_err(|error| PoolError::Connect(error.into()))?;
        let (mut sender, connection) =
            self.settings.handshake(io).await.map_err(PoolError::Broken)?;
        let (report, reported) = oneshot::channel();
        let idle = Arc::downgrade(&self.idle);
        tokio::spawn(async move {
            let ended = connection.await;
            if let Some(idle) = idle.upgrade() {
                idle.note_closed();
            }
            if let Err(error) = ended {
                tracing::debug!(%error, "connection failed");
                // Ignore a failure to send: only `open` receives this error, and only while it waits for the connection
                // to become ready.
                let _ = report.send(error);
            }
        });
        match sender.ready().await {
            Ok(()) => Ok(sender),
            // The connection's task reports the actual reason, so return that reason.
            Err(error) => Err(PoolError::Broken(reported.await.unwrap_or(error))),
        }
    }
}

/// The connections that are kept for later requests.
struct IdleConnections {
    state: Mutex<IdleState>,
    bound: usize,
    timeout: Duration,
}

#[derive(Default)]
struct IdleState {
    /// The idle connections, oldest first.
    connections: Vec<IdleConnection>,
    /// The shortest time after which the server closed an idle connection, minus [`CLOSE_MARGIN`], and the time of that
    /// close.
    server_timeout: Option<(Duration, Instant)>,
    /// The task that closes expired connections; it exists while at least one connection is idle.
    reaper: Option<JoinHandle<()>>,
}

struct IdleConnection {
    sender: Sender,
    since: Instant,
    /// The time after `since` at which the connection expires.
    timeout: Duration,
}

impl IdleConnection {
    fn is_expired(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= self.timeout
    }
}

enum Checkout {
    Free(Sender),
    /// No connection is free now, but some connections will be free when their response has been read.
    Busy,
    None,
}

impl IdleConnections {
    fn new(bound: usize, timeout: Duration) -> Self {
        Self { state: Mutex::default(), bound, timeout }
    }

    /// Takes the newest free connection; drops closed and expired connections.
    fn take(&self) -> Checkout {
        // Dropping a sender wakes the task of its connection, so senders are dropped after the lock is released.
        let mut obsolete = Vec::new();
        let mut state = self.state.lock();
        let (connections, mut taken) = (&mut state.connections, Checkout::None);
        if connections.is_empty() {
            return taken;
        }
        let now = Instant::now();
        for at in (0..connections.len()).rev() {
            if connections[at].sender.is_closed() || connections[at].is_expired(now) {
                obsolete.push(connections.remove(at));
            } else if connections[at].sender.is_ready() {
                taken = Checkout::Free(connections.remove(at).sender);
                break;
            } else {
                taken = Checkout::Busy;
            }
        }
        drop(state);
        taken
    }

    /// Adds an idle connection, and ensures that it is closed after it has expired. `headers` are those of its last
    /// response, in which the server can limit the idle time.
    fn put(idle: &Arc<Self>, sender: Sender, headers: &HeaderMap) {
        let timeout = announced_timeout(headers);
        let timeout = timeout.map_or(idle.timeout, |named| named.min(idle.timeout));
        if idle.bound == 0 || timeout.is_zero() || sender.is_closed() {
            return;
        }
        let mut obsolete = Vec::new();
        let mut state = idle.state.lock();
        let IdleState { connections, server_timeout, reaper } = &mut *state;
        if connections.len() >= idle.bound {
            obsolete.extend(connections.extract_if(.., |idle| idle.sender.is_closed()));
            if connections.len() >= idle.bound {
                obsolete.push(connections.remove(0));
            }
        }
        let since = Instant::now();
        *server_timeout = server_timeout.filter(|(_, at)| since.duration_since(*at) < LEARNED_TTL);
        let timeout = server_timeout.map_or(timeout, |(known, _)| known.min(timeout));
        connections.push(IdleConnection { sender, since, timeout });
        // Start the task that closes connections if there is none, or if it has ended together with its runtime.
        if reaper.as_ref().is_none_or(JoinHandle::is_finished)
            && let Some(until) = since.checked_add(timeout)
        {
            *reaper = Some(tokio::spawn(reap(Arc::downgrade(idle), until)));
        }
        drop(state);
    }

    /// Removes connections that their server has closed. If the server closed a connection that had been idle for some
    /// time, the pool from now on lets connections expire after a shorter idle time.
    fn note_closed(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let closed =
            state.connections.extract_if(.., |idle| idle.sender.is_closed()).collect::<Vec<_>>();
        let ages = closed.iter().map(|idle| now.duration_since(idle.since));
        if let Some(age) = ages.filter(|age| *age >= MIN_CLOSE_AGE).min() {
            let seen = age.saturating_sub(CLOSE_MARGIN);
            let (known, at) =
                state.server_timeout.filter(|(known, _)| *known < seen).unwrap_or((seen, now));
            state.server_timeout = Some((known, at));
            for idle in &mut state.connections {
                idle.timeout = idle.timeout.min(known);
            }
        }
        drop(state);
        drop(closed);
    }

    /// Closes expired connections; returns the time of the next check, or removes the task if no connection is left.
    fn close_expired(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let old = state
            .connections
            .extract_if(.., |idle| idle.sender.is_closed() || idle.is_expired(now))
            .collect::<Vec<_>>();
        let expiries =
            state.connections.iter().filter_map(|idle| idle.since.checked_add(idle.timeout));
        let next = expiries.min();
        if next.is_none() {
            // The task is removed under the lock, so that a concurrent `put` starts a new one.
            state.reaper = None;
        }
        drop(state);
        drop(old);
        next
    }
}

/// Returns the time for which a server keeps an idle connection open, minus [`CLOSE_MARGIN`]; `None` if the server does
/// not announce the time (`Keep-Alive: timeout=5`).
fn announced_timeout(headers: &HeaderMap) -> Option<Duration> {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    let mut parameters = headers.get(&KEEP_ALIVE)?.to_str().ok()?.split(',');
    let seconds = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().parse::<u64>().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then_some(value)
    })?;
    Some(Duration::from_secs(seconds).saturating_sub(CLOSE_MARGIN))
}

/// Dropping the pool ends the task that closes expired connections.
impl Drop for IdleConnections {
    fn drop(&mut self) {
        if let Some(reaper) = self.state.lock().reaper.take() {
            reaper.abort();
        }
    }
}

/// Closes connections when they expire; ends when no connection is left.
async fn reap(idle: Weak<IdleConnections>, mut until: Instant) {
    loop {
        sleep_until(until).await;
        let Some(next) = idle.upgrade().and_then(|idle| idle.close_expired()) else { return };
        until = next;
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, not(feature = "tls")))]
mod without_tls {
    use super::*;

    #[test]
    fn https_without_tls_names_the_feature_to_build() {
        let endpoint = Endpoint::parse("https://example.com/mcp").unwrap();
        let error = pool(&endpoint, &HttpClientConfig::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, HttpClientError::NoTls(_)));
        assert!(error.to_string().contains("the feature `tls`"), "{error}");
    }
}
