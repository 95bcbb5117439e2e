//! Why a call, or a change, is refused.
//!
//! Applies to: both.

use mgp_types::Object;
use mgp_types::method::{AccessGrant, AccessRevoke, Request};
use mgp_types::mgp::{AccessPermission, AccessSource};
use mgp_types::service::{Rule, ServerId};

use super::asker::About;
use super::decided::Decided;

/// A call without access: no entry or policy allows it, or one denies it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{agent}` has no access to {}; {remedy}", self.what())]
pub struct AccessDenied {
    agent: String,
    server: Option<ServerId>,
    tool: Option<String>,
    by: AccessSource,
    remedy: String,
    #[source]
    rule: Rule,
}

impl AccessDenied {
    pub(super) fn new(
        agent: &str,
        server: Option<&ServerId>,
        tool: Option<&str>,
        decided: &Decided,
    ) -> Box<Self> {
        Box::new(Self {
            agent: agent.to_owned(),
            server: server.cloned(),
            tool: tool.map(str::to_owned),
            by: decided.source(),
            remedy: remedy(decided),
            rule: decided.rule(),
        })
    }

    fn what(&self) -> String {
        match (&self.tool, &self.server) {
            (Some(tool), Some(server)) => format!("`{tool}` on `{server}`"),
            (Some(tool), None) => format!("`{tool}`"),
            (None, Some(server)) => format!("`{server}`"),
            (None, None) => "this server".to_owned(),
        }
    }

    /// The facts, for the caller.
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new();
        let facts = [
            ("agent", Some(self.agent.as_str())),
            ("server_id", self.server.as_ref().map(ServerId::as_str)),
            ("tool", self.tool.as_deref()),
            ("source", Some(self.by.as_str())),
            ("remedy", Some(self.remedy.as_str())),
        ];
        for (name, fact) in facts {
            if let Some(fact) = fact {
                // Words can always be written.
                let _ = details.encode(name, fact);
            }
        }
        details
    }
}

/// What helps.
fn remedy(decided: &Decided) -> String {
    let Some(entry) = decided.entry() else {
        return match decided.source() {
            AccessSource::DefaultPolicy => {
                format!("an operator can allow it with `{}`", AccessGrant::METHOD)
            }
            _ => "use credentials that permit it".to_owned(),
        };
    };
    let entry = &entry.access;
    debug_assert_ne!(entry.permission, AccessPermission::Allow, "what allows does not refuse");
    format!(
        "an operator can take back the {} for `{}` with `{}`",
        entry.entry_type,
        entry.agent_id,
        AccessRevoke::METHOD
    )
}

/// Somebody who is no operator tried to administer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("only an operator may call `{method}`{}", if *.about == About::Others { " about others" } else { "" })]
pub struct NotOperator {
    method: &'static str,
    about: About,
    #[source]
    rule: Rule,
}

impl NotOperator {
    /// [`Asker::may`] is who says so.
    pub(super) fn new(method: &'static str, about: About, rule: Rule) -> Self {
        Self { method, about, rule }
    }

    /// The facts, for the caller.
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new();
        // Words can always be written.
        let _ = details.encode("method", self.method);
        let _ = details.encode("remedy", "ask an operator");
        details
    }
}

/// Credentials ended while they were in use.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the credentials no longer hold; get new ones")]
pub struct PassEnded {
    #[source]
    rule: Rule,
}

impl PassEnded {
    pub(super) fn new() -> Self {
        Self { rule: Rule::new("pass ended") }
    }
}

/// Why an entry is not made as it was asked for (−32602).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("`{0}` must have 1 to 256 bytes and no control characters")]
    Name(&'static str),
    #[error("a tool_grant needs `tool_name`")]
    NoTool,
    #[error("a server_grant covers all tools: leave out `tool_name`, or ask for a tool_grant")]
    Tool,
    #[error("`justification` has more than {0} bytes")]
    Justification(usize),
    #[error("`confirm` belongs to a tool_grant that allows")]
    Confirm,
    #[error("`expires_at` is no RFC 3339 time")]
    NoTime,
    #[error("`expires_at` has passed")]
    Past,
}
