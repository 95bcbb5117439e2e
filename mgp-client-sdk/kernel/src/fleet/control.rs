//! Starts and stops servers on request of an operator. Each start or stop completes even if the operator's connection
//! ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_client_sdk::Client;
use mgp_types::mgp::{ServerState, ShutdownReason};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::managed_server::ManagedServer;
use super::session::has_failed;
use crate::policy;

/// The time that the answer to an operator waits for the tools of a started server. The answer then contains the
/// current state.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which a state counts as lasting. A temporary state, e.g. during a restart, usually ends sooner.
const PASSING_DELAY: Duration = Duration::from_millis(50);

/// The default time that the answer to an operator waits for the stop of a server. The answer then contains the current
/// state.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);

impl ManagedServer {
    /// Starts the server unless it runs, waits for a limited time until its tools are known or it has failed, and
    /// returns its state.
    pub(crate) async fn operator_start(self: &Arc<Self>, wait: Option<Duration>) -> ServerState {
        self.hold().set_stopped(false);
        let server = Arc::clone(self);
        // Start the server in a separate task, so that the start continues even if this future is dropped.
        let starting = tokio::spawn(async move { server.start().await });
        self.resume_isolated();
        let started = async {
            // Ignore the error: the task fails only when the runtime ends.
            let _ = starting.await;
            self.listed().await;
        };
        let _ = timeout(self.start_limit(wait), started).await;
        self.state()
    }

    /// Checks whether a server at a URL answers; if it has failed, tries to connect again. Called when an operator
    /// views the server.
    pub(super) async fn look(&self) {
        if policy::is_remote(&self.config()) {
            self.check_sessions().await;
            self.main().retry(self.hold()).await;
        }
    }

    /// Returns whether the last start of the server failed for a lasting reason, so that the kernel does not restart it
    /// automatically.
    pub(crate) fn has_failed_to_start(&self) -> bool {
        self.client().supervised().rest().is_some_and(|rest| rest.is_start_failure)
    }

    /// Starts a server again after its start has failed, because the cause may be gone, e.g. a program is now
    /// installed. Waits until the server is connected or has failed again. Does nothing shortly after an earlier
    /// attempt.
    pub(super) async fn retry_start(&self) {
        if self.has_failed_to_start() {
            self.main().retry(self.hold()).await;
            // Ignore the error: the caller reads the state of the server itself.
            let _ = self.client().ready().await;
        }
    }

    /// Starts a server again as [`retry_start`](Self::retry_start) does, but in the background and with a permit for
    /// first starts.
    pub(crate) fn retry_start_later(self: &Arc<Self>) {
        if !self.has_failed_to_start() || !self.main().claim_retry() {
            return;
        }
        let server = Arc::clone(self);
        tokio::spawn(async move {
            let start = async {
                server.hold().start(server.client()).await;
                let _ = server.client().ready().await;
            };
            let permits = &server.start_permits().first_starts;
            let _ = timeout(server.start_timeout(), permits.run(pin!(start))).await;
        });
    }

    /// Drains and stops the server, waits for a limited time until it has ended, and returns its state. After this,
    /// only an operator can start the server again; calls do not start it.
    pub(crate) async fn operator_stop(self: &Arc<Self>, wait: Option<Duration>) -> ServerState {
        let _ = timeout(wait.unwrap_or(STOP_TIMEOUT), self.begin_operator_stop(None)).await;
        self.state()
    }

    /// Begins to stop the server as [`operator_stop`](Self::operator_stop) does. The drain lasts at most the time that
    /// the server's configuration sets; `drain` can shorten it.
    pub(super) fn begin_operator_stop(self: &Arc<Self>, drain: Option<Duration>) -> JoinHandle<()> {
        self.hold().set_stopped(true);
        // The kernel does not read the lists of a server that is stopped during its first start. So calls must not wait
        // for them.
        self.finish_first_sync();
        let server = Arc::clone(self);
        tokio::spawn(async move {
            server.stop_within(&ShutdownReason::OperatorRequest, drain).await;
        })
    }

    /// Drains and stops all instances as [`stop_for`](Self::stop_for) does, but closes their connections after the time
    /// `drain`, if it is given.
    pub(super) async fn stop_within(&self, reason: &ShutdownReason, drain: Option<Duration>) {
        let clients = self.clients();
        let mut stop = pin!(self.stop_for(reason, drain));
        if let Some(drain) = drain {
            if timeout(drain, &mut stop).await.is_ok() {
                return;
            }
            tracing::info!(server = %self.id(), ?drain, "drain timeout: closing connections");
            // Close the connections. This ends a drain that began earlier with more time, for which `stop` waits.
            join_all(clients.iter().map(Client::close)).await;
        }
        stop.await;
    }

    /// Drains the server and starts it again, waits for a limited time until its tools are known or it stays failed,
    /// and returns its state.
    pub(crate) async fn operator_restart(self: &Arc<Self>, wait: Option<Duration>) -> ServerState {
        self.hold().set_stopped(false);
        let server = Arc::clone(self);
        let restarted = tokio::spawn(async move {
            // Do not start a program that a reload has just removed or replaced.
            if server.hold().forbids_start() {
                return;
            }
            let reason = ShutdownReason::OperatorRequest;
            tokio::join!(server.stop_isolated(&reason, None), server.restart_sessions());
            // If an operator has stopped or removed the server meanwhile, stop it again.
            if server.hold().forbids_start() {
                return server.stop().await;
            }
            server.resume_isolated();
            // Wait until the server is connected or stays failed, so that the returned state is that after the restart.
            tokio::select! {
                _ = server.client().ready() => server.listed().await,
                () = server.stays_failed() => {}
            }
        });
        let _ = timeout(self.start_limit(wait), restarted).await;
        self.state()
    }

    fn start_limit(&self, wait: Option<Duration>) -> Duration {
        wait.unwrap_or_else(|| self.start_timeout().saturating_add(LIST_TIMEOUT))
    }

    async fn stays_failed(&self) {
        let mut states = self.client().state().watch();
        loop {
            has_failed(&mut states).await;
            sleep(PASSING_DELAY).await;
            if matches!(*states.borrow(), ServerState::Error | ServerState::Restarting) {
                return;
            }
        }
    }
}
