//! The state of each server on which retries depend: the number of its calls, its retry budget, its circuit breaker and
//! its tools.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mgp_types::service::ServerId;
use mgp_types::sync::Mutex;
use tokio::time::Instant;

use super::budget::{BudgetUsage, RetryBudget};
use super::circuit::{Admission, Circuit, CircuitConfig, Evidence};
use super::tools::ToolTable;

/// The maximum number of servers that have a state of their own.
const MAX_SERVERS: usize = 1024;

/// The state of one server. A call that succeeds accesses only two of its atomics.
#[derive(Debug)]
pub(super) struct Server {
    id: Option<ServerId>,
    calls: AtomicU64,
    /// `true` if the circuit is closed and no failures are counted; the lock of `state` need not be taken then.
    closed: AtomicBool,
    state: Mutex<State>,
    pub(super) tools: Mutex<ToolTable>,
}

#[derive(Debug, Default)]
struct State {
    usage: BudgetUsage,
    circuit: Circuit,
}

impl Server {
    fn new(id: Option<ServerId>) -> Arc<Self> {
        Arc::new(Self {
            id,
            calls: AtomicU64::new(0),
            closed: AtomicBool::new(true),
            state: Mutex::default(),
            tools: Mutex::default(),
        })
    }

    pub(super) fn id(&self) -> Option<&ServerId> {
        self.id.as_ref()
    }

    /// Counts a call; the number of calls determines the budget for retries.
    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Reserves one retry from the budget; returns `None` if the budget has none left.
    pub(super) fn reserve_retry(self: &Arc<Self>, budget: RetryBudget) -> Option<ReservedRetry> {
        let (since, calls) = (Instant::now(), self.calls.load(Ordering::Relaxed));
        let is_reserved = self.state.lock().usage.reserve(since, calls, budget);
        is_reserved.then(|| ReservedRetry { server: Some(Arc::clone(self)), since })
    }

    /// Decides whether a call may be sent now; returns a [`Probe`] if the call tests whether the server is back.
    ///
    /// # Errors
    /// Returns the time until the server will be tried again.
    pub(super) fn admit(
        self: &Arc<Self>,
        config: &CircuitConfig,
    ) -> Result<Option<Probe>, Duration> {
        if self.is_closed() {
            return Ok(None);
        }
        match self.state.lock().circuit.admit(Instant::now(), config) {
            Admission::Pass => Ok(None),
            Admission::Probe => Ok(Some(Probe { server: Some(Arc::clone(self)) })),
            Admission::Refused(wait) => Err(wait),
        }
    }

    /// Returns for how long the circuit breaker would refuse calls; zero if it would let them pass.
    pub(super) fn refuses_for(&self) -> Duration {
        if self.is_closed() {
            return Duration::ZERO;
        }
        self.state.lock().circuit.refuses_for(Instant::now())
    }

    pub(super) fn record(&self, evidence: Evidence, probe: Option<Probe>, config: &CircuitConfig) {
        if evidence != Evidence::Unreachable && self.is_closed() {
            return;
        }
        let by = if probe.is_some() { Admission::Probe } else { Admission::Pass };
        let opened = self.update(|circuit| circuit.record(Instant::now(), evidence, by, config));
        if let Some(probe) = probe {
            probe.finish();
        }
        if opened {
            tracing::warn!(
                server = self.id.as_ref().map(ServerId::as_str),
                open_for = ?config.open_for,
                "circuit open: the server is unreachable"
            );
        }
    }

    /// Resets the state, because the server was restarted.
    pub(super) fn reset(&self) {
        self.update(|circuit| *circuit = Circuit::Closed);
        self.tools.lock().clear();
    }

    fn update<T>(&self, change: impl FnOnce(&mut Circuit) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state.circuit);
        self.closed.store(state.circuit.is_closed(), Ordering::Relaxed);
        result
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// A retry that is taken from the budget of a server. If it is dropped before it is [spent](Self::spend), the budget
/// gets it back.
#[derive(Debug)]
pub(super) struct ReservedRetry {
    server: Option<Arc<Server>>,
    since: Instant,
}

impl ReservedRetry {
    /// Uses the retry, because the attempt is sent now.
    pub(super) fn spend(mut self) {
        self.server = None;
    }
}

impl Drop for ReservedRetry {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.state.lock().usage.give_back(self.since);
        }
    }
}

/// The call that finds out whether a server is reachable again. If it is dropped, the next call becomes the probe.
#[derive(Debug)]
pub(super) struct Probe {
    server: Option<Arc<Server>>,
}

impl Probe {
    fn finish(mut self) {
        self.server = None;
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // Any configuration will do: a probe without evidence only makes the next call a probe.
            let config = CircuitConfig::default();
            server.update(|circuit| {
                circuit.record(Instant::now(), Evidence::Unknown, Admission::Probe, &config)
            });
        }
    }
}

/// The states of all servers of a layer.
///
/// If the table is full, entries that no call uses and whose circuit is closed are removed. If no entry can be removed,
/// further servers share one state.
pub(super) struct ServerTable {
    /// The state for calls without a server id, and for all servers that do not fit into the table.
    common: Arc<Server>,
    named: Mutex<HashMap<ServerId, Arc<Server>>>,
}

impl ServerTable {
    pub(super) fn new() -> Self {
        Self { common: Server::new(None), named: Mutex::default() }
    }

    pub(super) fn of(&self, id: Option<&ServerId>) -> Arc<Server> {
        let Some(id) = id else { return Arc::clone(&self.common) };
        let mut named = self.named.lock();
        if let Some(server) = named.get(id) {
            return Arc::clone(server);
        }
        if named.len() >= MAX_SERVERS {
            named.retain(|_, server| Arc::strong_count(server) > 1 || !server.is_closed());
        }
        if named.len() >= MAX_SERVERS {
            return Arc::clone(&self.common);
        }
        let server = Server::new(Some(id.clone()));
        named.insert(id.clone(), Arc::clone(&server));
        server
    }
}

mgp_types::opaque_debug!(ServerTable);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_table_of_servers_is_bounded() {
        let servers = ServerTable::new();
        let id = |number: usize| ServerId::from(number.to_string());
        // Record a failure, so that this server is not removed.
        let away = servers.of(Some(&id(0)));
        away.record(Evidence::Unreachable, None, &CircuitConfig::default());
        for number in 0..3 * MAX_SERVERS {
            assert!(servers.of(Some(&id(number))).id().is_some());
            assert!(servers.named.lock().len() <= MAX_SERVERS);
        }
        assert!(Arc::ptr_eq(&away, &servers.of(Some(&id(0)))));
        let held: Vec<_> =
            (0..2 * MAX_SERVERS).map(|number| servers.of(Some(&id(number)))).collect();
        assert!(held.last().unwrap().id().is_none(), "servers beyond the bound share a record");
    }
}
