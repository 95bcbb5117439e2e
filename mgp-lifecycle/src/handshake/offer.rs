//! The offers that client and server make in the handshake: their capabilities, revisions and MGP extensions.

use mgp_types::mcp::{
    ClientCapabilities, Implementation, Revision, ServerCapabilities, TasksCapability, key,
};
use mgp_types::mgp::{ExtensionSet, MgpVersion, Permission, TrustLevel};
use mgp_types::{Object, Payload, RpcError};

use super::negotiate;

/// The MGP offer of a client or a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MgpOffer {
    /// The MGP version that is offered; versions with the same major number are compatible (MGP §2.4).
    pub version: MgpVersion,
    /// The extensions that are offered.
    pub extensions: ExtensionSet,
    /// The permissions a server needs.
    pub permissions_required: Vec<Permission>,
    /// The id that a server claims to have.
    pub server_id: Option<String>,
    /// The trust level that a server claims to have.
    pub trust_level: Option<TrustLevel>,
    /// If `true`, a server declares that it asks modern callers the same questions as legacy callers, but in rounds
    /// ([`RoundsLayer`](crate::RoundsLayer)).
    pub asks_in_rounds: bool,
}

impl MgpOffer {
    /// Creates an offer of these extensions.
    #[must_use]
    pub fn new(extensions: ExtensionSet) -> Self {
        Self {
            version: MgpVersion::DEFAULT,
            extensions,
            permissions_required: Vec::new(),
            server_id: None,
            trust_level: None,
            asks_in_rounds: false,
        }
    }

    /// Returns whether the offer contains proposals, so that calls can have additional members.
    #[must_use]
    pub fn has_proposals(&self) -> bool {
        !(self.extensions & ExtensionSet::PROPOSALS).is_empty()
    }
}

/// The offer of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOffer {
    /// The name and version of the server.
    pub info: Implementation,
    /// The MCP capabilities of the server, without the MGP offer.
    pub capabilities: ServerCapabilities,
    /// Instructions that the server gives the model.
    pub instructions: Option<String>,
    /// The supported revisions, oldest first.
    ///
    /// If a legacy client requests an unknown revision, a server that supports all revisions answers with its newest
    /// legacy revision. A server that was restricted to some revisions refuses the request.
    pub revisions: Vec<Revision>,
    /// If `true`, tool calls can become tasks; each era declares this capability in its own form.
    pub tasks: bool,
    /// The MGP offer; `None` for plain MCP.
    pub mgp: Option<MgpOffer>,
}

impl ServerOffer {
    /// Creates the offer of a server that supports all revisions, without MGP.
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

    /// Returns the capabilities for `initialize`; in MCP 2025-11-25, the last legacy revision, tasks are a core
    /// capability.
    pub(crate) fn legacy_capabilities(&self, revision: &Revision) -> ServerCapabilities {
        let mut capabilities = self.capabilities.clone();
        // The methods for skills exist only in the modern era, so remove the extension here.
        if let Some(extensions) = &mut capabilities.extensions
            && extensions.remove(key::SKILLS_EXTENSION).is_some()
            && extensions.is_empty()
        {
            capabilities.extensions = None;
        }
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

    /// Returns the capabilities for `server/discover`, where tasks are an extension.
    pub(crate) fn modern_capabilities(&self) -> ServerCapabilities {
        let mut capabilities = self.capabilities.clone();
        if self.tasks {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(key::TASKS_EXTENSION, Payload::empty_object());
        }
        capabilities
    }

    /// Returns the revision for the answer to `initialize`: the requested revision if it is supported, otherwise the
    /// newest legacy revision.
    ///
    /// Returns `None` if the requested revision is not supported and the revisions were restricted: the revision might
    /// have been excluded on purpose, so no other revision is offered instead.
    pub(crate) fn legacy_revision(&self, requested: &Revision) -> Option<Revision> {
        let mut legacy =
            self.revisions.iter().filter(|revision| Revision::LEGACY.contains(revision));
        if legacy.clone().any(|revision| revision == requested) {
            return Some(requested.clone());
        }
        let is_restricted = !Revision::SUPPORTED.iter().all(|known| self.revisions.contains(known));
        legacy.next_back().filter(|_| !is_restricted).cloned()
    }
}

/// The offer of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOffer {
    /// The name and version of the client.
    pub info: Implementation,
    /// The MCP capabilities of the client, without the MGP offer.
    pub capabilities: ClientCapabilities,
    /// The MGP offer; `None` for plain MCP.
    pub mgp: Option<MgpOffer>,
    /// The party that answers questions of the server.
    pub answerer: Answerer,
}

/// The party that answers the questions of a server: sampling, elicitation and roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answerer {
    /// The client, with its handlers.
    #[default]
    Client,
    /// The caller of each forwarded call: a modern request declares the capabilities of its caller. A legacy session is
    /// shared by all callers, so `initialize` declares the capabilities of the client.
    Caller,
}

impl ClientOffer {
    /// Creates the offer of a client without MGP.
    #[must_use]
    pub fn new(info: Implementation) -> Self {
        let (capabilities, answerer) = (ClientCapabilities::new(), Answerer::Client);
        Self { info, capabilities, mgp: None, answerer }
    }

    /// Returns the capabilities for modern requests that are not made on behalf of a caller.
    pub(crate) fn modern_capabilities(&self) -> Result<ClientCapabilities, RpcError> {
        let mut capabilities = self.capabilities.clone();
        if let Some(mgp) = &self.mgp {
            negotiate::put_modern(&mut capabilities, &negotiate::client_offer(mgp))?;
        }
        if self.answerer == Answerer::Caller {
            (capabilities.elicitation, capabilities.sampling) = (None, None);
            capabilities.roots = None;
        }
        Ok(capabilities)
    }
}
