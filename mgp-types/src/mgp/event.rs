//! Events and callbacks (MGP §13).

use super::NotificationExtension;
use crate::record::{List, RawObject, open_enum, record};
use crate::{Id, Payload, Timestamp};

open_enum! {
    /// The severity of an event, lowest first.
    pub enum Severity {
        /// Information.
        Info = "info",
        /// A warning.
        Warning = "warning",
        /// An error.
        Error = "error",
    }

    /// The kind of answer that a server asks for (§13.4).
    pub enum CallbackType {
        /// A yes or no.
        Confirmation = "confirmation",
        /// A text.
        Input = "input",
        /// The user chooses one of the given options.
        Selection = "selection",
        /// No answer; the user is only informed.
        Notification = "notification",
        /// A completion by a model (later revisions of MGP).
        LlmCompletion = "llm_completion",
    }

    /// The outcome of answering a callback.
    pub enum CallbackStatus {
        /// The answer was accepted.
        Accepted = "accepted",
        /// The callback was answered before.
        AlreadyProcessed = "already_processed",
        /// No callback has this id.
        Unknown = "unknown",
    }
}

impl Severity {
    /// Returns the position in the order of severities, from 0; an unknown severity has the rank of `info`.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Info | Self::Other(_) => 0,
            Self::Warning => 1,
            Self::Error => 2,
        }
    }
}

impl EventParams {
    /// The channel of the last event of a subscription that ends because its lifetime is over; only the server of the
    /// subscription itself sends it (an addition of this implementation).
    pub const TERMINATED: &'static str = "subscription_terminated";
}

record! {
    /// A filter on the events of a channel.
    pub struct EventFilter {
        /// The lowest severity to deliver.
        opt min_severity: Option<Severity>,
        /// The members that the data of an event must have, with exactly these values (an addition of this
        /// implementation).
        opt data: Option<RawObject>,
    }

    /// Parameters of `mgp/events/subscribe` (§13.2).
    pub struct SubscribeEventsParams {
        /// The channels to subscribe to; globs are allowed.
        req channels: Vec<String>,
        /// A filter on the events that are delivered.
        opt filter: Option<EventFilter>,
        /// `true` to keep events while the subscriber is away (an addition of this implementation).
        opt durable: Option<bool>,
        /// The id of a subscription to continue, instead of creating a new one (an addition of this implementation). If
        /// the server does not know the id and `channels` are given, it creates a new subscription with this id.
        opt subscription_id: Option<String>,
        /// The sequence number of the last event that the subscriber has received; delivery continues with the next
        /// event (an addition of this implementation).
        opt after_seq read whole: Option<u64>,
        /// The lifetime of the subscription in seconds, from 1 to 2,592,000 (30 days). A number outside this range is
        /// replaced by the nearest number in the range; a durable subscription must not have a lifetime (an addition of
        /// this implementation).
        opt ttl_seconds read whole: Option<u64>,
    }

    /// Result of `mgp/events/subscribe`.
    pub struct SubscribeEventsResult {
        /// The requested channels that exist, to which the caller is now subscribed.
        req subscribed: Vec<String>,
        /// Requested channels that do not exist.
        def unsupported: Vec<String>,
        /// The id of the subscription.
        req subscription_id: String,
        /// `true` if some events after `after_seq` are missing, because they are no longer stored.
        opt truncated: Option<bool>,
        /// The time at which the subscription ends; absent if its lifetime is not limited.
        opt expires_at: Option<Timestamp>,
        /// `false` if no events are sent to the caller, so that it must request them with `mgp/events/replay`.
        opt supported: Option<bool>,
        /// The recommended time between requests for events, in seconds.
        opt poll_interval_seconds: Option<u64>,
    }

    /// Parameters of `mgp/events/channels` (an addition of this implementation).
    pub struct EventChannelsParams {
    }

    /// A channel of events.
    pub struct EventChannel {
        /// The name of the channel.
        req channel: String,
        /// A description of the channel.
        opt description: Option<String>,
        /// The id of the server that publishes the channel; absent if the answering server publishes it itself.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/events/channels`.
    pub struct EventChannelsResult {
        /// The channels that the caller is allowed to subscribe to.
        req channels: Vec<EventChannel>,
    }

    /// An entry of `params._mgp.events` of `subscriptions/listen`: a subscription whose events the stream carries.
    pub struct EventAttachment {
        /// The id of the subscription.
        req subscription_id: String,
        /// The sequence number of the last event that the client has received; delivery continues with the next event.
        opt after_seq read whole: Option<u64>,
    }

    /// The `params._mgp` object of `subscriptions/listen`.
    pub struct ListenExtension {
        /// The subscriptions whose events the stream carries.
        list events: List<EventAttachment>,
    }

    /// Parameters of `mgp/events/unsubscribe`.
    pub struct UnsubscribeParams {
        /// The id of the subscription.
        req subscription_id: String,
    }

    /// Result of `mgp/events/unsubscribe`.
    pub struct UnsubscribeResult {
        /// The id of the subscription.
        req subscription_id: String,
        /// `true` if the subscription existed.
        req removed: bool,
    }

    /// Parameters of `notifications/mgp.event` (§13.3).
    pub struct EventParams {
        /// The id of the subscription.
        req subscription_id: String,
        /// The channel of the event.
        req channel: String,
        /// The time of the event.
        opt timestamp: Option<Timestamp>,
        /// The data of the event.
        req data: Payload,
        /// The severity of the event.
        opt severity: Option<Severity>,
        /// The sequence number of the event, and further MGP members (later revisions of MGP).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Parameters of `mgp/events/replay`, and arguments of `mgp.events.replay` (later revisions of MGP).
    pub struct EventsReplayParams {
        /// The id of the subscription.
        req subscription_id: String,
        /// Return only events after this sequence number.
        opt after_seq read whole: Option<u64>,
        /// The maximum number of results, from 1 to 1,000. A number outside this range is replaced by the nearest
        /// number in the range. Default: 100.
        opt limit read whole: Option<u64>,
    }

    /// Result of `mgp/events/replay` (later revisions of MGP).
    pub struct EventsReplayResult {
        /// The id of the subscription.
        req subscription_id: String,
        /// The events, without their `subscription_id`.
        req events: Vec<Payload>,
        /// `true` if there are more events.
        req has_more: bool,
        /// `true` if some events after `after_seq` are missing, because they are no longer stored.
        opt truncated: Option<bool>,
    }

    /// Parameters of `notifications/mgp.callback.request` (§13.4).
    pub struct CallbackRequestParams {
        /// The id of the callback.
        req callback_id: String,
        /// The request id of the call during which the server asks.
        opt request_id: Option<Id>,
        /// The kind of answer that the server asks for.
        req kind as "type": CallbackType,
        /// The question, for display.
        opt message: Option<String>,
        /// The possible answers.
        list options: List<String>,
        /// The time for which the server waits for the answer, in milliseconds.
        opt timeout_ms read rounded: Option<u64>,
        /// The MGP members of the notification, with the number of this delivery attempt, from 1 (later revisions of
        /// MGP).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Parameters of `mgp/callback/respond`.
    pub struct CallbackRespondParams {
        /// The id of the answered callback.
        req callback_id: String,
        /// The answer to the callback.
        req response: Payload,
    }

    /// Result of `mgp/callback/respond`.
    pub struct CallbackRespondResult {
        /// The id of the answered callback.
        req callback_id: String,
        /// The outcome of answering the callback.
        req status: CallbackStatus,
    }
}
