//! The drain of a server. It begins once, and ends when no call is running any more or its time is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_types::mgp::{LifecycleParams, ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, ServerId};
use mgp_types::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::durations::CallDurations;
use super::gate::Gate;
use crate::fleet::Fleet;
use crate::state::{StateHandle, Transition};

/// The maximum time for calls to end after the deadline cut them off. They end at their next poll, so this limit is
/// rarely reached.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limits of a drain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainConfig {
    /// The time for running calls to end, if the shutdown request sets no time. Default: 30 s.
    pub timeout: Duration,
    /// The maximum time for running calls to end, unless `timeout` is longer. Default: 10 minutes.
    pub max_timeout: Duration,
    /// Maximum time for notifying peers that the server has ended. Default: 500 ms.
    pub notify_timeout: Duration,
    /// The server's own id; a shutdown request that names this id means this server.
    pub server_id: Option<ServerId>,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            max_timeout: Duration::from_mins(10),
            notify_timeout: Duration::from_millis(500),
            server_id: None,
        }
    }
}

/// The work that a drain still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemainingCalls {
    /// The number of running calls and tasks.
    pub calls: usize,
    /// The estimated time until these calls and tasks have ended, based on recent calls of the same tools; at most the
    /// remaining time of the drain.
    pub estimate: Duration,
}

/// Handle that shuts a server down gracefully; clones share one drain.
///
/// [`DrainLayer`](crate::DrainLayer) registers the calls to wait for, and
/// [`TasksLayer::drain`](crate::TasksLayer::drain) registers the tasks.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::Drain;
/// use mgp_types::mgp::{LifecycleParams, ServerState, ShutdownReason};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let drain = Drain::default();
/// drain.begin(ShutdownReason::IdleTimeout, Duration::from_secs(30));
/// drain.wait_ended().await;
/// assert_eq!(drain.state().get(), ServerState::Disconnected);
/// # });
/// ```
#[derive(Clone)]
pub struct Drain(Arc<DrainState>);

struct DrainState {
    gate: Gate,
    durations: CallDurations,
    config: Mutex<DrainConfig>,
    state: StateHandle,
    fleet: OnceLock<Arc<dyn Fleet>>,
    /// The reason that was given when the drain began; later reasons are ignored.
    reason: OnceLock<ShutdownReason>,
    /// The time when calls that are still running are cut off; `None` until the drain begins.
    deadline: watch::Sender<Option<Instant>>,
    is_cut: AtomicBool,
    cut: Notify,
    is_over: watch::Sender<bool>,
    observers: Mutex<Vec<Observer>>,
}

/// Function that notifies peers that the drain has begun or has ended.
type Observer = Arc<dyn Fn(LifecycleParams) -> BoxFuture<'static, ()> + Send + Sync>;

impl Default for Drain {
    /// Creates the drain of a connected server.
    fn default() -> Self {
        Self::new(StateHandle::new(ServerState::Connected))
    }
}

impl Drain {
    /// Creates the drain of the server with this state.
    #[must_use]
    pub fn new(state: StateHandle) -> Self {
        Self(Arc::new(DrainState {
            gate: Gate::default(),
            durations: CallDurations::default(),
            config: Mutex::default(),
            state,
            fleet: OnceLock::new(),
            reason: OnceLock::new(),
            deadline: watch::Sender::new(None),
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
            is_over: watch::Sender::new(false),
            observers: Mutex::default(),
        }))
    }

    /// Changes the configuration. A drain that has already begun keeps its deadline.
    pub fn configure(&self, change: impl FnOnce(&mut DrainConfig)) {
        change(&mut self.0.config.lock());
    }

    /// Sets the servers to which this server forwards calls. A shutdown request can select one of them by `server_id`.
    /// Only the first call has an effect.
    pub fn fleet(&self, fleet: Arc<dyn Fleet>) {
        let _ = self.0.fleet.set(fleet);
    }

    /// Returns the time limits of the drain, as currently configured.
    #[must_use]
    pub fn config(&self) -> DrainConfig {
        self.0.config.lock().clone()
    }

    /// Returns the state of the server.
    #[must_use]
    pub fn state(&self) -> &StateHandle {
        &self.0.state
    }

    /// Adds an observer, which is called when the drain begins and when the drain ends. Its argument is the params of
    /// `notifications/mgp.lifecycle`, which the observer should send to peers.
    ///
    /// The drain ends once all observers have completed or have exceeded [`DrainConfig::notify_timeout`].
    pub fn on_transition(
        &self,
        observer: impl Fn(LifecycleParams) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        self.0.observers.lock().push(Arc::new(observer));
    }

    /// Begins the drain: new calls are refused, and running calls have the time `timeout` to end.
    ///
    /// If the drain has already begun, this method can only shorten its remaining time.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn begin(&self, reason: ShutdownReason, timeout: Duration) -> RemainingCalls {
        let state = &*self.0;
        // Without a runtime, this line panics, before anything is changed. A later panic would leave the gate closed
        // without a task that ends the drain.
        let runtime = Handle::current();
        // Set the reason before the gate is closed, because refusals contain it.
        let _ = state.reason.set(reason);
        let is_first = state.gate.close();
        let config = self.config();
        // `max_timeout` limits only the times that callers choose. It does not shorten the configured default time.
        self.shorten(timeout.min(config.max_timeout.max(config.timeout)));
        if is_first {
            let entered = state.state.enter(ServerState::Draining, self.reason().as_str());
            let entered = entered.inspect_err(|error| tracing::debug!(%error, "draining anyway"));
            tracing::info!(reason = %self.reason(), calls = state.gate.count(), "draining server");
            runtime.spawn(self.clone().run(entered.ok()));
        }
        self.remaining()
    }

    fn shorten(&self, timeout: Duration) {
        let now = Instant::now();
        // If the deadline overflows, use one year instead.
        let deadline = now.checked_add(timeout).unwrap_or(now + Duration::from_hours(24 * 365));
        self.0.deadline.send_if_modified(|known| {
            let is_earlier = known.is_none_or(|known| deadline < known);
            if is_earlier {
                *known = Some(deadline);
            }
            is_earlier
        });
    }

    /// Returns whether the drain has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.gate.is_closed()
    }

    /// Returns how many calls are running, and an estimate of how long they will take.
    #[must_use]
    pub fn remaining(&self) -> RemainingCalls {
        let calls = self.0.gate.count();
        if calls == 0 {
            return RemainingCalls { calls, estimate: Duration::ZERO };
        }
        let left = match *self.0.deadline.borrow() {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => self.config().timeout,
        };
        // For a tool that has never completed a call, only the deadline is known, so it is used as the estimate.
        let typical = self.0.durations.estimate().unwrap_or(Duration::MAX);
        let estimate = typical.max(Duration::from_millis(1)).min(left);
        RemainingCalls { calls, estimate }
    }

    /// Waits until the drain begins.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_begun(&self) {
        // `wait_for` cannot fail, because this handle holds the sender of the channel.
        let _ = self.0.deadline.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until the drain has ended: no call is running, peers were notified, and connections can be closed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_ended(&self) {
        // `wait_for` cannot fail, because this handle holds the sender of the channel.
        let _ = self.0.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }

    /// Returns whether the drain has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.0.is_over.borrow()
    }

    /// Runs work that belongs to no call; the drain waits for the end of the work, as for a call.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work.
    pub async fn include<T>(&self, work: impl Future<Output = T>) -> T {
        let _hold = self.hold();
        work.await
    }

    // === For calls and tasks ===

    /// Returns the reason of the drain, or `operator_request` if it has not begun.
    pub(super) fn reason(&self) -> ShutdownReason {
        self.0.reason.get().cloned().unwrap_or(ShutdownReason::OperatorRequest)
    }

    pub(super) fn servers(&self) -> Option<&Arc<dyn Fleet>> {
        self.0.fleet.get()
    }

    /// Counts a new call; returns `None` if the drain has begun.
    pub(super) fn enter(&self) -> Option<DrainHold> {
        self.0.gate.enter().then(|| DrainHold(self.clone()))
    }

    /// Counts a message that belongs to an accepted call; returns `None` if the drain has ended.
    pub(super) fn enter_related(&self) -> Option<DrainHold> {
        self.0.gate.enter_related().then(|| DrainHold(self.clone()))
    }

    /// Counts a further part of a running call, e.g. the task that the call has become.
    pub(crate) fn hold(&self) -> DrainHold {
        self.0.gate.hold();
        DrainHold(self.clone())
    }

    /// Waits until the drain cuts off running calls.
    pub(super) async fn cut(&self) {
        // Subscribe before the check, so that no notification is missed.
        let cut = self.0.cut.notified();
        if !self.0.is_cut.load(Ordering::Acquire) {
            cut.await;
        }
    }

    /// Measures the duration of a call until the returned timer is dropped.
    pub(super) fn measure(&self, bucket: u8) -> CallTimer {
        CallTimer { drain: self.clone(), bucket, begun: self.0.durations.begin(bucket) }
    }

    // === The end ===

    async fn run(self, first: Option<Transition>) {
        let state = &*self.0;
        // Each observer runs in its own task, so that a slow peer does not delay the other peers, and a panic ends only
        // that observer.
        let mut notifying = JoinSet::new();
        self.notify(first, &mut notifying);
        if !self.wait_empty().await {
            tracing::warn!(calls = state.gate.count(), "drain timeout: cutting running calls");
            state.is_cut.store(true, Ordering::Release);
            state.cut.notify_waiters();
            if timeout(CUT_TIMEOUT, state.gate.wait_empty()).await.is_err() {
                tracing::warn!(
                    calls = state.gate.count(),
                    "drain ends with calls that did not end"
                );
                state.gate.end();
            }
        }
        let last = state.state.enter(ServerState::Disconnected, self.reason().as_str());
        let last = last.inspect_err(|error| tracing::debug!(%error, "drain ends anyway"));
        let notifications = async {
            // Wait until the first notification is complete before starting the second, so that each peer receives them
            // in order.
            while notifying.join_next().await.is_some() {}
            self.notify(last.ok(), &mut notifying);
            while notifying.join_next().await.is_some() {}
        };
        if timeout(self.config().notify_timeout, notifications).await.is_err() {
            tracing::debug!("timeout of the notification that the server ends");
        }
        // Observers might own parts of the server, so drop them even if they are still notifying peers.
        notifying.abort_all();
        let observers = std::mem::take(&mut *state.observers.lock());
        drop(observers);
        state.is_over.send_replace(true);
    }

    /// Waits until no call is running; returns `false` if the deadline passes first.
    async fn wait_empty(&self) -> bool {
        let mut deadline = self.0.deadline.subscribe();
        loop {
            let known = *deadline.borrow_and_update();
            let over = async {
                match known {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.0.gate.wait_empty() => return true,
                _ = deadline.changed() => {}
                () = over => return false,
            }
        }
    }

    /// Calls each observer in a task of its own.
    fn notify(&self, transition: Option<Transition>, notifying: &mut JoinSet<()>) {
        let Some(transition) = transition else { return };
        let params = transition.to_params(self.config().server_id.as_ref());
        let observers = self.0.observers.lock().clone();
        for observer in observers {
            let params = params.clone();
            notifying.spawn(async move { observer(params).await });
        }
    }
}

mgp_types::opaque_debug!(Drain);

/// A guard that counts a call or task as running until the guard is dropped.
#[derive(Debug)]
pub(crate) struct DrainHold(Drain);

impl DrainHold {
    pub(super) fn drain(&self) -> &Drain {
        &self.0
    }

    /// Returns a future that completes when running calls are cut off.
    pub(crate) fn cut(&self) -> impl Future<Output = ()> + Send + 'static {
        let drain = self.0.clone();
        async move { drain.cut().await }
    }
}

impl Drop for DrainHold {
    fn drop(&mut self) {
        self.0.0.gate.leave();
    }
}

/// A timer that measures the duration of a call until the timer is dropped.
pub(super) struct CallTimer {
    drain: Drain,
    bucket: u8,
    begun: Instant,
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        self.drain.0.durations.end(self.bucket, self.begun);
    }
}
