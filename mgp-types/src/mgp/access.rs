//! Which agent may use which tool (MGP §5).
//!
//! Applies to: both.

use crate::record::{List, Maybe, open_enum, record, string_enum};
use crate::{Id, Payload, Timestamp};

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

impl AccessGrantParams {
    /// An agent may use all tools of a server; `group:NAME` is a group, `*` everyone.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use mgp_types::mgp::{AccessGrantParams, EntryType};
    ///
    /// let hour = SystemTime::now() + Duration::from_hours(1);
    /// let grant = AccessGrantParams::allow("ada", "disk").tool("wipe").until(hour).because("the disk is sold");
    /// assert_eq!(grant.entry_type, EntryType::ToolGrant);
    /// ```
    #[must_use]
    pub fn allow(agent: impl Into<String>, server: impl Into<String>) -> Self {
        Self::new(EntryType::ServerGrant, agent, server, AccessPermission::Allow)
    }

    /// An agent may use no tool of a server; `group:NAME` is a group, `*` everyone.
    #[must_use]
    pub fn deny(agent: impl Into<String>, server: impl Into<String>) -> Self {
        Self::new(EntryType::ServerGrant, agent, server, AccessPermission::Deny)
    }

    /// Makes it about this tool only.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.entry_type = EntryType::ToolGrant;
        self.tool_name = Some(name.into());
        self
    }

    /// Says until when it holds.
    #[must_use]
    pub fn until(mut self, end: impl Into<Timestamp>) -> Self {
        self.expires_at = Some(end.into());
        self
    }

    /// Says that calls of the tool it names are never confirmed, whatever the tool wants.
    #[must_use]
    pub fn never_confirmed(mut self) -> Self {
        self.extra.insert("confirm", Payload::from_trusted(r#""never""#));
        self
    }

    /// Says why.
    #[must_use]
    pub fn because(mut self, justification: impl Into<String>) -> Self {
        self.justification = Some(justification.into());
        self
    }
}

impl AccessRevokeParams {
    /// Takes back what an agent has on a whole server; entries for single tools stay.
    ///
    /// ```
    /// use mgp_types::mgp::{AccessRevokeParams, EntryType};
    ///
    /// assert_eq!(AccessRevokeParams::of("ada", "disk").entry_type, EntryType::ServerGrant);
    /// assert_eq!(AccessRevokeParams::of("ada", "disk").tool("wipe").entry_type, EntryType::ToolGrant);
    /// ```
    #[must_use]
    pub fn of(agent: impl Into<String>, server: impl Into<String>) -> Self {
        Self::new(agent, server, EntryType::ServerGrant)
    }

    /// Takes back the entry for this tool instead.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.entry_type = EntryType::ToolGrant;
        self.tool_name = Some(name.into());
        self
    }
}
