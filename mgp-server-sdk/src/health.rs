//! The health report of a server: numbers that the library counts, and the checks that the author added (MGP §11.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_lifecycle::{Drain, Health, ServerOffer};
use mgp_stream::CancelLayer;

use crate::tool::Tools;

/// Adds the number of connections to the health report, unless the author has set a counter for it.
pub(crate) fn count_connections(health: &mut Health) -> ConnectionCount {
    let open = ConnectionCount::default();
    if !health.counts_connections() {
        let counted = open.clone();
        count_by(health, move || counted.0.load(Ordering::Relaxed) as u64);
    }
    open
}

/// Adds the listener's number of connections to the health report, unless the author has set a counter for it.
#[cfg(feature = "http")]
pub(crate) fn count_http(health: &mut Health, limits: &mgp_transport::http::ConnectionLimits) {
    if !health.counts_connections() {
        let open = limits.open.clone();
        count_by(health, move || open.count() as u64);
    }
}

fn count_by(health: &mut Health, count: impl Fn() -> u64 + Send + Sync + 'static) {
    *health = std::mem::take(health).open_connections(count);
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// Counts one connection until the guard is dropped.
    pub(crate) fn enter(self) -> ConnectionGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(self)
    }
}

/// A guard that counts an open connection.
pub(crate) struct ConnectionGuard(ConnectionCount);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds the numbers of tools and running requests, and the server's state and id, to its health report.
pub(crate) fn of(
    health: Health,
    offer: &ServerOffer,
    tools: &Tools,
    cancel: &CancelLayer,
    drain: &Drain,
) -> Health {
    let (all, on, running) = (tools.clone(), tools.clone(), cancel.clone());
    // A gateway sets its own counter, which counts the tools of the servers behind it.
    let health = if health.counts_tools() {
        health
    } else {
        health.tools_total(move || all.len() as u64).tools_available(move || on.available() as u64)
    };
    let health = health
        .pending_requests(move |asking| (running.running() as u64).saturating_sub(asking))
        .state(drain.state());
    match offer.mgp.as_ref().and_then(|mgp| mgp.server_id.clone()) {
        Some(id) => health.server_id(id),
        None => health,
    }
}
