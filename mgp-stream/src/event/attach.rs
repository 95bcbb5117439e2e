//! Attaches subscriptions to the stream that carries their events.

use std::sync::Arc;

use mgp_types::mcp::Era;
use mgp_types::mgp::{EventAttachment, Extension};
use mgp_types::service::{CallKey, Context};
use mgp_types::{Payload, RpcError};
use tokio::runtime::Handle;

use super::EventHub;
use super::subscription::{Subscription, Target, is_lasting};

/// A stream to which subscriptions are attached, so that their events are sent on it. When this value is dropped, the
/// subscriptions are detached from the stream.
#[must_use = "subscriptions are detached when it is dropped"]
pub struct AttachedEvents {
    key: CallKey,
    subscriptions: Vec<Arc<Subscription>>,
}

mgp_types::opaque_debug!(AttachedEvents);

impl AttachedEvents {
    /// Permits the hub to send the events of the attached subscriptions on the stream.
    pub fn start(&self) {
        for subscription in &self.subscriptions {
            subscription.open(self.key);
        }
    }
}

impl Drop for AttachedEvents {
    fn drop(&mut self) {
        for subscription in &self.subscriptions {
            subscription.detach(self.key);
        }
    }
}

impl EventHub {
    /// Attaches subscriptions to the stream that the call `cx` has opened. Their events are sent on the stream once
    /// [`start`](AttachedEvents::start) is called on the result. Each notification repeats `id`, the id of the stream.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the caller has no such subscription. Returns 3001 (resource exhausted) if the
    /// subscriptions that must be moved to the caller's connection exceed its maximum number; none is moved then.
    pub fn attach(
        &self,
        cx: &Context,
        id: &Payload,
        attachments: &[EventAttachment],
    ) -> Result<AttachedEvents, RpcError> {
        let found = attachments.iter().map(|one| self.0.find(&cx.principal, &one.subscription_id));
        let subscriptions = found.collect::<Result<Vec<_>, _>>()?;
        self.bind_to_caller(cx, &subscriptions)?;
        for (subscription, attachment) in subscriptions.iter().zip(attachments) {
            let target = Target {
                key: cx.key,
                cx: cx.clone(),
                stream: Some(id.clone()),
                is_open: false,
                runtime: Handle::current(),
            };
            subscription.attach(&self.0, target, attachment.after_seq);
            self.record_use(subscription);
        }
        Ok(AttachedEvents { key: cx.key, subscriptions })
    }

    /// Starts to send the events of a subscription to a legacy client that negotiated events. Does nothing for other
    /// clients: a modern client opens a stream instead, and a client without MGP replays the events. Returns whether
    /// some of the events after `after` are lost.
    pub(super) fn attach_session(
        &self,
        cx: &Context,
        subscription: &Arc<Subscription>,
        after: Option<u64>,
    ) -> bool {
        if !has_stream(cx) || cx.caller.era != Era::Legacy {
            return false;
        }
        let target = Target {
            key: CallKey::next(),
            cx: cx.clone(),
            stream: None,
            is_open: true,
            runtime: Handle::current(),
        };
        subscription.attach(&self.0, target, after)
    }
}

/// Returns whether events can be sent to a caller: to a legacy client on its connection or session, to a modern client
/// on the stream that it opens.
pub(super) fn has_stream(cx: &Context) -> bool {
    cx.caller.has(Extension::Events) && (cx.caller.era == Era::Modern || is_lasting(&cx.scope))
}
