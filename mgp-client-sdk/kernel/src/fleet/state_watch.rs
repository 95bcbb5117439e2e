//! Reacts to state changes of a server: updates its log and the index, and repeats the subscriptions and log levels of
//! clients on a new connection.

use std::sync::{Arc, Weak};

use mgp_discovery::ApprovedRegistration;
use mgp_lifecycle::Transition;
use mgp_types::mgp::{ServerState, ShutdownReason};
use tokio::sync::broadcast::{self, error::RecvError};

use super::context::FleetContext;
use super::instance::READY_TIMEOUT;
use super::managed_server::ManagedServer;
use super::notifier::ServerNotifier;
use super::refresh_queue::ListGroup;
use super::session::SessionKind;

/// Processes the state changes of a server until the server is dropped.
pub(super) async fn run(server: Weak<ManagedServer>, context: FleetContext) {
    let states = server.upgrade().map(|server| server.client().state().watch());
    let Some(mut states) = states else { return };
    loop {
        let state = states.borrow_and_update().clone();
        let Some(server) = server.upgrade() else { return };
        record(&server, &state);
        context.index.set_state(server.id().as_str(), state.clone());
        if state == ServerState::Connected {
            context.stale.mark(server.id(), &ListGroup::ALL);
            tokio::spawn(restore(server, context.clone()));
        } else {
            drop(server);
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Announces each change of state to the clients that see the server, until the server is dropped.
pub(super) async fn announce(
    mut changes: broadcast::Receiver<Transition>,
    notifier: ServerNotifier,
) {
    loop {
        match changes.recv().await {
            Ok(change) => notifier.state_changed(&change).await,
            // The receiver missed some changes; the next one contains the current state.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn record(server: &Arc<ManagedServer>, state: &ServerState) {
    let (latest, reason) = server.client().state().latest();
    server.log().set_state(SessionKind::Main, &latest, reason.as_deref());
    if *state == ServerState::Restarting
        && server.approved().is_some_and(ApprovedRegistration::is_held)
    {
        // Stop instead of retrying: an operator has to review the server first.
        let server = Arc::clone(server);
        tokio::spawn(async move { server.stop(ShutdownReason::OperatorRequest).await });
    }
    if matches!(latest, ServerState::Error | ServerState::Restarting) {
        server.finish_first_sync();
    }
}

/// Repeats on a new connection what clients requested on the previous one: subscriptions and log levels.
async fn restore(server: Arc<ManagedServer>, context: FleetContext) {
    let _ = tokio::time::timeout(READY_TIMEOUT, server.client().ready()).await;
    server.forget_log_level();
    server.request_log_level(&context).await;
    let Ok(client) = server.client().client() else { return };
    server.observe_eras(client.server());
    if context.subscriptions.has(&server.source(SessionKind::Legacy)) {
        // The legacy session was stopped with the server, and there may be no further call that would start it again.
        server.start_legacy().await;
    }
    let notifier = context.notifier(server.id().clone());
    let source = server.source(SessionKind::Main);
    context.subscriptions.restore(source, &client, &notifier);
}
