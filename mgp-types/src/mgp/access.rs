//! Access control: the tools that agents are allowed to use (MGP §5).

use crate::record::{List, Nullable, open_enum, record, string_enum};
use crate::{Id, Payload, Timestamp};

string_enum! {
    /// The scope of an access entry: a server or a tool (§5.3).
    pub enum EntryType {
        /// All tools of a server.
        ServerGrant = "server_grant",
        /// A single tool.
        ToolGrant = "tool_grant",
    }

    /// The decision of an entry.
    pub enum AccessPermission {
        /// Access is allowed.
        Allow = "allow",
        /// Access is denied.
        Deny = "deny",
    }

    /// The decision about agents without an access entry (§5.5).
    pub enum DefaultPolicy {
        /// Access is denied.
        OptIn = "opt-in",
        /// Access is allowed.
        OptOut = "opt-out",
    }
}

open_enum! {
    /// The basis of an access decision: an access entry or the default policy (§5.2).
    pub enum AccessSource {
        /// An entry for the tool.
        ToolGrant = "tool_grant",
        /// An entry for the server.
        ServerGrant = "server_grant",
        /// The default policy of the server.
        DefaultPolicy = "default_policy",
    }
}

record! {
    /// Parameters of `mgp/access/query`.
    pub struct AccessQueryParams {
        /// The id of the agent.
        req agent_id: String,
        /// The id of the server.
        req server_id: String,
        /// The tool; if absent, all entries that apply to the agent on the server are listed.
        opt tool_name: Option<String>,
    }

    /// Result of `mgp/access/query`: the decision about a tool, or the entries of a server.
    pub struct AccessQueryResult {
        /// The decision about the tool.
        opt permission: Option<AccessPermission>,
        /// The origin of the decision.
        opt source: Option<AccessSource>,
        /// The author of the entry on which the decision is based.
        tri granted_by: Nullable<String>,
        /// The creation time of the entry on which the decision is based.
        tri granted_at: Nullable<Timestamp>,
        /// The expiry time of the entry on which the decision is based.
        tri expires_at: Nullable<Timestamp>,
        /// The id of the queried agent.
        opt agent_id: Option<String>,
        /// The id of the queried server.
        opt server_id: Option<String>,
        /// The entries that apply to the agent on the server, if the query named no tool.
        list entries: List<AccessEntry>,
    }

    /// An access entry: a decision about an agent and a server or tool.
    pub struct AccessEntry {
        /// The scope of the entry.
        req entry_type: EntryType,
        /// The id of the agent.
        req agent_id: String,
        /// The id of the server.
        req server_id: String,
        /// The name of the tool, for a `tool_grant`.
        nul tool_name: Option<String>,
        /// The decision of the entry.
        req permission: AccessPermission,
        /// The author of the entry.
        opt granted_by: Option<String>,
        /// The time at which the entry was created.
        opt granted_at: Option<Timestamp>,
        /// The reason for the entry.
        opt justification: Option<String>,
        /// The time at which the entry expires; `null` if it never expires.
        nul expires_at: Option<Timestamp>,
    }

    /// Parameters of `mgp/access/grant`.
    pub struct AccessGrantParams {
        /// The scope of the entry.
        req entry_type: EntryType,
        /// The id of the agent.
        req agent_id: String,
        /// The id of the server.
        req server_id: String,
        /// The name of the tool, for a `tool_grant`.
        nul tool_name: Option<String>,
        /// The decision of the entry.
        req permission: AccessPermission,
        /// The author that the caller claims; the kernel records the authenticated caller instead.
        opt granted_by: Option<String>,
        /// The reason for the entry.
        opt justification: Option<String>,
        /// The time at which the entry expires; `null` if it never expires.
        nul expires_at: Option<Timestamp>,
    }

    /// Result of `mgp/access/grant`.
    pub struct AccessGrantResult {
        /// `granted`, or `replaced` if there was an entry.
        req status: String,
        /// The id of the entry.
        opt id: Option<Id>,
        /// The id of the agent.
        req agent_id: String,
        /// The id of the server.
        req server_id: String,
        /// The scope of the entry.
        req entry_type: EntryType,
        /// The name of the tool, for a `tool_grant`.
        opt tool_name: Option<String>,
        /// The decision of the entry.
        req permission: AccessPermission,
        /// The author of the entry: the authenticated caller.
        opt granted_by: Option<String>,
        /// The time at which the entry was created.
        opt granted_at: Option<Timestamp>,
        /// The time at which the entry expires.
        opt expires_at: Option<Timestamp>,
    }

    /// Parameters of `mgp/access/revoke`.
    pub struct AccessRevokeParams {
        /// The id of the agent.
        req agent_id: String,
        /// The id of the server.
        req server_id: String,
        /// The scope of the entry.
        req entry_type: EntryType,
        /// The tool of a `tool_grant`; if absent, all entries of this scope for the agent and the server are revoked.
        opt tool_name: Option<String>,
    }

    /// Result of `mgp/access/revoke`.
    pub struct AccessRevokeResult {
        /// `revoked`, even if there was no entry.
        req status: String,
        /// The number of removed entries.
        req deleted_count: u64,
        /// The id of the agent.
        opt agent_id: Option<String>,
        /// The id of the server.
        opt server_id: Option<String>,
        /// The scope of the removed entries.
        opt entry_type: Option<EntryType>,
        /// The removed entries.
        list revoked: List<AccessEntry>,
    }
}

impl AccessGrantParams {
    /// Describes an entry that allows an agent to use all tools of a server. As the agent, `group:NAME` means all
    /// agents of a group, and `*` means every agent.
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

    /// Describes an entry that denies an agent all tools of a server. As the agent, `group:NAME` means all agents of a
    /// group, and `*` means every agent.
    #[must_use]
    pub fn deny(agent: impl Into<String>, server: impl Into<String>) -> Self {
        Self::new(EntryType::ServerGrant, agent, server, AccessPermission::Deny)
    }

    /// Restricts the entry to one tool of the server.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.entry_type = EntryType::ToolGrant;
        self.tool_name = Some(name.into());
        self
    }

    /// Limits the validity of the entry: it expires at this time.
    #[must_use]
    pub fn until(mut self, end: impl Into<Timestamp>) -> Self {
        self.expires_at = Some(end.into());
        self
    }

    /// Allows the calls that match this entry to run without confirmation, even if a tool requires one. An entry for a
    /// whole server also applies to tools that the server adds later.
    #[must_use]
    pub fn without_confirmation(mut self) -> Self {
        self.extra.insert("confirm", Payload::from_trusted(r#""never""#));
        self
    }

    /// Makes the entry leave the rules for confirmation unchanged. Without this setting, an entry that names a tool
    /// also confirms its calls, unless the tool requires that each call is confirmed.
    #[must_use]
    pub fn with_usual_confirmation(mut self) -> Self {
        self.extra.insert("confirm", Payload::from_trusted(r#""usual""#));
        self
    }

    /// Records the reason for the entry, as its `justification`.
    #[must_use]
    pub fn because(mut self, justification: impl Into<String>) -> Self {
        self.justification = Some(justification.into());
        self
    }
}

impl AccessEntry {
    /// Returns whether the calls that match this entry run without confirmation, even if a tool requires one.
    #[must_use]
    pub fn is_unconfirmed(&self) -> bool {
        self.extra.get("confirm").is_some_and(|word| word.as_str() == r#""never""#)
    }
}

impl AccessRevokeParams {
    /// Describes the revocation of an agent's entry for a whole server; entries for single tools stay.
    ///
    /// ```
    /// use mgp_types::mgp::{AccessRevokeParams, EntryType};
    ///
    /// assert_eq!(AccessRevokeParams::server_grant("ada", "disk").entry_type, EntryType::ServerGrant);
    /// assert_eq!(AccessRevokeParams::server_grant("ada", "disk").tool("wipe").entry_type, EntryType::ToolGrant);
    /// ```
    #[must_use]
    pub fn server_grant(agent: impl Into<String>, server: impl Into<String>) -> Self {
        Self::new(agent, server, EntryType::ServerGrant)
    }

    /// Revokes only the agent's entry for a single tool, instead of its entry for the whole server.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.entry_type = EntryType::ToolGrant;
        self.tool_name = Some(name.into());
        self
    }
}
