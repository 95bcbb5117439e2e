//! A switch that prevents starts of stopped and removed servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_client_sdk::SupervisedClient;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::ServerId;
use mgp_types::{ErrorCode, Recovery, RpcError};

/// A switch that prevents starts of a server while an operator keeps it stopped, and forever after its removal or the
/// stop of the kernel.
///
/// All code that can start the server shares this value and checks it. Code that stops the server first sets the flag
/// of this value and then stops the client. Code that starts the server first starts the client and then reads the
/// flags again. The order `SeqCst` guarantees that at least one of the two notices the other.
#[derive(Clone, Debug, Default)]
pub(super) struct StartHold(Arc<HoldState>);

#[derive(Debug, Default)]
struct HoldState {
    stopped: AtomicBool,
    removed: AtomicBool,
    replaced: AtomicBool,
}

impl StartHold {
    pub(super) fn set_stopped(&self, is_stopped: bool) {
        self.0.stopped.store(is_stopped, Ordering::SeqCst);
    }

    pub(super) fn set_removed(&self) {
        self.0.removed.store(true, Ordering::SeqCst);
    }

    /// Prevents starts forever, because a server with the changed configuration entry replaces this server.
    pub(super) fn set_replaced(&self) {
        self.0.replaced.store(true, Ordering::SeqCst);
        self.set_removed();
    }

    fn is_replaced(&self) -> bool {
        self.0.replaced.load(Ordering::SeqCst)
    }

    /// Returns whether the server must not be started now.
    pub(super) fn forbids_start(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst) || self.0.removed.load(Ordering::SeqCst)
    }

    /// Starts the server through its client. Returns `false` if the server must not be started.
    pub(super) async fn start(&self, client: &SupervisedClient) -> bool {
        if self.forbids_start() {
            return false;
        }
        client.start().await;
        // An operator may have stopped or removed the server during the start, so stop it again.
        if self.forbids_start() {
            client.stop(ShutdownReason::OperatorRequest).await;
            return false;
        }
        true
    }

    /// Adapts the error of a call to a server. If the server ended because its configuration entry changed, the
    /// returned error asks the caller to try again.
    pub(super) fn fit_error(&self, server: &ServerId, error: RpcError) -> RpcError {
        if !self.is_replaced() {
            return error;
        }
        let refusals = [ErrorCode::SERVER_DRAINING, ErrorCode::SERVER_NOT_READY];
        let details = error.as_recovery().and_then(|hints| hints.details.clone());
        // Keep the error if the call may already have run at the server, because the caller must not repeat such a
        // call.
        let has_started = details
            .as_ref()
            .is_some_and(|details| matches!(details.decode::<bool>("started"), Ok(Some(true))));
        if has_started || !refusals.contains(&error.code()) {
            return error;
        }
        let message = format!(
            "`{server}` starts again with its changed configuration as soon as its running calls have ended; \
             try again then"
        );
        let refused = RpcError::new(ErrorCode::SERVER_RESTARTING, message).because(error);
        match Recovery::default_for(ErrorCode::SERVER_RESTARTING) {
            Some(mut hints) => {
                hints.details = details;
                refused.recovery(hints)
            }
            None => refused,
        }
    }
}
