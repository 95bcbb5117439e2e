//! Watches over the health of a server: pings of MGP and MCP, any other answer, and the life of its process (MGP §11.3).
//!
//! Applies to: outbound.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use futures_util::future::{Either, select};
use mgp_lifecycle::{HealthChange, HealthMonitor, MonitorConfig, Sign, Turn};
use mgp_types::Timestamp;
use mgp_types::mcp::{DiscoverParams, EmptyParams, Era};
use mgp_types::method::{HealthPing, Ping, Request, ServerDiscover};
use mgp_types::mgp::{Extension, HealthStatus, PingParams, PingResult};
use mgp_types::service::{Call, CallKey, Context, Facts, Reply, Stack};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::client::Client;
use crate::wire::{Driver, Life, is_answer};

/// How many changes a listener may lag behind before it loses the oldest.
const KEPT: usize = 16;

impl Client {
    /// Watches over the health of the server until the watch is dropped.
    ///
    /// It is asked by a ping of MGP where that was negotiated, else by one of MCP, and in both ways once an answer is
    /// missing. Any answer is a sign of life: to another call as well, and an error too.
    ///
    /// ```
    /// use mgp_client_sdk::types::mgp::HealthStatus;
    /// use mgp_client_sdk::{HealthReason, MonitorConfig, TestClient};
    /// use mgp_server_sdk::Server;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let client = TestClient::new(Server::new("s", "1")).await;
    /// let watch = client.monitor_health(MonitorConfig::default());
    /// assert_eq!(watch.now(), HealthStatus::Healthy);
    /// client.close().await;
    /// assert_eq!(watch.unhealthy().await.reason, HealthReason::Ended);
    /// # });
    /// ```
    #[must_use = "dropping it ends the watch"]
    pub fn monitor_health(&self, config: MonitorConfig) -> HealthWatch {
        let asker = Asker {
            stack: self.stack().clone(),
            cx: self.context(),
            facts: Arc::new(self.server().clone()),
            life: self.life().clone(),
        };
        let told = Arc::new(Told {
            health: watch::Sender::new(HealthStatus::Healthy),
            last: watch::Sender::new(None),
            changes: broadcast::Sender::new(KEPT),
        });
        let watching = asker.watch(config, Arc::clone(&told));
        HealthWatch { told, _driver: Driver::of(watching) }
    }
}

/// A watch over the health of a server; see [`Client::monitor_health`].
///
/// It does not keep the client alive.
pub struct HealthWatch {
    told: Arc<Told>,
    _driver: Driver,
}

struct Told {
    health: watch::Sender<HealthStatus>,
    last: watch::Sender<Option<HealthChange>>,
    changes: broadcast::Sender<HealthChange>,
}

impl HealthWatch {
    /// What the server is taken for.
    #[must_use]
    pub fn now(&self) -> HealthStatus {
        self.told.health.borrow().clone()
    }

    /// Follows that; who is slow sees only the latest.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<HealthStatus> {
        self.told.health.subscribe()
    }

    /// Follows every change, with its reason; who lags far behind loses the oldest, and is told how many.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<HealthChange> {
        self.told.changes.subscribe()
    }

    /// Waits until the server is unhealthy, and says since when and why.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn unhealthy(&self) -> HealthChange {
        let mut last = self.told.last.subscribe();
        let is_ill = |last: &Option<HealthChange>| {
            last.as_ref().is_some_and(|last| last.to == HealthStatus::Unhealthy)
        };
        let ill = last.wait_for(is_ill).await.ok().and_then(|last| last.clone());
        match ill {
            Some(change) => change,
            // This watch has the sender, so it cannot be.
            None => pending().await,
        }
    }
}

impl fmt::Debug for HealthWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HealthWatch({})", self.now())
    }
}

impl Told {
    fn tell(&self, change: Option<HealthChange>) {
        let Some(change) = change else { return };
        tracing::debug!(from = %change.from, to = %change.to, reason = %change.reason, "server health");
        self.health.send_replace(change.to.clone());
        self.last.send_replace(Some(change.clone()));
        let _ = self.changes.send(change);
    }
}

/// Asks a server how it is, without keeping its client alive.
struct Asker {
    stack: Stack,
    cx: Context,
    facts: Arc<Facts>,
    life: Life,
}

impl Asker {
    async fn watch(self, config: MonitorConfig, told: Arc<Told>) {
        let mut monitor = HealthMonitor::new(config, Instant::now());
        let mut over = Box::pin(self.life.over());
        while let Some(due) = monitor.due() {
            if let Either::Left(_) = select(over.as_mut(), Box::pin(sleep_until(due))).await {
                told.tell(monitor.seen(Sign::Ended));
                return;
            }
            match monitor.turn(Instant::now()) {
                Turn::Ask => {}
                Turn::Changed(change) => {
                    told.tell(Some(change));
                    continue;
                }
                _ => continue,
            }
            let heard = self.life.answers();
            let until = monitor.due().unwrap_or(due);
            let asking = Box::pin(timeout_at(until, self.ask(monitor.misses())));
            let sign = match select(over.as_mut(), asking).await {
                Either::Left(_) => Some(Sign::Ended),
                Either::Right((sign, _)) => sign.ok().flatten(),
            };
            // Who answers others is alive, however long a ping takes there.
            let sign = sign.or_else(|| (self.life.answers() != heard).then_some(Sign::Answered));
            if let Some(sign) = sign {
                told.tell(monitor.seen(sign));
            }
        }
    }

    /// Asks in the best way there is, and in every way once answers are missing; none when nothing came back.
    async fn ask(&self, misses: u32) -> Option<Sign> {
        if !self.facts.has(Extension::Lifecycle) {
            return self.ask_plain().await;
        }
        let health = Box::pin(self.ask_health());
        if misses == 0 {
            return health.await;
        }
        match select(health, Box::pin(self.ask_plain())).await {
            Either::Left((sign, _)) => sign,
            // It lives; how it is may still come, and is worth more.
            Either::Right((_, health)) => health.await,
        }
    }

    async fn ask_health(&self) -> Option<Sign> {
        let mut params = PingParams::new();
        params.timestamp = Some(Timestamp::now());
        let reply = self.send::<HealthPing>(&params).await?;
        let told = reply.and_then(|reply| reply.get::<PingResult>().ok());
        Some(told.map_or(Sign::Answered, |ping| Sign::Told(ping.status)))
    }

    async fn ask_plain(&self) -> Option<Sign> {
        match self.facts.era {
            Era::Legacy => self.send::<Ping>(&EmptyParams::new()).await?,
            // This era has no ping; a server must answer what it is.
            Era::Modern => self.send::<ServerDiscover>(&DiscoverParams::new()).await?,
        };
        Some(Sign::Answered)
    }

    /// What came back: none where nothing did, and no reply where it was an error.
    async fn send<R: Request>(&self, params: &R::Params) -> Option<Option<Reply>> {
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        let outcome = self.stack.send(Call::ask::<R>(params, cx).ok()?).await;
        is_answer(&outcome).then(|| outcome.ok())
    }
}
