//! Whether a server may be started: not while an operator has it stopped, and never again once it was taken out.
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::mgp::ShutdownReason;

use mgp_client_sdk::SupervisedClient;

/// The word of operators on one server, known to all that start it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hold(Arc<Said>);

#[derive(Debug, Default)]
struct Said {
    is_held: AtomicBool,
    is_gone: AtomicBool,
}

impl Hold {
    /// Says whether an operator has it stopped.
    pub(super) fn set(&self, is_held: bool) {
        self.0.is_held.store(is_held, Ordering::SeqCst);
    }

    /// It was taken out.
    pub(super) fn forever(&self) {
        self.0.is_gone.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_held.load(Ordering::SeqCst) || self.0.is_gone.load(Ordering::SeqCst)
    }

    /// Starts a program; `false` where it is held.
    pub(super) async fn start(&self, client: &SupervisedClient) -> bool {
        if self.is_set() {
            return false;
        }
        client.start().await;
        // Who stopped it meanwhile may have been quicker than this start.
        if self.is_set() {
            client.stop(ShutdownReason::OperatorRequest).await;
            return false;
        }
        true
    }
}
