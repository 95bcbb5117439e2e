//! The drain of a server: begun once, over when nothing runs any more or the time is.
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mgp_types::mgp::{LifecycleParams, ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, ServerId};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::gate::Gate;
use super::pace::Pace;
use crate::fleet::Fleet;
use crate::state::{State, Transition};

/// How long calls that were cut may take to be gone; only one that nobody polls takes any time.
const CUT: Duration = Duration::from_secs(1);

/// How a server drains.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainConfig {
    /// How long running calls may take where nobody says otherwise. 30 s.
    pub timeout: Duration,
    /// The longest time somebody can ask for. 10 minutes.
    pub longest: Duration,
    /// How long telling peers that the server is gone may take. 500 ms.
    pub farewell: Duration,
    /// The id the server has for itself.
    pub server_id: Option<ServerId>,
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            longest: Duration::from_mins(10),
            farewell: Duration::from_millis(500),
            server_id: None,
        }
    }
}

/// What a drain waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remaining {
    /// Calls and tasks in flight.
    pub calls: usize,
    /// How long they will take, judged by what such calls took lately; never longer than the drain has.
    pub estimate: Duration,
}

/// Ends a server gracefully; clones share it.
///
/// [`DrainLayer`](crate::DrainLayer) counts the calls, [`TasksLayer::drain`](crate::TasksLayer::drain) the tasks.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::Drain;
/// use mgp_types::mgp::{LifecycleParams, ServerState, ShutdownReason};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let drain = Drain::default();
/// drain.begin(ShutdownReason::IdleTimeout, Duration::from_secs(30));
/// drain.ended().await;
/// assert_eq!(drain.state().now(), ServerState::Disconnected);
/// # });
/// ```
#[derive(Clone)]
pub struct Drain(Arc<Inner>);

struct Inner {
    gate: Gate,
    pace: Pace,
    config: Mutex<DrainConfig>,
    state: State,
    fleet: OnceLock<Arc<dyn Fleet>>,
    /// Why it began; the first reason stays.
    why: OnceLock<ShutdownReason>,
    /// When what still runs is cut.
    until: watch::Sender<Option<Instant>>,
    is_cut: AtomicBool,
    cut: Notify,
    is_over: watch::Sender<bool>,
    heralds: Mutex<Vec<Herald>>,
}

/// Tells others of a transition.
type Herald = Arc<dyn Fn(LifecycleParams) -> BoxFuture<'static, ()> + Send + Sync>;

impl Default for Drain {
    /// A server that is connected.
    fn default() -> Self {
        Self::new(State::new(ServerState::Connected))
    }
}

impl Drain {
    /// The drain of the server with this state.
    #[must_use]
    pub fn new(state: State) -> Self {
        Self(Arc::new(Inner {
            gate: Gate::default(),
            pace: Pace::default(),
            config: Mutex::default(),
            state,
            fleet: OnceLock::new(),
            why: OnceLock::new(),
            until: watch::Sender::new(None),
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
            is_over: watch::Sender::new(false),
            heralds: Mutex::default(),
        }))
    }

    /// Changes how it drains; a drain that began keeps the time it has.
    pub fn configure(&self, change: impl FnOnce(&mut DrainConfig)) {
        change(&mut self.0.config.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Names the servers behind this one: they are shut down by their `server_id`. The first fleet stays.
    pub fn fleet(&self, fleet: Arc<dyn Fleet>) {
        let _ = self.0.fleet.set(fleet);
    }

    /// How it drains.
    #[must_use]
    pub fn config(&self) -> DrainConfig {
        self.0.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state of the server.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.0.state
    }

    /// Has peers told of each transition, as `notifications/mgp.lifecycle` words it; the server ends after they were told,
    /// or took too long ([`DrainConfig::farewell`]).
    pub fn tell(
        &self,
        herald: impl Fn(LifecycleParams) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        self.heralds().push(Arc::new(herald));
    }

    /// Begins: no call that comes after this returned is accepted, and what runs has so long to end.
    ///
    /// A drain that began before goes on; its time can be shortened by this, never lengthened.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn begin(&self, reason: ShutdownReason, timeout: Duration) -> Remaining {
        let inner = &*self.0;
        // First of all: a gate that is closed where nothing can wait for the end would stay closed for ever.
        let runtime = Handle::current();
        // Ahead of the gate: whoever is refused is told why.
        let _ = inner.why.set(reason);
        let is_first = inner.gate.close();
        self.shorten(timeout.min(self.config().longest));
        if is_first {
            let entered = inner.state.enter(ServerState::Draining, self.reason().as_str());
            let entered = entered.inspect_err(|error| tracing::debug!(%error, "draining anyway"));
            tracing::info!(reason = %self.reason(), calls = inner.gate.count(), "the server drains");
            runtime.spawn(self.clone().run(entered.ok()));
        }
        self.remaining()
    }

    fn shorten(&self, timeout: Duration) {
        let now = Instant::now();
        // A time nobody will live to see needs no exact date.
        let until = now.checked_add(timeout).unwrap_or(now + Duration::from_hours(24 * 365));
        self.0.until.send_if_modified(|known| {
            let is_earlier = known.is_none_or(|known| until < known);
            if is_earlier {
                *known = Some(until);
            }
            is_earlier
        });
    }

    /// Whether it began.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.gate.is_closed()
    }

    /// What is in flight, and how long it may take.
    #[must_use]
    pub fn remaining(&self) -> Remaining {
        let calls = self.0.gate.count();
        if calls == 0 {
            return Remaining { calls, estimate: Duration::ZERO };
        }
        let has = match *self.0.until.borrow() {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => self.config().timeout,
        };
        // Of what never ended before only the bound is known.
        let usual = self.0.pace.longest().unwrap_or(Duration::MAX);
        let estimate = usual.max(Duration::from_millis(1)).min(has);
        Remaining { calls, estimate }
    }

    /// Waits until it begins.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn begun(&self) {
        // It is never closed: this handle holds it.
        let _ = self.0.until.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits for the end: nothing runs any more, the peers were told, connections may close.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn ended(&self) {
        // It is never closed: this handle holds it.
        let _ = self.0.is_over.subscribe().wait_for(|is_over| *is_over).await;
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.0.is_over.borrow()
    }

    // === What calls and tasks need ===

    /// Why it began, or would have.
    pub(super) fn reason(&self) -> ShutdownReason {
        self.0.why.get().cloned().unwrap_or(ShutdownReason::OperatorRequest)
    }

    pub(super) fn servers(&self) -> Option<&Arc<dyn Fleet>> {
        self.0.fleet.get()
    }

    /// Counts a new call, unless it comes too late.
    pub(super) fn enter(&self) -> Option<Held> {
        self.0.gate.enter().then(|| Held(self.clone()))
    }

    /// Counts what belongs to a call that was accepted, unless everything is over.
    pub(super) fn enter_again(&self) -> Option<Held> {
        self.0.gate.enter_again().then(|| Held(self.clone()))
    }

    /// Counts another part of a call that is in flight.
    pub(crate) fn hold(&self) -> Held {
        self.0.gate.hold();
        Held(self.clone())
    }

    /// Completes when what still runs is to end.
    pub(super) async fn cut(&self) {
        // Heard of from here on, so that nothing is missed by the look behind it.
        let told = self.0.cut.notified();
        if !self.0.is_cut.load(Ordering::Acquire) {
            told.await;
        }
    }

    /// Measures a call until it is dropped.
    pub(super) fn slow(&self, lane: u8) -> Slow {
        Slow { drain: self.clone(), lane, begun: self.0.pace.begin(lane) }
    }

    // === The end ===

    async fn run(self, first: Option<Transition>) {
        let inner = &*self.0;
        // Beside the wait: a peer that does not read holds nobody up, and a herald that panics ends nothing but itself.
        let mut telling = JoinSet::new();
        telling.spawn(self.clone().herald(first));
        if !self.emptied_in_time().await {
            tracing::warn!(calls = inner.gate.count(), "the time is over; what still runs is cut");
            inner.is_cut.store(true, Ordering::Release);
            inner.cut.notify_waiters();
            if timeout(CUT, inner.gate.emptied()).await.is_err() {
                tracing::warn!(calls = inner.gate.count(), "calls did not end when they were cut");
                inner.gate.end();
            }
        }
        let last = inner.state.enter(ServerState::Disconnected, self.reason().as_str());
        let last = last.inspect_err(|error| tracing::debug!(%error, "the server ends anyway"));
        let farewell = async {
            // One after the other, so that nobody hears the second first.
            while telling.join_next().await.is_some() {}
            telling.spawn(self.clone().herald(last.ok()));
            while telling.join_next().await.is_some() {}
        };
        if timeout(self.config().farewell, farewell).await.is_err() {
            tracing::debug!("a peer was not told that the server ends: it does not read");
        }
        // What they held of the server goes with it, also where they still tell.
        telling.abort_all();
        let heralds = std::mem::take(&mut *self.heralds());
        drop(heralds);
        inner.is_over.send_replace(true);
    }

    /// Waits until nothing runs; `false` when the time is over first.
    async fn emptied_in_time(&self) -> bool {
        let mut until = self.0.until.subscribe();
        loop {
            let known = *until.borrow_and_update();
            let over = async {
                match known {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.0.gate.emptied() => return true,
                _ = until.changed() => {}
                () = over => return false,
            }
        }
    }

    async fn herald(self, transition: Option<Transition>) {
        let Some(transition) = transition else { return };
        let heralds = self.heralds().clone();
        for herald in heralds {
            herald(transition.to_params(self.config().server_id.as_ref())).await;
        }
    }

    fn heralds(&self) -> std::sync::MutexGuard<'_, Vec<Herald>> {
        self.0.heralds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("state", &self.0.state)
            .field("calls", &self.0.gate.count())
            .finish_non_exhaustive()
    }
}

/// Counts something as in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct Held(Drain);

impl Held {
    pub(super) fn drain(&self) -> &Drain {
        &self.0
    }

    /// Completes when what still runs is to end.
    pub(crate) fn cut(&self) -> impl Future<Output = ()> + Send + 'static {
        let drain = self.0.clone();
        async move { drain.cut().await }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.gate.leave();
    }
}

/// Measures a call until it is dropped.
pub(super) struct Slow {
    drain: Drain,
    lane: u8,
    begun: Instant,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.drain.0.pace.end(self.lane, self.begun);
    }
}
