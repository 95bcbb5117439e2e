//! Resources: lists, templates, reading, watching (MCP resources).
//!
//! Applies to: both.

use super::{Annotations, CacheScope, Icon, InputResponses, Meta, ResultType};
use crate::record::{List, record};

record! {
    /// A resource that can be read.
    pub struct Resource {
        /// Where it is.
        req uri: String,
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// What it is.
        opt description: Option<String>,
        /// Its media type.
        opt mime_type as "mimeType": Option<String>,
        /// Its size in bytes.
        opt size: Option<u64>,
        /// Pictures.
        list icons: List<Icon>,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the resource.
        opt meta as "_meta": Option<Meta>,
    }

    /// A family of resources.
    pub struct ResourceTemplate {
        /// URI template (RFC 6570).
        req uri_template as "uriTemplate": String,
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// What they are.
        opt description: Option<String>,
        /// Their media type.
        opt mime_type as "mimeType": Option<String>,
        /// Pictures.
        list icons: List<Icon>,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the template.
        opt meta as "_meta": Option<Meta>,
    }

    /// What a resource holds: text or bytes.
    pub struct ResourceContents {
        /// Where it is.
        req uri: String,
        /// Its media type.
        opt mime_type as "mimeType": Option<String>,
        /// Its text.
        opt text: Option<String>,
        /// Its bytes, base64.
        opt blob: Option<String>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/list`.
    pub struct ListResourcesResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The resources.
        req resources: Vec<Resource>,
        /// Where to go on.
        opt next_cursor as "nextCursor": Option<String>,
        /// How long the list holds, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// Who may keep it.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/templates/list`.
    pub struct ListResourceTemplatesResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The templates.
        req resource_templates as "resourceTemplates": Vec<ResourceTemplate>,
        /// Where to go on.
        opt next_cursor as "nextCursor": Option<String>,
        /// How long the list holds, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// Who may keep it.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `resources/read`.
    pub struct ReadResourceParams {
        /// Where it is.
        req uri: String,
        /// What the server asked for in the round before (2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// What the server wants back as it was (2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/read` when it is complete.
    pub struct ReadResourceResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// What it holds.
        req contents: Vec<ResourceContents>,
        /// How long it holds, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// Who may keep it.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `resources/subscribe` and `resources/unsubscribe`.
    pub struct SubscribeParams {
        /// The resource.
        req uri: String,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `notifications/resources/updated`.
    pub struct ResourceUpdatedParams {
        /// The resource.
        req uri: String,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
