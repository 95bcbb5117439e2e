//! The stored definitions of each tool: the pinned definition, and a definition that waits or was rejected.
//!
//! These two definitions of a tool have different keys in the store. So a server that changes its tool cannot overwrite
//! an approval that an operator makes at the same time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mgp_types::service::ServerId;
use mgp_types::{Payload, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use super::review::{Finding, added};
use crate::policy::ServerPolicy;
use crate::state::Snapshot;
use crate::tool::Assessment;

/// A stored definition of one tool of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pin {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(super) kind: PinKind,
    pub(super) fingerprint: String,
    /// The part of the definition that a model reads.
    pub(super) shown: Payload,
    /// The findings of the review; empty if an operator approved the definition.
    #[serde(default)]
    pub(super) findings: Vec<Finding>,
    /// The operator who approved or rejected the definition, if one did.
    #[serde(default)]
    pub(super) by: Option<String>,
    pub(super) at: Timestamp,
}

/// The state of a stored definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PinKind {
    /// The definition can be used.
    Pinned,
    /// The definition waits for an operator.
    Waiting,
    /// An operator rejected the definition.
    Rejected,
}

/// All stored definitions, indexed by server and tool for decisions.
#[derive(Debug, Default)]
pub(crate) struct PinTable(HashMap<String, HashMap<String, PinPair>>);

/// The stored definitions of one tool: the pinned definition, and a definition that waits or was rejected.
#[derive(Clone, Debug, Default)]
pub(super) struct PinPair {
    pub(super) pinned: Option<Arc<Pin>>,
    /// The definition that waits for an operator or was rejected by one.
    pub(super) held: Option<Arc<Pin>>,
}

impl Pin {
    /// Returns the fingerprint of the stored definition.
    pub(super) fn hash(&self) -> Sha256Hash {
        Sha256Hash::digest(self.shown.as_str().as_bytes())
    }

    /// Returns the given findings that the stored definition does not have, i.e. the findings that a change adds.
    pub(super) fn added_by(&self, findings: &[Finding]) -> Vec<Finding> {
        self.shown.get().map_or_else(|_| findings.to_vec(), |before| added(&before, findings))
    }

    /// Returns the findings about this definition that the pinned one does not have.
    pub(super) fn added(&self, pinned: Option<&Self>) -> Vec<Finding> {
        pinned.map_or_else(|| self.findings.clone(), |pinned| pinned.added_by(&self.findings))
    }

    pub(super) fn assess(&self, policy: &ServerPolicy) -> Assessment {
        match self.shown.get() {
            Ok(tool) => Assessment::of(&tool, policy),
            // This cannot happen, because this program itself wrote the definition.
            Err(_) => Assessment::unlisted(&self.tool, policy),
        }
    }

    /// Returns the key of a definition in the store. The pinned definition of a tool and a definition that waits or was
    /// rejected have different keys.
    pub(super) fn key(server: &str, tool: &str, kind: PinKind) -> String {
        let slot = if kind == PinKind::Pinned { "pinned" } else { "held" };
        // Strings can always be encoded. As JSON, different pairs of names never result in the same key.
        Payload::of(&[server, tool, slot]).map(|key| key.as_str().to_owned()).unwrap_or_default()
    }
}

impl PinTable {
    pub(super) fn get(&self, server: &ServerId, tool: &str) -> Option<&PinPair> {
        self.0.get(server.as_str())?.get(tool)
    }

    /// Returns whether any definition of a server's tools is stored.
    pub(super) fn has(&self, server: &str) -> bool {
        self.0.contains_key(server)
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn tools(&self, server: &ServerId) -> impl Iterator<Item = (&str, &PinPair)> {
        let tools = self.0.get(server.as_str()).into_iter().flatten();
        tools.map(|(name, pair)| (name.as_str(), pair))
    }

    /// Returns the names of a server's tools that have a pinned definition.
    pub(super) fn pinned<'a>(&'a self, server: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let tools = self.0.get(server).into_iter().flatten();
        tools.filter(|(_, pair)| pair.pinned.is_some()).map(|(name, _)| name.as_str())
    }

    /// Returns all definitions that wait for an operator, and all that an operator rejected.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Pin>> {
        self.0.values().flat_map(HashMap::values).filter_map(|pair| pair.held.as_ref())
    }
}

impl Snapshot for PinTable {
    type Entry = Pin;
    const SPACE: &'static str = "pins";

    fn of(entries: &BTreeMap<String, Arc<Pin>>) -> Self {
        let mut book: HashMap<String, HashMap<String, PinPair>> = HashMap::new();
        for pin in entries.values() {
            let tools = book.entry(pin.server.clone()).or_default();
            let pair = tools.entry(pin.tool.clone()).or_default();
            match pin.kind {
                PinKind::Pinned => pair.pinned = Some(Arc::clone(pin)),
                PinKind::Waiting | PinKind::Rejected => pair.held = Some(Arc::clone(pin)),
            }
        }
        Self(book)
    }
}
