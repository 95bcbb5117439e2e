//! Stops servers that nobody has called for a while: what they have stays known, and the next call starts them.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_types::mgp::ServerState;

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
            if is_idle && fleet.is_known(node) && !fleet.ground().watching.has(node.id(), None) {
                tracing::info!(server = %node.id(), "nobody calls it: it is stopped until somebody does");
                let node = std::sync::Arc::clone(node);
                tokio::spawn(async move { node.rest().await });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_discovery::ServerMgp;
    use mgp_server_sdk::{Server, Tool};
    use mgp_types::mgp::{DefaultPolicy, RiskLevel};

    use super::*;
    use crate::Kernel;
    use mgp_client_sdk::TestClient;

    /// Waits until the server is in a state.
    async fn becomes(kernel: &Kernel, state: ServerState) {
        for _ in 0..1000 {
            if kernel.servers()[0].status == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never became {state}: {:?}", kernel.servers());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_called_rests_until_somebody_calls() {
        let clock =
            || Server::new("clock", "1").tool(Tool::new("now", "The time", || async { "noon" }));
        let mut mgp = ServerMgp::default();
        mgp.default_policy = DefaultPolicy::OptOut;
        mgp.risk.insert("now".to_owned(), RiskLevel::Safe);
        let kernel = Kernel::builder().local_as("clock", mgp, clock).build().await.unwrap();
        becomes(&kernel, ServerState::Connected).await;
        while kernel.index().tools_of("clock").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let client = TestClient::new(kernel.server()).await;
        tokio::time::sleep(IDLE / 2).await;
        assert_eq!(client.text("now", ()).await, "noon");
        tokio::time::sleep(Duration::from_mins(9)).await;
        assert_eq!(kernel.servers()[0].status, ServerState::Connected, "it was called in between");
        tokio::time::sleep(Duration::from_mins(2)).await;
        becomes(&kernel, ServerState::Disconnected).await;
        assert_eq!(kernel.servers()[0].tools, 1, "what it has stays known");
        assert_eq!(client.text("now", ()).await, "noon");
        becomes(&kernel, ServerState::Connected).await;
        kernel.stop().await;
    }
}
