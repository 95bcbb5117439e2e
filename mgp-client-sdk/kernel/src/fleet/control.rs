//! Starts and stops by operators: each completes even if the caller disconnects.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::managed_server::ManagedServer;

/// Time that an operator waits for a start; then the present state is returned.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that an operator waits for a stop; then the present state is returned.
const STOP_TIMEOUT: Duration = Duration::from_mins(1);

impl ManagedServer {
    /// Starts the server unless it runs, waits until its tools are known, and returns its state.
    pub(crate) async fn operator_start(&self, wait: Option<Duration>) -> ServerState {
        self.hold().set_stopped(false);
        let started = async {
            self.start().await;
            self.listed().await;
        };
        let _ = timeout(wait.unwrap_or(START_TIMEOUT), started).await;
        self.state()
    }

    /// Drains and stops the server, and returns its state; no call starts it until an operator does.
    pub(crate) async fn operator_stop(self: &Arc<Self>, wait: Option<Duration>) -> ServerState {
        let _ = timeout(wait.unwrap_or(STOP_TIMEOUT), self.begin_operator_stop()).await;
        self.state()
    }

    /// Begins to stop the server as [`operator_stop`](Self::operator_stop) does.
    pub(super) fn begin_operator_stop(self: &Arc<Self>) -> JoinHandle<()> {
        self.hold().set_stopped(true);
        let server = Arc::clone(self);
        tokio::spawn(async move { server.stop(ShutdownReason::OperatorRequest).await })
    }

    /// Drains the server and starts it again, waits until its tools are known, and returns its state.
    pub(crate) async fn operator_restart(self: &Arc<Self>, wait: Option<Duration>) -> ServerState {
        self.hold().set_stopped(false);
        let server = Arc::clone(self);
        let restarted = tokio::spawn(async move {
            let isolated = server.stop_isolated(&ShutdownReason::OperatorRequest);
            tokio::join!(isolated, server.restart_sessions());
            // It may have been stopped or removed meanwhile.
            if server.hold().is_set() {
                return server.stop(ShutdownReason::OperatorRequest).await;
            }
            // The restart is accepted before the state changes.
            let _ = server.client().ready().await;
            server.listed().await;
        });
        let _ = timeout(wait.unwrap_or(START_TIMEOUT), restarted).await;
        self.state()
    }
}
