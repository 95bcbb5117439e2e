//! Health monitoring of a server by MGP and MCP pings, by other answers, and by the end of the connection (MGP
//! §11.3).

use std::future::pending;
use std::sync::Arc;

use futures_util::future::{Either, select};
use mgp_lifecycle::{HealthChange, HealthMonitor, HealthSignal, MonitorConfig, MonitorStep};
use mgp_types::Timestamp;
use mgp_types::mcp::{DiscoverParams, EmptyParams, Era};
use mgp_types::method::{HealthPing, Ping, Request, ServerDiscover};
use mgp_types::mgp::{Extension, HealthStatus, PingParams, PingResult};
use mgp_types::service::{Call, CallKey, Context, PeerInfo, Reply, Stack};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::client::Client;
use crate::wire::{Liveness, TaskGuard, is_answer};

/// The number of changes that are buffered per subscriber; a slower subscriber loses the oldest.
const MAX_BUFFERED: usize = 16;

impl Client {
    /// Monitors the health of the server until the returned watch is dropped or the connection ends.
    ///
    /// The client pings the server with MGP if the extension `lifecycle` is active, else with MCP. After an MGP ping
    /// without an answer it uses both. Any answer counts as a sign of life, including errors and answers to other
    /// calls; an HTTP response without a JSON-RPC answer, e.g. of a proxy, does not.
    ///
    /// ```
    /// use mgp_client_sdk::types::mgp::HealthStatus;
    /// use mgp_client_sdk::{HealthReason, MonitorConfig, TestClient};
    /// use mgp_server_sdk::Server;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let client = TestClient::new(Server::new("s", "1")).await;
    /// let watch = client.monitor_health(MonitorConfig::default());
    /// assert_eq!(watch.status(), HealthStatus::Healthy);
    /// client.close().await;
    /// assert_eq!(watch.unhealthy().await.reason, HealthReason::Ended);
    /// # });
    /// ```
    #[must_use = "dropping it ends the watch"]
    pub fn monitor_health(&self, config: MonitorConfig) -> HealthWatch {
        let prober = self.prober();
        let channels = Arc::new(HealthChannels {
            status: watch::Sender::new(HealthStatus::Healthy),
            last: watch::Sender::new(None),
            changes: broadcast::Sender::new(MAX_BUFFERED),
        });
        let watching = prober.watch(config, Arc::clone(&channels));
        HealthWatch { channels, _driver: TaskGuard::spawn(watching) }
    }

    pub(crate) fn prober(&self) -> Prober {
        Prober {
            stack: self.stack().clone(),
            cx: self.context(),
            facts: Arc::new(self.server().clone()),
            life: self.liveness().clone(),
        }
    }
}

/// The handle of a health monitor; see [`Client::monitor_health`].
///
/// Dropping the handle ends the monitoring. The handle does not keep the client alive.
pub struct HealthWatch {
    channels: Arc<HealthChannels>,
    _driver: TaskGuard,
}

struct HealthChannels {
    status: watch::Sender<HealthStatus>,
    last: watch::Sender<Option<HealthChange>>,
    changes: broadcast::Sender<HealthChange>,
}

impl HealthWatch {
    /// Returns the current health.
    #[must_use]
    pub fn status(&self) -> HealthStatus {
        self.channels.status.borrow().clone()
    }

    /// Returns a receiver of the current health; a slow reader sees only the latest.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<HealthStatus> {
        self.channels.status.subscribe()
    }

    /// Subscribes to all changes with their reasons. A slow reader loses the oldest changes, and receives an error with
    /// the count of lost changes.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<HealthChange> {
        self.channels.changes.subscribe()
    }

    /// Waits until the server is unhealthy and returns the change with its reason.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method may be called again at any time.
    pub async fn unhealthy(&self) -> HealthChange {
        let mut last = self.channels.last.subscribe();
        let is_unhealthy = |last: &Option<HealthChange>| {
            last.as_ref().is_some_and(|last| last.to == HealthStatus::Unhealthy)
        };
        let change = last.wait_for(is_unhealthy).await.ok().and_then(|last| last.clone());
        match change {
            Some(change) => change,
            // This branch is never reached, because this watch owns the sender.
            None => pending().await,
        }
    }
}

mgp_types::opaque_debug!(HealthWatch);

impl HealthChannels {
    fn publish(&self, change: Option<HealthChange>) {
        let Some(change) = change else { return };
        tracing::debug!(from = %change.from, to = %change.to, reason = %change.reason, "health of a server changed");
        self.status.send_replace(change.to.clone());
        self.last.send_replace(Some(change.clone()));
        let _ = self.changes.send(change);
    }
}

/// The part of a health monitor that pings the server; does not keep the client alive.
pub(crate) struct Prober {
    stack: Stack,
    cx: Context,
    facts: Arc<PeerInfo>,
    life: Liveness,
}

impl Prober {
    async fn watch(self, config: MonitorConfig, channels: Arc<HealthChannels>) {
        let mut monitor = HealthMonitor::new(config, Instant::now());
        let mut ended = Box::pin(self.life.ended());
        while let Some(due) = monitor.due() {
            if let Either::Left(_) = select(ended.as_mut(), Box::pin(sleep_until(due))).await {
                channels.publish(monitor.record(HealthSignal::Ended));
                return;
            }
            match monitor.step(Instant::now()) {
                MonitorStep::Ping => {}
                MonitorStep::Changed(change) => {
                    channels.publish(Some(change));
                    continue;
                }
                _ => continue,
            }
            let before = self.life.answer_count();
            let until = monitor.due().unwrap_or(due);
            let asking = Box::pin(timeout_at(until, self.ask(monitor.misses())));
            let sign = match select(ended.as_mut(), asking).await {
                Either::Left(_) => Some(HealthSignal::Ended),
                Either::Right((sign, _)) => sign.ok().flatten(),
            };
            // If the ping has no answer yet, count an answer to any other call as a sign of life, too.
            let sign = sign
                .or_else(|| (self.life.answer_count() != before).then_some(HealthSignal::Answered));
            if let Some(sign) = sign {
                channels.publish(monitor.record(sign));
            }
        }
    }

    /// Pings the server with MGP if the extension `lifecycle` is active, else with MCP, or with both after earlier
    /// pings without an answer. Returns `None` if there was no answer.
    pub(crate) async fn ask(&self, misses: u32) -> Option<HealthSignal> {
        if !self.facts.has(Extension::Lifecycle) {
            return self.ask_plain().await;
        }
        let health = Box::pin(self.ask_health());
        if misses == 0 {
            return health.await;
        }
        match select(health, Box::pin(self.ask_plain())).await {
            Either::Left((sign, _)) => sign,
            // The server is alive; wait for its MGP health, which is more precise.
            Either::Right((_, health)) => health.await,
        }
    }

    async fn ask_health(&self) -> Option<HealthSignal> {
        let mut params = PingParams::new();
        params.timestamp = Some(Timestamp::now());
        let reply = self.send::<HealthPing>(&params).await?;
        let health = reply.and_then(|reply| reply.get::<PingResult>().ok());
        Some(health.map_or(HealthSignal::Answered, |ping| HealthSignal::Reported(ping.status)))
    }

    async fn ask_plain(&self) -> Option<HealthSignal> {
        match self.facts.era {
            Era::Legacy => self.send::<Ping>(&EmptyParams::new()).await?,
            // The modern era has no ping, but every server must answer this request.
            Era::Modern => self.send::<ServerDiscover>(&DiscoverParams::new()).await?,
        };
        Some(HealthSignal::Answered)
    }

    /// Sends a request. Returns `None` if there was no answer, and `Some(None)` if the answer was an error.
    async fn send<R: Request>(&self, params: &R::Params) -> Option<Option<Reply>> {
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        let outcome = self.stack.send(Call::ask::<R>(params, cx).ok()?).await;
        is_answer(&outcome).then(|| outcome.ok())
    }
}
