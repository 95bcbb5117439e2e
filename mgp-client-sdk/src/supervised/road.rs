//! Which connection a call takes: the one it was made on while that is there, else the present one.
//!
//! Applies to: outbound.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use mgp_lifecycle::{ReadyLayer, RetryLayer, Session};
use mgp_types::RpcError;
use mgp_types::method::SubscriptionsListen;
use mgp_types::service::{
    BoxFuture, Call, Either, Facts, Kind, Peer, Reply, Scope, ScopeId, ScopeKind, ServerId, Stack,
    closed,
};
use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::wire::{Road, spanned};

/// One connection of a supervised server.
pub(crate) struct Line {
    peer: Peer,
    session: Arc<Session>,
    scope: ScopeId,
    /// From the stamp to the peer.
    stack: Stack,
    running: AtomicUsize,
    /// Rung when nothing runs any more.
    idle: Notify,
    is_over: AtomicBool,
}

/// The present connection, and what is remembered of the last one.
#[derive(Default)]
pub(crate) struct Board(Mutex<Posted>);

#[derive(Default)]
struct Posted {
    line: Option<Arc<Line>>,
    /// What the server negotiated when it was last there.
    facts: Option<Arc<Facts>>,
}

/// The part of the stack that outlives connections.
#[derive(Clone)]
pub(crate) struct Trunk {
    board: Arc<Board>,
    server: Option<ServerId>,
    retry: Option<RetryLayer>,
    /// Waits for the server.
    wait: ReadyLayer,
    /// Behind all gates.
    end: Stack,
    gated: Stack,
    scope: Arc<Lasting>,
}

/// A scope that outlives connections.
struct Lasting(Scope);

impl Default for Lasting {
    fn default() -> Self {
        Self(Scope::new(ScopeKind::Connection))
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.end();
    }
}

// === impl Line ===

impl Line {
    /// Waits until no call of this connection runs; streams of changes do not count.
    pub(crate) async fn idle(&self) {
        loop {
            let rung = self.idle.notified();
            if self.running.load(Ordering::Acquire) == 0 {
                return;
            }
            rung.await;
        }
    }

    /// Sends no more calls over it that were not made on it.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.peer.is_closed()
    }

    fn send(self: Arc<Self>, mut call: Call) -> ResponseFuture {
        let is_request = call.kind() == Kind::Request;
        let cx = call.cx_mut();
        cx.peer = self.peer.clone();
        // Gates saw what the connection of that moment negotiated; this one may be a later one.
        cx.callee = self.session.facts();
        if is_request && cx.callee.speaks_mgp() {
            // All attempts of a call, and what is asked on its behalf, have one trace.
            cx.trace_or_new();
        }
        let counts = is_request && !call.is::<SubscriptionsListen>();
        let place = counts.then(|| Running::enter(&self));
        ResponseFuture { sending: self.stack.send(call), place }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A call that runs; counted until it is dropped.
struct Running(Arc<Line>);

impl Running {
    fn enter(line: &Arc<Line>) -> Self {
        line.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(line))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

pin_project! {
    /// Response future of a [`Line`].
    pub(crate) struct ResponseFuture {
        #[pin]
        sending: BoxFuture<'static, Result<Reply, RpcError>>,
        place: Option<Running>,
    }
}

impl Future for ResponseFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = std::task::ready!(this.sending.poll(task));
        // Whoever waits for the last call need not wait for its future to be dropped.
        *this.place = None;
        Poll::Ready(outcome)
    }
}

// === impl Board ===

impl Board {
    /// From here on calls take this connection.
    pub(crate) fn post(&self, line: &Arc<Line>) {
        let mut posted = self.posted();
        posted.facts = Some(line.session.facts());
        posted.line = Some(Arc::clone(line));
    }

    /// Takes a connection down, if it is the present one.
    pub(crate) fn clear(&self, line: &Arc<Line>) {
        line.end();
        let mut posted = self.posted();
        if posted.line.as_ref().is_some_and(|present| Arc::ptr_eq(present, line)) {
            posted.line = None;
        }
    }

    fn line(&self) -> Option<Arc<Line>> {
        self.posted().line.clone()
    }

    fn is_present(&self, line: &Arc<Line>) -> bool {
        self.posted().line.as_ref().is_some_and(|present| Arc::ptr_eq(present, line))
    }

    fn facts(&self) -> Option<Arc<Facts>> {
        self.posted().facts.clone()
    }

    fn posted(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Trunk ===

impl Trunk {
    /// Puts the gates, once for all connections.
    pub(crate) fn new(
        server: Option<ServerId>,
        retry: Option<RetryLayer>,
        ready: &ReadyLayer,
        patience: Duration,
        gates: impl FnOnce(Stack) -> Stack,
    ) -> Self {
        let board = Arc::<Board>::default();
        let end = Stack::new(ready.layer(Present(Arc::clone(&board))));
        let wait = ready.clone().wait(patience).waits_only();
        let gated = gates(end.clone());
        Self { board, server, retry, wait, end, gated, scope: Arc::default() }
    }

    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The stack whose calls go to the server wherever it is.
    pub(crate) fn stack(&self) -> Stack {
        self.addressed(None)
    }

    /// The same without the gates of the user.
    pub(crate) fn ungated(&self) -> Stack {
        Self { gated: self.end.clone(), ..self.clone() }.stack()
    }

    /// The same for what is said on one connection.
    pub(crate) fn ungated_on(&self, line: &Arc<Line>) -> Stack {
        Self { gated: self.end.clone(), ..self.clone() }.addressed(Some(Arc::clone(line)))
    }

    /// Takes the road of a new connection; gives the stack of its client.
    pub(crate) fn join(&self, road: Road) -> (Arc<Line>, Stack) {
        let (peer, session, scope) = (road.peer.clone(), Arc::clone(&road.session), road.scope);
        let line = Arc::new(Line {
            peer,
            session,
            scope,
            stack: road.behind(),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
            is_over: AtomicBool::new(false),
        });
        let stack = self.addressed(Some(Arc::clone(&line)));
        (line, stack)
    }

    fn addressed(&self, line: Option<Arc<Line>>) -> Stack {
        let own = line.as_ref().map(|line| line.scope);
        // Gates need to know whom a call goes to; each attempt may go to another incarnation.
        let address = Address { line, trunk: self.clone() };
        // What gates decide holds when the call is sent: they do not stand before a wait in which it is taken back,
        // or in which the server becomes another one.
        let stack = spanned(self.retry.clone(), self.wait.layer(address));
        match own {
            Some(own) if self.retry.is_some() => {
                Stack::new(Rescope { own, lasting: Arc::clone(&self.scope), inner: stack })
            }
            _ => stack,
        }
    }
}

impl fmt::Debug for Trunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trunk").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Has calls belong to the client and not to one of its connections: with that, nobody would make them again.
#[derive(Clone)]
struct Rescope {
    own: ScopeId,
    lasting: Arc<Lasting>,
    inner: Stack,
}

impl Service<Call> for Rescope {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.tool().is_some() && call.cx().scope.id() == self.own {
            call.cx_mut().scope = self.lasting.0.clone();
        }
        self.inner.send(call)
    }
}

/// Gives calls the facts of their callee, and those made on a connection that connection.
#[derive(Clone)]
struct Address {
    line: Option<Arc<Line>>,
    trunk: Trunk,
}

impl Service<Call> for Address {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let board = &self.trunk.board;
        let cx = call.cx_mut();
        if cx.server.is_none() {
            cx.server.clone_from(&self.trunk.server);
        }
        let own = self.line.as_ref().filter(|line| !line.is_over());
        let facts = match own {
            Some(line) => Some(line.session.facts()),
            None => board.facts(),
        };
        if let Some(facts) = facts {
            cx.callee = facts;
        }
        // A shake of hands goes over its own connection, which is not the present one yet.
        if let Some(line) = own.filter(|line| !board.is_present(line)) {
            cx.extensions.insert_shared(Arc::clone(line));
        }
        if call.kind() == Kind::Request && call.cx().callee.speaks_mgp() {
            // What gates record of the call has the trace that the callee is told.
            call.cx_mut().trace_or_new();
        }
        self.trunk.gated.send(call)
    }
}

/// The innermost service: the connection a call was made on, else the present one.
#[derive(Clone)]
struct Present(Arc<Board>);

impl Service<Call> for Present {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let own = call.cx().extensions.get_shared::<Line>().filter(|line| !line.is_over());
        match own.or_else(|| self.0.line()) {
            Some(line) => Either::Left { future: line.send(call) },
            None => Either::Right { future: ready(Err(closed("the server is not running"))) },
        }
    }
}
