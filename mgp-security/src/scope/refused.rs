//! The refusals of calls because of missing scopes.

use mgp_types::Object;
use mgp_types::mgp::Extension;
use mgp_types::service::{PeerInfo, Rule};

/// The error for a call without some of the scopes that its tool requires.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{tool}` requires the scope `{}`; {remedy}", .missing.join("`, `"))]
pub struct ScopesMissing {
    tool: String,
    missing: Vec<String>,
    remedy: &'static str,
    #[source]
    rule: Rule,
}

impl ScopesMissing {
    pub(crate) fn new(tool: &str, missing: Vec<String>, caller: &PeerInfo) -> Self {
        let rule = Rule::new(format!("required_scopes {}", missing.join(" ")));
        let remedy = if caller.has(Extension::Scopes) {
            "request it with `mgp/scopes/negotiate`"
        } else {
            "an operator can add it to the `scopes` of the agent"
        };
        Self { tool: tool.to_owned(), missing, remedy, rule }
    }

    /// Returns the scopes that the call lacks.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.missing
    }

    pub(crate) fn details(&self) -> Object {
        Object::new()
            .with("tool", &self.tool)
            .with("missing_scopes", &self.missing)
            .with("remedy", self.remedy)
    }
}

/// The reason why a session with scopes is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionEnded {
    /// No session has this token, or the session belongs to another caller.
    #[error("the session token is unknown; request a session with `mgp/scopes/negotiate`")]
    Unknown,
    /// The session of the caller was revoked.
    #[error("the session was revoked; request another one with `mgp/scopes/negotiate`")]
    Revoked,
    /// The session of the caller has existed for its maximum duration.
    #[error("the session has expired; extend it with its refresh token")]
    Expired,
    /// The session of the caller was not used for too long.
    #[error("the session was not used for too long; extend it with its refresh token")]
    Inactive,
}
