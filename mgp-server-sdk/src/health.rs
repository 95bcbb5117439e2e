//! What a server says of its health: its own figures, and the checks of its author (MGP §11.3).
//!
//! Applies to: inbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_lifecycle::{Drain, Health, IntoFound, ServerOffer};
use mgp_stream::CancelLayer;

use crate::server::Server;
use crate::tool::Tools;

impl Server {
    /// Checks something without which the server is unhealthy, whenever somebody asks how it is, once a second at most.
    ///
    /// A check gives back a `bool`, `()`, a `HealthStatus`, that and any JSON value, or a `Result` of these; an error
    /// is logged and told as `false`. It has a second, and runs on a task: see [`Health`].
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
        Fut: Future<Output: IntoFound> + Send + 'static,
    {
        self.health(|health| health.check(name, check))
    }

    /// Changes what is told about the health of the server: checks, resources, the servers behind it.
    ///
    /// Uptime, tools, requests that run, memory and connections are counted without it.
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

    /// Counts connections for the health of the server, unless its author does.
    pub(crate) fn count_connections(&mut self) -> Open {
        let open = Open::default();
        if !self.health.counts_connections() {
            let counted = open.clone();
            self.count_by(move || counted.0.load(Ordering::Relaxed) as u64);
        }
        open
    }

    /// Counts the connections of a listener for the health of the server, unless its author does.
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

/// Connections that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open(Arc<AtomicUsize>);

impl Open {
    /// Counts one until the guard is dropped.
    pub(crate) fn enter(self) -> OpenGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenGuard(self)
    }
}

/// A connection that is open.
pub(crate) struct OpenGuard(Open);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The health of a server that is put together.
pub(crate) fn of(
    health: Health,
    offer: &ServerOffer,
    tools: &Tools,
    cancel: &CancelLayer,
    drain: &Drain,
) -> Health {
    let (all, on, running) = (tools.clone(), tools.clone(), cancel.clone());
    let health = health
        .tools_total(move || all.len() as u64)
        .tools_available(move || on.available() as u64)
        .pending_requests(move |asking| (running.running() as u64).saturating_sub(asking))
        .state(drain.state());
    match offer.mgp.as_ref().and_then(|mgp| mgp.server_id.clone()) {
        Some(id) => health.server_id(id),
        None => health,
    }
}
