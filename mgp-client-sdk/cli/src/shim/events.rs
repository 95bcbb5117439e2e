//! The event subscriptions of a host, which the shim opens again at the next kernel.

use std::collections::{BTreeMap, HashMap};

use mgp_types::Id;
use mgp_types::method::{EventsSubscribe, EventsUnsubscribe, Request as _};
use mgp_types::mgp::{EventParams, NotificationExtension};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

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
    accepted_at: Instant,
}

#[derive(Deserialize)]
struct Named {
    subscription_id: String,
    channel: Option<String>,
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
            let subscription = Subscription { params, last, accepted_at: Instant::now() };
            self.accepted.insert(accepted.subscription_id, subscription);
        }
    }

    pub(super) fn note_event(&mut self, params: Option<&RawValue>) {
        if self.accepted.is_empty() {
            return;
        }
        let Some(event) = named(params) else { return };
        if event.channel.as_deref() == Some(EventParams::TERMINATED) {
            self.accepted.remove(&event.subscription_id);
        } else if let Some(subscription) = self.accepted.get_mut(&event.subscription_id) {
            let seq = event.mgp.and_then(|mgp| mgp.seq).unwrap_or(0);
            subscription.last = subscription.last.max(seq);
        }
    }

    /// Returns the requests that open the subscriptions again, with their ids, the sequence numbers of their last
    /// events, and the rest of their lifetimes.
    pub(super) fn requests(&self) -> impl Iterator<Item = Value> {
        self.accepted.iter().map(|(id, subscription)| {
            let mut params = subscription.params.clone();
            params["subscription_id"] = json!(id);
            params["after_seq"] = json!(subscription.last);
            if let Some(lifetime) = params["ttl_seconds"].as_u64() {
                let rest = lifetime.saturating_sub(subscription.accepted_at.elapsed().as_secs());
                params["ttl_seconds"] = json!(rest.max(1));
            }
            json!({ "jsonrpc": "2.0", "id": 0, "method": EventsSubscribe::METHOD, "params": params })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::session::Session;
    use super::*;

    /// Regression test: the shim kept these requests, and after 1,024 of them it remembered no further subscription.
    #[test]
    fn requests_that_the_shim_refuses_leave_room_for_subscriptions() {
        let mut session = Session::default();
        let subscribe = |id: usize| {
            let params = json!({"channels": ["a"]});
            json!({"jsonrpc": "2.0", "id": id, "method": EventsSubscribe::METHOD, "params": params})
                .to_string()
        };
        for id in 0..MAX_REMEMBERED {
            let _ = session.note_host(subscribe(id).as_bytes());
        }
        let _ = session.end_kernel();
        let _ = session.note_host(subscribe(MAX_REMEMBERED).as_bytes());
        let result = json!({"subscription_id": "s"});
        let answer = json!({"jsonrpc": "2.0", "id": MAX_REMEMBERED, "result": result});
        let _ = session.note_kernel(answer.to_string().as_bytes());
        let _ = session.end_kernel();
        assert!(session.opening().is_some(), "the next kernel gets the subscription");
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_is_opened_again_for_the_rest_of_its_lifetime_until_its_last_event() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let mut all = EventSubscriptions::default();
        let id = Id::from(5);
        let params = raw(r#"{"channels":["a"],"ttl_seconds":60}"#);
        all.note_request(&id, EventsSubscribe::METHOD, Some(&*params));
        all.note_answer(&id, Some(&*raw(r#"{"subscription_id":"s"}"#)));
        for (elapsed, rest) in [(40, 20), (40, 1)] {
            tokio::time::advance(std::time::Duration::from_secs(elapsed)).await;
            assert_eq!(all.requests().next().unwrap()["params"]["ttl_seconds"], rest);
        }
        for (channel, count) in [("a", 1), (EventParams::TERMINATED, 0)] {
            let event = raw(&json!({"subscription_id": "s", "channel": channel}).to_string());
            all.note_event(Some(&*event));
            assert_eq!(all.requests().count(), count, "{channel}");
        }
    }
}
