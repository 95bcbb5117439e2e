//! Events of a kernel, for operators (MGP §13; methods of this kernel only).

use crate::mgp::Severity;
use crate::record::record;
use crate::{Payload, Timestamp};

record! {
    /// Parameters of `mgp/kernel/events`; an event is returned if it meets all given conditions.
    pub struct KernelEventsParams {
        /// The channel, or a pattern such as `tool.*`.
        opt channel: Option<String>,
        /// The lowest severity of the returned events.
        opt min_severity: Option<Severity>,
        /// The earliest time of the event.
        opt since: Option<Timestamp>,
        /// The `next` of the previous result, so that only later events are returned.
        opt after: Option<u64>,
        /// The maximum number of events. Without `after`, the newest events are returned.
        opt limit: Option<u64>,
    }

    /// Result of `mgp/kernel/events`.
    pub struct KernelEventsResult {
        /// The events, oldest first.
        def events: Vec<Payload>,
        /// The position of the last event that was considered; the next request passes it as `after`.
        req next: u64,
        /// The number of events that are missing after the position `after`, because the kernel no longer keeps them.
        opt dropped: Option<u64>,
    }

    /// Parameters of `mgp/kernel/subscriptions`.
    pub struct KernelSubscriptionsParams {
    }

    /// Result of `mgp/kernel/subscriptions`.
    pub struct KernelSubscriptionsResult {
        /// The subscriptions that clients of the operator's tenant requested.
        def subscriptions: Vec<KernelSubscription>,
    }

    /// A subscription of a client to events.
    pub struct KernelSubscription {
        /// The id of the subscription.
        req id: String,
        /// The principal that subscribed.
        req subject: String,
        /// The id of the agent, if the principal acts through one.
        opt agent_id: Option<String>,
        /// The subscribed channels and patterns.
        def channels: Vec<String>,
        /// `true` if the kernel stores the events while the client is away.
        req durable: bool,
        /// `true` if the client is connected and receives the events.
        req connected: bool,
        /// The number of kept events that were not sent yet.
        req waiting: u64,
        /// The time at which the subscription ends, if the client chose one.
        opt expires_at: Option<Timestamp>,
    }

    /// Parameters of `mgp/kernel/subscriptions/end`.
    pub struct KernelSubscriptionEndParams {
        /// The id of the subscription.
        req id: String,
    }

    /// Result of `mgp/kernel/subscriptions/end`.
    pub struct KernelSubscriptionEndResult {
        /// The subscription, as it was before its end.
        req subscription: KernelSubscription,
    }

    /// Parameters of `mgp/kernel/webhooks`.
    pub struct KernelWebhooksParams {
    }

    /// A webhook, and the events that it could not deliver.
    pub struct KernelWebhook {
        /// For a webhook, its URL without the path, followed by its name in parentheses. For a notification by message
        /// (`[kernel.notify.NAME]`), only the name.
        req url: String,
        /// The number of delivered events.
        req delivered: u64,
        /// The number of events that wait for delivery.
        req waiting: u64,
        /// The error of the last delivery attempt, if it failed.
        opt last_error: Option<String>,
        /// The events that were given up, oldest first.
        def failures: Vec<KernelWebhookFailure>,
    }

    /// An event that a webhook could not deliver.
    pub struct KernelWebhookFailure {
        /// The time at which the kernel gave up.
        req at: Timestamp,
        /// The reason why the event could not be delivered.
        req error: String,
        /// The event that was not delivered.
        req event: Payload,
    }

    /// Result of `mgp/kernel/webhooks`.
    pub struct KernelWebhooksResult {
        /// The configured webhooks.
        def webhooks: Vec<KernelWebhook>,
    }
}
