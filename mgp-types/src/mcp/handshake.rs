//! How a connection begins: `initialize` (legacy), `server/discover` (modern).
//!
//! Applies to: both.

use super::{CacheScope, ClientCapabilities, Icon, Meta, ResultType, Revision, ServerCapabilities};
use crate::record::{List, record};

record! {
    /// Who a peer says it is.
    pub struct Implementation {
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// Version.
        req version: String,
        /// What it does.
        opt description: Option<String>,
        /// Its site.
        opt website_url as "websiteUrl": Option<String>,
        /// Pictures.
        list icons: List<Icon>,
    }

    /// Parameters of `initialize` (§2.2).
    pub struct InitializeParams {
        /// The newest revision the client speaks.
        req protocol_version as "protocolVersion": Revision,
        /// What the client can do.
        req capabilities: ClientCapabilities,
        /// Who the client is.
        req client_info as "clientInfo": Implementation,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `initialize` (§2.3).
    pub struct InitializeResult {
        /// The revision that holds.
        req protocol_version as "protocolVersion": Revision,
        /// What the server can do.
        req capabilities: ServerCapabilities,
        /// Who the server is.
        req server_info as "serverInfo": Implementation,
        /// Advice for the model.
        opt instructions: Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `server/discover`.
    pub struct DiscoverParams {
        /// Beside the message; it names the revision and what the client can do.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `server/discover`.
    pub struct DiscoverResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The revisions the server speaks.
        req supported_versions as "supportedVersions": Vec<Revision>,
        /// What the server can do.
        req capabilities: ServerCapabilities,
        /// Advice for the model.
        opt instructions: Option<String>,
        /// How long the result holds, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// Who may keep it.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// Beside the message; it says who the server is.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters without content of their own (`ping`, `roots/list`, list-changed notifications).
    pub struct EmptyParams {
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// A result that says "done".
    pub struct EmptyResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Data of error −32022.
    pub struct UnsupportedVersionData {
        /// The revisions the server speaks.
        req supported: Vec<Revision>,
        /// The one that was asked for.
        req requested: Revision,
    }

    /// Data of error −32021.
    pub struct MissingCapabilityData {
        /// What the client would have to offer.
        req required_capabilities as "requiredCapabilities": ClientCapabilities,
    }
}
