//! Proposal 15 (`subscribe_notify`): subscriptions to events in another spelling, and their mapping to those of MGP.

use serde_json::Value;

use crate::mgp::EventParams;
use crate::record::{List, RawObject, open_enum, record};
use crate::{Payload, Timestamp};

/// The event that tells a subscriber that its subscription ended.
pub const SUBSCRIPTION_TERMINATED: &str = "subscription_terminated";

/// The most levels that a dotted path of a filter may have.
const MAX_LEVELS: usize = 16;

open_enum! {
    /// The outcome of a subscription.
    pub enum SubscribeStatus {
        /// Events are sent.
        Active = "active",
        /// The server refused the subscription.
        Denied = "denied",
    }

    /// The kind of an event notification; there is only one.
    pub enum NotifyKind {
        /// An event.
        Event = "event",
    }
}

record! {
    /// Parameters of `mgp/subscribe`.
    pub struct SubscribeParams {
        /// The id that the client chose.
        opt subscription_id: Option<String>,
        /// The wanted events; `*` stands for any part of a name.
        req events: Vec<String>,
        /// The members that the data of an event must have; dots separate levels.
        opt filter: Option<RawObject>,
        /// The duration of the subscription.
        opt ttl_seconds: Option<u64>,
    }

    /// Result of `mgp/subscribe`.
    pub struct SubscribeResult {
        /// The id of the subscription.
        req subscription_id: String,
        /// The outcome.
        req status: SubscribeStatus,
        /// The end of the subscription.
        opt expires_at: Option<Timestamp>,
        /// The events that the caller may subscribe to.
        list supported_events: List<String>,
        /// The reason of a refusal.
        opt reason: Option<String>,
        /// `false` if the connection cannot carry notifications; the client polls instead.
        opt supported: Option<bool>,
        /// The interval at which a client that polls should ask.
        opt poll_interval_seconds: Option<u64>,
    }

    /// What a client might do about an event. It is never done automatically.
    pub struct ActionHint {
        /// The tool that might help.
        opt recommended_tool: Option<String>,
        /// Its arguments.
        opt parameters: Option<RawObject>,
        /// The reason.
        opt reason: Option<String>,
    }

    /// Parameters of `notifications/event`.
    pub struct NotifyEvent {
        /// Always `event`.
        req kind as "type": NotifyKind,
        /// The subscription.
        req subscription_id: String,
        /// The event.
        req event: String,
        /// The time.
        req timestamp: Timestamp,
        /// The data.
        opt payload: Option<Payload>,
        /// What the client might do.
        opt action_hint: Option<ActionHint>,
    }
}

impl NotifyEvent {
    /// Returns an event of MGP in this spelling; the other members of MGP are kept.
    #[must_use]
    pub fn of(event: EventParams) -> Self {
        let EventParams { subscription_id, channel, timestamp, data, severity, mgp, extra } = event;
        let time = timestamp.unwrap_or_else(Timestamp::now);
        let mut made = Self::new(NotifyKind::Event, subscription_id, channel, time);
        made.action_hint = data
            .get::<crate::Object>()
            .ok()
            .and_then(|data| data.decode("action_hint").ok()?);
        made.payload = Some(data);
        made.extra = extra;
        // Words and numbers can always be written.
        if let Some(severity) = severity {
            drop(made.extra.encode("severity", &severity));
        }
        if let Some(mgp) = mgp {
            drop(made.extra.encode("_mgp", &mgp));
        }
        made
    }

    /// Returns the event as MGP writes it.
    #[must_use]
    pub fn to_mgp(&self) -> EventParams {
        let data = self.payload.clone().unwrap_or_else(Payload::empty_object);
        let mut event = EventParams::new(self.subscription_id.as_str(), self.event.as_str(), data);
        event.timestamp = Some(self.timestamp.clone());
        event.extra = self.extra.clone();
        event.severity = event.extra.decode("severity").ok().flatten();
        event.mgp = event.extra.decode("_mgp").ok().flatten();
        event.extra.remove("severity");
        event.extra.remove("_mgp");
        event
    }
}

/// Returns whether the data of an event has all members of a filter with equal values.
///
/// A name with dots is a path, unless the data has a member of that name.
///
/// ```
/// use mgp_types::proposal::passes_filter;
///
/// let data = r#"{"repository":{"name":"app"},"n":1}"#;
/// assert!(passes_filter(r#"{"repository.name":"app","n":1.0}"#, data));
/// assert!(!passes_filter(r#"{"repository.name":"web"}"#, data));
/// ```
#[must_use]
pub fn passes_filter(filter: &str, data: &str) -> bool {
    let Ok(Value::Object(wanted)) = serde_json::from_str(filter) else { return false };
    let data: Value = serde_json::from_str(data).unwrap_or_default();
    wanted.iter().all(|(path, wanted)| {
        at_path(&data, path, MAX_LEVELS).is_some_and(|found| is_equal(found, wanted))
    })
}

fn at_path<'a>(data: &'a Value, path: &str, levels: usize) -> Option<&'a Value> {
    if let Some(found) = data.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.').filter(|_| levels > 0)?;
    at_path(data.get(first)?, rest, levels - 1)
}

/// Compares two values; numbers are equal if their values are.
fn is_equal(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => found.as_f64() == wanted.as_f64(),
        _ => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mgp::{NotificationExtension, Severity};

    #[test]
    fn an_event_survives_the_way_there_and_back() {
        for (index, data) in ["{}", r#"{"a":{"b":[1.50,null]}}"#, "7", "null", r#""x""#]
            .into_iter()
            .enumerate()
        {
            let data = Payload::parse(data.to_owned()).unwrap();
            let mut event = EventParams::new("sub-1", "model.loaded", data);
            event.timestamp = Some(Timestamp::now());
            event.severity = (index > 0).then_some(Severity::Warning);
            event.mgp = (index > 1).then(|| {
                let mut mgp = NotificationExtension::new();
                (mgp.seq, mgp.dropped) = (Some(7), Some(2));
                mgp
            });
            event.extra.encode("colour", "red").unwrap();
            assert_eq!(NotifyEvent::of(event.clone()).to_mgp(), event);
        }
    }

    #[test]
    fn a_filter_compares_values_at_dotted_paths() {
        for (filter, expected) in [
            ("{}", true),
            (r#"{"a.b":1}"#, true),
            (r#"{"a":{"b":1}}"#, true),
            (r#"{"a.c":1}"#, false),
            (r#"{"x.y":true}"#, true),
            (r#"{"a.b.c":1}"#, false),
            (r#"{"a.b":"1"}"#, false),
            ("[]", false),
        ] {
            assert_eq!(passes_filter(filter, r#"{"a":{"b":1},"x.y":true}"#), expected, "{filter}");
        }
        let deep = "a.".repeat(100_000);
        assert!(!passes_filter(&format!(r#"{{"{deep}":1}}"#), r#"{"a":{}}"#));
    }
}
