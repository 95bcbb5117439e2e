//! The decisions that are stored under the ids of servers. They are read directly from a store, e.g. for a tool that
//! displays them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

use mgp_types::store::{Store, StoreError};

use crate::access::{Entry, Rules};
use crate::definition::{Pin, PinTable};
use crate::permission::{Approval, ApprovalDecision, Book};
use crate::state::Snapshot as _;

/// The decisions stored under the id of a server; they also apply to a later server with the same id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerHoldings {
    /// The agents and groups that have an access entry in force for the server.
    pub agents: BTreeSet<String>,
    /// The names of the approved permissions.
    pub permissions: BTreeSet<String>,
    /// The names of the tools whose definitions are stored.
    pub tools: BTreeSet<String>,
}

impl ServerHoldings {
    /// Reads the decisions about all servers, including servers that no longer exist.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read(store: &dyn Store) -> Result<BTreeMap<String, Self>, StoreError> {
        let now = SystemTime::now();
        let mut all = BTreeMap::<String, Self>::new();
        for record in store.load(Rules::SPACE).await?.records {
            let entry = record.value.and_then(|value| value.get::<Entry>().ok());
            if let Some(entry) = entry.filter(|entry| entry.in_force(now)) {
                all.entry(entry.access.server_id).or_default().agents.insert(entry.access.agent_id);
            }
        }
        for record in store.load(Book::SPACE).await?.records {
            let approval = record.value.and_then(|value| value.get::<Approval>().ok());
            if let Some(Approval { server: Some(server), permission, decision, .. }) = approval
                && decision == ApprovalDecision::Approved
            {
                all.entry(server).or_default().permissions.insert(permission.to_string());
            }
        }
        for record in store.load(PinTable::SPACE).await?.records {
            if let Some(pin) = record.value.and_then(|value| value.get::<Pin>().ok()) {
                all.entry(pin.server).or_default().tools.insert(pin.tool);
            }
        }
        Ok(all)
    }

    /// Returns whether no decision is stored for the server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ServerHoldings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        if !self.agents.is_empty() {
            parts.push(format!("the access of {}", list(&self.agents)));
        }
        if !self.permissions.is_empty() {
            parts.push(format!("the permissions {}", list(&self.permissions)));
        }
        if !self.tools.is_empty() {
            let tools = self.tools.len();
            let noun = if tools == 1 { "tool" } else { "tools" };
            parts.push(format!("the recorded definitions of {tools} {noun}"));
        }
        f.write_str(&parts.join("; "))
    }
}
