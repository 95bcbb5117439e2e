//! What was negotiated with the party at one end of a call (MGP §2).

use std::sync::{Arc, LazyLock};

use crate::Payload;
use crate::mcp::{ClientCapabilities, Era, Revision};
use crate::mgp::{Extension, ExtensionSet};

/// What one party negotiated; shared by all its calls in the legacy era, made for each in the modern one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// The family of revisions.
    pub era: Era,
    /// The MCP revision.
    pub revision: Revision,
    /// The active MGP extensions: the intersection; `None` when MGP was not negotiated.
    pub mgp: Option<ExtensionSet>,
    /// The party's name and version, as it gave them.
    pub info: Option<Payload>,
    /// The party's capabilities, as it gave them.
    pub capabilities: Option<Payload>,
    /// The advice a server gives the model.
    pub instructions: Option<String>,
    /// The id the party claims for itself (§2.3); shown, never a key.
    pub claimed_server_id: Option<String>,
    /// The permissions the party says it needs (§2.3).
    pub permissions_required: Vec<String>,
    /// What the party can be asked for.
    pub asks: Asks,
}

/// What a client said it can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asks {
    /// `elicitation/create`.
    pub elicitation: bool,
    /// `sampling/createMessage`.
    pub sampling: bool,
    /// `roots/list`.
    pub roots: bool,
}

impl Asks {
    /// Reads what a client offers.
    #[must_use]
    pub fn of(capabilities: &ClientCapabilities) -> Self {
        Self {
            elicitation: capabilities.elicitation.is_some(),
            sampling: capabilities.sampling.is_some(),
            roots: capabilities.roots.is_some(),
        }
    }

    /// Whether a question of this method was offered an answer.
    #[must_use]
    pub fn offers(self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.elicitation,
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            // Questions of other kinds (callbacks, custom ones) are settled by whoever asks.
            _ => true,
        }
    }

    /// Whether anything was offered.
    #[must_use]
    pub fn any(self) -> bool {
        self.elicitation || self.sampling || self.roots
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self::new(Revision::V2024_11_05)
    }
}

impl Facts {
    /// A party that speaks a revision and nothing else.
    #[must_use]
    pub fn new(revision: Revision) -> Self {
        Self {
            era: revision.era(),
            revision,
            mgp: None,
            info: None,
            capabilities: None,
            instructions: None,
            claimed_server_id: None,
            permissions_required: Vec::new(),
            asks: Asks::default(),
        }
    }

    /// Nothing negotiated yet.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Facts>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Whether an MGP extension is active with this party.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.mgp.is_some_and(|set| set.contains(extension))
    }

    /// Whether MGP was negotiated at all.
    #[must_use]
    pub fn speaks_mgp(&self) -> bool {
        self.mgp.is_some()
    }
}
