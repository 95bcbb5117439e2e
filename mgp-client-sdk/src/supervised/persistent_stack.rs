//! The outbound stack of a supervised server, which is kept across its connections.
//!
//! A call passes these steps:
//! 1. Trace and, if configured, resume and retry: each attempt of a call passes the steps below.
//! 2. Wait, at most as long as configured, until the server is connected; by default there is no such step.
//! 3. Address: the stack adds the server's id and negotiated properties, which the gates need.
//! 4. The user's gates decide about the call and record it; they are built once, so their state survives a restart.
//! 5. The call is sent on the connection on which it was made, if this is still open, else on the current connection.
//!
//! A call that a gateway forwards passes only the retry of step 1; the gateway's own stack traces it.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context as Task, Poll};
use std::time::Duration;

#[cfg(feature = "http")]
use mgp_lifecycle::Phase;
use mgp_lifecycle::{HandshakeState, ReadyLayer};
use mgp_types::method::{HealthPing, Ping, ServerDiscover, SubscriptionsListen};
use mgp_types::service::{
    BoxFuture, Call, Either, Kind, Peer, PeerInfo, Reply, Scope, ScopeId, ScopeKind, ServerId,
    Stack, connection_closed,
};
use mgp_types::sync::Mutex;
use mgp_types::{RpcError, opaque_debug};
use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::wire::{GatewayStacks, OutboundStack, Repeats, is_answer, spanned};

// === One connection ===

/// A connection of a supervised server; it counts the calls that run on it.
pub(crate) struct ActiveConnection {
    peer: Peer,
    session: Arc<HandshakeState>,
    scope: ScopeId,
    stack: Stack,
    running: AtomicUsize,
    /// The signal that wakes `idle()` when the last running call has ended.
    idle: Notify,
    is_retired: AtomicBool,
    /// `true` if a call ended without an answer, so that the server may still execute it, and the server has answered
    /// nothing since.
    has_given_up: AtomicBool,
}

opaque_debug!(ActiveConnection { peer });

impl ActiveConnection {
    /// Returns the stack for this connection only; it sends calls even before the server counts as ready.
    pub(super) fn direct(&self) -> Stack {
        self.stack.clone()
    }

    /// Returns whether the server has answered the handshake. Decisions about permissions may still delay the end of
    /// the handshake.
    #[cfg(feature = "http")]
    pub(super) fn is_answered(&self) -> bool {
        self.session.phase() != Phase::New
    }

    /// Waits until no calls run on this connection. Pings and streams of changes do not count.
    pub(crate) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if !self.is_in_use() {
                return;
            }
            notified.await;
        }
    }

    /// Returns whether any calls run on this connection, counted as in [`idle`](Self::idle).
    pub(super) fn is_in_use(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Returns whether the server may be executing a call. This includes a call whose caller has given up.
    pub(super) fn may_be_busy(&self) -> bool {
        self.is_in_use() || self.has_given_up.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        self.is_retired.load(Ordering::Acquire) || self.peer.is_closed()
    }

    fn send(self: Arc<Self>, mut call: Call) -> ResponseFuture {
        let is_request = call.kind() == Kind::Request;
        let cx = call.cx_mut();
        cx.peer = self.peer.clone();
        // The gates ran with the properties of the connection that was current at that time. From here on, the
        // properties of the connection that sends the call apply.
        cx.callee = self.session.facts();
        if is_request && cx.callee.supports_mgp() {
            // Create the trace here, so that all attempts of a call, and the questions on its behalf, share it.
            cx.trace_or_new();
        }
        // `server/discover` counts as a ping too, because a health monitor pings modern servers with it.
        let is_ping = call.is::<Ping>() || call.is::<HealthPing>() || call.is::<ServerDiscover>();
        let counts = is_request && !is_ping && !call.is::<SubscriptionsListen>();
        let running = counts.then(|| RunningCall::start(&self));
        let hold = call.cx().extensions.get_shared::<TaskHoldLink>();
        ResponseFuture { sending: self.stack.send(call), connection: self, running, hold }
    }
}

/// A guard that counts a call as running until the guard is dropped.
struct RunningCall {
    connection: Arc<ActiveConnection>,
    is_answered: bool,
}

impl RunningCall {
    fn start(connection: &Arc<ActiveConnection>) -> Self {
        connection.running.fetch_add(1, Ordering::AcqRel);
        Self { connection: Arc::clone(connection), is_answered: false }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.has_given_up.store(true, Ordering::Release);
        }
        if self.connection.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.connection.idle.notify_waiters();
        }
    }
}

/// A guard of a call that may become a task: if it does, its connection counts the call as running until the guard is
/// dropped.
pub(crate) struct TaskHold {
    _running: Arc<Mutex<Option<RunningCall>>>,
}

/// A value in the extensions of a call that leads to the call's [`TaskHold`].
struct TaskHoldLink(Weak<Mutex<Option<RunningCall>>>);

impl TaskHold {
    /// Adds a guard to a call, so that the task that may result from the call counts as running.
    pub(crate) fn add_to(call: &mut Call) -> Self {
        let running = Arc::new(Mutex::default());
        call.cx_mut().extensions.insert(TaskHoldLink(Arc::downgrade(&running)));
        Self { _running: running }
    }
}

impl TaskHoldLink {
    /// Stores `running` in the call's [`TaskHold`], which then counts the call as running; does nothing if the
    /// [`TaskHold`] was dropped already.
    fn keep(&self, running: Option<RunningCall>) {
        if let Some(held) = self.0.upgrade() {
            *held.lock() = running;
        }
    }
}

pin_project! {
    pub(crate) struct ResponseFuture {
        #[pin]
        sending: BoxFuture<'static, Result<Reply, RpcError>>,
        connection: Arc<ActiveConnection>,
        running: Option<RunningCall>,
        hold: Option<Arc<TaskHoldLink>>,
    }
}

impl Future for ResponseFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = std::task::ready!(this.sending.poll(task));
        // Stop counting the call as running now, because this future may be dropped much later. If the call became a
        // task, its guard counts the task from here on.
        let mut running = this.running.take();
        if is_answer(&outcome) {
            this.connection.has_given_up.store(false, Ordering::Release);
            if let Some(running) = &mut running {
                running.is_answered = true;
            }
        }
        if let (Ok(Reply::Task(_)), Some(hold)) = (&outcome, &*this.hold) {
            hold.keep(running);
        }
        Poll::Ready(outcome)
    }
}

// === The current connection ===

/// The connection that receives calls now, if any, and the properties of the server at the latest connection.
#[derive(Default)]
pub(crate) struct CurrentConnection {
    connection: Mutex<Option<Arc<ActiveConnection>>>,
    facts: Mutex<Option<Arc<PeerInfo>>>,
}

impl CurrentConnection {
    /// Makes a connection the current connection, which receives calls.
    pub(crate) fn set(&self, connection: &Arc<ActiveConnection>) {
        *self.facts.lock() = Some(connection.session.facts());
        *self.connection.lock() = Some(Arc::clone(connection));
    }

    /// Stops sending calls to this connection.
    pub(crate) fn retire(&self, connection: &Arc<ActiveConnection>) {
        connection.is_retired.store(true, Ordering::Release);
        self.connection.lock().take_if(|current| Arc::ptr_eq(current, connection));
    }

    pub(super) fn get(&self) -> Option<Arc<ActiveConnection>> {
        self.connection.lock().clone()
    }

    fn is(&self, connection: &Arc<ActiveConnection>) -> bool {
        self.connection.lock().as_ref().is_some_and(|current| Arc::ptr_eq(current, connection))
    }

    fn facts(&self) -> Option<Arc<PeerInfo>> {
        self.facts.lock().clone()
    }

    /// Returns whether the current connection is closed.
    fn is_lost(&self) -> bool {
        self.connection.lock().as_ref().is_some_and(|current| current.peer.is_closed())
    }
}

// === The stack ===

/// The part of the outbound stack that is kept across connections.
#[derive(Clone)]
pub(crate) struct PersistentStack {
    current: Arc<CurrentConnection>,
    server: Option<ServerId>,
    repeats: Repeats,
    /// The layer that lets calls wait until the server is ready; `None` if calls do not wait.
    wait: Option<ReadyLayer>,
    /// The stack for steps 4 and 5 of the module documentation: the user's gates, and then the connection.
    gated: Stack,
    /// The stack for step 5 only, without the user's gates.
    ungated: Stack,
    scope: Arc<PersistentScope>,
}

opaque_debug!(PersistentStack { server });

impl PersistentStack {
    /// Builds the gates; called once for all connections.
    pub(crate) fn new(
        server: Option<ServerId>,
        repeats: Repeats,
        ready: &ReadyLayer,
        max_wait: Duration,
        gates: impl FnOnce(Stack) -> Stack,
    ) -> Self {
        let current = Arc::<CurrentConnection>::default();
        let ungated = Stack::new(ready.layer(SendOnConnection(Arc::clone(&current))));
        let wait = (!max_wait.is_zero()).then(|| {
            let current = Arc::clone(&current);
            let waits = ready.clone().wait(max_wait).pass_on_timeout();
            // A call can notice the loss of the connection before the supervisor does. Check for this, so that a retry
            // of the call waits for the new connection.
            waits.lost_if(move || current.is_lost())
        });
        let gated = gates(ungated.clone());
        Self { current, server, repeats, wait, gated, ungated, scope: Arc::default() }
    }

    pub(crate) fn current(&self) -> &Arc<CurrentConnection> {
        &self.current
    }

    /// Returns the stack that sends calls to the current connection.
    pub(crate) fn stack(&self) -> Stack {
        self.addressed(None)
    }

    /// Returns [`stack`](Self::stack) without the user's gates.
    pub(crate) fn ungated(&self) -> Stack {
        self.without_gates().addressed(None)
    }

    /// Returns the stacks that a gateway uses for calls on the given connection.
    pub(crate) fn of_gateway(&self, connection: &Arc<ActiveConnection>) -> GatewayStacks {
        let connection = || Some(Arc::clone(connection));
        let waiting = self.waiting(connection());
        GatewayStacks {
            ungated: self.without_gates().addressed(connection()),
            forwarding: match self.repeats.retry.clone() {
                Some(retry) => Stack::new(retry.layer(waiting)),
                None => waiting,
            },
        }
    }

    /// Creates the state of a new connection, and a stack that sends to it as long as it is open. Calls of the
    /// supervised client are sent to the new connection only once it is the current connection.
    pub(crate) fn attach(&self, outbound: OutboundStack) -> (Arc<ActiveConnection>, Stack) {
        let connection = Arc::new(ActiveConnection {
            peer: outbound.peer.clone(),
            session: Arc::clone(&outbound.session),
            scope: outbound.scope,
            stack: outbound.behind_gates(),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
            is_retired: AtomicBool::new(false),
            has_given_up: AtomicBool::new(false),
        });
        let stack = self.addressed(Some(Arc::clone(&connection)));
        (connection, stack)
    }

    fn without_gates(&self) -> Self {
        Self { gated: self.ungated.clone(), ..self.clone() }
    }

    fn addressed(&self, connection: Option<Arc<ActiveConnection>>) -> Stack {
        let own = connection.as_ref().map(|connection| connection.scope);
        let stack = spanned(self.repeats.clone(), self.waiting(connection));
        match own {
            Some(own) if self.repeats.is_some() => {
                Stack::new(ClientScope { own, scope: Arc::clone(&self.scope), inner: stack })
            }
            _ => stack,
        }
    }

    fn waiting(&self, connection: Option<Arc<ActiveConnection>>) -> Stack {
        let address = AddressCall { connection, persistent: self.clone() };
        match &self.wait {
            // Wait before the gates. If the call waited after the gates' decision, access could be withdrawn or the
            // server be replaced before the call is sent.
            Some(wait) => Stack::new(wait.layer(address)),
            None => Stack::new(address),
        }
    }
}

/// A scope that outlives single connections.
struct PersistentScope(Scope);

impl Default for PersistentScope {
    fn default() -> Self {
        Self(Scope::new(ScopeKind::Connection))
    }
}

impl Drop for PersistentScope {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A service that moves tool calls from the scope of a connection to the persistent scope. Retries stop when the scope
/// of their call ends, and must not stop when only a connection ends.
#[derive(Clone)]
struct ClientScope {
    own: ScopeId,
    scope: Arc<PersistentScope>,
    inner: Stack,
}

impl Service<Call> for ClientScope {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.tool().is_some() && call.cx().scope.id() == self.own {
            call.cx_mut().scope = self.scope.0.clone();
        }
        self.inner.send(call)
    }
}

/// A service that adds the server's id and properties to a call, because the gates need them. If the call was made on
/// an open connection that is not the current connection, it adds that connection too.
#[derive(Clone)]
struct AddressCall {
    connection: Option<Arc<ActiveConnection>>,
    persistent: PersistentStack,
}

impl Service<Call> for AddressCall {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, mut call: Call) -> Self::Future {
        let current = &self.persistent.current;
        let cx = call.cx_mut();
        if cx.server.is_none() {
            cx.server.clone_from(&self.persistent.server);
        }
        let own = self.connection.as_ref().filter(|connection| !connection.is_over());
        let facts = match own {
            Some(connection) => Some(connection.session.facts()),
            None => current.facts(),
        };
        if let Some(facts) = facts {
            cx.callee = facts;
        }
        // A handshake is sent before its connection is the current connection, so it must be sent on its own
        // connection.
        if let Some(connection) = own.filter(|connection| !current.is(connection)) {
            cx.extensions.insert_shared(Arc::clone(connection));
        }
        if call.kind() == Kind::Request && call.cx().callee.supports_mgp() {
            // Create the trace here, so that the gates record the trace id that the server receives.
            call.cx_mut().trace_or_new();
        }
        self.persistent.gated.send(call)
    }
}

/// The innermost service. Sends a call over the connection on which it was made if that connection is still open, else
/// over the current connection.
#[derive(Clone)]
struct SendOnConnection(Arc<CurrentConnection>);

impl Service<Call> for SendOnConnection {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture, Ready<Result<Reply, RpcError>>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        let own = call.cx().extensions.get_shared::<ActiveConnection>();
        match own.filter(|connection| !connection.is_over()).or_else(|| self.0.get()) {
            Some(connection) => Either::Left { future: connection.send(call) },
            None => {
                Either::Right { future: ready(Err(connection_closed("the server is not running"))) }
            }
        }
    }
}
