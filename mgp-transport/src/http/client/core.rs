//! State and operations shared by the link, the runner and every request of one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::{HeaderMap, Method, StatusCode};
use mgp_types::mcp::InitializeResult;
use mgp_types::method::{
    Initialized, Notification as _, PromptsListChanged, ResourcesListChanged, ToolsListChanged,
};
use mgp_types::service::{
    BoxFuture, Context, HopMembers, Method as RpcMethod, Params, Peer, Principal, Reply, Scope,
    ScopeKind, Stack, connection_closed, write_call,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::broken_connection::ResendPolicy;
use super::dispatch::MessageSource;
use super::error::Fault;
use super::headers::{SESSION, post_headers};
use super::link::HttpLink;
use super::permits::Permits;
use super::sender::{HttpSender, drain};
use super::session::{Session, SessionGuard, SessionHeaders, SessionRef};
use crate::connection::{Counters, Limits, SendHalf};

/// The maximum number of background tasks that have no limit of their own, e.g. of cancellations of the client's
/// requests.
pub(super) const MAX_TASKS: usize = 1024;

pub(super) struct Core {
    pub(super) sender: HttpSender,
    pub(super) stack: Stack,
    pub(super) limits: Limits,
    /// The state that link and peers share. Of its outbox only the closed flag is used, because over HTTP nothing is
    /// queued there.
    pub(super) send_half: Arc<SendHalf>,
    pub(super) counters: Arc<Counters>,
    pub(super) session: Session,
    /// The permits of the client's requests.
    pub(super) permits: Arc<Permits>,
    /// The permits of the server's requests.
    pub(super) server_permits: Arc<Permits>,
    pub(super) closing: Notify,
    pub(super) scope: Scope,
    pub(super) principal: Principal,
    /// The queue of the runner, whose notifications and tasks have limits of their own.
    jobs: mpsc::UnboundedSender<Job>,
    tasks: AtomicUsize,
    /// The time of the last report that all lists changed or, if it is in the future, of the report that is due then.
    lists_reported: Mutex<Option<Instant>>,
}

/// The session in which a message that expects no answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionBinding {
    /// No session, because the server is of the modern era.
    None,
    /// The current session, or a new session if the server has lost the current session.
    Current,
    /// Only this session, because the message refers to something in it.
    Only(SessionRef),
}

/// A job for the runner.
pub(super) enum Job {
    /// Runs a background task to its end.
    Task(BoxFuture<'static, ()>),
    /// Runs the handler of a notification; the handlers of notifications run one after another.
    Notification(usize, BoxFuture<'static, Result<Reply, RpcError>>),
    /// Reads the current session's GET stream; notifies the channel when the server has answered
    /// the request for the stream.
    Listen(oneshot::Sender<()>),
}

/// The time for which the first call of a session waits for the session's GET stream.
///
/// The wait is limited, because some servers answer the request for the stream only when they send the first event.
const LISTEN_TIMEOUT: Duration = Duration::from_millis(500);

/// The minimum time between two reports that all lists changed. After a report, the client may request the lists.
/// Without this limit, it would request them without end from a server that loses each session.
const LISTS_REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// The maximum number of requests that are replayed at the same time in a new session.
const MAX_CONCURRENT_REPLAYS: usize = 8;

impl Core {
    pub(super) fn new(
        sender: HttpSender,
        stack: Stack,
        principal: Principal,
        limits: Limits,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Job>) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let counters = Arc::<Counters>::default();
        counters.back_channel.set_unknown();
        let core = Self {
            permits: Permits::new(sender.config.requests.max(1)),
            server_permits: Permits::new(sender.config.server_requests),
            send_half: Arc::new(SendHalf::new(&limits)),
            sender,
            stack,
            limits,
            counters,
            session: Session::default(),
            closing: Notify::new(),
            scope: Scope::new(ScopeKind::Session),
            principal,
            jobs,
            tasks: AtomicUsize::new(0),
            lists_reported: Mutex::default(),
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

    /// Runs a background task on the runner; returns `false` if too many tasks run, or the runner has ended.
    pub(super) fn spawn_task(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        if self.tasks.fetch_add(1, Ordering::Relaxed) >= MAX_TASKS {
            self.tasks.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let own = TaskGuard(Arc::clone(self));
        self.spawn_unlimited(async move {
            let _own = own;
            work.await;
        })
    }

    /// Like [`spawn_task`](Self::spawn_task), for tasks whose number the caller limits.
    pub(super) fn spawn_unlimited(&self, work: impl Future<Output = ()> + Send + 'static) -> bool {
        self.send_job(Job::Task(Box::pin(work)))
    }

    pub(super) fn send_job(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }

    /// Opens the session's GET stream, and waits up to [`LISTEN_TIMEOUT`] for the server's answer.
    ///
    /// A server can send requests on that stream during the first call, and many servers cannot send them before the
    /// client reads the stream.
    pub(super) async fn listen(&self) {
        let (opened, known) = oneshot::channel();
        if self.send_job(Job::Listen(opened)) {
            // After a timeout, calls are sent without waiting for the stream.
            let _ = timeout(LISTEN_TIMEOUT, known).await;
        }
    }

    // === Messages without an answer ===

    /// Sends a message that gets no answer, as a POST.
    pub(super) async fn post(
        self: &Arc<Self>,
        headers: HeaderMap,
        body: Bytes,
        session: SessionBinding,
    ) -> Result<(), RpcError> {
        let bound = self.sender.config.message_timeout;
        let exchange = async {
            let mut is_renewed = false;
            loop {
                let mut headers = headers.clone();
                let session_ref = match session {
                    SessionBinding::None => None,
                    SessionBinding::Current => Some(self.session.insert_headers(&mut headers)),
                    SessionBinding::Only(session_ref) => {
                        if !self.session.insert_headers_of(session_ref, &mut headers) {
                            let why = "and the message refers to something in it".to_owned();
                            return Err(Fault::Session(why).into());
                        }
                        Some(session_ref)
                    }
                };
                let make_headers = || headers.clone();
                let response = self
                    .sender
                    .send(&Method::POST, &make_headers, &body, ResendPolicy::Never)
                    .await?;
                if response.status().is_success() {
                    drain(response.into_body()).await;
                    return Ok(());
                }
                let (head, body) = response.into_parts();
                let refusal = self.sender.read_refusal(head.status, &head.headers, body).await;
                let lost = session_ref.filter(|session_ref| {
                    session == SessionBinding::Current
                        && !is_renewed
                        && is_session_lost(head.status, &refusal, *session_ref)
                });
                let Some(lost) = lost else { return Err(refusal) };
                is_renewed = true;
                self.renew(lost).await?;
            }
        };
        match timeout(bound, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Fault::Timeout { what: "a message", bound }.into()),
        }
    }

    // === The session ===

    /// Replaces a lost session by a new session, unless another request has already done so.
    ///
    /// # Cancel safety
    /// Dropping the future keeps the lost session as the current session, and ends a new session whose handshake is
    /// incomplete; the next request tries again.
    pub(super) fn renew(
        self: &Arc<Self>,
        lost: SessionRef,
    ) -> BoxFuture<'static, Result<(), RpcError>> {
        // The future is boxed, because its type is recursive: a handshake is a request, and a request can need a
        // handshake.
        Box::pin(Arc::clone(self).reopen(lost))
    }

    async fn reopen(self: Arc<Self>, lost: SessionRef) -> Result<(), RpcError> {
        let _turn = self.session.renewing.lock().await;
        if !self.session.is_replaced(lost) {
            let Some(opening) = self.session.handshake() else {
                return Err(Fault::Session("and there is no handshake to repeat".into()).into());
            };
            tracing::debug!(server = %self.sender.endpoint, "session lost: opening a new one");
            let asking = Arc::clone(&self).send_request(opening.clone());
            let (reply, response_headers) = asking.await.map_err(|error| {
                RpcError::from(Fault::Session(format!(
                    "and refused a new one: {}",
                    error.message()
                )))
                .because(error)
            })?;
            let guard =
                SessionGuard::new(&self, session_headers(&reply, response_headers.as_deref()));
            let mut headers = post_headers();
            if let Some(new) = guard.headers() {
                if new.revision != self.session.revision() && !self.is_closed() {
                    let why = "and now uses another revision; connect again".to_owned();
                    return Err(Fault::Session(why).into());
                }
                new.insert_headers(&mut headers);
            }
            // `initialized` must be the first message of the new session, so send it before other requests can use the
            // session.
            let (make_headers, body) = (|| headers.clone(), initialized());
            let response =
                self.sender.send(&Method::POST, &make_headers, &body, ResendPolicy::Never).await?;
            let status = response.status();
            drain(response.into_body()).await;
            if !status.is_success() {
                return Err(Fault::Session(format!("and refused a new one (HTTP {status})")).into());
            }
            guard.start(opening)?;
            self.report_lists_changed();
            // Start the replay before the next `await`, because this future might be dropped there.
            let repeated = self.replay_settings();
            self.listen().await;
            // After a timeout, calls are sent nevertheless; the replay continues in the background.
            let _ = timeout(LISTEN_TIMEOUT, repeated).await;
        }
        Ok(())
    }

    /// Reports all lists as changed, because no notifications were received between the sessions, and the new session
    /// may be with another version of the server. A report that follows an earlier report too soon is delayed.
    fn report_lists_changed(self: &Arc<Self>) {
        let now = Instant::now();
        let mut reported = self.lists_reported.lock();
        let due = match *reported {
            Some(next) if next > now => return,
            Some(last) => now.max(last + LISTS_REPORT_INTERVAL),
            None => now,
        };
        *reported = Some(due);
        drop(reported);
        if due <= now {
            return self.notify_lists_changed();
        }
        let core = Arc::clone(self);
        self.spawn_unlimited(async move {
            sleep_until(due).await;
            core.notify_lists_changed();
        });
    }

    /// Passes a notification of a change for each list to the inbound stack, as if the server had sent it.
    fn notify_lists_changed(self: &Arc<Self>) {
        let from = MessageSource::Session(self.session.session_ref());
        for method in
            [ToolsListChanged::METHOD, PromptsListChanged::METHOD, ResourcesListChanged::METHOD]
        {
            self.notification(RpcMethod::from_static(method), Params::none(), 0, from);
        }
    }

    /// Replays the settings of the previous session in the new session; the returned channel is notified when that is
    /// done.
    fn replay_settings(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let (done, repeated) = oneshot::channel();
        let (core, settings) = (Arc::clone(self), self.session.settings());
        self.spawn_task(async move {
            let bound = core.sender.config.message_timeout;
            let asking = settings.into_iter().map(|request| {
                let method = request.method().clone();
                let asking = timeout(bound, Arc::clone(&core).send_request(request));
                async move {
                    match asking.await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => tracing::warn!(%method, %error, "a setting of the old session was refused in the new one"),
                        Err(_) => tracing::warn!(%method, "timeout: a setting of the old session got no answer in the new one"),
                    }
                }
            });
            stream::iter(asking).for_each_concurrent(MAX_CONCURRENT_REPLAYS, |asking| asking).await;
            let _ = done.send(());
        });
        repeated
    }

    /// Ends the session at the server, if it has an id.
    pub(super) async fn end_session(&self) {
        if let Some(headers) = self.session.close() {
            self.delete_session(headers).await;
        }
    }

    /// Ends the session at the server in the background, on the given runtime.
    pub(super) fn end_session_on(self: &Arc<Self>, runtime: &Handle) {
        if let Some(headers) = self.session.close() {
            let core = Arc::clone(self);
            runtime.spawn(async move { core.delete_session(headers).await });
        }
    }

    pub(super) async fn delete_session(&self, headers: HeaderMap) {
        let ending = async {
            let make_headers = || headers.clone();
            match self
                .sender
                .send(&Method::DELETE, &make_headers, &Bytes::new(), ResendPolicy::Once)
                .await
            {
                // Status 405 is not an error here: it means that the server ends its sessions by itself.
                Ok(response) => drain(response.into_body()).await,
                Err(error) => tracing::debug!(%error, "ending the session at the server failed"),
            }
        };
        // The wait is limited, because the caller is about to leave the server anyway.
        let _ = timeout(self.limits.linger_timeout, ending).await;
    }

    /// Fails the waiting requests, and ends the scope and the session. The session ends on this side only: the server
    /// is not notified. A second call does nothing.
    pub(super) fn end(&self) {
        self.send_half.outbox.close();
        self.send_half.pending.close("the connection ended");
        self.session.close();
        self.scope.end();
    }
}

/// Returns whether a refusal means that a session with an id is lost: status 404, unless only the method is unknown, or
/// status 400 with an error about the session.
///
/// Servers built with the official SDKs usually answer with 400 after a restart.
pub(super) fn is_session_lost(
    status: StatusCode,
    refusal: &RpcError,
    session_ref: SessionRef,
) -> bool {
    let names_session = || {
        refusal.code() != ErrorCode::INVALID_PARAMS
            && refusal.message().to_ascii_lowercase().contains("session")
    };
    session_ref.has_id
        && match status {
            StatusCode::NOT_FOUND => refusal.code() != ErrorCode::METHOD_NOT_FOUND,
            StatusCode::BAD_REQUEST => names_session(),
            _ => false,
        }
}

/// Returns the session headers of an answer to `initialize`.
pub(super) fn session_headers(reply: &Reply, headers: Option<&HeaderMap>) -> SessionHeaders {
    let result: Option<InitializeResult> = reply.get().ok();
    let revision = result.and_then(|result| result.protocol_version.to_string().parse().ok());
    let id = headers.and_then(|headers| headers.get(SESSION)).filter(|id| {
        let bytes = id.as_bytes();
        !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
    });
    SessionHeaders { id: id.cloned(), revision }
}

fn initialized() -> Bytes {
    let mut text = Vec::new();
    let params = Params::none();
    write_call(&mut text, None, Initialized::METHOD, &params, &HopMembers::new());
    text.into()
}

/// Creates the error for a call on a connection that this side has closed.
pub(super) fn closed_here() -> RpcError {
    connection_closed("the connection was closed on this side")
}

/// Guard that counts a background task.
struct TaskGuard(Arc<Core>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Initialize, LoggingSetLevel, Request as _};
    use mgp_types::service::{Call, Method, Router};

    use super::super::session_settings::SettingChange;
    use super::*;
    use crate::http::{Endpoint, HttpClientConfig};

    fn core(stack: Stack) -> (Arc<Core>, mpsc::UnboundedReceiver<Job>) {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/mcp").unwrap();
        let sender = HttpSender::new(endpoint, HttpClientConfig::default()).unwrap();
        Core::new(sender, stack, Principal::local(), Limits::default())
    }

    #[test]
    fn nothing_that_is_recorded_after_the_end_keeps_the_connection_alive() {
        let (core, _jobs) = core(Stack::new(Router::new()));
        let opening = |core: &Arc<Core>| {
            let method = Method::from_static(Initialize::METHOD);
            Call::request(method, Params::none(), core.context())
        };
        let without_id = || SessionHeaders { id: None, revision: None };
        SessionGuard::new(&core, without_id()).start(opening(&core)).unwrap();
        core.end();
        SessionGuard::new(&core, without_id()).start(opening(&core)).unwrap_err();
        // A request may have been answered just before the connection ended, so that its setting is recorded after the
        // end. This must not keep the connection alive.
        let method = Method::from_static(LoggingSetLevel::METHOD);
        let request = Call::request(method, Params::none(), core.context());
        core.session.keep(SettingChange::of(&request).unwrap());
        drop(request);
        let left = Arc::downgrade(&core);
        drop(core);
        assert!(left.upgrade().is_none(), "a recorded call keeps it alive");
    }

    /// Regression test: of a burst of more than 4,096 notifications, some were dropped although the limit is higher.
    #[test]
    fn as_many_notifications_wait_as_the_limit_allows() {
        let (core, _jobs) = core(Stack::from_fn(|_| std::future::pending()));
        let most = core.limits.notifications;
        for _ in 0..=most {
            let method = Method::from_static(ToolsListChanged::METHOD);
            core.notification(method, Params::none(), 0, MessageSource::Modern(1));
        }
        let Counters { waiting, dropped, .. } = &*core.counters;
        let counted = (waiting.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed));
        assert_eq!(counted, (most, 1));
    }

    /// Regression test: a request of the server got no answer while this side ran many background tasks.
    #[test]
    fn a_request_of_the_server_runs_beside_too_many_other_tasks() {
        let (core, mut jobs) = core(Stack::new(Router::new()));
        while core.spawn_task(std::future::pending()) {}
        let others: Vec<_> = std::iter::from_fn(|| jobs.try_recv().ok()).collect();
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        core.receive(ping.into(), MessageSource::Request(1, None));
        assert!(matches!(jobs.try_recv(), Ok(Job::Task(_))));
        assert_eq!(others.len(), MAX_TASKS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_loses_each_session_is_not_asked_for_its_lists_without_end() {
        let received = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&received);
        let (core, mut jobs) = core(Stack::from_fn(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(Reply::None))
        }));
        for _ in 0..5 {
            core.report_lists_changed();
        }
        assert_eq!(received.load(Ordering::Relaxed), 3, "one notification for each list");
        let Some(Job::Task(delayed)) = jobs.recv().await else { panic!("nothing is delayed") };
        let began = Instant::now();
        delayed.await;
        assert_eq!(received.load(Ordering::Relaxed), 6);
        assert_eq!(began.elapsed().as_secs(), LISTS_REPORT_INTERVAL.as_secs());
        assert!(jobs.try_recv().is_err(), "one report follows for all lost sessions");
    }
}
