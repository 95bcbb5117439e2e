//! The one long-lived request of the modern era (MCP `subscriptions/listen`).
//!
//! Applies to: both.

use super::{Meta, ResultType};
use crate::record::{List, record};

record! {
    /// The notifications a client wants, or a server agreed to send.
    pub struct SubscriptionFilter {
        /// Changes of the list of tools.
        opt tools_list_changed as "toolsListChanged": Option<bool>,
        /// Changes of the list of prompts.
        opt prompts_list_changed as "promptsListChanged": Option<bool>,
        /// Changes of the list of resources.
        opt resources_list_changed as "resourcesListChanged": Option<bool>,
        /// Changes of these resources.
        list resource_subscriptions as "resourceSubscriptions": List<String>,
        /// The state of these tasks (tasks extension).
        list task_ids as "taskIds": List<String>,
    }

    /// Parameters of `subscriptions/listen`.
    pub struct ListenParams {
        /// What the client wants.
        req notifications: SubscriptionFilter,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `subscriptions/listen`, when the server ends it.
    pub struct ListenResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// Beside the message; it names the subscription.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/subscriptions/acknowledged`.
    pub struct SubscriptionsAcknowledgedParams {
        /// What the server agreed to send.
        req notifications: SubscriptionFilter,
        /// Beside the message; it names the subscription.
        opt meta as "_meta": Option<Meta>,
    }
}
