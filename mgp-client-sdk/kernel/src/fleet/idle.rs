//! Periodic tasks for the servers. They stop idle servers (whose lists stay known, and which the next call starts
//! again), check whether servers at URLs answer, and read lists again that an earlier kernel has stored.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use mgp_types::mgp::ShutdownReason;

use super::ManagedServer;
use super::era_choice::SessionKind;
use super::servers::{Fleet, WeakFleet};

/// The time without calls after which a server is stopped.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// The interval between two checks of the connected servers at URLs.
const REMOTE_INTERVAL: Duration = Duration::from_secs(20);

/// The delay between a start of the kernel, or the connection of a client, and the first start of a server to read its
/// stored lists again. The delay lets the first requests of clients take precedence.
const REREAD_DELAY: Duration = Duration::from_secs(5);

/// The maximum number of servers that are started at the same time to read their stored lists again.
const MAX_REREADS: usize = 2;

/// Stops idle servers, and ends unused subscriptions to events, in periodic checks until the fleet is dropped.
pub(super) async fn run(fleet: WeakFleet) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(fleet) = fleet.upgrade() else { return };
        fleet.context().events.end_unused();
        for server in fleet.all().values() {
            for session in server.idle_sessions(IDLE_TIMEOUT) {
                if !fleet.is_known(server) || has_subscriber(&fleet, server, session.kind()) {
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

/// Returns whether a client is subscribed to a resource, or to events that the kernel receives, in this session of the
/// shared instance.
fn has_subscriber(fleet: &Fleet, server: &ManagedServer, session: SessionKind) -> bool {
    let context = fleet.context();
    // The kernel receives events only over main sessions. For an isolated server, these are the sessions of the
    // principals' instances, not that of the shared instance.
    let has_events = session == SessionKind::Main && !server.is_isolated();
    context.subscriptions.has(&server.source(session))
        || has_events && context.events.hub().has_subscriber(server.id(), None)
}

/// Checks periodically that the servers at URLs answer, until the fleet is dropped.
pub(super) async fn check_remote(fleet: WeakFleet) {
    loop {
        tokio::time::sleep(REMOTE_INTERVAL).await;
        let Some(fleet) = fleet.upgrade() else { return };
        join_all(fleet.all().values().map(|server| server.check_sessions())).await;
    }
}

/// Reads stored lists of an earlier kernel again from their servers, because a server's program may have been updated.
/// This happens once in each run of the kernel. Begins when a client other than an operator connects; ends early if the
/// fleet is dropped.
pub(super) async fn reread(fleet: WeakFleet) {
    let mut is_used = false;
    loop {
        tokio::time::sleep(REREAD_DELAY).await;
        let Some(fleet) = fleet.upgrade() else { return };
        if std::mem::replace(&mut is_used, fleet.context().callers.has_agent()) && is_used {
            let all = fleet.all();
            let unread = all.values().filter(|server| server.lists_may_be_outdated());
            stream::iter(unread)
                .for_each_concurrent(MAX_REREADS, |server| server.sync(server.start_timeout()))
                .await;
        }
    }
}
