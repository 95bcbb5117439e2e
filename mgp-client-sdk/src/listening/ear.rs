//! How the word that a server agreed to a stream finds the call that opened it.
//!
//! Applies to: inbound, modern.

use std::sync::{Mutex, PoisonError};

use mgp_types::mcp::{SubscriptionFilter, SubscriptionsAcknowledgedParams};
use mgp_types::service::Context;
use tokio::sync::oneshot;

/// Rides on a call that listens.
pub(super) struct Ear(Mutex<Option<oneshot::Sender<SubscriptionFilter>>>);

impl Ear {
    pub(super) fn new() -> (Self, oneshot::Receiver<SubscriptionFilter>) {
        let (tell, told) = oneshot::channel();
        (Self(Mutex::new(Some(tell))), told)
    }
}

/// Notes what a server agreed to tell; streams that others opened are left alone.
pub(crate) fn acknowledged(cx: &Context, told: SubscriptionsAcknowledgedParams) {
    let id = told.meta.as_ref().and_then(|meta| meta.subscription_id().ok().flatten());
    let Some(call) = id.and_then(|id| cx.peer.in_flight(&id)) else { return };
    if let Some(Ear(tell)) = call.cx.extensions.get()
        && let Some(tell) = tell.lock().unwrap_or_else(PoisonError::into_inner).take()
    {
        // Nobody may wait for it any more.
        let _ = tell.send(told.notifications);
    }
}
