//! The long-lived request by which a modern client receives notifications (MCP `subscriptions/listen`).

use super::{Meta, ResultType};
use crate::record::{List, record};

record! {
    /// The notifications a client wants, or a server agreed to send.
    pub struct SubscriptionFilter {
        /// `true` for notifications about changes of the list of tools.
        opt tools_list_changed as "toolsListChanged": Option<bool>,
        /// `true` for notifications about changes of the list of prompts.
        opt prompts_list_changed as "promptsListChanged": Option<bool>,
        /// `true` for notifications about changes of the list of resources.
        opt resources_list_changed as "resourcesListChanged": Option<bool>,
        /// The URIs of the resources for which each change is reported.
        list resource_subscriptions as "resourceSubscriptions": List<String>,
        /// The ids of the tasks for which each change of state is reported (tasks extension).
        list task_ids as "taskIds": List<String>,
    }

    /// Parameters of `subscriptions/listen`.
    pub struct ListenParams {
        /// The notifications that the client wants.
        req notifications: SubscriptionFilter,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `subscriptions/listen`, sent when the server ends the subscription.
    pub struct ListenResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The `_meta` member, with the id of the subscription.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/subscriptions/acknowledged`.
    pub struct SubscriptionsAcknowledgedParams {
        /// The notifications that the server agreed to send.
        req notifications: SubscriptionFilter,
        /// The `_meta` member, with the id of the subscription.
        opt meta as "_meta": Option<Meta>,
    }
}
