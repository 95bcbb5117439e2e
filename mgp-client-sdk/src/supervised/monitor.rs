//! Restarts servers that are unhealthy (MGP §11.3).

use std::pin::pin;

use futures_util::future::{Either, select};
use mgp_lifecycle::{HealthReason, LiveServer, MonitorConfig};
use tokio::sync::watch;

use super::handle::WeakSupervisedClient;
use crate::client::Client;

/// Monitors each run of a server, until the last handle of the server is dropped.
pub(super) async fn monitor_runs(
    mut runs: watch::Receiver<Option<LiveServer<Client>>>,
    config: MonitorConfig,
    server: WeakSupervisedClient,
) {
    loop {
        let run_info = runs.borrow_and_update().clone();
        if let Some(LiveServer { client, run, .. }) = run_info {
            let health = client.monitor_health(config.clone());
            // Drop the handle, because monitoring must not keep the client alive.
            drop(client);
            match select(pin!(health.unhealthy()), pin!(runs.changed())).await {
                Either::Left((change, _)) if change.reason != HealthReason::Ended => {
                    let Some(server) = server.upgrade() else { return };
                    server.mark_unhealthy(run, format!("unhealthy: {}", change.reason)).await;
                }
                // The supervisor itself detects the end of a connection, so the monitor has nothing to do.
                Either::Left(_) => {}
                Either::Right((Ok(()), _)) => continue,
                Either::Right((Err(_), _)) => return,
            }
        }
        if runs.changed().await.is_err() {
            return;
        }
    }
}
