//! Stops servers that nobody has called for a while: what they have stays known, and the next call starts them.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};

use super::servers::Weak;

/// How long a server may run without a call.
pub(super) const IDLE: Duration = Duration::from_mins(10);

/// How often is looked.
const EVERY: Duration = Duration::from_mins(1);

/// Looks now and then, until the fleet is gone.
pub(super) async fn run(fleet: Weak) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(fleet) = fleet.upgrade() else { return };
        for node in fleet.all().values() {
            let is_idle = node.state() == ServerState::Connected && node.is_idle(IDLE);
            // Whoever watches a resource waits for news of it.
            if is_idle && fleet.is_known(node) && !fleet.ground().watching.has(node) {
                tracing::info!(server = %node.id(), "nobody calls it: it is stopped until somebody does");
                let node = std::sync::Arc::clone(node);
                tokio::spawn(async move { node.stop(ShutdownReason::IdleTimeout).await });
            }
        }
    }
}
