//! The handle of a supervised server, and what it tells (MGP §11.2, §11.5).
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::mgp::{ServerState, ShutdownReason};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::event::{LimitExceeded, Rest};
use crate::state::State;

/// A server that is started, stopped and started again; clones are handles of the same one.
///
/// When the last handle is dropped the server is stopped, with the reason `kernel_shutdown`, and its task ends.
#[derive(Clone)]
pub struct Supervised<C> {
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) state: State,
    pub(super) live: watch::Receiver<Option<Live<C>>>,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) reports: broadcast::Sender<Report>,
}

/// The present incarnation of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live<C> {
    /// What it is called through.
    pub client: C,
    /// Which start it came from, counted from 1.
    pub run: u64,
}

/// A change of state of a supervised server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// When.
    pub at: Timestamp,
    /// The same, since the supervisor began.
    pub elapsed: Duration,
    /// The state it left.
    pub from: ServerState,
    /// The state it entered.
    pub to: ServerState,
    /// Why: a word of §11.4, or what happened.
    pub reason: Arc<str>,
    /// How often it was restarted until then.
    pub restarts: u64,
    /// The limit, where that is why it will not be restarted; told once.
    pub limit: Option<LimitExceeded>,
}

/// What the task tells its handles.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) is_connected: bool,
    pub(super) is_stopping: bool,
    pub(super) restarts: u64,
    pub(super) rest: Option<Rest>,
}

/// What a handle tells the task.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) wish: Wish,
    /// Told once the order was taken.
    pub(super) taken: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) enum Wish {
    Start,
    Restart,
    Stop(ShutdownReason),
    Unhealthy { run: u64, why: String },
}

impl<C: Clone + Send + Sync + 'static> Supervised<C> {
    /// Starts the server, unless it starts or runs; earlier restarts are forgotten.
    ///
    /// Completes once it is starting. To wait until it can be called, wait for [`ready`](Self::ready).
    ///
    /// # Cancel safety
    /// Dropped, it may have started the server or not.
    pub async fn start(&self) {
        self.order(Wish::Start).await;
    }

    /// Starts the server anew, now, whatever its policy; earlier restarts are forgotten.
    ///
    /// Completes once the order is taken. What runs is drained first.
    ///
    /// # Cancel safety
    /// Dropped, it may have ordered the restart or not.
    pub async fn restart(&self) {
        self.order(Wish::Restart).await;
    }

    /// Stops the server and everything it started; completes when all is gone.
    ///
    /// After `configuration_change` it is started anew; after `resource_limit` too, as the policy and its limit
    /// allow. After any other reason only [`start`](Self::start) and [`restart`](Self::restart) start it.
    ///
    /// # Cancel safety
    /// Dropped, it may have ordered the stop or not; what was ordered is carried out.
    pub async fn stop(&self, reason: ShutdownReason) {
        self.order(Wish::Stop(reason)).await;
        // Fails if the task is gone, and the server with it.
        let _ = self.standing.clone().wait_for(|standing| !standing.is_stopping).await;
    }

    /// Gives the server up as failed: it is stopped, and restarted as its policy says.
    ///
    /// `run` says of which incarnation this is known ([`Live::run`]); another one is left alone.
    ///
    /// # Cancel safety
    /// Dropped, it may have been told or not.
    pub async fn unhealthy(&self, run: u64, why: impl Into<String>) {
        self.order(Wish::Unhealthy { run, why: why.into() }).await;
    }

    /// Waits until the server can be called.
    ///
    /// # Errors
    /// [`Rest`], once it rests and nothing starts it any more.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn ready(&self) -> Result<C, Rest> {
        let mut standing = self.standing.clone();
        loop {
            {
                let now = standing.borrow_and_update();
                if let Some(rest) = &now.rest {
                    return Err(rest.clone());
                }
                if now.is_connected
                    && let Some(client) = self.client()
                {
                    return Ok(client);
                }
            }
            if standing.changed().await.is_err() {
                return Err(gone(&self.state, self.restarts()));
            }
        }
    }

    /// Waits until the server rests: nothing runs, and only a person starts it again.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn ended(&self) -> Rest {
        let mut standing = self.standing.clone();
        let rest = match standing.wait_for(|standing| standing.rest.is_some()).await {
            Ok(standing) => standing.rest.clone(),
            Err(_) => None,
        };
        rest.unwrap_or_else(|| gone(&self.state, self.restarts()))
    }

    /// What the server is called through, while it is connected or draining.
    #[must_use]
    pub fn client(&self) -> Option<C> {
        self.live.borrow().as_ref().map(|live| live.client.clone())
    }

    /// Follows the incarnations; each is there before the state becomes `connected`.
    #[must_use]
    pub fn current(&self) -> watch::Receiver<Option<Live<C>>> {
        self.live.clone()
    }

    /// The state of the server.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How often the server was restarted, whoever wanted it.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.standing.borrow().restarts
    }

    /// Follows every change of state from now on; who lags 256 behind loses the oldest.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<Report> {
        self.reports.subscribe()
    }

    async fn order(&self, wish: Wish) {
        let (taken, wait) = oneshot::channel();
        // Both fail if the task is gone, and the server with it: there is nothing left to order.
        if self.orders.send(Order { wish, taken }).await.is_ok() {
            let _ = wait.await;
        }
    }
}

impl<C> fmt::Debug for Supervised<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervised").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Why a server ended whose runtime was shut down.
pub(super) const GONE: &str = "its runtime was shut down";

/// How such a server rests.
pub(super) fn gone(state: &State, restarts: u64) -> Rest {
    Rest { state: state.now(), reason: GONE.into(), restarts, limit: None }
}
