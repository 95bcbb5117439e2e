//! The extractors for information about the client, and for the trace of the call.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::{Era, Implementation, Revision};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::PeerInfo;

use super::{FromCall, ToolRequest};

/// The protocol revision and the extensions that the caller negotiated, and its description of itself.
///
/// The client's description of itself is not verified: use it only for logs and messages, and base decisions on
/// `Principal`.
///
/// ```
/// use mgp_server_sdk::SessionInfo;
/// use mgp_server_sdk::prelude::*;
///
/// let who = Tool::new("who", "Names the client", |session: SessionInfo| async move {
///     let name = session.client().map_or_else(|| "an unknown client".to_owned(), |client| client.name);
///     format!("{name} speaks {}", session.revision())
/// });
/// # drop(who);
/// ```
#[derive(Clone, Debug)]
pub struct SessionInfo(Arc<PeerInfo>);

impl SessionInfo {
    /// Returns the era (family of MCP revisions) of the caller.
    #[must_use]
    pub fn era(&self) -> Era {
        self.0.era
    }

    /// Returns the MCP revision.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.0.revision
    }

    /// Returns the client's name and version, as it sent them.
    #[must_use]
    pub fn client(&self) -> Option<Implementation> {
        self.0.info.as_ref().and_then(|info| info.get().ok())
    }

    /// Returns the active MGP extensions; `None` for a plain MCP client.
    #[must_use]
    pub fn extensions(&self) -> Option<ExtensionSet> {
        self.0.mgp
    }

    /// Returns whether an MGP extension is active.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.0.has(extension)
    }

    /// Returns everything known about the client: the result of the negotiation, and its unverified description of
    /// itself.
    #[must_use]
    pub fn facts(&self) -> &PeerInfo {
        &self.0
    }
}

impl FromCall for SessionInfo {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(Arc::clone(&request.cx.caller)))
    }
}

/// The trace id of the call (MGP §6.5). A tool can pass it on to services that it calls.
#[derive(Clone, Debug)]
pub struct Trace(Option<String>);

impl Trace {
    /// Returns the trace id, if the caller sent one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromCall for Trace {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(request.cx.trace.as_deref().map(str::to_owned)))
    }
}
