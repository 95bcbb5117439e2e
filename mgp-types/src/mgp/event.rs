//! Events and callbacks (MGP §13).
//!
//! Applies to: both.

use super::NotificationExtension;
use crate::record::{List, open_enum, record};
use crate::{Id, Payload, Timestamp};

open_enum! {
    /// How grave an event is, least first.
    pub enum Severity {
        /// Information.
        Info = "info",
        /// A warning.
        Warning = "warning",
        /// An error.
        Error = "error",
    }

    /// What a server wants of a person (§13.4).
    pub enum CallbackType {
        /// Yes or no.
        Confirmation = "confirmation",
        /// More input.
        Input = "input",
        /// A choice.
        Selection = "selection",
        /// Nothing; it only tells.
        Notification = "notification",
        /// An answer of a model (later revisions).
        LlmCompletion = "llm_completion",
    }

    /// What became of an answer.
    pub enum CallbackStatus {
        /// It was taken.
        Accepted = "accepted",
        /// There was one before.
        AlreadyProcessed = "already_processed",
        /// Nobody asked.
        Unknown = "unknown",
    }

    /// Families of channels (§13.5).
    pub enum ChannelPattern {
        /// Models.
        Model = "model.*",
        /// The system.
        System = "system.*",
        /// Tools.
        Tool = "tool.*",
        /// Security.
        Security = "security.*",
    }
}

impl Severity {
    /// The order: an unknown word counts as information.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Info | Self::Other(_) => 0,
            Self::Warning => 1,
            Self::Error => 2,
        }
    }
}

record! {
    /// Which events of a channel are wanted.
    pub struct EventFilter {
        /// The least grave.
        opt min_severity: Option<Severity>,
    }

    /// Parameters of `mgp/events/subscribe` (§13.2).
    pub struct SubscribeEventsParams {
        /// The channels; globs are allowed.
        req channels: Vec<String>,
        /// Which of their events.
        opt filter: Option<EventFilter>,
    }

    /// Result of `mgp/events/subscribe`.
    pub struct SubscribeEventsResult {
        /// The channels that were found.
        req subscribed: Vec<String>,
        /// What was not found.
        def unsupported: Vec<String>,
        /// Names the subscription.
        req subscription_id: String,
    }

    /// Parameters of `mgp/events/unsubscribe`.
    pub struct UnsubscribeParams {
        /// The subscription.
        req subscription_id: String,
    }

    /// Result of `mgp/events/unsubscribe`.
    pub struct UnsubscribeResult {
        /// The subscription.
        req subscription_id: String,
        /// Whether there was one.
        req removed: bool,
    }

    /// Parameters of `notifications/mgp.event` (§13.3).
    pub struct EventParams {
        /// The subscription.
        req subscription_id: String,
        /// The channel.
        req channel: String,
        /// When.
        opt timestamp: Option<Timestamp>,
        /// What.
        req data: Payload,
        /// How grave.
        opt severity: Option<Severity>,
        /// The running number (later revisions).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Arguments of `mgp.events.replay` (later revisions).
    pub struct EventsReplayParams {
        /// The subscription.
        req subscription_id: String,
        /// Events after this number.
        opt after_seq: Option<u64>,
        /// How many at most.
        opt limit: Option<u64>,
    }

    /// Result of `mgp.events.replay` (later revisions).
    pub struct EventsReplayResult {
        /// The subscription.
        req subscription_id: String,
        /// The events; they do not repeat the subscription.
        req events: Vec<Payload>,
        /// Whether there are more.
        req has_more: bool,
        /// Whether older ones are gone.
        opt truncated: Option<bool>,
    }

    /// Parameters of `notifications/mgp.callback.request` (§13.4).
    pub struct CallbackRequestParams {
        /// Names the question.
        req callback_id: String,
        /// The call it belongs to.
        opt request_id: Option<Id>,
        /// What is wanted.
        req kind as "type": CallbackType,
        /// The question for people.
        opt message: Option<String>,
        /// The answers to choose from.
        list options: List<String>,
        /// How long the server waits.
        opt timeout_ms: Option<u64>,
        /// Which try it is, from 1 (later revisions).
        opt mgp as "_mgp": Option<NotificationExtension>,
    }

    /// Parameters of `mgp/callback/respond`.
    pub struct CallbackRespondParams {
        /// The question.
        req callback_id: String,
        /// The answer.
        req response: Payload,
    }

    /// Result of `mgp/callback/respond`.
    pub struct CallbackRespondResult {
        /// The question.
        req callback_id: String,
        /// What became of the answer.
        req status: CallbackStatus,
    }
}
