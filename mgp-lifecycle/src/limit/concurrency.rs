//! A bound on tool calls that run at once, and on those that wait for a turn.
//!
//! Waiting happens in the response future: a layer that waits in `poll_ready` stops the read loop,
//! and a handler that asks its caller back would then wait for an answer nobody reads.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply, Waited};
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_layer::Layer;
use tower_service::Service;

use crate::error::Refusal;

/// Bounds of a [`LimitLayer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitConfig {
    /// Tool calls that run at once. 256.
    pub running: usize,
    /// Tool calls that wait for a turn; more are answered 3001. 1024.
    pub waiting: usize,
}

impl Default for LimitConfig {
    fn default() -> Self {
        Self { running: 256, waiting: 1024 }
    }
}

/// Lets a bounded number of tool calls run at once; other methods pass.
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
pub struct LimitLayer(Arc<State>);

struct State {
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    config: LimitConfig,
}

impl LimitLayer {
    /// A layer with one budget for every stack it is put on.
    pub fn new(config: LimitConfig) -> Self {
        let running = config.running.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(State {
            turns: Arc::new(Semaphore::new(running)),
            waiting: AtomicUsize::new(0),
            config,
        }))
    }

    /// Tool calls that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.config.running - self.0.turns.available_permits()
    }
}

impl fmt::Debug for LimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.config.fmt(f)
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limit<S>;

    fn layer(&self, inner: S) -> Limit<S> {
        Limit { inner, state: Arc::clone(&self.0) }
    }
}

/// Service of [`LimitLayer`].
#[derive(Clone)]
pub struct Limit<S> {
    inner: S,
    state: Arc<State>,
}

impl<S> fmt::Debug for Limit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.config.fmt(f)
    }
}

impl<S: MgpService> Service<Call> for Limit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<WithPermit<S::Future>, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.tool().is_none() {
            return Either::Left {
                future: WithPermit { permit: None, future: self.inner.call(call) },
            };
        }
        // The rule: a turn is free, so nothing waits and nothing is boxed.
        if let Ok(permit) = Arc::clone(&self.state.turns).try_acquire_owned() {
            return Either::Left {
                future: WithPermit { permit: Some(permit), future: self.inner.call(call) },
            };
        }
        let (mut inner, state) = (self.inner.clone(), Arc::clone(&self.state));
        Either::Right {
            future: Box::pin(async move {
                let queued = Queued::enter(&state)?;
                let permit = Arc::clone(&state.turns).acquire_owned().await;
                drop(queued);
                let _permit = permit.map_err(|_| Refusal::Saturated)?;
                // What the gates above decided may have been taken back meanwhile.
                Waited::mark(call.cx_mut());
                inner.call(call).await
            }),
        }
    }
}

/// A place among those that wait; given back when dropped.
struct Queued<'a>(&'a State);

impl<'a> Queued<'a> {
    fn enter(state: &'a State) -> Result<Self, Refusal> {
        let before = state.waiting.fetch_add(1, Ordering::Relaxed);
        let queued = Self(state);
        if before >= state.config.waiting { Err(Refusal::Saturated) } else { Ok(queued) }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

pin_project! {
    /// Response future of [`Limit`]: holds its turn as long as the call runs.
    #[derive(Debug)]
    pub struct WithPermit<F> {
        permit: Option<OwnedSemaphorePermit>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for WithPermit<F> {
    type Output = F::Output;

    fn poll(self: std::pin::Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        self.project().future.poll(task)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Stack, mock};
    use tokio::time::{Duration, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_wait_their_turn_and_leave_when_dropped() {
        let peak = Arc::new(AtomicUsize::new(0));
        let running = Arc::new(AtomicUsize::new(0));
        let (p, r) = (Arc::clone(&peak), Arc::clone(&running));
        let slow = Stack::from_fn(move |_| {
            let (p, r) = (Arc::clone(&p), Arc::clone(&r));
            async move {
                p.fetch_max(r.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                r.fetch_sub(1, Ordering::SeqCst);
                Ok(Reply::empty())
            }
        });
        let layer = LimitLayer::new(LimitConfig { running: 2, waiting: 8 });
        let mut client = mock::client(Stack::new(layer.layer(slow)));
        let calls: Vec<_> =
            (0..6).map(|_| tokio::spawn(client.call("tools/call", r#"{"name":"a"}"#))).collect();
        tokio::task::yield_now().await;
        calls[5].abort();
        let mut answered = 0;
        for call in calls {
            answered += usize::from(call.await.is_ok_and(|outcome| outcome.is_ok()));
        }
        assert_eq!((answered, peak.load(Ordering::SeqCst)), (5, 2));
        assert_eq!(layer.running(), 0);
        assert_eq!(layer.0.waiting.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn other_methods_pass_a_full_limit() {
        let layer = LimitLayer::new(LimitConfig { running: 0, waiting: 0 });
        let mut client =
            mock::client(Stack::new(layer.layer(Stack::from_fn(|_| async { Ok(Reply::empty()) }))));
        assert!(client.request("tools/list", "{}").await.is_ok());
        assert_eq!(
            client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err().code().0,
            3001
        );
    }
}
