//! The registry of a server's health checks, and its answers (MGP §11.3).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::mgp::{
    HealthStatus, PingParams, PingResult, ServerState, StatusParams, StatusResult,
};
use mgp_types::service::{Context, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{Number, Object, Payload, RpcError, Timestamp};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::check_result::{CheckResult, IntoCheckResult};
use super::config::HealthConfig;
use super::memory;
use super::probe::{Probe, ProbeKind};
use crate::error::LifecycleError;
use crate::fleet::Fleet;
use crate::state::StateHandle;

/// The time limit for the answer of another server, to which a request was forwarded; it leaves time to answer the
/// caller within five seconds.
const FLEET_TIMEOUT: Duration = Duration::from_millis(4_500);

/// Registry of one server's health checks and resources; clones share it.
///
/// A ping is answered immediately from the latest results, and starts the checks whose results are old. A status
/// request waits for the checks, which run concurrently, each with a time limit. Each check runs in its own task; a
/// check that panics has failed, and a check that hangs is not started a second time. A server without checks is
/// healthy as long as it answers. A draining server is degraded.
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
#[must_use = "health is reported by its layer or router"]
pub struct Health(Arc<Registry>);

struct Registry {
    config: HealthConfig,
    started: Instant,
    parts: Mutex<Arc<Parts>>,
    open_requests: AtomicUsize,
}

type Count = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone, Default)]
struct Parts {
    probes: Vec<Arc<Probe>>,
    server: Option<String>,
    state: Option<StateHandle>,
    fleet: Option<Arc<dyn Fleet>>,
    tools_total: Option<Count>,
    tools_available: Option<Count>,
    pending: Option<Arc<dyn Fn(u64) -> u64 + Send + Sync>>,
    connections: Option<Count>,
}

impl Health {
    /// Creates a registry without checks. The server's uptime is counted from now on.
    pub fn new() -> Self {
        Self::with_config(HealthConfig::default())
    }

    /// Creates a registry with these limits and without checks. The server's uptime is counted from now on.
    pub fn with_config(config: HealthConfig) -> Self {
        Self(Arc::new(Registry {
            config,
            started: Instant::now(),
            parts: Mutex::default(),
            open_requests: AtomicUsize::new(0),
        }))
    }

    // === Checks ===

    /// Adds a check. If it fails, the server is unhealthy. A second check with the same name replaces the first.
    ///
    /// The check runs on an async task, so code that blocks its thread must be moved to `spawn_blocking`.
    pub fn check<F, Fut>(self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCheckResult> + Send + 'static,
    {
        self.probe(name.into(), ProbeKind::Check, check)
    }

    /// Adds a check. If it fails, the server is degraded.
    pub fn optional_check<F, Fut>(self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCheckResult> + Send + 'static,
    {
        self.probe(name.into(), ProbeKind::OptionalCheck, check)
    }

    /// Adds a value that answers to health requests report about a resource of the server. An answer omits the value if
    /// it cannot be read.
    pub fn resource<F, Fut, V>(self, name: impl Into<String>, resource: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = V> + Send + 'static,
        V: Serialize,
    {
        self.probe(name.into(), ProbeKind::Resource, move || {
            let reading = resource();
            async move { CheckResult::resource(&reading.await) }
        })
    }

    fn probe<F, Fut>(self, name: String, kind: ProbeKind, run: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCheckResult> + Send + 'static,
    {
        let run = Box::new(move || {
            let running = run();
            Box::pin(async move { running.await.into_check_result() }) as _
        });
        let bound = self.0.config.probes;
        self.change(|parts| {
            let is_same = |old: &Arc<Probe>| {
                old.name == name
                    && (old.kind == ProbeKind::Resource) == (kind == ProbeKind::Resource)
            };
            match parts.probes.iter().position(is_same) {
                Some(at) => parts.probes[at] = Probe::new(name, kind, run),
                None if parts.probes.len() < bound => {
                    parts.probes.push(Probe::new(name, kind, run));
                }
                None => tracing::error!(name, bound, "health check left out: too many checks"),
            }
        })
    }

    // === Counts ===

    /// Sets the function that returns the number of all tools.
    pub fn tools_total(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.tools_total = Some(Arc::new(count)))
    }

    /// Sets the function that returns the number of tools that can be called.
    pub fn tools_available(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.tools_available = Some(Arc::new(count)))
    }

    /// Returns whether a function that counts tools was set.
    #[must_use]
    pub fn counts_tools(&self) -> bool {
        self.parts().tools_total.is_some()
    }

    /// Sets the function that returns the number of running requests. Its argument is the number of running health
    /// requests, which the function must not count.
    pub fn pending_requests(self, count: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.pending = Some(Arc::new(count)))
    }

    /// Sets the function that returns the number of open connections.
    pub fn open_connections(self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.change(|parts| parts.connections = Some(Arc::new(count)))
    }

    /// Returns whether a function that counts connections was set.
    #[must_use]
    pub fn counts_connections(&self) -> bool {
        self.parts().connections.is_some()
    }

    // === Server ===

    /// Sets the server id in the answers.
    pub fn server_id(self, id: impl Into<String>) -> Self {
        self.change(|parts| parts.server = Some(id.into()))
    }

    /// Sets the state of the server; a draining server is reported as degraded.
    pub fn state(self, state: &StateHandle) -> Self {
        self.change(|parts| parts.state = Some(state.clone()))
    }

    /// Sets the `Fleet`, i.e. the other servers, to which requests with their `server_id` are forwarded.
    pub fn fleet(self, fleet: Arc<dyn Fleet>) -> Self {
        self.change(|parts| parts.fleet = Some(fleet))
    }

    // === Answers ===

    /// Returns the status according to the latest results, without waiting.
    #[must_use]
    pub fn now(&self) -> HealthStatus {
        self.current_status(&self.parts())
    }

    /// Returns the number of health requests that are being answered.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.0.open_requests.load(Ordering::Relaxed)
    }

    /// Returns the answer to `mgp/health/ping` without waiting. Starts the checks whose results are old.
    ///
    /// Must be called on a runtime.
    #[must_use]
    pub fn ping(&self) -> PingResult {
        let parts = self.parts();
        self.start(&parts);
        let mut result = PingResult::new(self.current_status(&parts));
        result.timestamp = Some(Timestamp::now());
        result.uptime_secs = Some(self.uptime());
        result.server_id.clone_from(&parts.server);
        result
    }

    /// Returns the answer to `mgp/health/status` once every check has ended or timed out.
    ///
    /// # Cancel safety
    /// If the future is dropped, checks continue; the next status uses their results.
    pub async fn status(&self) -> StatusResult {
        let parts = self.parts();
        self.start(&parts);
        let within = self.0.config.effective_timeout();
        let last = Instant::now() + within;
        for probe in &parts.probes {
            probe.wait(within, last).await;
        }
        let value = |count: &Option<Count>| count.as_ref().map(|count| count());
        let (mut checks, mut resources) = (Object::new(), Object::new());
        for (name, number) in
            [("memory_bytes", memory::bytes()), ("open_connections", value(&parts.connections))]
        {
            if let Some(number) = number {
                resources.insert(name, Payload::from_trusted(number.to_string()));
            }
        }
        for probe in &parts.probes {
            let result = probe.result(within);
            match (probe.kind, result) {
                // Omit a value that could not be read.
                (ProbeKind::Resource, Some(result))
                    if *result.status() == HealthStatus::Healthy =>
                {
                    resources.insert(&probe.name, result.as_value().clone());
                }
                (ProbeKind::Resource, _) => {}
                (_, result) => {
                    let value =
                        result.unwrap_or_else(|| false.into_check_result()).as_value().clone();
                    checks.insert(&probe.name, value);
                }
            }
        }
        let mut result = StatusResult::new(self.current_status(&parts));
        result.uptime_secs = Some(self.uptime());
        result.tools_total = value(&parts.tools_total);
        result.tools_available = value(&parts.tools_available);
        let open_requests = self.open_requests() as u64;
        result.pending_requests = parts.pending.as_ref().map(|count| count(open_requests));
        result.resources = Some(resources);
        result.checks = Some(checks);
        result
    }

    pub(super) async fn answer_ping(
        self,
        cx: Context,
        params: PingParams,
    ) -> Result<PingResult, RpcError> {
        let _open = OpenRequest::begin(&self.0);
        match self.target(params.server_id) {
            Target::Own => Ok(self.ping()),
            Target::Fleet(fleet, id) => match bounded(fleet.ping(&cx, &id)).await? {
                Some(answer) => answer,
                None => Ok(not_found_ping(id.to_string())),
            },
            Target::Unknown(id) => Ok(not_found_ping(id)),
        }
    }

    /// Answers a status request for this server, or for another server of its `Fleet`.
    pub(super) async fn answer_status(
        self,
        cx: Context,
        params: StatusParams,
    ) -> Result<StatusResult, RpcError> {
        let _open = OpenRequest::begin(&self.0);
        match self.target(params.server_id) {
            Target::Own => {
                let mut status = self.status().await;
                let Some(fleet) = self.parts().fleet.clone() else { return Ok(status) };
                if let Some((total, available)) = fleet.count_tools(&cx) {
                    (status.tools_total, status.tools_available) = (Some(total), Some(available));
                }
                if let Some(number) = fleet.count_connections(&cx) {
                    let resources = status.resources.get_or_insert_with(Object::new);
                    resources.insert("open_connections", Payload::from_trusted(number.to_string()));
                }
                Ok(status)
            }
            Target::Fleet(fleet, id) => match bounded(fleet.status(&cx, &id)).await? {
                Some(answer) => answer,
                None => Ok(not_found_status(id.to_string())),
            },
            Target::Unknown(id) => Ok(not_found_status(id)),
        }
    }

    fn target(&self, id: Option<String>) -> Target {
        let Some(id) = id else { return Target::Own };
        let parts = self.parts();
        match &parts.fleet {
            _ if parts.server.as_ref() == Some(&id) => Target::Own,
            Some(fleet) => Target::Fleet(Arc::clone(fleet), ServerId::from(id)),
            None => Target::Unknown(id),
        }
    }

    fn start(&self, parts: &Parts) {
        let (within, fresh) = (self.0.config.effective_timeout(), self.0.config.fresh);
        for probe in &parts.probes {
            probe.start(within, fresh);
        }
    }

    fn current_status(&self, parts: &Parts) -> HealthStatus {
        let within = self.0.config.effective_timeout();
        let drains = parts.state.as_ref().is_some_and(|state| state.get() == ServerState::Draining);
        let mut worst = if drains { HealthStatus::Degraded } else { HealthStatus::Healthy };
        for probe in &parts.probes {
            match probe.status(within) {
                HealthStatus::Healthy => {}
                HealthStatus::Unhealthy => return HealthStatus::Unhealthy,
                degraded => worst = degraded,
            }
        }
        worst
    }

    fn uptime(&self) -> Number {
        self.0.started.elapsed().as_secs().into()
    }

    fn change(self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.0.parts.lock()));
        self
    }

    fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.0.parts.lock())
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::opaque_debug!(Health);

/// The server that a request is about.
enum Target {
    Own,
    Fleet(Arc<dyn Fleet>, ServerId),
    Unknown(String),
}

/// A guard that counts a health request until the guard is dropped.
struct OpenRequest(Arc<Registry>);

impl OpenRequest {
    fn begin(registry: &Arc<Registry>) -> Self {
        registry.open_requests.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(registry))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, RpcError> {
    timeout(FLEET_TIMEOUT, answer).await.map_err(|_| LifecycleError::TimedOut(FLEET_TIMEOUT).into())
}

/// Returns the answer about a server that does not exist or that the caller is not allowed to see.
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
