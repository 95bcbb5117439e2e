//! A limit on the number of tool calls that run at the same time, and on the number of calls that wait. Waiting callers
//! are served fairly.
//!
//! Calls wait in the response future and not in `poll_ready`. If they waited there, the read loop would stop, and a
//! handler that asks its caller would wait for an answer that is never read.
//!
//! Applies to: inbound and outbound.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Principal, Reply, WaitMark};
use pin_project_lite::pin_project;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::fair_semaphore::{Acquired, FairSemaphore, Permit};
use super::quota::UnstartedGuard;
use crate::error::LifecycleError;

/// Bounds of a [`ConcurrencyLimitLayer`].
///
/// A caller is a principal: tenant, subject and agent. With [`by_agent`](Self::by_agent), the running calls of all
/// users of an agent are counted together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitConfig {
    /// The maximum number of tool calls that run at the same time. Default: 256.
    ///
    /// A call whose function cannot be stopped counts as running until the function returns, even if the call ended
    /// earlier ([`ConcurrencyLimitLayer::keep_running`]).
    pub max_running: usize,
    /// The maximum number of tool calls that wait for a permit. Default: 1024.
    ///
    /// When the queue is full, the newest call of the caller with the most waiting calls is refused with code 3001
    /// (resource exhausted). The new call is counted too: if no other caller then has more waiting calls than its own
    /// caller, the new call itself is refused.
    pub max_waiting: usize,
    /// The maximum number of tool calls of one caller that run at the same time; further calls wait, and calls of other
    /// callers can run before them. Default: no limit.
    pub running_per_caller: Option<usize>,
    /// The maximum number of waiting tool calls of one caller; further calls are refused with code 3001 (resource
    /// exhausted). Default: no limit.
    pub waiting_per_caller: Option<usize>,
    /// `true` if the running calls of all users of an agent of a tenant are counted together. Waiting users still take
    /// turns. Default: `false`.
    pub by_agent: bool,
    /// The maximum number of calls of a tool that run at the same time, by tool name; further calls wait while other
    /// calls pass. Default: empty.
    pub tools: HashMap<String, usize>,
}

impl LimitConfig {
    /// Limits how many calls of one tool run at the same time.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, running: usize) -> Self {
        self.tools.insert(name.into(), running);
        self
    }
}

impl Default for LimitConfig {
    fn default() -> Self {
        Self {
            max_running: 256,
            max_waiting: 1024,
            running_per_caller: None,
            waiting_per_caller: None,
            by_agent: false,
            tools: HashMap::new(),
        }
    }
}

/// Layer that limits the number of tool calls that run at the same time, and passes on all other methods.
///
/// Waiting callers are served round-robin: each has one turn per round, however many of its calls wait. A call whose
/// deadline passes before it gets a permit is answered with code 3003 (timeout), and does not run.
///
/// ```
/// use mgp_lifecycle::{LimitConfig, ConcurrencyLimitLayer};
/// use mgp_types::service::{Stack, Reply, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let mut config = LimitConfig::default();
/// (config.max_running, config.max_waiting) = (1, 0);
/// let slow = Stack::from_fn(|_| async { tokio::task::yield_now().await; Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(ConcurrencyLimitLayer::new(config).layer(slow)));
/// let first = client.call("tools/call", r#"{"name":"a"}"#);
/// let second = client.call("tools/call", r#"{"name":"b"}"#);
/// let (first, second) = tokio::join!(first, second);
/// assert!(first.is_ok());
/// assert_eq!(second.unwrap_err().code().0, 3001);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct ConcurrencyLimitLayer {
    semaphore: Arc<FairSemaphore>,
}

impl ConcurrencyLimitLayer {
    /// Creates a layer. All stacks that are built with it share one limit.
    pub fn new(config: LimitConfig) -> Self {
        Self { semaphore: Arc::new(FairSemaphore::new(config)) }
    }

    /// Returns the number of tool calls that run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.semaphore.running()
    }

    /// Returns the number of tool calls of one caller that run now; 0 unless callers or tools have limits of their own.
    #[must_use]
    pub fn running_of(&self, principal: &Principal) -> usize {
        self.semaphore.running_of(principal)
    }

    /// Returns the number of tool calls that wait for a permit.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.semaphore.waiting()
    }

    /// Counts a call as running, regardless of the limits, until the returned permit is dropped.
    ///
    /// Use this for a function that cannot be stopped and runs on after its call was dropped. Request the permit while
    /// the future of the call is dropped: the call still has its own permit then, so no other call starts in between.
    ///
    /// ```
    /// use mgp_lifecycle::{ConcurrencyLimitLayer, LimitConfig};
    /// use mgp_types::service::Principal;
    ///
    /// let layer = ConcurrencyLimitLayer::new(LimitConfig::default());
    /// let permit = layer.keep_running(&Principal::local(), "scan");
    /// assert_eq!(layer.running(), 1);
    /// drop(permit);
    /// assert_eq!(layer.running(), 0);
    /// ```
    pub fn keep_running(&self, principal: &Principal, tool: &str) -> RunningPermit {
        RunningPermit { _permit: self.semaphore.acquire_beyond(principal, tool) }
    }
}

/// Permit of a function that runs on after its call was dropped; see [`ConcurrencyLimitLayer::keep_running`].
#[derive(Debug)]
#[must_use = "the function counts as running only while its permit exists"]
pub struct RunningPermit {
    _permit: Permit,
}

mgp_types::opaque_debug!(ConcurrencyLimitLayer);

mgp_types::layer_service! {
    /// The service that [`ConcurrencyLimitLayer`] creates.
    pub ConcurrencyLimit for ConcurrencyLimitLayer
}

impl<S: MgpService> Service<Call> for ConcurrencyLimit<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        if call.tool().is_none() {
            return self.run(call, None);
        }
        // In the common case a permit is free, so nothing waits and nothing is boxed.
        if let Some(permit) = self.layer.semaphore.try_acquire() {
            return self.run(call, Some(permit));
        }
        self.wait_and_run(call)
    }
}

impl<S: MgpService> ConcurrencyLimit<S> {
    /// Passes a call to the inner service. The call keeps its permit until it ends.
    fn run(&mut self, call: Call, permit: Option<Permit>) -> <Self as Service<Call>>::Future {
        Either::Left { future: ResponseFuture::new(self.inner.call(call), permit) }
    }

    /// Runs a call once it has a permit. This slower path is taken if callers or tools have their own limits, or if no
    /// permit is free immediately.
    #[cold]
    fn wait_and_run(&mut self, mut call: Call) -> <Self as Service<Call>>::Future {
        // Refunds the quota of a call that ends before it runs, e.g. because its caller stopped waiting.
        let unstarted = UnstartedGuard::of(call.cx());
        let name = call.tool().map_or("", |tool| tool.name);
        let waiting = match self.layer.semaphore.acquire(&call.cx().principal, name) {
            Ok(Acquired::Now(permit)) => {
                unstarted.disarm();
                return self.run(call, Some(permit));
            }
            Ok(Acquired::Later(waiting)) => waiting,
            Err(refusal) => {
                return Either::Right { future: Box::pin(std::future::ready(Err(refusal.into()))) };
            }
        };
        let mut inner = self.inner.clone();
        Either::Right {
            future: Box::pin(async move {
                let since = Instant::now();
                let permit = match call.cx().deadline.instant() {
                    Some(deadline) => match timeout_at(deadline, waiting).await {
                        Ok(granted) => granted?,
                        Err(_) => return Err(LifecycleError::NotStarted(since.elapsed()).into()),
                    },
                    None => waiting.await?,
                };
                unstarted.disarm();
                // Mark the call: decisions of outer layers, e.g. about access, may be out of date after the wait.
                WaitMark::mark(call.cx_mut());
                ResponseFuture::new(inner.call(call), Some(permit)).await
            }),
        }
    }
}

pin_project! {
    /// Response future of [`ConcurrencyLimit`]: holds its permit while the call runs.
    pub struct ResponseFuture<F> {
        // `None` after completion.
        #[pin]
        future: Option<F>,
        // Dropped after `future`, because a call counts as running until its future is dropped.
        permit: Option<Permit>,
    }
}

mgp_types::opaque_debug!(ResponseFuture<F>);

impl<F> ResponseFuture<F> {
    fn new(future: F, permit: Option<Permit>) -> Self {
        Self { future: Some(future), permit }
    }
}

impl<F: Future> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: std::pin::Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let outcome = ready!(future.poll(task));
        // Drop the future before the permit is released: after a time-out, it still contains the call's function. Both
        // happen before the answer is written.
        this.future.set(None);
        *this.permit = None;
        Poll::Ready(outcome)
    }
}

#[cfg(test)]
mod tests;
