//! The decisions that are stored under the ids of servers, and the decisions that are stored for tenants. They are read
//! directly from a store, e.g. for a tool that displays them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

use mgp_types::store::{Store, StoreError};

use crate::access::Rules;
use crate::approval::{CallBook, Requests};
use crate::definition::PinTable;
use crate::permission::{Approval, ApprovalDecision, Book};
use crate::state::Snapshot;

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
    /// Reads the access entries in force, the approved permissions and the stored definitions of all servers, including
    /// servers that no longer exist.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read(store: &dyn Store) -> Result<BTreeMap<String, Self>, StoreError> {
        let now = SystemTime::now();
        let mut all = BTreeMap::<String, Self>::new();
        for entry in entries::<Rules>(store).await? {
            if entry.in_force(now) {
                all.entry(entry.access.server_id).or_default().agents.insert(entry.access.agent_id);
            }
        }
        for approval in entries::<Book>(store).await? {
            if let Approval { server: Some(server), permission, decision, .. } = approval
                && decision == ApprovalDecision::Approved
            {
                all.entry(server).or_default().permissions.insert(permission.to_string());
            }
        }
        for pin in entries::<PinTable>(store).await? {
            all.entry(pin.server).or_default().tools.insert(pin.tool);
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

/// The decisions stored for a tenant; they also apply to a later tenant with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantHoldings {
    /// The agents that access entries, requests and approvals of the tenant name, and the groups that entries name.
    pub agents: BTreeSet<String>,
    /// The number of access entries.
    pub entries: usize,
    /// The number of decisions about permissions.
    pub permissions: usize,
    /// The number of requests for approval, and of approvals of later calls.
    pub approvals: usize,
}

impl TenantHoldings {
    /// Reads the decisions of all tenants.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read(store: &dyn Store) -> Result<BTreeMap<String, Self>, StoreError> {
        let mut all = BTreeMap::<String, Self>::new();
        for entry in entries::<Rules>(store).await? {
            let held = all.entry(entry.tenant).or_default();
            held.entries += 1;
            held.agents.insert(entry.access.agent_id);
        }
        for approval in entries::<Book>(store).await? {
            all.entry(approval.tenant).or_default().permissions += 1;
        }
        for request in entries::<Requests>(store).await? {
            let held = all.entry(request.tenant).or_default();
            held.approvals += 1;
            held.agents.insert(request.agent_id.unwrap_or(request.subject));
        }
        for call in entries::<CallBook>(store).await? {
            let held = all.entry(call.tenant).or_default();
            held.approvals += 1;
            held.agents.insert(call.agent_id.unwrap_or(call.subject));
        }
        Ok(all)
    }
}

/// Reads the entries of a space. Leaves out entries whose value cannot be read.
async fn entries<S: Snapshot>(store: &dyn Store) -> Result<Vec<S::Entry>, StoreError> {
    let records = store.load(S::SPACE).await?.records.into_iter();
    Ok(records.filter_map(|record| record.value?.get::<S::Entry>().ok()).collect())
}
