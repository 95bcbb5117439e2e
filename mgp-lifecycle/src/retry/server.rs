//! What is kept of each server: its calls, what they paid for, its circuit, its tools.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::service::ServerId;
use tokio::time::Instant;

use super::budget::{RetryBudget, Spent};
use super::circuit::{Admission, Circuit, CircuitConfig, Sign};
use super::known::Learned;

/// What is kept of one server; a call that goes well touches two atomics of it.
#[derive(Debug)]
pub(super) struct Server {
    id: Option<ServerId>,
    calls: AtomicU64,
    /// Whether the circuit is closed and counts nothing.
    calm: AtomicBool,
    state: Mutex<State>,
    tools: Mutex<Learned>,
}

#[derive(Debug, Default)]
struct State {
    spent: Spent,
    circuit: Circuit,
}

impl Server {
    fn new(id: Option<ServerId>) -> Arc<Self> {
        Arc::new(Self {
            id,
            calls: AtomicU64::new(0),
            calm: AtomicBool::new(true),
            state: Mutex::default(),
            tools: Mutex::default(),
        })
    }

    pub(super) fn id(&self) -> Option<&ServerId> {
        self.id.as_ref()
    }

    /// Counts a call, which pays for attempts of others.
    pub(super) fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one attempt out of the budget, if there is one.
    pub(super) fn pay(&self, budget: RetryBudget) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        self.state().spent.take(Instant::now(), calls, budget)
    }

    /// Decides whether a call may go now.
    ///
    /// # Errors
    /// How long the server is left alone.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Option<Probe>, Duration> {
        if self.calm.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match self.state().circuit.admit(Instant::now()) {
            Admission::Pass => Ok(None),
            Admission::Probe => Ok(Some(Probe { server: Some(Arc::clone(self)) })),
            Admission::Refused(wait) => Err(wait),
        }
    }

    /// How long calls would be refused.
    pub(super) fn refuses_for(&self) -> Duration {
        if self.calm.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        self.state().circuit.refuses_for(Instant::now())
    }

    /// Notes what an attempt met.
    pub(super) fn note(&self, sign: Sign, probe: Option<Probe>, config: &CircuitConfig) {
        if sign != Sign::Away && self.calm.load(Ordering::Relaxed) {
            return;
        }
        let by = if probe.is_some() { Admission::Probe } else { Admission::Pass };
        let opened = self.turn(|circuit| circuit.note(Instant::now(), sign, by, config));
        if let Some(probe) = probe {
            probe.over();
        }
        if opened {
            tracing::warn!(
                server = self.id.as_ref().map(ServerId::as_str),
                pause = ?config.open_for,
                "the server cannot be reached and is left alone for a while"
            );
        }
    }

    /// Begins anew: the server was started again.
    pub(super) fn reset(&self) {
        self.turn(|circuit| *circuit = Circuit::Closed);
        self.tools().forget();
    }

    fn turn<T>(&self, change: impl FnOnce(&mut Circuit) -> T) -> T {
        let mut state = self.state();
        let told = change(&mut state.circuit);
        self.calm.store(state.circuit.is_calm(), Ordering::Relaxed);
        told
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools its lists told of.
    pub(super) fn tools(&self) -> MutexGuard<'_, Learned> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one call that finds out whether a server is back; given up, it leaves that to the next one.
#[derive(Debug)]
pub(super) struct Probe {
    server: Option<Arc<Server>>,
}

impl Probe {
    /// What it met was noted.
    fn over(mut self) {
        self.server = None;
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let config = CircuitConfig::default();
            server.turn(|circuit| {
                circuit.note(Instant::now(), Sign::Nothing, Admission::Probe, &config)
            });
        }
    }
}

/// How many servers are told apart.
const SERVERS_MAX: usize = 1024;

/// All servers of a layer.
///
/// Overflow rule: those nobody uses and nothing is wrong with give way; where there is none, servers that are met
/// later share one record.
pub(super) struct Servers {
    /// Where no id is known, and where there are too many.
    common: Arc<Server>,
    named: Mutex<HashMap<ServerId, Arc<Server>>>,
}

impl Servers {
    pub(super) fn new() -> Self {
        Self { common: Server::new(None), named: Mutex::default() }
    }

    /// What is kept of a server.
    pub(super) fn of(&self, id: Option<&ServerId>) -> Arc<Server> {
        let Some(id) = id else { return Arc::clone(&self.common) };
        let mut named = self.named();
        if let Some(server) = named.get(id) {
            return Arc::clone(server);
        }
        if named.len() >= SERVERS_MAX {
            named.retain(|_, server| Arc::strong_count(server) > 1 || !server.is_calm());
        }
        if named.len() >= SERVERS_MAX {
            return Arc::clone(&self.common);
        }
        let server = Server::new(Some(id.clone()));
        named.insert(id.clone(), Arc::clone(&server));
        server
    }

    fn named(&self) -> MutexGuard<'_, HashMap<ServerId, Arc<Server>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} servers", self.named().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_table_of_servers_is_bounded() {
        let servers = Servers::new();
        let id = |number: usize| ServerId::from(number.to_string());
        // In trouble, so that it stays.
        let away = servers.of(Some(&id(0)));
        away.note(Sign::Away, None, &CircuitConfig::default());
        for number in 0..3 * SERVERS_MAX {
            assert!(servers.of(Some(&id(number))).id().is_some());
            assert!(servers.named().len() <= SERVERS_MAX);
        }
        assert!(Arc::ptr_eq(&away, &servers.of(Some(&id(0)))));
        let held: Vec<_> =
            (0..2 * SERVERS_MAX).map(|number| servers.of(Some(&id(number)))).collect();
        assert!(held.last().unwrap().id().is_none(), "they share a record");
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_leaves_it_to_the_next() {
        let server = Server::new(None);
        let config = CircuitConfig { failures: 1, ..CircuitConfig::default() };
        server.note(Sign::Away, None, &config);
        assert!(server.admit().is_err());
        tokio::time::advance(config.open_for).await;
        let probe = server.admit().unwrap();
        assert!(probe.is_some() && server.admit().is_err());
        drop(probe);
        let probe = server.admit().unwrap();
        assert!(probe.is_some());
        server.note(Sign::Answers, probe, &config);
        assert!(server.is_calm());
    }
}
