//! Stops idle servers: their lists stay known, and the next call starts them.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::ServerState;

use super::servers::WeakFleet;

/// Time without a call after which a server is stopped.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Checks from time to time, until the fleet is dropped.
pub(super) async fn run(fleet: WeakFleet) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(fleet) = fleet.upgrade() else { return };
        for server in fleet.all().values() {
            let is_idle = server.state() == ServerState::Connected && server.is_idle(IDLE_TIMEOUT);
            let is_subscribed_to = || fleet.context().subscriptions.has(server.id(), None);
            if is_idle && fleet.is_known(server) && !is_subscribed_to() {
                tracing::info!(server = %server.id(), "stopping idle server");
                let server = Arc::clone(server);
                tokio::spawn(async move { server.stop_idle().await });
            }
        }
    }
}
