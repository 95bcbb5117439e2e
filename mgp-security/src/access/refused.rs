//! The errors for calls without access, and for callers of administrative methods who are not operators.

use mgp_types::Object;
use mgp_types::method::{AccessGrant, AccessRevoke, Request};
use mgp_types::mgp::{AccessPermission, AccessSource};
use mgp_types::service::{Rule, ServerId};

use super::decision::AccessDecision;

/// The error for a call without access: no entry or policy allows it, or one of them denies it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{agent}` has no access to {}; {remedy}", self.what())]
pub struct AccessDenied {
    agent: String,
    server: Option<ServerId>,
    tool: Option<String>,
    by: AccessSource,
    is_of_other_tenants: bool,
    remedy: String,
    #[source]
    rule: Rule,
}

impl AccessDenied {
    pub(crate) fn new(
        agent: &str,
        server: Option<&ServerId>,
        tool: Option<&str>,
        decision: &AccessDecision,
    ) -> Box<Self> {
        Box::new(Self {
            agent: agent.to_owned(),
            server: server.cloned(),
            tool: tool.map(str::to_owned),
            by: decision.source(),
            is_of_other_tenants: decision.is_of_other_tenants(),
            remedy: remedy(decision),
            rule: decision.rule(),
        })
    }

    /// Returns whether access is denied because the caller does not belong to one of the tenants to which the policy
    /// limits the server. The message and the details do not reveal this, so show it only to operators of the tenant
    /// `local`.
    #[must_use]
    pub fn is_of_other_tenants(&self) -> bool {
        self.is_of_other_tenants
    }

    fn what(&self) -> String {
        match (&self.tool, &self.server) {
            (Some(tool), Some(server)) => format!("`{tool}` on `{server}`"),
            (Some(tool), None) => format!("`{tool}`"),
            (None, Some(server)) => format!("`{server}`"),
            (None, None) => "this server".to_owned(),
        }
    }

    /// Returns the error's structured details for the caller.
    pub(crate) fn details(&self) -> Object {
        Object::new()
            .with("agent", &self.agent)
            .with_optional("server_id", self.server.as_ref().map(ServerId::as_str))
            .with_optional("tool", self.tool.as_ref())
            .with("source", self.by.as_str())
            .with("remedy", &self.remedy)
    }
}

/// Returns what the caller can do to get access.
fn remedy(decision: &AccessDecision) -> String {
    if decision.is_of_reserved_name() {
        return "an operator can give the caller the name of an agent".to_owned();
    }
    if decision.is_unreadable() {
        return "its access entries cannot be read at the moment, so call again later".to_owned();
    }
    let Some(entry) = decision.entry() else {
        return match decision.source() {
            AccessSource::DefaultPolicy => {
                format!("an operator can allow it with `{}`", AccessGrant::METHOD)
            }
            _ => "use credentials that permit it".to_owned(),
        };
    };
    let entry = &entry.access;
    debug_assert_ne!(
        entry.permission,
        AccessPermission::Allow,
        "an entry that allows does not refuse"
    );
    format!(
        "an operator can take back the {} for `{}` with `{}`",
        entry.entry_type,
        entry.agent_id,
        AccessRevoke::METHOD
    )
}

/// The condition that the caller of a method did not meet; the text of the error depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The whole method is for operators.
    All,
    /// Only queries about other agents are for operators; every caller can query its own entries.
    Others,
    /// The whole method is for operators of the tenant `local`, because it affects things that all tenants share.
    Shared,
    /// The caller is an operator, but its credentials permit no reading.
    Reads,
    /// The caller is an operator, but its credentials permit no changes.
    Changes,
}

impl About {
    /// Returns two parts of the message: the words after "only an operator", and the words after the method's name.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::All => ("", ""),
            Self::Others => ("", " about others"),
            Self::Shared => (" of the tenant `local`", ": it concerns every tenant"),
            Self::Reads => (" whose key or token permits `admin.read`", ""),
            Self::Changes => (" whose key or token permits `admin.write`", ""),
        }
    }
}

/// The error for a caller who is not an operator and calls a method for operators.
#[derive(Clone, Debug, thiserror::Error)]
#[error("only an operator{} may call `{method}`{}", .about.words().0, .about.words().1)]
pub struct NotOperator {
    method: &'static str,
    about: About,
    #[source]
    rule: Rule,
}

impl NotOperator {
    pub(super) fn new(method: &'static str, about: About, rule: Rule) -> Self {
        Self { method, about, rule }
    }

    /// Returns the error's structured details for the caller.
    pub(crate) fn details(&self) -> Object {
        let remedy = match self.about {
            About::All | About::Others => "ask an operator",
            About::Shared => "ask an operator of the tenant `local`",
            About::Reads | About::Changes => "use credentials that permit it",
        };
        Object::new().with("method", self.method).with("remedy", remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::decision::AccessRuling;
    use super::*;

    #[test]
    fn a_caller_whose_access_cannot_be_read_is_not_referred_to_a_grant() {
        let remedy = remedy(&AccessRuling::Unknown.to_decision());
        assert!(remedy.ends_with("call again later"), "{remedy}");
    }
}
