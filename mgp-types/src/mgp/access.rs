//! Which agent may use which tool (MGP §5).
//!
//! Applies to: both.

use crate::record::{List, Maybe, open_enum, record, string_enum};
use crate::{Id, Timestamp};

string_enum! {
    /// What an entry covers (§5.3).
    pub enum EntryType {
        /// A whole server.
        ServerGrant = "server_grant",
        /// One tool.
        ToolGrant = "tool_grant",
    }

    /// What an entry says.
    pub enum AccessPermission {
        /// Yes.
        Allow = "allow",
        /// No.
        Deny = "deny",
    }

    /// What holds without an entry (§5.5).
    pub enum DefaultPolicy {
        /// No.
        OptIn = "opt-in",
        /// Yes.
        OptOut = "opt-out",
    }
}

open_enum! {
    /// What decided (§5.2).
    pub enum AccessSource {
        /// An entry for the tool.
        ToolGrant = "tool_grant",
        /// An entry for the server.
        ServerGrant = "server_grant",
        /// The server's default.
        DefaultPolicy = "default_policy",
    }
}

record! {
    /// Parameters of `mgp/access/query`.
    pub struct AccessQueryParams {
        /// The agent.
        req agent_id: String,
        /// The server.
        req server_id: String,
        /// The tool; without one, all entries of the agent on the server are listed.
        opt tool_name: Option<String>,
    }

    /// Result of `mgp/access/query`: the decision about a tool, or the entries of a server.
    pub struct AccessQueryResult {
        /// The decision.
        opt permission: Option<AccessPermission>,
        /// What decided.
        opt source: Option<AccessSource>,
        /// Who made the entry.
        tri granted_by: Maybe<String>,
        /// When it was made.
        tri granted_at: Maybe<Timestamp>,
        /// When it ends.
        tri expires_at: Maybe<Timestamp>,
        /// The agent that was asked about.
        opt agent_id: Option<String>,
        /// The server that was asked about.
        opt server_id: Option<String>,
        /// The entries, when no tool was named.
        list entries: List<AccessEntry>,
    }

    /// An entry.
    pub struct AccessEntry {
        /// What it covers.
        req entry_type: EntryType,
        /// The agent.
        req agent_id: String,
        /// The server.
        req server_id: String,
        /// The tool.
        nul tool_name: Option<String>,
        /// What it says.
        req permission: AccessPermission,
        /// Who made it.
        opt granted_by: Option<String>,
        /// When it was made.
        opt granted_at: Option<Timestamp>,
        /// Why.
        opt justification: Option<String>,
        /// When it ends.
        nul expires_at: Option<Timestamp>,
    }

    /// Parameters of `mgp/access/grant`.
    pub struct AccessGrantParams {
        /// What the entry covers.
        req entry_type: EntryType,
        /// The agent.
        req agent_id: String,
        /// The server.
        req server_id: String,
        /// The tool, for a `tool_grant`.
        nul tool_name: Option<String>,
        /// What it says.
        req permission: AccessPermission,
        /// Who makes it, as claimed; the authenticated caller counts.
        opt granted_by: Option<String>,
        /// Why.
        opt justification: Option<String>,
        /// When it ends.
        nul expires_at: Option<Timestamp>,
    }

    /// Result of `mgp/access/grant`.
    pub struct AccessGrantResult {
        /// `granted`, or `replaced` when there was an entry.
        req status: String,
        /// Names the entry.
        opt id: Option<Id>,
        /// The agent.
        req agent_id: String,
        /// The server.
        req server_id: String,
        /// What it covers.
        req entry_type: EntryType,
        /// The tool.
        opt tool_name: Option<String>,
        /// What it says.
        req permission: AccessPermission,
        /// Who made it, as authenticated.
        opt granted_by: Option<String>,
        /// When it was made.
        opt granted_at: Option<Timestamp>,
        /// When it ends.
        opt expires_at: Option<Timestamp>,
    }

    /// Parameters of `mgp/access/revoke`.
    pub struct AccessRevokeParams {
        /// The agent.
        req agent_id: String,
        /// The server.
        req server_id: String,
        /// What the entry covers.
        req entry_type: EntryType,
        /// The tool; without one, every `tool_grant` of the agent on the server.
        opt tool_name: Option<String>,
    }

    /// Result of `mgp/access/revoke`.
    pub struct AccessRevokeResult {
        /// `revoked`, also when there was nothing.
        req status: String,
        /// How many entries went.
        req deleted_count: u64,
        /// The agent.
        opt agent_id: Option<String>,
        /// The server.
        opt server_id: Option<String>,
        /// What they covered.
        opt entry_type: Option<EntryType>,
        /// The entries that went.
        list revoked: List<AccessEntry>,
    }
}
