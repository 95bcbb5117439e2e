//! What each side offers.
//!
//! Applies to: both.

use mgp_types::mcp::{
    ClientCapabilities, Implementation, Revision, ServerCapabilities, TasksCapability, key,
};
use mgp_types::mgp::{ExtensionSet, MgpVersion, Permission, TrustLevel};
use mgp_types::{Object, Payload};

/// What a side offers of MGP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MgpOffer {
    /// The version; any version of the same major number fits (§2.4).
    pub version: MgpVersion,
    /// The extensions.
    pub extensions: ExtensionSet,
    /// The permissions a server needs.
    pub permissions_required: Vec<Permission>,
    /// The id a server claims.
    pub server_id: Option<String>,
    /// The trust a server claims.
    pub trust_level: Option<TrustLevel>,
}

impl MgpOffer {
    /// Offers these extensions.
    #[must_use]
    pub fn new(extensions: ExtensionSet) -> Self {
        Self {
            version: MgpVersion::DEFAULT,
            extensions,
            permissions_required: Vec::new(),
            server_id: None,
            trust_level: None,
        }
    }
}

/// What a server offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOffer {
    /// Who the server is.
    pub info: Implementation,
    /// What it can do, without MGP.
    pub capabilities: ServerCapabilities,
    /// Advice for the model.
    pub instructions: Option<String>,
    /// The revisions it speaks, oldest first.
    ///
    /// A server that speaks all of them answers a foreign one with its newest; one that was told to speak fewer refuses.
    pub revisions: Vec<Revision>,
    /// Whether tool calls may become tasks; each era says it in its own place.
    pub tasks: bool,
    /// What it offers of MGP; `None` for plain MCP.
    pub mgp: Option<MgpOffer>,
}

impl ServerOffer {
    /// A server that speaks all revisions and nothing of MGP yet.
    #[must_use]
    pub fn new(info: Implementation) -> Self {
        Self {
            info,
            capabilities: ServerCapabilities::new(),
            instructions: None,
            revisions: Revision::SUPPORTED.to_vec(),
            tasks: false,
            mgp: None,
        }
    }

    /// The capabilities as `initialize` tells them: tasks are part of the core of the last legacy revision.
    pub(crate) fn legacy_capabilities(&self, revision: &Revision) -> ServerCapabilities {
        let mut capabilities = self.capabilities.clone();
        if self.tasks && *revision == Revision::V2025_11_25 {
            let mut tasks = TasksCapability::new();
            tasks.list = Some(Object::new());
            tasks.cancel = Some(Object::new());
            let calls = Payload::from_trusted(r#"{"call":{}}"#);
            tasks.requests = Some([("tools", calls)].into_iter().collect());
            capabilities.tasks = Some(tasks);
        }
        capabilities
    }

    /// The capabilities as `server/discover` tells them: tasks are an extension.
    pub(crate) fn modern_capabilities(&self) -> ServerCapabilities {
        let mut capabilities = self.capabilities.clone();
        if self.tasks {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(key::TASKS_EXTENSION, Payload::empty_object());
        }
        capabilities
    }

    /// The revision `initialize` settles on: the asked one if it is spoken, else the newest legacy one.
    ///
    /// `None` where the choice was narrowed: whoever left a revision out wants it refused, not replaced.
    pub(crate) fn legacy_revision(&self, asked: &Revision) -> Option<Revision> {
        let mut legacy =
            self.revisions.iter().filter(|revision| Revision::LEGACY.contains(revision));
        if legacy.clone().any(|revision| revision == asked) {
            return Some(asked.clone());
        }
        let is_narrowed = !Revision::SUPPORTED.iter().all(|known| self.revisions.contains(known));
        legacy.next_back().filter(|_| !is_narrowed).cloned()
    }
}

/// What a client offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOffer {
    /// Who the client is.
    pub info: Implementation,
    /// What it can do, without MGP.
    pub capabilities: ClientCapabilities,
    /// What it offers of MGP; `None` for plain MCP.
    pub mgp: Option<MgpOffer>,
}

impl ClientOffer {
    /// A client that offers nothing of MGP yet.
    #[must_use]
    pub fn new(info: Implementation) -> Self {
        Self { info, capabilities: ClientCapabilities::new(), mgp: None }
    }
}
