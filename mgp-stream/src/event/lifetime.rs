//! Subscriptions that end at a time that their subscribers chose.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::Payload;
use mgp_types::mgp::EventParams;

use super::EventHub;
use super::draft::{EventDraft, PublishedEvent};
use super::hub::Hub;
use super::subscription::{Lifetime, Subscription};

/// The maximum lifetime of a subscription; it replaces a longer one.
const MAX_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// The time after the end of a lifetime in which the subscriber can still receive events, up to the last one. The limit
/// exists because a subscriber that reads nothing would otherwise make the hub keep any number of ended subscriptions.
const LAST_EVENT_TIMEOUT: Duration = Duration::from_secs(30);

impl EventHub {
    /// Makes a subscription end after a number of seconds.
    pub(super) fn end_after(&self, subscription: &Arc<Subscription>, seconds: u64) {
        let lifetime = Duration::from_secs(seconds).clamp(Duration::from_secs(1), MAX_LIFETIME);
        let (hub, ending) = (Arc::downgrade(&self.0), Arc::downgrade(subscription));
        let task = tokio::spawn(async move {
            tokio::time::sleep(lifetime).await;
            if let (Some(hub), Some(ending)) = (hub.upgrade(), ending.upgrade()) {
                hub.terminate(&ending);
            }
            tokio::time::sleep(LAST_EVENT_TIMEOUT).await;
            if let Some(ended) = ending.upgrade() {
                // Add nothing after this: it drops the subscription's `Lifetime`, which aborts this task.
                ended.end();
            }
        });
        let until = (SystemTime::now() + lifetime).into();
        subscription.set_lifetime(Lifetime { until, task: task.abort_handle() });
    }
}

impl Hub {
    /// Removes a subscription, and sends its last event after the events that were not sent yet.
    fn terminate(self: &Arc<Self>, ending: &Arc<Subscription>) {
        {
            let mut table = self.table.write();
            if !table.has(ending) {
                return;
            }
            table.remove(&ending.id);
        }
        let reason = Payload::from_trusted(r#"{"reason":"expired"}"#);
        let last = EventDraft::new(EventParams::TERMINATED).payload(reason);
        ending.push(self, &Arc::new(PublishedEvent::new(last, 0)));
    }
}
