//! Health of a server: its own figures and the checks of its author (MGP §11.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_lifecycle::{Drain, Health, IntoCheckResult, ServerOffer};
use mgp_stream::CancelLayer;

use crate::server::Server;
use crate::tool::Tools;

impl Server {
    /// Adds a check that must succeed for the server to be healthy; it runs on a health request, at most once a second.
    ///
    /// A check returns a `bool`, `()`, a `HealthStatus`, one of these with any JSON value, or a `Result` of these; an
    /// error is logged and reported as `false`. It has one second, and runs on a task: see [`Health`].
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    ///
    /// async fn reach_database() -> Result<(), std::io::Error> {
    ///     Ok(())
    /// }
    ///
    /// let server = Server::new("books", "1.0").check("database", || reach_database());
    /// # drop(server);
    /// ```
    pub fn check<F, Fut>(self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCheckResult> + Send + 'static,
    {
        self.health(|health| health.check(name, check))
    }

    /// Changes the health report of the server: checks, resources, the servers behind it.
    ///
    /// Uptime, running requests and memory are always counted; tools and connections unless the author counts them.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    ///
    /// let server = Server::new("books", "1.0").health(|health| {
    ///     health.optional_check("search", || async { true }).resource("books", || async { 12_000 })
    /// });
    /// # drop(server);
    /// ```
    pub fn health(mut self, change: impl FnOnce(Health) -> Health) -> Self {
        self.health = change(self.health);
        self
    }

    /// Counts connections for the health report, unless the author does.
    pub(crate) fn count_connections(&mut self) -> ConnectionCount {
        let open = ConnectionCount::default();
        if !self.health.counts_connections() {
            let counted = open.clone();
            self.count_by(move || counted.0.load(Ordering::Relaxed) as u64);
        }
        open
    }

    /// Counts the connections of a listener for the health report, unless the author does.
    #[cfg(feature = "http")]
    pub(crate) fn count_http(&mut self, limits: &mgp_transport::http::ConnectionLimits) {
        if !self.health.counts_connections() {
            let open = limits.open.clone();
            self.count_by(move || open.count() as u64);
        }
    }

    fn count_by(&mut self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        self.health = std::mem::take(&mut self.health).open_connections(count);
    }
}

/// The number of open connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    /// Counts one connection until the guard is dropped.
    pub(crate) fn enter(self) -> ConnectionGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(self)
    }
}

/// An open connection.
pub(crate) struct ConnectionGuard(ConnectionCount);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds the server's own figures to its health report.
pub(crate) fn of(
    health: Health,
    offer: &ServerOffer,
    tools: &Tools,
    cancel: &CancelLayer,
    drain: &Drain,
) -> Health {
    let (all, on, running) = (tools.clone(), tools.clone(), cancel.clone());
    // A gateway counts the tools behind it.
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
