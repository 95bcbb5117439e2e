//! Reacts to changes of a server's state: updates the server's log and the index, and repeats the subscriptions and log
//! levels of clients after a new connection.

use std::sync::{Arc, Weak};

use mgp_discovery::ApprovedRegistration;
use mgp_lifecycle::Transition;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::ServerId;
use tokio::sync::broadcast::{self, error::RecvError};

use super::era_choice::SessionKind;
use super::instance::READY_TIMEOUT;
use super::managed_server::ManagedServer;
use super::notifier::ServerNotifier;
use super::refresh_queue::ListGroup;
use super::server_log::ServerLog;

/// Processes the state changes of a server until the server is dropped.
pub(super) async fn run(server: Weak<ManagedServer>) {
    let states = server.upgrade().map(|server| server.client().state().watch());
    let Some(mut states) = states else { return };
    loop {
        let state = states.borrow_and_update().clone();
        let Some(server) = server.upgrade() else { return };
        record(&server, &state);
        server.context().index.set_state(server.id().as_str(), state.clone());
        if state == ServerState::Connected {
            server.refresh_queue().end_pauses();
            server.context().stale.mark(server.id(), &ListGroup::ALL);
            tokio::spawn(restore(server));
        } else {
            drop(server);
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Publishes the changes of a server's state as events, until the server is dropped. Writes the reason for a failure
/// into the server's log, because the state contains the reason only until the next start.
///
/// Does not wait for clients as [`announce`] does, so that a client that does not read does not delay events.
pub(super) async fn publish(
    mut changes: broadcast::Receiver<Transition>,
    notifier: ServerNotifier,
    log: Arc<ServerLog>,
) {
    while let Some(change) = next_change(&mut changes).await {
        if is_failure(&change) {
            note_failure(&change, notifier.server(), &log);
        }
        notifier.publish_state(&change);
    }
}

/// Announces the changes of a server's state to the clients that see the server, until the server is dropped, or
/// another server has replaced it (`is_replaced`). A client that reads slowly delays the announcements, so the other
/// clients could otherwise be notified of the end of this server after the start of the new one.
pub(super) async fn announce(
    mut changes: broadcast::Receiver<Transition>,
    notifier: ServerNotifier,
    is_replaced: impl Fn() -> bool,
) {
    while let Some(change) = next_change(&mut changes).await {
        if is_replaced() {
            return;
        }
        notifier.state_changed(&change).await;
    }
}

/// Returns the next change of a server's state; `None` if the server was dropped.
async fn next_change(changes: &mut broadcast::Receiver<Transition>) -> Option<Transition> {
    loop {
        match changes.recv().await {
            Ok(change) => return Some(change),
            // Continue even if the receiver missed some changes, because the next change contains the current state.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Returns whether a change means that the server has failed. A drain is a failure if it is not part of a stop: the
/// server has then reported that it is unhealthy. If a failed server is stopped instead of restarted, this is not
/// another failure.
fn is_failure(change: &Transition) -> bool {
    let is_stop = || ShutdownReason::KNOWN.iter().any(|stop| stop.as_str() == &*change.reason);
    match change.to {
        ServerState::Error => change.from != ServerState::Restarting || !is_stop(),
        ServerState::Draining => !is_stop(),
        _ => false,
    }
}

/// Logs a failure and stores its reason. Does not log further failed starts with the same reason.
fn note_failure(change: &Transition, server: &ServerId, log: &ServerLog) {
    if log.set_failure(&change.reason) || change.from == ServerState::Connected {
        tracing::warn!(%server, reason = &*change.reason, "server failed");
    }
}

fn record(server: &Arc<ManagedServer>, state: &ServerState) {
    let (latest, reason) = server.client().state().latest();
    server.log().set_state(SessionKind::Main, &latest, reason.as_deref());
    let has_failed =
        |state: &ServerState| matches!(state, ServerState::Error | ServerState::Restarting);
    if has_failed(state) && server.approved().is_some_and(ApprovedRegistration::is_held) {
        forget_tools(server);
        if *state == ServerState::Restarting {
            // Stop the server instead of trying again: an operator must review it first.
            let server = Arc::clone(server);
            tokio::spawn(async move { server.stop().await });
        }
    }
    if has_failed(&latest) {
        server.finish_first_sync();
    }
}

/// Removes from the index the tools of a registered server that must not run. Its tools are read again once an operator
/// has approved the server and it has started.
fn forget_tools(server: &ManagedServer) {
    let context = server.context();
    context.known.remove(server.id());
    match context.index.remove(server.id().as_str()) {
        Ok(0) => {}
        Ok(_) => context.changed_lists.add(server.id(), ListGroup::Tools),
        Err(error) => {
            tracing::error!(server = %server.id(), %error, "tools of a held server are still in the index");
        }
    }
}

/// After a new connection, repeats the subscriptions and log levels that clients requested over the previous
/// connection.
async fn restore(server: Arc<ManagedServer>) {
    let _ = tokio::time::timeout(READY_TIMEOUT, server.client().ready()).await;
    server.forget_log_level();
    server.request_log_level().await;
    let Ok(client) = server.client().client() else { return };
    server.observe_eras(client.server());
    let subscriptions = &server.context().subscriptions;
    subscriptions.restore(server.source(SessionKind::Main), &client, &server.notifier());
    if subscriptions.has(&server.source(SessionKind::Legacy)) {
        // Start the legacy session again: it was stopped with the server, and perhaps no call will start it.
        server.start_legacy().await;
    }
}

#[cfg(test)]
mod tests {
    use mgp_lifecycle::StateHandle;

    use super::*;

    #[test]
    fn a_stop_of_a_server_that_waits_for_its_restart_is_not_a_failure() {
        let state = StateHandle::new(ServerState::Connecting);
        let enter = |to, reason: &str| is_failure(&state.enter(to, reason).unwrap());
        assert!(enter(ServerState::Error, "exit status 1"));
        assert!(!enter(ServerState::Restarting, "exit status 1"));
        assert!(!enter(ServerState::Error, ShutdownReason::OperatorRequest.as_str()));
        assert!(!enter(ServerState::Restarting, "start"));
        assert!(enter(ServerState::Error, "restart limit exceeded"));
    }
}
