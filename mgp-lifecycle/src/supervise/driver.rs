//! Does what a supervisor decides, as one task of tokio (MGP §11.5).
//!
//! Applies to: outbound.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{Spawn, Spawned};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::config::SuperviseConfig;
use super::event::{Action, Event, LimitExceeded};
use super::handle::{GONE, Live, Order, Report, Standing, Supervised, Wish, gone};
use super::machine::Supervisor;
use super::work::{Done, Work};
use crate::state::State;

/// Orders that wait for the task; whoever gives one more waits for room.
const ORDERS: usize = 16;
/// How many reports a listener may lag behind before it loses the oldest.
const KEPT: usize = 256;

/// What a server of such a [`Spawn`] is called through.
pub type ClientOf<S> = <<S as Spawn>::Server as Spawned>::Client;

/// Supervises a server: [`Supervised::start`] starts it, and from then on it is restarted as its policy says.
///
/// `state` is the server's from now on, so that gates over it can be built before; nobody else may change it.
///
/// # Panics
/// Outside a tokio runtime with a timer.
///
/// ```
/// use mgp_lifecycle::{State, SuperviseConfig, supervise};
/// use mgp_types::mgp::{ServerState, ShutdownReason};
/// use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
///
/// /// Crashes two seconds after each start.
/// struct Shaky;
///
/// impl Spawn for Shaky {
///     type Server = Self;
///     fn start(&self) -> BoxFuture<'static, Result<Self, SpawnError>> {
///         Box::pin(async { Ok(Self) })
///     }
/// }
///
/// impl Spawned for Shaky {
///     type Client = &'static str;
///     fn ready(&self) -> BoxFuture<'static, Result<&'static str, SpawnError>> {
///         Box::pin(async { Ok("client") })
///     }
///     fn ended(&self) -> BoxFuture<'static, Exit> {
///         Box::pin(async {
///             tokio::time::sleep(std::time::Duration::from_secs(2)).await;
///             Exit::failure("exited with code 1")
///         })
///     }
///     fn stop(&self, _: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
///         Box::pin(async {})
///     }
///     fn kill(&self) {}
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let state = State::new(ServerState::Registered);
/// let server = supervise(Shaky, SuperviseConfig::default(), state);
/// server.start().await;
/// assert_eq!(server.ready().await.unwrap(), "client");
///
/// let rest = server.ended().await;
/// assert_eq!(rest.state, ServerState::Error);
/// assert_eq!(
///     &*rest.reason,
///     "restart_limit_exceeded: 5 restarts within 300s; exited with code 1"
/// );
/// # });
/// ```
pub fn supervise<S: Spawn>(
    spawn: S,
    config: SuperviseConfig,
    state: State,
) -> Supervised<ClientOf<S>> {
    let (orders, taken) = mpsc::channel(ORDERS);
    let (live, follow) = watch::channel(None);
    let (standing, stands) = watch::channel(Standing::default());
    let reports = broadcast::Sender::new(KEPT);
    if let Some(rests) = rest_of(&state.now()) {
        // The edge exists; if somebody else was quicker, the next change tells.
        let _ = state.enter(rests, "supervision begins");
    }
    let driver = Driver {
        core: Supervisor::new(config, fastrand::u64(..)).found(state.now()),
        spawn: Arc::new(spawn),
        work: Work::new(),
        begun: Instant::now(),
        run: 0,
        exceeded: None,
        state: state.clone(),
        live,
        standing,
        reports: reports.clone(),
    };
    tokio::spawn(driver.run(taken).in_current_span());
    Supervised { orders, state, live: follow, standing: stands, reports }
}

struct Driver<S: Spawn> {
    core: Supervisor,
    spawn: Arc<S>,
    work: Work<S::Server>,
    begun: Instant,
    run: u64,
    /// The limit, until the state that it leads to.
    exceeded: Option<LimitExceeded>,
    state: State,
    live: watch::Sender<Option<Live<ClientOf<S>>>>,
    standing: watch::Sender<Standing>,
    reports: broadcast::Sender<Report>,
}

impl<S: Spawn> Driver<S> {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            let due = self.core.deadline();
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.take(order),
                    None => break,
                },
                done = self.work.next() => self.done(done),
                () = until(self.begun, due) => self.perform(Event::Tick),
            }
        }
        // Nobody holds a handle any more, so nothing is started again.
        self.perform(Event::Stop(ShutdownReason::KernelShutdown));
        while self.core.is_stopping() {
            let due = self.core.deadline();
            tokio::select! {
                done = self.work.next() => self.done(done),
                () = until(self.begun, due) => self.perform(Event::Tick),
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order.wish {
            Wish::Start => self.perform(Event::Start),
            Wish::Restart => self.perform(Event::Restart),
            Wish::Stop(reason) => self.perform(Event::Stop(reason)),
            Wish::Unhealthy { run, why } if run == self.run => self.perform(Event::Unhealthy(why)),
            Wish::Unhealthy { .. } => {}
        }
        // Fails if whoever gave the order has left; it is carried out all the same.
        let _ = order.taken.send(());
    }

    fn done(&mut self, done: Done<ClientOf<S>>) {
        let event = match done {
            Done::Ready(client) => {
                // Before the state, so that whoever sees `connected` finds the client.
                self.live.send_replace(Some(Live { client, run: self.run }));
                Event::Ready
            }
            Done::StartFailed(error) => Event::StartFailed(error.to_string()),
            Done::Exited(exit) => Event::Exited(exit),
            Done::Stopped => Event::Stopped,
        };
        self.perform(event);
    }

    fn perform(&mut self, event: Event) {
        let now = self.begun.elapsed();
        for action in self.core.handle(event, now) {
            match action {
                Action::Enter { from, to, reason, restarts } => {
                    let at = Timestamp::now();
                    let (elapsed, limit) = (now, None);
                    self.enter(Report { at, elapsed, from, to, reason, restarts, limit });
                }
                Action::Start => {
                    self.run = self.run.saturating_add(1);
                    self.work.start(&self.spawn);
                }
                Action::Stop { reason } => self.work.stop(reason),
                Action::Kill => {
                    tracing::warn!(
                        run = self.run,
                        "the server did not stop in time and was killed"
                    );
                    self.work.kill();
                }
                Action::GiveUp(limit) => {
                    tracing::warn!(run = self.run, %limit, "the server will not be restarted");
                    self.exceeded = Some(limit);
                }
            }
        }
        let state = self.core.state();
        if !matches!(state, ServerState::Connected | ServerState::Draining) {
            self.live.send_if_modified(|live| live.take().is_some());
        }
        self.standing.send_replace(Standing {
            is_connected: *state == ServerState::Connected,
            is_stopping: self.core.is_stopping(),
            restarts: self.core.restarts(),
            rest: self.core.rest(),
        });
    }

    fn enter(&mut self, mut report: Report) {
        match self.state.enter(report.to.clone(), Arc::clone(&report.reason)) {
            Ok(change) => {
                report.at = change.at;
                report.limit = self.exceeded.take_if(|_| report.to == ServerState::Error);
                // Fails if nobody listens.
                let _ = self.reports.send(report);
            }
            Err(error) => tracing::error!(%error, "somebody else changed the state of the server"),
        }
    }
}

impl<S: Spawn> Drop for Driver<S> {
    /// Tells what became of a server whose runtime is shut down under it.
    fn drop(&mut self) {
        self.work.kill();
        self.live.send_if_modified(|live| live.take().is_some());
        if self.core.rest().is_some() {
            return;
        }
        let (from, restarts) = (self.state.now(), self.core.restarts());
        if let Some(to) = rest_of(&from) {
            let (at, elapsed, limit) = (Timestamp::now(), self.begun.elapsed(), None);
            self.enter(Report { at, elapsed, from, to, reason: GONE.into(), restarts, limit });
        }
        let rest = gone(&self.state, restarts);
        self.standing.send_replace(Standing { restarts, rest: Some(rest), ..Standing::default() });
    }
}

/// Where a server rests that was in a state in which something runs.
fn rest_of(state: &ServerState) -> Option<ServerState> {
    match state {
        ServerState::Connecting | ServerState::Connected | ServerState::Draining => {
            Some(ServerState::Disconnected)
        }
        ServerState::Restarting => Some(ServerState::Error),
        _ => None,
    }
}

async fn until(begun: Instant, due: Option<Duration>) {
    match due.and_then(|due| begun.checked_add(due)) {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
