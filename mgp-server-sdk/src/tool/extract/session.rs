//! Who the caller said it is, and the trace of the call.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::{Era, Implementation, Revision};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::Facts;

use super::{FromCall, ToolRequest};

/// What the caller negotiated.
///
/// What a caller says of itself is for logs and wording, never for decisions: that is what `Principal` is for.
///
/// ```
/// use mgp_server_sdk::SessionInfo;
/// use mgp_server_sdk::prelude::*;
///
/// let who = Tool::new("who", "Says what calls", |session: SessionInfo| async move {
///     let name = session.client().map_or_else(|| "somebody".to_owned(), |client| client.name);
///     format!("{name} speaks {}", session.revision())
/// });
/// # drop(who);
/// ```
#[derive(Clone, Debug)]
pub struct SessionInfo(Arc<Facts>);

impl SessionInfo {
    /// The family of MCP revisions.
    #[must_use]
    pub fn era(&self) -> Era {
        self.0.era
    }

    /// The MCP revision.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.0.revision
    }

    /// The client's name and version, as it gave them.
    #[must_use]
    pub fn client(&self) -> Option<Implementation> {
        self.0.info.as_ref().and_then(|info| info.get().ok())
    }

    /// The active MGP extensions; `None` for a plain MCP client.
    #[must_use]
    pub fn extensions(&self) -> Option<ExtensionSet> {
        self.0.mgp
    }

    /// Whether an MGP extension is active.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.0.has(extension)
    }

    /// All that is known.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.0
    }
}

impl FromCall for SessionInfo {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(Arc::clone(&request.cx.caller)))
    }
}

/// The trace the call belongs to (MGP §6.5), to pass on to whatever the tool calls itself.
#[derive(Clone, Debug)]
pub struct Trace(Option<String>);

impl Trace {
    /// The trace id, where the caller gave one.
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
