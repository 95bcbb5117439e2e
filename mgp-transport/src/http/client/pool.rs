//! The connections to one origin: HTTP/1.1, one request at a time on each, kept for the next ones.
//!
//! A connection is kept from the head of its response on, and is handed out again once the body is through, which
//! hyper says (`is_ready`). So at most as many are kept as may be idle: the oldest gives way, and where its body is
//! still read it closes after that.
//!
//! Applies to: outbound.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::dns::GaiResolver;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until, timeout};
use tower_service::Service;

use super::config::HttpClientConfig;
use super::connector::{Connector, Security, connector};
use super::endpoint::Endpoint;
use super::error::HttpClientError;

/// What is sent: its URI is a path, and it has a `Host`.
pub(super) type Message = Request<Full<Bytes>>;

type Sender = SendRequest<Full<Bytes>>;
type Answered = Result<Response<Incoming>, PoolError>;
type BoxError = Box<dyn StdError + Send + Sync>;

/// What hyper's buffer must hold at least.
const LEAST_BUFFER: usize = 8 << 10;

/// A pool of connections.
pub(super) struct Pool<C = Connector<GaiResolver>> {
    connector: C,
    to: Uri,
    connect_timeout: Duration,
    settings: Builder,
    kept: Arc<Kept>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum PoolError {
    /// No connection could be opened.
    #[error("client error (Connect)")]
    Connect(#[source] BoxError),
    /// A new connection ended before a byte of the request was written.
    #[error("client error (Canceled)")]
    Unsent(#[source] hyper::Error),
    /// The connection broke; a server may have seen the request.
    #[error("client error (SendRequest)")]
    Broken(#[source] hyper::Error),
}

impl PoolError {
    pub(super) fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

/// A pool for an endpoint.
pub(super) fn pool(
    endpoint: &Endpoint,
    config: &HttpClientConfig,
) -> Result<Pool, HttpClientError> {
    let secure = if endpoint.is_https() { Security::Tls } else { Security::None };
    let connector = connector(GaiResolver::new(), secure, &config.roots, &endpoint.to_string())?;
    Ok(Pool::new(connector, endpoint.uri().clone(), config))
}

impl<C> Pool<C> {
    fn new(connector: C, to: Uri, config: &HttpClientConfig) -> Self {
        let mut settings = Builder::new();
        settings.max_buf_size(config.header_bytes.max(LEAST_BUFFER));
        let kept = Kept::new(config.idle_connections, config.idle_timeout);
        let connect_timeout = config.connect_timeout;
        Self { connector, to, connect_timeout, settings, kept: Arc::new(kept) }
    }
}

impl<C> Pool<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync,
    C::Response: Read + Write + Unpin + Send + 'static,
{
    /// Sends a request on a connection that is free, or on a new one; gives the response with its body unread.
    ///
    /// It is sent a second time only where not one byte of it was written, so that no server can have seen it.
    /// A connection that is free has it when this returns, whether the future is polled or not.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection of the request.
    pub(super) fn send(&self, message: Message) -> impl Future<Output = Answered> + Send {
        // The request is large, so it goes to hyper before there is a future of ours that would hold it.
        match self.kept.take() {
            Taken::Free(mut sender) => {
                let sent = Box::pin(sender.try_send_request(message));
                Either::Left(self.answered(sender, sent))
            }
            Taken::Busy | Taken::None => Either::Right(Box::pin(self.send_elsewhere(message))),
        }
    }

    /// Waits for the answer of a request that was handed to a connection which was used before.
    async fn answered<F>(&self, sender: Sender, sent: Pin<Box<F>>) -> Answered
    where
        F: Future<Output = Result<Response<Incoming>, TrySendError<Message>>>,
    {
        let elsewhere = match sent.await {
            Ok(response) => {
                Kept::put(&self.kept, sender);
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

    /// The same as to send, where the first try found nothing.
    async fn send_elsewhere(&self, mut message: Message) -> Answered {
        loop {
            let (mut sender, is_new) = match self.free().await {
                Some(sender) => (sender, false),
                None => (self.open().await?, true),
            };
            match sender.try_send_request(message).await {
                Ok(response) => {
                    Kept::put(&self.kept, sender);
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

    /// A connection that waits for a request.
    async fn free(&self) -> Option<Sender> {
        match self.kept.take() {
            Taken::Free(sender) => Some(sender),
            Taken::None => None,
            // One may have an answer that was read this moment, and be free once its own task had its turn.
            Taken::Busy => {
                yield_now().await;
                match self.kept.take() {
                    Taken::Free(sender) => Some(sender),
                    Taken::None | Taken::Busy => None,
                }
            }
        }
    }

    /// Opens a connection, within a bound that includes the handshake of TLS, and lets it run.
    async fn open(&self) -> Result<Sender, PoolError> {
        let bound = self.connect_timeout;
        let opening = async {
            let mut connector = self.connector.clone();
            poll_fn(|task| connector.poll_ready(task)).await?;
            connector.call(self.to.clone()).await
        };
        let io = match timeout(bound, opening).await {
            Ok(opened) => opened.map_err(|error| PoolError::Connect(error.into()))?,
            Err(_) => {
                return Err(PoolError::Connect(format!("no connection within {bound:?}").into()));
            }
        };
        let (mut sender, connection) =
            self.settings.handshake(io).await.map_err(PoolError::Broken)?;
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
                // Only who opened it still listens.
                let _ = tell.send(error);
            }
        });
        match sender.ready().await {
            Ok(()) => Ok(sender),
            // Its own task knows why.
            Err(error) => Err(PoolError::Broken(told.await.unwrap_or(error))),
        }
    }
}

/// The connections that are kept.
struct Kept {
    state: Mutex<State>,
    bound: usize,
    time: Duration,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    all: Vec<One>,
    /// Closes those whose time is over; there while one is kept.
    reaper: Option<JoinHandle<()>>,
}

struct One {
    sender: Sender,
    since: Instant,
}

/// What there was.
enum Taken {
    Free(Sender),
    /// None that is free, some whose response is still read.
    Busy,
    None,
}

impl Kept {
    fn new(bound: usize, time: Duration) -> Self {
        Self { state: Mutex::default(), bound, time }
    }

    /// The newest that is free; those that are of no use are left out on the way.
    fn take(&self) -> Taken {
        // Senders are dropped after the lock: that wakes the tasks of their connections.
        let mut useless = Vec::new();
        let mut state = self.state();
        let (all, mut taken) = (&mut state.all, Taken::None);
        if all.is_empty() {
            return taken;
        }
        let now = Instant::now();
        for at in (0..all.len()).rev() {
            if all[at].sender.is_closed() || self.is_over(&all[at], now) {
                useless.push(all.remove(at));
            } else if all[at].sender.is_ready() {
                taken = Taken::Free(all.remove(at).sender);
                break;
            } else {
                taken = Taken::Busy;
            }
        }
        drop(state);
        taken
    }

    /// Keeps one, and sees to it that it is closed in time.
    fn put(kept: &Arc<Self>, sender: Sender) {
        if kept.bound == 0 || sender.is_closed() {
            return;
        }
        let mut useless = Vec::new();
        let mut state = kept.state();
        let State { all, reaper } = &mut *state;
        if all.len() >= kept.bound {
            useless.extend(all.extract_if(.., |one| one.sender.is_closed()));
            if all.len() >= kept.bound {
                useless.push(all.remove(0));
            }
        }
        let since = Instant::now();
        all.push(One { sender, since });
        // It may have ended with its runtime.
        if reaper.as_ref().is_none_or(JoinHandle::is_finished)
            && let Some(until) = since.checked_add(kept.time)
        {
            *reaper = Some(tokio::spawn(reap(Arc::downgrade(kept), until)));
        }
        drop(state);
    }

    /// Closes those whose time is over; says when the next one's is, and gives up its office where none is left.
    fn close_old(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state();
        let old = state
            .all
            .extract_if(.., |one| one.sender.is_closed() || self.is_over(one, now))
            .collect::<Vec<_>>();
        let next = state.all.first().and_then(|one| one.since.checked_add(self.time));
        if next.is_none() {
            // Under the lock, so that whoever keeps the next one sees that nobody watches over it.
            state.reaper = None;
        }
        drop(state);
        drop(old);
        next
    }

    fn is_over(&self, one: &One, now: Instant) -> bool {
        now.duration_since(one.since) >= self.time
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pool is gone, and all that it kept.
impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(reaper) = self.state().reaper.take() {
            reaper.abort();
        }
    }
}

/// Closes connections in time, as long as there are some.
async fn reap(kept: Weak<Kept>, mut until: Instant) {
    loop {
        sleep_until(until).await;
        let Some(next) = kept.upgrade().and_then(|kept| kept.close_old()) else { return };
        until = next;
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, not(feature = "tls")))]
mod without_tls {
    use super::*;

    #[test]
    fn https_without_tls_says_what_to_build() {
        let endpoint = Endpoint::parse("https://example.com/mcp").unwrap();
        let error = pool(&endpoint, &HttpClientConfig::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, HttpClientError::NoTls(_)));
        assert!(error.to_string().contains("the feature `tls`"), "{error}");
    }
}
