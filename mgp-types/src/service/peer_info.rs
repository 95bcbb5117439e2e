//! The result of the negotiation with the peer at one end of a call (MGP §2).

use std::sync::{Arc, LazyLock};

use crate::Payload;
use crate::mcp::{ClientCapabilities, Era, Revision};
use crate::mgp::{Extension, ExtensionSet, MgpVersion, TrustLevel};

/// The result of the negotiation with one peer. In MCP up to 2025-11-25, all calls of a connection or session share it;
/// in MCP 2026-07-28, each call has its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PeerInfo {
    /// The era of the revision: legacy (up to 2025-11-25) or modern (MCP 2026-07-28).
    pub era: Era,
    /// The MCP revision that was negotiated, or that the peer used.
    pub revision: Revision,
    /// The MGP extensions that both sides offered; `None` if MGP was not negotiated.
    pub mgp: Option<ExtensionSet>,
    /// The MGP version that the peer sent.
    pub mgp_version: Option<MgpVersion>,
    /// The name and version of the peer, as it sent them.
    pub info: Option<Payload>,
    /// The capabilities of the peer, as it sent them.
    pub capabilities: Option<Payload>,
    /// The instructions that a server sent for the model.
    pub instructions: Option<String>,
    /// The id that the peer claims (§2.3); shown, but never used as a key.
    pub claimed_server_id: Option<String>,
    /// The trust level that the peer claims (§2.3); shown, but never used for a decision.
    pub claimed_trust_level: Option<TrustLevel>,
    /// The permissions that the peer claims to need (§2.3).
    pub permissions_required: Vec<String>,
    /// The kinds of requests that the peer accepts if it is a client.
    pub accepts: AcceptedRequests,
    /// `true` if the peer is a client that shows the pages of tools (MCP Apps).
    pub shows_apps: bool,
    /// `true` if the peer is a server and declares that it can ask modern callers all questions that it asks legacy
    /// callers.
    pub asks_in_rounds: bool,
}

/// The kinds of requests that a client accepts from a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptedRequests {
    /// `true` if the client accepts `elicitation/create`.
    pub elicitation: bool,
    /// `true` if the client accepts `sampling/createMessage`.
    pub sampling: bool,
    /// `true` if the client accepts `roots/list`.
    pub roots: bool,
}

impl AcceptedRequests {
    /// Reads from the capabilities of a client which requests it accepts.
    #[must_use]
    pub fn from_capabilities(capabilities: &ClientCapabilities) -> Self {
        Self {
            elicitation: capabilities.elicitation.is_some(),
            sampling: capabilities.sampling.is_some(),
            roots: capabilities.roots.is_some(),
        }
    }

    /// Returns whether the client accepts requests of a method; `true` for a method that has no field here.
    #[must_use]
    pub fn accepts(self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.elicitation,
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            // Accept other kinds of questions, such as callbacks: the code that asks them checks whether the client
            // accepts them.
            _ => true,
        }
    }

    /// Returns whether the client accepts requests of at least one kind.
    #[must_use]
    pub fn any(self) -> bool {
        self.elicitation || self.sampling || self.roots
    }
}

impl Default for PeerInfo {
    fn default() -> Self {
        Self::new(Revision::V2024_11_05)
    }
}

impl PeerInfo {
    /// Creates the description of a peer that supports an MCP revision, and neither MGP nor optional capabilities.
    #[must_use]
    pub fn new(revision: Revision) -> Self {
        Self {
            era: revision.era(),
            revision,
            mgp: None,
            mgp_version: None,
            info: None,
            capabilities: None,
            instructions: None,
            claimed_server_id: None,
            claimed_trust_level: None,
            permissions_required: Vec::new(),
            accepts: AcceptedRequests::default(),
            shows_apps: false,
            asks_in_rounds: false,
        }
    }

    /// Returns the description that a connection has before the negotiation.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<PeerInfo>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Returns whether an MGP extension was negotiated with this peer.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.mgp.is_some_and(|set| set.contains(extension))
    }

    /// Returns the cursor with which the next page of a list is requested from this server; `None` after the last page.
    ///
    /// Many legacy servers send an empty cursor with the last page. In MCP 2026-07-28, an empty cursor is a cursor like
    /// any other.
    #[must_use]
    pub fn next_page(&self, cursor: Option<String>) -> Option<String> {
        cursor.filter(|cursor| self.era != Era::Legacy || !cursor.is_empty())
    }

    /// Returns whether MGP was negotiated with this peer.
    #[must_use]
    pub fn supports_mgp(&self) -> bool {
        self.mgp.is_some()
    }
}
