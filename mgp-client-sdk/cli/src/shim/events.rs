//! The event subscriptions of a host, which the shim opens again at the next kernel.

use std::collections::{BTreeMap, HashMap};

use mgp_types::Id;
use mgp_types::method::{EventsSubscribe, EventsUnsubscribe, Request as _};
use mgp_types::mgp::NotificationExtension;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The maximum number of remembered subscriptions, and separately of unanswered requests to subscribe.
const MAX_REMEMBERED: usize = 1024;

/// The subscriptions of a host, by their ids.
#[derive(Default)]
pub(super) struct EventSubscriptions {
    /// The params of the host's subscription requests that are not answered yet, by request id.
    requested: HashMap<Id, Value>,
    accepted: BTreeMap<String, Subscription>,
}

struct Subscription {
    /// The params of the host's subscription request.
    params: Value,
    /// The sequence number of the last event that the host received.
    last: u64,
}

#[derive(Deserialize)]
struct Named {
    subscription_id: String,
    #[serde(default, rename = "_mgp")]
    mgp: Option<NotificationExtension>,
}

fn named(members: Option<&RawValue>) -> Option<Named> {
    serde_json::from_str(members?.get()).ok()
}

impl EventSubscriptions {
    pub(super) fn note_request(&mut self, id: &Id, method: &str, params: Option<&RawValue>) {
        if method == EventsSubscribe::METHOD && self.requested.len() < MAX_REMEMBERED {
            let params = params.and_then(|params| serde_json::from_str(params.get()).ok());
            self.requested.extend(params.map(|params| (id.clone(), params)));
        } else if method == EventsUnsubscribe::METHOD
            && let Some(ended) = named(params)
        {
            self.accepted.remove(&ended.subscription_id);
        }
    }

    pub(super) fn note_answer(&mut self, id: &Id, result: Option<&RawValue>) {
        if let Some(params) = self.requested.remove(id)
            && let Some(accepted) = named(result)
            && self.accepted.len() < MAX_REMEMBERED
        {
            let last = params["after_seq"].as_u64().unwrap_or(0);
            self.accepted.insert(accepted.subscription_id, Subscription { params, last });
        }
    }

    pub(super) fn note_event(&mut self, params: Option<&RawValue>) {
        if self.accepted.is_empty() {
            return;
        }
        if let Some(event) = named(params)
            && let Some(subscription) = self.accepted.get_mut(&event.subscription_id)
        {
            let seq = event.mgp.and_then(|mgp| mgp.seq).unwrap_or(0);
            subscription.last = subscription.last.max(seq);
        }
    }

    /// Returns the requests that open the subscriptions again, with their ids and the sequence numbers of their last
    /// events.
    pub(super) fn requests(&self) -> impl Iterator<Item = Value> {
        self.accepted.iter().map(|(id, subscription)| {
            let mut params = subscription.params.clone();
            params["subscription_id"] = json!(id);
            params["after_seq"] = json!(subscription.last);
            json!({ "jsonrpc": "2.0", "id": 0, "method": EventsSubscribe::METHOD, "params": params })
        })
    }
}
