//! Gives up incarnations that are unhealthy, so that the next one takes their place (MGP §11.3).
//!
//! Applies to: outbound.

use std::pin::pin;

use futures_util::future::{Either, select};
use mgp_lifecycle::{HealthReason, Live, MonitorConfig};
use tokio::sync::watch;

use super::handle::Weak;
use crate::client::Client;

/// Watches over one incarnation after the other, until nobody has a handle of the server any more.
pub(super) async fn watch(
    mut lives: watch::Receiver<Option<Live<Client>>>,
    config: MonitorConfig,
    server: Weak,
) {
    loop {
        let live = lives.borrow_and_update().clone();
        if let Some(Live { client, run, .. }) = live {
            let health = client.monitor_health(config.clone());
            // The watch does without it, and a client must not live longer for being watched.
            drop(client);
            match select(pin!(health.unhealthy()), pin!(lives.changed())).await {
                Either::Left((change, _)) if change.reason != HealthReason::Ended => {
                    let Some(server) = server.upgrade() else { return };
                    server.unhealthy(run, format!("unhealthy: {}", change.reason)).await;
                }
                // The supervisor has noticed by itself.
                Either::Left(_) => {}
                Either::Right((Ok(()), _)) => continue,
                Either::Right((Err(_), _)) => return,
            }
        }
        if lives.changed().await.is_err() {
            return;
        }
    }
}
