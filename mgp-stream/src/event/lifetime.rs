//! The end of subscriptions by the hub, e.g. at a time that their subscribers chose.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mgp_types::Payload;
use mgp_types::mgp::EventParams;

use super::EventHub;
use super::draft::{EventDraft, PublishedEvent};
use super::hub::Hub;
use super::subscription::{Lifetime, Subscription};

/// The maximum lifetime of a subscription; it replaces a longer one.
const MAX_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// The time after the end of a lifetime in which the subscriber can still receive the unsent events and the last one.
/// Without this limit, a subscriber that reads nothing could make the hub keep any number of ended subscriptions.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(30);

impl EventHub {
    /// Makes a subscription end after a number of seconds: at least 1 second, at most [`MAX_LIFETIME`].
    pub(super) fn end_after(&self, subscription: &Arc<Subscription>, seconds: u64) {
        let lifetime = Duration::from_secs(seconds).clamp(Duration::from_secs(1), MAX_LIFETIME);
        let (hub, ending) = (Arc::downgrade(&self.0), Arc::downgrade(subscription));
        let task = tokio::spawn(async move {
            tokio::time::sleep(lifetime).await;
            if let (Some(hub), Some(ending)) = (hub.upgrade(), ending.upgrade()) {
                hub.terminate(&ending, "expired");
            }
            // Add nothing after this: it drops the subscription's `Lifetime`, which aborts this task.
            end_later(ending).await;
        });
        let until = (SystemTime::now() + lifetime).into();
        subscription.set_lifetime(Lifetime { until, task: task.abort_handle() });
    }
}

/// Ends a terminated subscription some time after its last event.
pub(super) async fn end_later(terminated: Weak<Subscription>) {
    tokio::time::sleep(LAST_EVENT_TIMEOUT).await;
    if let Some(terminated) = terminated.upgrade() {
        terminated.end();
    }
}

impl Hub {
    /// Removes a subscription, and sends its last event after the events in memory that were not sent yet. Unsent
    /// events in the store are dropped. Returns `false` if the hub does not have the subscription any more.
    pub(super) fn terminate(
        self: &Arc<Self>,
        ending: &Arc<Subscription>,
        reason: &'static str,
    ) -> bool {
        {
            let mut table = self.table.write();
            if !table.has(ending) {
                return false;
            }
            table.remove(&ending.id);
        }
        ending.leave_store();
        let reason = Payload::from_trusted(format!(r#"{{"reason":"{reason}"}}"#));
        let last = EventDraft::new(EventParams::TERMINATED).payload(reason);
        ending.push(self, &Arc::new(PublishedEvent::new(last, 0)));
        true
    }
}
