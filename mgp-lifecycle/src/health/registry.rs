//! What a server knows about its own health, and how it tells (MGP §11.3).
//!
//! Applies to: both.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::mgp::{
    HealthStatus, PingParams, PingResult, ServerState, StatusParams, StatusResult,
};
use mgp_types::service::{Context, ServerId};
use mgp_types::{Number, Object, Payload, RpcError, Timestamp};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::config::HealthConfig;
use super::found::{Found, IntoFound};
use super::memory;
use super::probe::{Kind, Probe};
use crate::error::Refusal;
use crate::fleet::Fleet;
use crate::state::State;

/// How long a server behind this one is waited for: an answer must be there within five seconds.
const BEHIND: Duration = Duration::from_millis(4_500);

/// The health of one server: its checks and figures; clones share them.
///
/// A ping is answered at once, by what the checks found last, and starts those whose findings are old.
/// A status waits for them, all at once and each no longer than it may take.
/// Checks run on tasks of their own; a panic is a failed check, and a check that hangs is not started a second time.
/// Without any check the server is healthy as long as it answers; one that is draining is degraded.
///
/// ```
/// use mgp_lifecycle::{Health, HealthLayer};
/// use mgp_types::mgp::HealthStatus;
/// use mgp_types::service::{Router, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let health = Health::new()
///     .check("database", || async { true })
///     .optional_check("search", || async { (HealthStatus::Degraded, "rebuilding") })
///     .resource("queue", || async { 3 });
/// let mut client = mock::client(Stack::new(HealthLayer::new(health).layer(Router::new())));
/// let status = client.request("mgp/health/status", "{}").await.unwrap();
/// assert!(status.as_str().contains(r#""checks":{"database":true,"search":"rebuilding"}"#));
/// assert!(status.as_str().contains(r#""status":"degraded""#));
/// # });
/// ```
#[derive(Clone)]
#[must_use = "health is told by its layer or router"]
pub struct Health(Arc<Shared>);

struct Shared {
    config: HealthConfig,
    started: Instant,
    parts: Mutex<Arc<Parts>>,
    asking: AtomicUsize,
}

type Figure = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone, Default)]
struct Parts {
    probes: Vec<Arc<Probe>>,
    server: Option<String>,
    state: Option<State>,
    fleet: Option<Arc<dyn Fleet>>,
    tools_total: Option<Figure>,
    tools_available: Option<Figure>,
    pending: Option<Arc<dyn Fn(u64) -> u64 + Send + Sync>>,
    connections: Option<Figure>,
}

impl Health {
    /// A server that starts now, without checks.
    pub fn new() -> Self {
        Self::with_config(HealthConfig::default())
    }

    /// The same with bounds of one's own.
    pub fn with_config(config: HealthConfig) -> Self {
        Self(Arc::new(Shared {
            config,
            started: Instant::now(),
            parts: Mutex::default(),
            asking: AtomicUsize::new(0),
        }))
    }

    // === What is checked ===

    /// Adds a check without which the server is unhealthy; a second of the same name replaces the first.
    ///
    /// It runs on a task; a function that blocks its thread belongs on the blocking pool.
    pub fn check<F, Fut>(self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoFound> + Send + 'static,
    {
        self.probe(name.into(), Kind::Check, check)
    }

    /// Adds a check without which the server is degraded.
    pub fn optional_check<F, Fut>(self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoFound> + Send + 'static,
    {
        self.probe(name.into(), Kind::OptionalCheck, check)
    }

    /// Adds a figure of what the server uses; one that cannot be had is left out.
    pub fn resource<F, Fut, V>(self, name: impl Into<String>, resource: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = V> + Send + 'static,
        V: Serialize,
    {
        self.probe(name.into(), Kind::Resource, move || {
            let reading = resource();
            async move { Found::figure(&reading.await) }
        })
    }

    fn probe<F, Fut>(self, name: String, kind: Kind, run: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoFound> + Send + 'static,
    {
        let run = Box::new(move || {
            let running = run();
            Box::pin(async move { running.await.into_found() }) as _
        });
        let bound = self.0.config.probes;
        self.change(|parts| {
            let is_same = |old: &Arc<Probe>| {
                old.name == name && (old.kind == Kind::Resource) == (kind == Kind::Resource)
            };
            match parts.probes.iter().position(is_same) {
                Some(at) => parts.probes[at] = Probe::new(name, kind, run),
                None if parts.probes.len() < bound => {
                    parts.probes.push(Probe::new(name, kind, run));
                }
                None => tracing::error!(name, bound, "too many health checks; one was left out"),
            }
        })
    }

    // === What is counted ===

    /// Counts the tools there are.
    pub fn tools_total(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.tools_total = Some(Arc::new(count)))
    }

    /// Counts the tools that can be called.
    pub fn tools_available(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.tools_available = Some(Arc::new(count)))
    }

    /// Counts the requests that run; the count is told how many requests for health there are, which it leaves out.
    pub fn pending_requests(self, count: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.pending = Some(Arc::new(count)))
    }

    /// Counts the connections that are open.
    pub fn open_connections(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.connections = Some(Arc::new(count)))
    }

    /// Whether somebody counts connections already.
    #[must_use]
    pub fn counts_connections(&self) -> bool {
        self.parts().connections.is_some()
    }

    // === Whose health it is ===

    /// Says the id the server claims.
    pub fn server_id(self, id: impl Into<String>) -> Self {
        self.change(|parts| parts.server = Some(id.into()))
    }

    /// Follows the state of the server: while it drains it is degraded.
    pub fn state(self, state: &State) -> Self {
        self.change(|parts| parts.state = Some(state.clone()))
    }

    /// Asks these servers where a request names one of them.
    pub fn fleet(self, fleet: Arc<dyn Fleet>) -> Self {
        self.change(|parts| parts.fleet = Some(fleet))
    }

    // === Telling ===

    /// How well the server is by what is known now; nothing is waited for.
    #[must_use]
    pub fn now(&self) -> HealthStatus {
        self.standing(&self.parts())
    }

    /// Health requests that are being answered.
    #[must_use]
    pub fn asking(&self) -> usize {
        self.0.asking.load(Ordering::Relaxed)
    }

    /// The answer to `mgp/health/ping`, without waiting; old findings are looked after behind its back.
    ///
    /// It must be called on a runtime.
    #[must_use]
    pub fn ping(&self) -> PingResult {
        let parts = self.parts();
        self.start(&parts);
        let mut result = PingResult::new(self.standing(&parts));
        result.timestamp = Some(Timestamp::now());
        result.uptime_secs = Some(self.uptime());
        result.server_id.clone_from(&parts.server);
        result
    }

    /// The answer to `mgp/health/status`, once every check was given its time.
    ///
    /// # Cancel safety
    /// Dropping the future leaves checks running; the next status takes what they find.
    pub async fn status(&self) -> StatusResult {
        let parts = self.parts();
        self.start(&parts);
        let within = self.0.config.within();
        let last = Instant::now() + within;
        for probe in &parts.probes {
            probe.settle(within, last).await;
        }
        let figure = |figure: &Option<Figure>| figure.as_ref().map(|count| count());
        let (mut checks, mut resources) = (Object::new(), Object::new());
        for (name, bytes) in
            [("memory_bytes", memory::bytes()), ("open_connections", figure(&parts.connections))]
        {
            if let Some(bytes) = bytes {
                resources.insert(name, Payload::from_trusted(bytes.to_string()));
            }
        }
        for probe in &parts.probes {
            let found = probe.found(within);
            match (probe.kind, found) {
                // A figure that could not be had is no figure.
                (Kind::Resource, Some(found)) if *found.status() == HealthStatus::Healthy => {
                    resources.insert(&probe.name, found.as_value().clone());
                }
                (Kind::Resource, _) => {}
                (_, found) => {
                    let value = found.unwrap_or_else(|| false.into_found()).as_value().clone();
                    checks.insert(&probe.name, value);
                }
            }
        }
        let mut result = StatusResult::new(self.standing(&parts));
        result.uptime_secs = Some(self.uptime());
        result.tools_total = figure(&parts.tools_total);
        result.tools_available = figure(&parts.tools_available);
        let asking = self.asking() as u64;
        result.pending_requests = parts.pending.as_ref().map(|count| count(asking));
        result.resources = Some(resources);
        result.checks = Some(checks);
        result
    }

    /// Answers a ping, of this server or of one behind it.
    pub(super) async fn answer_ping(
        self,
        cx: Context,
        params: PingParams,
    ) -> Result<PingResult, RpcError> {
        let _asking = Asking::of(&self.0);
        match self.of(params.server_id) {
            Whom::Own => Ok(self.ping()),
            Whom::Behind(fleet, id) => match bounded(fleet.ping(&cx, &id)).await? {
                Some(answer) => answer,
                None => Ok(not_found_ping(id.to_string())),
            },
            Whom::Nobody(id) => Ok(not_found_ping(id)),
        }
    }

    /// Answers how this server is, or one behind it.
    pub(super) async fn answer_status(
        self,
        cx: Context,
        params: StatusParams,
    ) -> Result<StatusResult, RpcError> {
        let _asking = Asking::of(&self.0);
        match self.of(params.server_id) {
            Whom::Own => Ok(self.status().await),
            Whom::Behind(fleet, id) => match bounded(fleet.status(&cx, &id)).await? {
                Some(answer) => answer,
                None => Ok(not_found_status(id.to_string())),
            },
            Whom::Nobody(id) => Ok(not_found_status(id)),
        }
    }

    fn of(&self, id: Option<String>) -> Whom {
        let Some(id) = id else { return Whom::Own };
        let parts = self.parts();
        match &parts.fleet {
            _ if parts.server.as_ref() == Some(&id) => Whom::Own,
            Some(fleet) => Whom::Behind(Arc::clone(fleet), ServerId::from(id)),
            None => Whom::Nobody(id),
        }
    }

    fn start(&self, parts: &Parts) {
        let (within, fresh) = (self.0.config.within(), self.0.config.fresh);
        for probe in &parts.probes {
            probe.start(within, fresh);
        }
    }

    fn standing(&self, parts: &Parts) -> HealthStatus {
        let within = self.0.config.within();
        let drains = parts.state.as_ref().is_some_and(|state| state.now() == ServerState::Draining);
        let mut worst = if drains { HealthStatus::Degraded } else { HealthStatus::Healthy };
        for probe in &parts.probes {
            match probe.verdict(within) {
                HealthStatus::Healthy => {}
                HealthStatus::Unhealthy => return HealthStatus::Unhealthy,
                limited => worst = limited,
            }
        }
        worst
    }

    fn uptime(&self) -> Number {
        self.0.started.elapsed().as_secs().into()
    }

    fn change(self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.locked()));
        self
    }

    fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.locked())
    }

    fn locked(&self) -> MutexGuard<'_, Arc<Parts>> {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        let names: Vec<_> = parts.probes.iter().map(|probe| probe.name.as_str()).collect();
        f.debug_struct("Health").field("probes", &names).finish_non_exhaustive()
    }
}

/// Whom a request means.
enum Whom {
    Own,
    Behind(Arc<dyn Fleet>, ServerId),
    Nobody(String),
}

/// A health request that is being answered.
struct Asking(Arc<Shared>);

impl Asking {
    fn of(shared: &Arc<Shared>) -> Self {
        shared.asking.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, RpcError> {
    timeout(BEHIND, answer).await.map_err(|_| Refusal::TimedOut(BEHIND).into())
}

/// What an id looks like that nobody has, or that the caller may not see.
fn not_found_ping(id: String) -> PingResult {
    let mut result = PingResult::new(HealthStatus::from("not_found"));
    result.server_id = Some(id);
    result
}

fn not_found_status(id: String) -> StatusResult {
    let mut result = StatusResult::new(HealthStatus::from("not_found"));
    result.server_id = Some(id);
    result
}
