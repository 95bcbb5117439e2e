//! Passes the server's acknowledgement of a stream to the call that opened it.

use mgp_types::mcp::{SubscriptionFilter, SubscriptionsAcknowledgedParams};
use mgp_types::service::Context;
use mgp_types::sync::Mutex;
use tokio::sync::oneshot;

/// The sender of the server's acknowledgement to the call that opens a stream. It is stored in the extensions of that
/// call.
pub(crate) struct AcknowledgeSender(Mutex<Option<oneshot::Sender<SubscriptionFilter>>>);

impl AcknowledgeSender {
    pub(crate) fn new() -> (Self, oneshot::Receiver<SubscriptionFilter>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Mutex::new(Some(sender))), receiver)
    }
}

/// Passes an acknowledgement to the client's own call that opened the stream. Ignores the acknowledgement if the user
/// opened the stream.
pub(crate) fn acknowledged(cx: &Context, params: SubscriptionsAcknowledgedParams) {
    let id = params.meta.as_ref().and_then(|meta| meta.subscription_id().ok().flatten());
    let Some(call) = id.and_then(|id| cx.peer.in_flight(&id)) else { return };
    if let Some(AcknowledgeSender(sender)) = call.cx.extensions.get()
        && let Some(sender) = sender.lock().take()
    {
        // Ignore the error: the call that opens the stream may have been cancelled.
        let _ = sender.send(params.notifications);
    }
}
