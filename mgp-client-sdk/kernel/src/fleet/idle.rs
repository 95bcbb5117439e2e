//! Looks at the servers from time to time: stops idle ones, whose lists stay known and which the next call starts, and
//! checks that those at URLs answer.

use std::time::Duration;

use futures_util::future::join_all;
use mgp_types::mgp::ShutdownReason;

use super::servers::WeakFleet;

/// The time without calls after which a server is stopped.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Interval between two checks of connected servers at URLs.
const REMOTE_INTERVAL: Duration = Duration::from_secs(20);

/// Checks periodically for idle servers, until the fleet is dropped.
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

/// Checks the servers at URLs, until the fleet is dropped.
pub(super) async fn check_remote(fleet: WeakFleet) {
    loop {
        tokio::time::sleep(REMOTE_INTERVAL).await;
        let Some(fleet) = fleet.upgrade() else { return };
        join_all(fleet.all().values().map(|server| server.check_sessions())).await;
    }
}
