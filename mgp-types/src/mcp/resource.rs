//! Resources: lists, templates, reading, subscriptions (MCP resources).

use super::{Annotations, CacheScope, Icon, InputResponses, Meta, ResourceContents, ResultType};
use crate::record::{List, record};

record! {
    /// A resource that can be read.
    pub struct Resource {
        /// The URI of the resource.
        req uri: String,
        /// The name that identifies the resource.
        req name: String,
        /// The display name of the resource.
        opt title: Option<String>,
        /// A description of the resource.
        opt description: Option<String>,
        /// The media type of the resource.
        opt mime_type as "mimeType": Option<String>,
        /// The size of the resource, in bytes.
        opt size read whole: Option<u64>,
        /// The icons of the resource.
        list icons: List<Icon>,
        /// Hints on how to use the resource.
        opt annotations: Option<Annotations>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// A family of resources whose URIs have the same form.
    pub struct ResourceTemplate {
        /// The URI template of the resources (RFC 6570).
        req uri_template as "uriTemplate": String,
        /// The name that identifies the template.
        req name: String,
        /// The display name of the template.
        opt title: Option<String>,
        /// A description of the template.
        opt description: Option<String>,
        /// The media type of all resources of the template.
        opt mime_type as "mimeType": Option<String>,
        /// The icons of the template.
        list icons: List<Icon>,
        /// Hints on how to use the resources.
        opt annotations: Option<Annotations>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/list`.
    pub struct ListResourcesResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The resources.
        req resources read nullable: Vec<Resource>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The time for which the list stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/templates/list`.
    pub struct ListResourceTemplatesResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The templates.
        req resource_templates as "resourceTemplates" read nullable: Vec<ResourceTemplate>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The time for which the list stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `resources/read`.
    pub struct ReadResourceParams {
        /// The URI of the resource.
        req uri: String,
        /// The client's answers to the requests for input in the server's previous result (MCP 2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// The `requestState` of the server's previous result, unchanged (MCP 2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/read` when it is complete.
    pub struct ReadResourceResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The contents.
        req contents read nullable: Vec<ResourceContents>,
        /// The time for which the contents stay fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `resources/subscribe` and `resources/unsubscribe`.
    pub struct SubscribeParams {
        /// The URI of the resource.
        req uri: String,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/resources/updated`.
    pub struct ResourceUpdatedParams {
        /// The URI of the resource.
        req uri: String,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
