//! One access entry: an agent, a server or one of its tools, and whether access is allowed or denied (MGP §5.3).

use std::time::SystemTime;

use mgp_types::mgp::{AccessEntry, AccessGrantParams, AccessPermission, EntryType};
use mgp_types::service::{AgentId, Principal};
use mgp_types::{Id, Payload, RpcError, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use crate::policy::ConfirmRule;

/// The prefix of the agent of an entry for a group.
const GROUP: &str = "group:";

/// The agent of an entry for everyone.
const EVERYONE: &str = "*";

/// The longest name of an agent, server or tool, in bytes.
pub(crate) const MAX_NAME: usize = 256;

/// The longest justification, in bytes.
const MAX_JUSTIFICATION: usize = 1024;

/// An access entry, in the space `access` of the store.
///
/// Its agent is an agent's name, `group:NAME`, or `*` for everyone.
/// A principal is known by the agent it acts through, else by its subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// The tenant the entry counts for.
    pub tenant: String,
    /// The agent, the server, the tool and the permission.
    pub access: AccessEntry,
    /// The rule about confirmations of the calls it allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmRule>,
}

/// The callers that an entry is for.
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

/// Returns the name by which entries know a principal.
#[inline]
pub(crate) fn name_of(principal: &Principal) -> &str {
    principal.as_agent().map_or(principal.subject().as_str(), AgentId::as_str)
}

impl Entry {
    /// Creates an entry of a tenant.
    #[must_use]
    pub fn new(tenant: impl Into<String>, access: AccessEntry) -> Self {
        Self { tenant: tenant.into(), access, confirm: None }
    }

    /// Sets that the calls it names are never confirmed.
    #[must_use]
    pub fn never_confirmed(mut self) -> Self {
        self.confirm = Some(ConfirmRule::Never);
        self
    }

    /// Creates the entry that an operator requests.
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

    /// Returns the key in the store: one entry for each agent on each server or tool.
    ///
    /// # Errors
    /// −32603, which does not happen for strings.
    pub(super) fn key(&self) -> Result<String, RpcError> {
        let AccessEntry { agent_id, server_id, tool_name, .. } = &self.access;
        let key = Payload::of(&(&self.tenant, agent_id, server_id, tool_name))?;
        Ok(key.as_str().to_owned())
    }

    /// Returns the id of the entry for callers; an entry that replaces it has the same.
    pub(super) fn id(key: &str) -> Id {
        let hash = Sha256Hash::digest(key.as_bytes()).to_string();
        Id::String(hash[..16].into())
    }

    /// Returns the entry as callers and logs read it, with its rule about confirmations.
    pub(super) fn to_told(&self) -> AccessEntry {
        let mut told = self.access.clone();
        if let Some(confirm) = self.confirm {
            // A word can always be encoded.
            let _ = told.extra.encode("confirm", &confirm);
        }
        told
    }

    /// Returns the end of the entry; `None` if it has none.
    ///
    /// An end that cannot be read has passed for an entry that allows, and never passes for one that denies.
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

/// Refuses an entry that would have another effect than it seems to have.
fn check(
    params: &AccessGrantParams,
    confirm: Option<ConfirmRule>,
    now: SystemTime,
) -> Result<(), InvalidEntry> {
    name("agent_id", &params.agent_id)?;
    name("server_id", &params.server_id)?;
    if params.agent_id == GROUP {
        return Err(InvalidEntry::Name("agent_id"));
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

/// Checks that a name is short and printable: it appears in logs and rules.
fn name(member: &'static str, name: &str) -> Result<(), InvalidEntry> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(InvalidEntry::Name(member)) }
}

/// The reason why an entry is not created as requested (−32602).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidEntry {
    #[error("`{0}` must have 1 to 256 bytes and no control characters")]
    Name(&'static str),
    #[error("a tool_grant needs `tool_name`")]
    NoTool,
    #[error("a server_grant covers all tools: leave out `tool_name`, or ask for a tool_grant")]
    Tool,
    #[error("`justification` has more than {0} bytes")]
    Justification(usize),
    #[error("`confirm` belongs to a tool_grant or server_grant that allows")]
    Confirm,
    #[error("`expires_at` is no RFC 3339 time")]
    NoTime,
    #[error("`expires_at` has passed")]
    Past,
}
