//! What the handle, the runner and every request of one connection share.
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderMap, Method, StatusCode};
use mgp_types::RpcError;
use mgp_types::mcp::InitializeResult;
use mgp_types::method::{Initialized, Notification as _};
use mgp_types::service::{
    BoxFuture, Context, OutMeta, Params, Peer, Principal, Reply, Scope, ScopeKind, Stack, closed,
    write_call,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::again::Again;
use super::error::Fault;
use super::fresh::Fresh;
use super::headers::{SESSION, posting};
use super::link::HttpLink;
use super::session::{Lease, Opened, Session};
use super::wire::{Wire, drain};
use crate::connection::{Counters, Limits, SendHalf};

/// How many pieces of work may wait for the runner.
const JOBS: usize = 4096;
/// How many such pieces that somebody else decides the number of: requests of the server, drops of ours.
pub(super) const WORKS: usize = 1024;

pub(super) struct Core {
    pub(super) wire: Wire,
    pub(super) stack: Stack,
    pub(super) limits: Limits,
    /// Only its mark of being closed is used of the outbox: nothing is queued here.
    pub(super) send_half: Arc<SendHalf>,
    pub(super) counters: Arc<Counters>,
    pub(super) session: Session,
    pub(super) permits: Arc<Semaphore>,
    pub(super) closing: Notify,
    pub(super) scope: Scope,
    pub(super) principal: Principal,
    jobs: mpsc::Sender<Job>,
    works: AtomicUsize,
}

/// Where a message belongs that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It stands alone: the modern era.
    Nowhere,
    /// Into the session there is; into another one if that is gone.
    AnySession,
    /// It speaks of something in this session, and of nothing in another.
    ThisSession(Lease),
}

/// What the runner does for others.
pub(super) enum Job {
    /// Runs to its end.
    Work(BoxFuture<'static, ()>),
    /// The handler of a notification: one after another.
    Notice(usize, BoxFuture<'static, Result<Reply, RpcError>>),
    /// Reads what belongs to no request, in the session as it is now; says when it is known whether that can be read.
    Listen(oneshot::Sender<()>),
}

/// How long the first call of a session waits for the stream of the session.
///
/// Some servers send it only once there is something to say.
const LISTENS: Duration = Duration::from_millis(500);

/// How many things a new session is asked at once.
const WISHES: usize = 8;

impl Core {
    pub(super) fn new(
        wire: Wire,
        stack: Stack,
        principal: Principal,
        limits: Limits,
    ) -> (Arc<Self>, mpsc::Receiver<Job>) {
        let (jobs, queue) = mpsc::channel(JOBS);
        let core = Self {
            permits: Arc::new(Semaphore::new(
                wire.config.requests.clamp(1, Semaphore::MAX_PERMITS),
            )),
            send_half: Arc::new(SendHalf::new(&limits)),
            wire,
            stack,
            limits,
            counters: Arc::default(),
            session: Session::default(),
            closing: Notify::new(),
            scope: Scope::new(ScopeKind::Session),
            principal,
            jobs,
            works: AtomicUsize::new(0),
        };
        (Arc::new(core), queue)
    }

    pub(super) fn peer(self: &Arc<Self>) -> Peer {
        Peer::new(Arc::new(HttpLink(Arc::clone(self))))
    }

    pub(super) fn context(self: &Arc<Self>) -> Context {
        Context::new(self.peer(), self.scope.clone(), self.principal.clone())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.send_half.outbox.is_closed()
    }

    // === Work for the runner ===

    /// Hands work to the runner; `false` when it has too much, or is gone.
    pub(super) fn give(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) -> bool {
        if self.works.fetch_add(1, Ordering::Relaxed) >= WORKS {
            self.works.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let own = Taken(Arc::clone(self));
        self.job(Job::Work(Box::pin(async move {
            let _own = own;
            work.await;
        })))
    }

    pub(super) fn job(&self, job: Job) -> bool {
        self.jobs.try_send(job).is_ok()
    }

    /// Begins to read what belongs to no request, and waits until the server has heard of it.
    ///
    /// A server may ask there in the middle of the first call, and many a one asks nobody where nobody listens.
    pub(super) async fn listen(&self) {
        let (opened, known) = oneshot::channel();
        if self.job(Job::Listen(opened)) {
            // Whatever becomes of it, calls go on.
            let _ = timeout(LISTENS, known).await;
        }
    }

    // === Messages that are no requests ===

    /// POSTs a message that is not answered.
    pub(super) async fn post(
        self: &Arc<Self>,
        headers: HeaderMap,
        body: Bytes,
        place: Place,
    ) -> Result<(), RpcError> {
        let bound = self.wire.config.message_timeout;
        let posting = async {
            let mut is_renewed = false;
            loop {
                let mut headers = headers.clone();
                let lease = match place {
                    Place::Nowhere => None,
                    Place::AnySession => Some(self.session.stamp(&mut headers)),
                    Place::ThisSession(lease) => {
                        if !self.session.stamp_in(lease, &mut headers) {
                            let why = "and the message speaks of something in it".to_owned();
                            return Err(Fault::Session(why).into());
                        }
                        Some(lease)
                    }
                };
                let made = || headers.clone();
                let response = self.wire.send(&Method::POST, &made, &body, Again::Never).await?;
                let status = response.status();
                match lease {
                    Some(lease)
                        if place == Place::AnySession && is_gone(status, lease) && !is_renewed =>
                    {
                        is_renewed = true;
                        drain(response.into_body()).await;
                        self.renew(lease).await?;
                    }
                    _ if status.is_success() => {
                        drain(response.into_body()).await;
                        return Ok(());
                    }
                    _ => {
                        let (head, body) = response.into_parts();
                        return Err(self.wire.read_refusal(status, &head.headers, body).await);
                    }
                }
            }
        };
        match timeout(bound, posting).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Fault::Late { what: "a message", bound }.into()),
        }
    }

    // === The session ===

    /// Opens the session anew, unless somebody did so since the lease.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the old session, and ends a new one that was half opened; whoever needs one tries again.
    pub(super) fn renew(self: &Arc<Self>, lost: Lease) -> BoxFuture<'static, Result<(), RpcError>> {
        // A boxed future, because a handshake is a request, and a request may need a handshake.
        Box::pin(Arc::clone(self).renewed(lost))
    }

    async fn renewed(self: Arc<Self>, lost: Lease) -> Result<(), RpcError> {
        let _turn = self.session.renewing.lock().await;
        if !self.session.is_over(lost) {
            let Some(opening) = self.session.opening() else {
                return Err(Fault::Session("and there is no handshake to repeat".into()).into());
            };
            tracing::debug!(server = %self.wire.endpoint, "the session is gone: opening another");
            let asking = Arc::clone(&self).ask(opening.clone());
            let (reply, told) = asking.await.map_err(|error| {
                RpcError::from(Fault::Session(format!("and refuses another: {}", error.message())))
                    .because(error)
            })?;
            let fresh = Fresh::new(&self, opened(&reply, told.as_deref()));
            let mut headers = posting();
            if let Some(opened) = fresh.opened() {
                if opened.revision != self.session.revision() && !self.is_closed() {
                    let why = "and now speaks another revision: connect again".to_owned();
                    return Err(Fault::Session(why).into());
                }
                opened.stamp(&mut headers);
            }
            // Told before anybody else uses it.
            let (made, told) = (|| headers.clone(), initialized());
            let told = self.wire.send(&Method::POST, &made, &told, Again::Never).await?;
            let status = told.status();
            drain(told.into_body()).await;
            if !status.is_success() {
                return Err(Fault::Session(format!("and refuses another (HTTP {status})")).into());
            }
            fresh.begin(opening)?;
            // Handed over before anything is waited for: whoever renews may stop waiting.
            let repeated = self.repeat_wishes();
            self.listen().await;
            // Whatever becomes of it, calls go on.
            let _ = timeout(LISTENS, repeated).await;
        }
        Ok(())
    }

    /// Asks a new session for what the one before was asked to do; says when that is done.
    fn repeat_wishes(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (done, repeated) = oneshot::channel();
        let (core, wishes) = (Arc::clone(self), self.session.wishes());
        self.give(async move {
            let bound = core.wire.config.message_timeout;
            let asking = wishes.into_iter().map(|wish| {
                let method = wish.method().clone();
                let asking = timeout(bound, Arc::clone(&core).ask(wish));
                async move {
                    match asking.await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => tracing::warn!(%method, %error, "the new session does not do what the old one did"),
                        Err(_) => tracing::warn!(%method, "the new session does not say whether it does what the old one did"),
                    }
                }
            });
            stream::iter(asking).for_each_concurrent(WISHES, |asking| asking).await;
            let _ = done.send(());
        });
        repeated
    }

    /// Tells the server that the session ends, as far as it wants to know.
    pub(super) async fn leave(&self) {
        if let Some(headers) = self.session.close() {
            self.tell_end(headers).await;
        }
    }

    /// The same, where nobody waits for it: on a runtime, as long as that runs.
    pub(super) fn leave_behind(self: &Arc<Self>, runtime: &Handle) {
        if let Some(headers) = self.session.close() {
            let core = Arc::clone(self);
            runtime.spawn(async move { core.tell_end(headers).await });
        }
    }

    pub(super) async fn tell_end(&self, headers: HeaderMap) {
        let ending = async {
            let made = || headers.clone();
            match self.wire.send(&Method::DELETE, &made, &Bytes::new(), Again::Once).await {
                // 405: the server ends its sessions itself.
                Ok(response) => drain(response.into_body()).await,
                Err(error) => tracing::debug!(%error, "the end of the session was not told"),
            }
        };
        // Nobody waits long for a server that is to be left.
        let _ = timeout(self.limits.linger, ending).await;
    }

    /// Fails what waits; once more is nothing.
    pub(super) fn end(&self) {
        self.send_half.outbox.close();
        self.send_half.pending.close("the connection ended");
        self.session.close();
        self.scope.end();
    }
}

/// Whether a status says that the session is gone.
pub(super) fn is_gone(status: StatusCode, lease: Lease) -> bool {
    status == StatusCode::NOT_FOUND && lease.is_named
}

/// What an answer to `initialize` says about the session.
pub(super) fn opened(reply: &Reply, headers: Option<&HeaderMap>) -> Opened {
    let result: Option<InitializeResult> = reply.get().ok();
    let revision = result.and_then(|result| result.protocol_version.to_string().parse().ok());
    let id = headers.and_then(|headers| headers.get(SESSION)).filter(|id| {
        let bytes = id.as_bytes();
        !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
    });
    Opened { id: id.cloned(), revision }
}

fn initialized() -> Bytes {
    let mut text = Vec::new();
    let params = Params::none();
    write_call(&mut text, None, Initialized::METHOD, &params, &OutMeta::nothing());
    text.into()
}

/// The error of a call whose connection is closed.
pub(super) fn gone() -> RpcError {
    closed("the connection was closed on this side")
}

/// Gives its place back when the work is done or dropped.
struct Taken(Arc<Core>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.works.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Initialize, Request as _};
    use mgp_types::service::{Call, Method, Router};

    use super::*;
    use crate::http::{Endpoint, HttpClientConfig};

    #[test]
    fn a_session_that_was_opened_after_the_end_kept_its_connection_for_ever() {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/mcp").unwrap();
        let wire = Wire::new(endpoint, HttpClientConfig::default()).unwrap();
        let stack = Stack::new(Router::new());
        let (core, _jobs) = Core::new(wire, stack, Principal::local(), Limits::default());
        let opening = |core: &Arc<Core>| {
            let method = Method::from_static(Initialize::METHOD);
            Call::request(method, Params::none(), core.context())
        };
        let unnamed = || Opened { id: None, revision: None };
        Fresh::new(&core, unnamed()).begin(opening(&core)).unwrap();
        core.end();
        Fresh::new(&core, unnamed()).begin(opening(&core)).unwrap_err();
        let left = Arc::downgrade(&core);
        drop(core);
        assert!(left.upgrade().is_none(), "the call that opened it holds it");
    }
}
