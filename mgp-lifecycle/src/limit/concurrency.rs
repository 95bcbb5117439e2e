//! A bound on tool calls that run at once, and on those that wait for a turn; callers take turns.
//!
//! Waiting happens in the response future: a layer that waits in `poll_ready` stops the read loop,
//! and a handler that asks its caller back would then wait for an answer nobody reads.
//!
//! Applies to: both.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply, Waited};
use pin_project_lite::pin_project;
use tokio::time::{Instant, timeout_at};
use tower_layer::Layer;
use tower_service::Service;

use super::quota::Unstarted;
use super::turns::{Entered, Turn, Turns};
use crate::error::Refusal;

/// Bounds of a [`LimitLayer`].
///
/// A caller is a principal: tenant, subject and agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitConfig {
    /// Tool calls that run at once. 256.
    pub running: usize,
    /// Tool calls that wait for a turn. 1024.
    ///
    /// At this many the caller with the most of them gives way: its newest call is answered 3001.
    /// Where nobody has more than the one who comes, that one is.
    pub waiting: usize,
    /// Tool calls of one caller that run at once; further ones wait while others pass. No bound of its own.
    pub running_each: Option<usize>,
    /// Tool calls of one caller that wait; more are answered 3001. No bound of its own.
    pub waiting_each: Option<usize>,
    /// Calls of one tool that run at once, by its name; further ones wait while others pass. None.
    pub tools: HashMap<String, usize>,
}

impl LimitConfig {
    /// Bounds how many calls of one tool run at once.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, running: usize) -> Self {
        self.tools.insert(name.into(), running);
        self
    }
}

impl Default for LimitConfig {
    fn default() -> Self {
        Self {
            running: 256,
            waiting: 1024,
            running_each: None,
            waiting_each: None,
            tools: HashMap::new(),
        }
    }
}

/// Lets a bounded number of tool calls run at once; other methods pass.
///
/// Who waits is served in turns: each caller that waits has one, however many calls it waits with.
/// A call whose caller stops waiting before its turn comes is answered 3003, and never ran.
///
/// ```
/// use mgp_lifecycle::{LimitConfig, LimitLayer};
/// use mgp_types::service::{Stack, Reply, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut config = LimitConfig::default();
/// (config.running, config.waiting) = (1, 0);
/// let slow = Stack::from_fn(|_| async { tokio::task::yield_now().await; Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(LimitLayer::new(config).layer(slow)));
/// let first = client.call("tools/call", r#"{"name":"a"}"#);
/// let second = client.call("tools/call", r#"{"name":"b"}"#);
/// let (first, second) = tokio::join!(first, second);
/// assert!(first.is_ok());
/// assert_eq!(second.unwrap_err().code().0, 3001);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct LimitLayer(Arc<Turns>);

impl LimitLayer {
    /// A layer with one budget for every stack it is put on.
    pub fn new(config: LimitConfig) -> Self {
        Self(Arc::new(Turns::new(config)))
    }

    /// Tool calls that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.running()
    }

    /// Tool calls that wait for a turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

impl fmt::Debug for LimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.config().fmt(f)
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limit<S>;

    fn layer(&self, inner: S) -> Limit<S> {
        Limit { inner, turns: Arc::clone(&self.0) }
    }
}

/// Service of [`LimitLayer`].
#[derive(Clone)]
pub struct Limit<S> {
    inner: S,
    turns: Arc<Turns>,
}

impl<S> fmt::Debug for Limit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.turns.config().fmt(f)
    }
}

impl<S: MgpService> Service<Call> for Limit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<InTurn<S::Future>, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        if call.tool().is_none() {
            return Either::Left { future: InTurn { future: self.inner.call(call), turn: None } };
        }
        // The rule: a turn is free, so nothing waits and nothing is boxed.
        if let Some(turn) = self.turns.try_enter() {
            return Either::Left {
                future: InTurn { future: self.inner.call(call), turn: Some(turn) },
            };
        }
        self.enter(call)
    }
}

impl<S: MgpService> Limit<S> {
    /// Runs a call in its turn, where there are shares to look at, or others before it.
    #[cold]
    fn enter(&mut self, mut call: Call) -> <Self as Service<Call>>::Future {
        let unstarted = Unstarted::of(call.cx());
        let name = call.tool().map_or("", |tool| tool.name);
        let waiting = match self.turns.enter(&call.cx().principal, name) {
            Ok(Entered::Now(turn)) => {
                unstarted.starts();
                return Either::Left {
                    future: InTurn { future: self.inner.call(call), turn: Some(turn) },
                };
            }
            Ok(Entered::Later(waiting)) => waiting,
            Err(refused) => {
                return Either::Right { future: Box::pin(std::future::ready(Err(refused.into()))) };
            }
        };
        let mut inner = self.inner.clone();
        Either::Right {
            future: Box::pin(async move {
                let since = Instant::now();
                let turn = match call.cx().deadline.instant() {
                    Some(deadline) => timeout_at(deadline, waiting)
                        .await
                        .map_err(|_| Refusal::NotStarted(since.elapsed()))??,
                    None => waiting.await?,
                };
                unstarted.starts();
                // What the gates above decided may have been taken back meanwhile.
                Waited::mark(call.cx_mut());
                InTurn { future: inner.call(call), turn: Some(turn) }.await
            }),
        }
    }
}

pin_project! {
    /// Response future of [`Limit`]: holds its turn as long as the call runs.
    pub struct InTurn<F> {
        #[pin]
        future: F,
        // Behind the call: what is dropped first still runs.
        turn: Option<Turn>,
    }
}

impl<F> fmt::Debug for InTurn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InTurn({})", self.turn.is_some())
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: std::pin::Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = ready!(this.future.poll(task));
        // Nobody waits for the answer to be written.
        *this.turn = None;
        Poll::Ready(outcome)
    }
}

#[cfg(test)]
mod tests;
