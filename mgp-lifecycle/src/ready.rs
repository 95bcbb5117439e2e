//! A layer that passes calls on only while a server is connected (MGP §11.2, §14.3: 2000, 2001, 2002).
//!
//! Applies to: inbound and outbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::method::{
    CallbackRespond, HealthPing, HealthStatusGet, Initialize, LifecycleShutdown, PermissionAwait,
    PermissionGrant, PermissionRequest, PermissionResponse, Ping, ServerDiscover, StreamCancel,
    TasksCancel, TasksGet, TasksResult, TasksUpdate,
};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{
    BoxFuture, Call, Deadline, Either, Kind, MgpService, Reply, ServerId, WaitMark,
};
use tokio::time::timeout_at;
use tower_service::Service;

use crate::error::{LifecycleError, restart_follows};
use crate::state::StateHandle;

/// The default maximum number of calls that wait at the same time.
const DEFAULT_MAX_WAITING: usize = 1024;

/// Layer that refuses calls while the server is not connected: with code 2001 (server draining), 2002 (server
/// restarting) or, in all other states, 2000 (server not ready).
///
/// In every state, the handshake is passed on, and so are requests about the server itself and messages that belong to
/// running calls: health, shutdown, cancellation, tasks, answers, notifications. The details of a refusal contain the
/// state, the server's id if it has one, and `started: false`.
///
/// ```
/// use mgp_lifecycle::{ReadyLayer, StateHandle};
/// use mgp_types::mgp::ServerState;
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let state = StateHandle::new(ServerState::Connected);
/// let server = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(ReadyLayer::new(state.clone()).layer(server)));
/// assert!(client.request("tools/call", r#"{"name":"a"}"#).await.is_ok());
///
/// state.enter(ServerState::Draining, "operator_request").unwrap();
/// let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
/// assert_eq!(error.to_string(), "the server is draining and takes no new calls (2001)");
/// assert!(client.request("mgp/health/ping", "{}").await.is_ok());
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct ReadyLayer {
    state: StateHandle,
    server: Option<ServerId>,
    wait: Duration,
    max_waiting: usize,
    waiting: Arc<AtomicUsize>,
    on_timeout: OnTimeout,
    is_lost: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

/// The treatment of a call if the server is not connected in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnTimeout {
    Refuse,
    /// Pass the call on, so that an inner layer refuses it.
    Pass,
}

impl ReadyLayer {
    /// Creates a layer for the server with this state.
    pub fn new(state: StateHandle) -> Self {
        Self {
            state,
            server: None,
            wait: Duration::ZERO,
            max_waiting: DEFAULT_MAX_WAITING,
            waiting: Arc::default(),
            on_timeout: OnTimeout::Refuse,
            is_lost: None,
        }
    }

    /// Sets the server that refusals name if the call itself names none.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.server = Some(id.into());
        self
    }

    /// Sets how long a call waits for a server that is being started or restarted. By default, calls do not wait.
    ///
    /// A call never waits beyond its own deadline.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.wait = at_most;
        self
    }

    /// Sets how many calls can wait at the same time; further calls are refused immediately. Default: 1024.
    pub fn waiting(mut self, at_most: usize) -> Self {
        self.max_waiting = at_most;
        self
    }

    /// Makes the layer pass a call on, instead of refusing it, if the server is not connected in time.
    ///
    /// Use this if the decisions of gates, e.g. about access, must still be valid when the call runs. Put this layer
    /// outside of the gates, so that calls wait before the gates decide. Put a second layer, without a wait, inside of
    /// the gates: it refuses the call, and the gates record the refusal.
    pub fn pass_on_timeout(mut self) -> Self {
        self.on_timeout = OnTimeout::Pass;
        self
    }

    /// Sets a function that detects a lost connection before the state of the server shows the loss; a call then
    /// [waits](Self::wait) as during a restart.
    pub fn lost_if(mut self, is_lost: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_lost = Some(Arc::new(is_lost));
        self
    }

    fn is_lost(&self) -> bool {
        self.is_lost.as_ref().is_some_and(|is_lost| is_lost())
    }

    /// Checks whether the server accepts calls now.
    ///
    /// # Errors
    /// Returns 2000 (server not ready), 2001 (server draining) or 2002 (server restarting), depending on the server's
    /// state.
    pub fn check(&self) -> Result<(), RpcError> {
        if self.state.is_connected() { Ok(()) } else { self.refuse(None) }
    }

    /// Returns the refusal that corresponds to the latest state, or `Ok` if the server has connected meanwhile.
    fn refuse(&self, server: Option<&ServerId>) -> Result<(), RpcError> {
        let (state, reason) = self.state.latest();
        if state == ServerState::Connected {
            return Ok(());
        }
        let follows =
            reason.as_ref().is_some_and(|reason| restart_follows(&ShutdownReason::from(&**reason)));
        let server = server.or(self.server.as_ref()).cloned();
        // A single word is the reason for a stop and not the cause of a failure, so ignore it here.
        let cause = reason.filter(|reason| reason.contains(' '));
        let restarts = match self.state.is_start_pending() {
            // The supervisor decided on the restart before the drain began. The reason of the drain does not show that
            // decision, so use the supervisor's own state.
            Some(is_pending) if state == ServerState::Draining => is_pending,
            _ => follows || cause.is_some(),
        };
        Err(LifecycleError::NotReady { state, server, restarts, cause }.into())
    }

    /// Waits until the server is connected, but not beyond the wait of this layer or the call's deadline. Refuses the
    /// call if the server does not connect by then, or if too many calls wait already.
    async fn admit(&self, call: &mut Call) -> Result<(), RpcError> {
        let waits = match self.state.get() {
            ServerState::Connecting | ServerState::Restarting => true,
            ServerState::Connected => self.is_lost(),
            // The server ended without a failure, and its supervisor will start it again.
            ServerState::Disconnected => self.state.is_start_pending() == Some(true),
            _ => false,
        };
        if self.wait.is_zero() || !waits {
            return self.refuse(call.cx().server.as_ref());
        }
        let Some(_waiting) = WaitGuard::enter(&self.waiting, self.max_waiting) else {
            return self.refuse(call.cx().server.as_ref());
        };
        let mut state = self.state.watch();
        // Only the following states end the wait. The states between a failed start and the next attempt do not end it.
        let settled = state.wait_for(|state| match state {
            ServerState::Connected => !self.is_lost(),
            ServerState::Draining | ServerState::Registered => true,
            ServerState::Disconnected => self.state.is_start_pending() != Some(true),
            ServerState::Error => self.state.is_start_pending() == Some(false),
            _ => false,
        });
        let until = Deadline::after(self.wait).earlier(call.cx().deadline);
        let settled = match until.instant() {
            Some(instant) => timeout_at(instant, settled).await.ok().and_then(Result::ok),
            None => settled.await.ok(),
        };
        if settled.is_some_and(|state| *state == ServerState::Connected) {
            // Mark the call: decisions of outer layers, e.g. about access, may be out of date after the wait.
            WaitMark::mark(call.cx_mut());
            return Ok(());
        }
        self.refuse(call.cx().server.as_ref())
    }
}

mgp_types::opaque_debug!(ReadyLayer { state, server, wait });

mgp_types::layer_service! {
    /// The service that [`ReadyLayer`] creates.
    pub Ready for ReadyLayer
}

impl<S: MgpService> Service<Call> for Ready<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        // Usually the server is connected, so nothing waits and nothing is boxed.
        let waits = !self.layer.wait.is_zero() || self.layer.on_timeout == OnTimeout::Refuse;
        let is_ready = self.layer.state.is_connected() && !self.layer.is_lost();
        if !waits || is_ready || passes_always(&call) {
            return Either::Left { future: self.inner.call(call) };
        }
        let (mut inner, layer) = (self.inner.clone(), self.layer.clone());
        Either::Right {
            future: Box::pin(async move {
                match layer.admit(&mut call).await {
                    Err(refusal) if layer.on_timeout == OnTimeout::Refuse => Err(refusal),
                    _ => inner.call(call).await,
                }
            }),
        }
    }
}

/// A guard that counts a call as waiting until the guard is dropped.
struct WaitGuard<'a>(&'a AtomicUsize);

impl<'a> WaitGuard<'a> {
    fn enter(waiting: &'a AtomicUsize, max: usize) -> Option<Self> {
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let guard = Self(waiting);
        (before < max).then_some(guard)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether a call is passed on in every state: the handshake, notifications, requests about the server, and
/// messages that belong to running calls.
fn passes_always(call: &Call) -> bool {
    call.kind() == Kind::Notification
        // A call with a request state is a further round of a running call, so it passes.
        || call.hop().request_state.is_some()
        || is_handshake(call)
        || call.is::<Ping>()
        || call.is::<HealthPing>()
        || call.is::<HealthStatusGet>()
        || call.is::<LifecycleShutdown>()
        || call.is::<StreamCancel>()
        || call.is::<CallbackRespond>()
        || call.is::<TasksGet>()
        || call.is::<TasksResult>()
        || call.is::<TasksUpdate>()
        || call.is::<TasksCancel>()
}

fn is_handshake(call: &Call) -> bool {
    call.is::<Initialize>()
        || call.is::<ServerDiscover>()
        || call.is::<PermissionRequest>()
        || call.is::<PermissionResponse>()
        || call.is::<PermissionAwait>()
        || call.is::<PermissionGrant>()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use mgp_types::ErrorCode;
    use mgp_types::service::{Stack, mock};
    use tokio::time::{Instant, sleep};

    use tower_layer::Layer;

    use super::*;

    const CALL: (&str, &str) = ("tools/call", r#"{"name":"a"}"#);

    fn gated(layer: &ReadyLayer) -> mock::Client {
        let server = Stack::from_fn(|_| async { Ok(Reply::empty()) });
        mock::client(Stack::new(layer.layer(server)))
    }

    #[track_caller]
    fn refusal(layer: &ReadyLayer) -> RpcError {
        layer.check().unwrap_err()
    }

    #[test]
    fn each_state_has_its_refusal() {
        use ServerState::{Connecting, Disconnected, Draining, Error, Registered, Restarting};
        for (state, code) in [
            (Registered, ErrorCode::SERVER_NOT_READY),
            (Connecting, ErrorCode::SERVER_NOT_READY),
            (Disconnected, ErrorCode::SERVER_NOT_READY),
            (Error, ErrorCode::SERVER_NOT_READY),
            (Restarting, ErrorCode::SERVER_RESTARTING),
            (Draining, ErrorCode::SERVER_DRAINING),
        ] {
            let error = refusal(&ReadyLayer::new(StateHandle::new(state.clone())).server("files"));
            assert_eq!(error.code(), code, "{state}");
            let text = serde_json::to_string(&error).unwrap();
            let details =
                format!(r#""details":{{"started":false,"state":"{state}","server_id":"files"}}"#);
            assert!(text.contains(&details), "{text}");
            assert_eq!(error.as_recovery().unwrap().is_retryable(), state != Draining, "{state}");
        }
        assert!(ReadyLayer::new(StateHandle::new(ServerState::Connected)).check().is_ok());
    }

    #[test]
    fn a_refusal_while_draining_is_retryable_only_if_a_restart_follows() {
        for (reason, retryable) in [
            ("operator_request", false),
            ("idle_timeout", false),
            ("kernel_shutdown", false),
            ("configuration_change", true),
            ("resource_limit", true),
            ("unhealthy: its database is gone", true),
        ] {
            let state = StateHandle::new(ServerState::Connected);
            state.enter(ServerState::Draining, reason).unwrap();
            let error = refusal(&ReadyLayer::new(state));
            let hints = error.as_recovery().unwrap();
            assert_eq!(hints.is_retryable(), retryable, "{reason}");
            assert_eq!(hints.retry_after_ms, retryable.then_some(1000), "{reason}");
            assert_eq!(hints.max_retries, retryable.then_some(5), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_call_that_starts_no_work_passes_in_every_state() {
        let state = StateHandle::new(ServerState::Connecting);
        let mut client = gated(&ReadyLayer::new(state));
        for method in ["initialize", "ping", "mgp/health/ping", "mgp/lifecycle/shutdown"] {
            assert!(client.request(method, "{}").await.is_ok(), "{method}");
        }
        assert!(client.notify("notifications/cancelled", "{}").await.is_ok());
        for method in ["tools/list", "resources/read", "prompts/get"] {
            assert!(client.request(method, "{}").await.is_err(), "{method}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_start_and_no_longer_than_it_may() {
        let state = StateHandle::new(ServerState::Connecting);
        let layer = ReadyLayer::new(state.clone()).wait(Duration::from_secs(2));
        let mut client = gated(&layer);
        let waiting = tokio::spawn(client.call(CALL.0, CALL.1));
        sleep(Duration::from_secs(1)).await;
        state.enter(ServerState::Connected, "ready").unwrap();
        assert!(waiting.await.unwrap().is_ok());

        let state = StateHandle::new(ServerState::Restarting);
        let layer = ReadyLayer::new(state.clone()).wait(Duration::from_secs(2));
        let before = Instant::now();
        let error = gated(&layer).request(CALL.0, CALL.1).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::SERVER_RESTARTING);
        assert_eq!(before.elapsed(), Duration::from_secs(2));

        // The deadline of the caller is earlier than the end of the wait, so the call is refused at the deadline.
        let mut client = gated(&layer);
        client.cx.deadline = Deadline::after(Duration::from_millis(300));
        let before = Instant::now();
        assert!(client.request(CALL.0, CALL.1).await.is_err());
        assert_eq!(before.elapsed(), Duration::from_millis(300));
        assert_eq!(layer.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_if_the_connection_is_lost_before_the_state_shows_that() {
        let state = StateHandle::new(ServerState::Connected);
        let is_lost = Arc::new(AtomicBool::new(true));
        let lost = Arc::clone(&is_lost);
        let layer = ReadyLayer::new(state.clone())
            .wait(Duration::from_secs(2))
            .lost_if(move || lost.load(Ordering::Relaxed));
        let mut client = gated(&layer);
        let waiting = tokio::spawn(client.call(CALL.0, CALL.1));
        sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        state.enter(ServerState::Error, "it crashed").unwrap();
        state.enter(ServerState::Restarting, "it crashed").unwrap();
        is_lost.store(false, Ordering::Relaxed);
        state.enter(ServerState::Connected, "ready").unwrap();
        assert!(waiting.await.unwrap().is_ok());

        // The supervisor will not start the server again, so the waiting call is refused once the state is `error`.
        is_lost.store(true, Ordering::Relaxed);
        let (waiting, before) = (tokio::spawn(client.call(CALL.0, CALL.1)), Instant::now());
        sleep(Duration::from_secs(1)).await;
        state.set_start_pending(false);
        state.enter(ServerState::Error, "it crashed").unwrap();
        assert_eq!(waiting.await.unwrap().unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
        assert_eq!(before.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_server_that_is_started_again_after_an_orderly_end() {
        let state = StateHandle::new(ServerState::Disconnected);
        state.set_start_pending(true);
        let layer = ReadyLayer::new(state.clone()).wait(Duration::from_secs(2));
        let mut client = gated(&layer);
        let waiting = tokio::spawn(client.call(CALL.0, CALL.1));
        sleep(Duration::from_secs(1)).await;
        state.enter(ServerState::Connecting, "restart").unwrap();
        state.enter(ServerState::Connected, "ready").unwrap();
        assert!(waiting.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_that_only_waits_refuses_nothing() {
        let state = StateHandle::new(ServerState::Restarting);
        let layer = ReadyLayer::new(state).wait(Duration::from_secs(2)).pass_on_timeout();
        let before = Instant::now();
        assert!(gated(&layer).request(CALL.0, CALL.1).await.is_ok());
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        let stopped = ReadyLayer::new(StateHandle::new(ServerState::Disconnected));
        let layer = stopped.wait(Duration::from_secs(2)).pass_on_timeout();
        assert!(gated(&layer).request(CALL.0, CALL.1).await.is_ok());
        assert_eq!(before.elapsed(), Duration::from_secs(2), "a stopped server is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn no_call_waits_for_a_stopped_server_or_when_too_many_wait() {
        for state in [ServerState::Registered, ServerState::Disconnected, ServerState::Error] {
            let layer = ReadyLayer::new(StateHandle::new(state)).wait(Duration::from_secs(9));
            let before = Instant::now();
            assert!(gated(&layer).request(CALL.0, CALL.1).await.is_err());
            assert!(before.elapsed().is_zero());
        }
        let state = StateHandle::new(ServerState::Connecting);
        let layer = ReadyLayer::new(state.clone()).wait(Duration::from_secs(9)).waiting(1);
        let mut client = gated(&layer);
        let first = tokio::spawn(client.call(CALL.0, CALL.1));
        tokio::task::yield_now().await;
        let before = Instant::now();
        assert!(client.request(CALL.0, CALL.1).await.is_err());
        // An operator stopped the start, so the calls that wait for it fail immediately.
        state.enter(ServerState::Disconnected, "operator_request").unwrap();
        assert!(first.await.unwrap().is_err());
        assert!(before.elapsed().is_zero());
        assert_eq!(layer.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_no_longer_counts_as_waiting() {
        let layer = ReadyLayer::new(StateHandle::new(ServerState::Connecting)).wait(Duration::MAX);
        let call = tokio::spawn(gated(&layer).call(CALL.0, CALL.1));
        tokio::task::yield_now().await;
        assert_eq!(layer.waiting.load(Ordering::Relaxed), 1);
        call.abort();
        assert!(call.await.is_err());
        assert_eq!(layer.waiting.load(Ordering::Relaxed), 0);
    }
}
