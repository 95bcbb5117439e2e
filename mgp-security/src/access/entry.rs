//! One access entry: an agent, a server or one of its tools, and whether access is allowed or denied (MGP §5.3).

use std::time::SystemTime;

use mgp_types::mgp::{AccessEntry, AccessGrantParams, AccessPermission, EntryType};
use mgp_types::service::{AgentId, Principal};
use mgp_types::{Id, Payload, RpcError, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use crate::policy::ConfirmRule;

/// The prefix that marks the agent of an entry as the name of a group.
const GROUP: &str = "group:";

/// The agent name of an entry that applies to everyone.
const EVERYONE: &str = "*";

/// The maximum length of the name of an agent, server or tool, in bytes.
pub(crate) const MAX_NAME: usize = 256;

/// The maximum length of a justification, in bytes.
const MAX_JUSTIFICATION: usize = 1024;

/// An access entry. Entries are stored in the space `access` of the store.
///
/// Its `agent_id` is the name of an agent, `group:NAME`, or `*` for everyone. A principal that acts through an agent is
/// matched by the agent's name, any other principal by its subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The tenant in which the entry applies.
    pub tenant: String,
    /// The entry in the form that the protocol defines: agent, server, tool, permission and expiry.
    pub access: AccessEntry,
    /// The confirmation rule for calls that this entry allows. With `None`, an entry that names a tool confirms its
    /// calls, unless the tool requires that each call is confirmed; an entry for a whole server confirms nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmRule>,
}

/// The callers to whom an entry applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    Everyone,
    Group(&'a str),
    Agent(&'a str),
}

impl<'a> Subject<'a> {
    #[inline]
    pub(super) fn of(agent: &'a str) -> Self {
        match agent.strip_prefix(GROUP) {
            Some(group) => Self::Group(group),
            None if agent == EVERYONE => Self::Everyone,
            None => Self::Agent(agent),
        }
    }
}

/// Returns whether a name refers to several callers in entries: a group, or everyone. No caller may have such a name,
/// because an entry for that caller would apply to the whole group, or to everyone.
#[cfg(feature = "auth")]
pub(crate) fn is_shared_name(name: &str) -> bool {
    !matches!(Subject::of(name), Subject::Agent(_))
}

/// Returns the name under which entries refer to a principal: the name of its agent, or its subject if it has none.
#[inline]
pub(crate) fn name_of(principal: &Principal) -> &str {
    principal.as_agent().map_or(principal.subject().as_str(), AgentId::as_str)
}

impl Entry {
    /// Creates an access entry of a tenant, without a confirmation rule. The entry is only a value; it is not stored.
    #[must_use]
    pub fn new(tenant: impl Into<String>, access: AccessEntry) -> Self {
        Self { tenant: tenant.into(), access, confirm: None }
    }

    /// Creates the entry that an operator requested; returns an error if a param is invalid, or if two params
    /// contradict each other.
    pub(super) fn asked(
        params: AccessGrantParams,
        by: &Principal,
        now: SystemTime,
    ) -> Result<Self, RpcError> {
        let confirm = params.extra.decode::<ConfirmRule>("confirm")?;
        check(&params, confirm, now).map_err(RpcError::invalid_params)?;
        let mut access = AccessEntry::new(
            params.entry_type,
            params.agent_id,
            params.server_id,
            params.permission,
        );
        access.tool_name = params.tool_name;
        access.granted_by = Some(name_of(by).to_owned());
        access.granted_at = Some(now.into());
        access.justification = params.justification;
        access.expires_at = params.expires_at;
        Ok(Self { tenant: by.tenant().as_str().to_owned(), access, confirm })
    }

    /// Returns the key of the entry in the store. The key is unique per agent and server, or per agent, server and
    /// tool.
    ///
    /// # Errors
    /// Code −32603 (internal error) if the key cannot be encoded; that cannot happen for strings.
    pub(super) fn key(&self) -> Result<String, RpcError> {
        let AccessEntry { agent_id, server_id, tool_name, .. } = &self.access;
        let key = Payload::of(&(&self.tenant, agent_id, server_id, tool_name))?;
        Ok(key.as_str().to_owned())
    }

    /// Returns the id that callers see, derived from the store key; a replacement of the entry keeps the id.
    pub(super) fn id(key: &str) -> Id {
        let hash = Sha256Hash::digest(key.as_bytes()).to_string();
        Id::String(hash[..16].into())
    }

    /// Returns the entry as callers and logs get it, with its confirmation rule as an additional member.
    pub(super) fn to_shown(&self) -> AccessEntry {
        let mut shown = self.access.clone();
        if let Some(confirm) = self.confirm {
            // Encoding cannot fail: the rule is a single word.
            let _ = shown.extra.encode("confirm", &confirm);
        }
        shown
    }

    /// Returns the expiry of the entry, or `None` if it does not expire.
    ///
    /// An unreadable expiry is treated safely: an entry that allows counts as expired, an entry that denies never
    /// expires.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        let end = self.access.expires_at.as_ref()?;
        match (end.to_system_time(), self.access.permission) {
            (Some(end), _) => Some(end),
            (None, AccessPermission::Allow) => Some(SystemTime::UNIX_EPOCH),
            (None, _) => None,
        }
    }

    pub(crate) fn in_force(&self, at: SystemTime) -> bool {
        self.until().is_none_or(|until| at < until)
    }
}

/// Returns an error if a param is invalid, or if two params contradict each other, e.g. a tool in a grant for a whole
/// server.
fn check(
    params: &AccessGrantParams,
    confirm: Option<ConfirmRule>,
    now: SystemTime,
) -> Result<(), InvalidEntry> {
    name("agent_id", &params.agent_id)?;
    name("server_id", &params.server_id)?;
    if params.agent_id == GROUP {
        return Err(InvalidEntry::NoGroup);
    }
    match (params.entry_type, &params.tool_name) {
        (EntryType::ToolGrant, None) => return Err(InvalidEntry::NoTool),
        (EntryType::ToolGrant, Some(tool)) => name("tool_name", tool)?,
        (_, None) => {}
        (_, Some(_)) => return Err(InvalidEntry::Tool),
    }
    if params.justification.as_ref().is_some_and(|text| text.len() > MAX_JUSTIFICATION) {
        return Err(InvalidEntry::Justification(MAX_JUSTIFICATION));
    }
    let allows = matches!(params.entry_type, EntryType::ToolGrant | EntryType::ServerGrant)
        && params.permission == AccessPermission::Allow;
    if confirm.is_some() && !allows {
        return Err(InvalidEntry::Confirm);
    }
    match params.expires_at.as_ref().map(Timestamp::to_system_time) {
        Some(None) => Err(InvalidEntry::NoTime),
        Some(Some(end)) if end <= now => Err(InvalidEntry::Past),
        _ => Ok(()),
    }
}

/// Checks that a name is short and printable, because names appear in logs and in descriptions of rules.
fn name(member: &'static str, name: &str) -> Result<(), InvalidEntry> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(InvalidEntry::Name(member)) }
}

/// The reason why the requested entry is not created; the caller gets code −32602 (invalid params).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidEntry {
    #[error("`{0}` must have 1 to 256 bytes and no control characters")]
    Name(&'static str),
    #[error("`agent_id` must name a group after `group:`")]
    NoGroup,
    #[error("a tool_grant needs `tool_name`")]
    NoTool,
    #[error("a server_grant covers all tools: leave out `tool_name`, or ask for a tool_grant")]
    Tool,
    #[error("`justification` has more than {0} bytes")]
    Justification(usize),
    #[error("`confirm` belongs to a tool_grant or server_grant that allows")]
    Confirm,
    #[error("`expires_at` is not an RFC 3339 time")]
    NoTime,
    #[error("`expires_at` has passed")]
    Past,
}
