//! Stops idle servers: their lists stay known, and the next call starts them.

use std::time::Duration;

use mgp_types::mgp::ShutdownReason;

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
            for session in server.idle_sessions(IDLE_TIMEOUT) {
                let source = server.source(session.kind());
                if !fleet.is_known(server) || fleet.context().subscriptions.has(&source) {
                    continue;
                }
                tracing::info!(server = %server.id(), session = ?session.kind(), "stopping idle server");
                tokio::spawn(async move {
                    session.client().stop(ShutdownReason::IdleTimeout).await;
                });
            }
        }
    }
}
