//! The `_meta` member of messages, and the names that MCP and MGP use in it.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::record::Extras;
use crate::{Id, RpcError};

/// Names of members of `_meta`.
pub mod key {
    /// The MCP revision in which a request is sent (MCP 2026-07-28).
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The name and version of the sender of a request (MCP 2026-07-28).
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// The capabilities of the client that sends a request (MCP 2026-07-28).
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The name and version of the sender of a result (MCP 2026-07-28).
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The lowest severity of log messages that the caller wants for a request (MCP 2026-07-28).
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The id of the subscription for which a notification is sent (MCP 2026-07-28).
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// The id of the task to which a message belongs (MCP 2025-11-25).
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// The identifier of the tasks extension (MCP 2026-07-28).
    pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
    /// The identifier of the skills extension (SEP-2640).
    pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
    /// The identifier of MCP Apps (SEP-1865).
    pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
    /// The metadata of MCP Apps, in a tool or a page.
    pub const UI: &str = "ui";
    /// The older name of the member with the URI of a tool's page. It is always read, but written only for a tool that
    /// already has this member.
    pub const UI_RESOURCE_URI: &str = "ui/resourceUri";
    /// The token that the sender of a request chose for its progress notifications.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The trace and span to which a request belongs (OpenTelemetry).
    pub const TRACEPARENT: &str = "traceparent";
    /// Further state of a trace, which each tracing system defines itself (OpenTelemetry).
    pub const TRACESTATE: &str = "tracestate";
    /// Further values that are passed on with a trace (OpenTelemetry baggage).
    pub const BAGGAGE: &str = "baggage";
    /// The name of the MGP object, both in `capabilities.extensions` and in `_meta`.
    pub const MGP: &str = "dev.cloto/mgp";
    /// The alternative name of the member with permission grants. It is always read, but written only to a peer that
    /// uses it.
    pub const MGP_GRANTS: &str = "dev.cloto/mgp/grants";
    /// A handle that a modern client chooses and repeats, so that its separate requests share state at the server (MGP
    /// §12).
    pub const MGP_HANDLE: &str = "dev.cloto/mgp/handle";
    /// The older name of the MGP object. It is always read, but written only in the answer to a client that declared
    /// MGP under this name.
    pub const MGP_SHORT: &str = "mgp";
}

/// The object `_meta`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Meta(pub Extras);

impl Meta {
    /// Creates an empty `_meta` object.
    #[must_use]
    pub const fn new() -> Self {
        Self(Extras::new())
    }

    /// Returns the progress token of the request.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the token is neither an integer nor a string.
    pub fn progress_token(&self) -> Result<Option<Id>, RpcError> {
        self.decode(key::PROGRESS_TOKEN)
    }

    /// Returns the id of the subscription for which this notification is sent.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the id is neither an integer nor a string.
    pub fn subscription_id(&self) -> Result<Option<Id>, RpcError> {
        self.decode(key::SUBSCRIPTION_ID)
    }
}

impl Deref for Meta {
    type Target = Extras;

    fn deref(&self) -> &Extras {
        &self.0
    }
}

impl DerefMut for Meta {
    fn deref_mut(&mut self) -> &mut Extras {
        &mut self.0
    }
}
