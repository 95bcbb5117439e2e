//! Asking somebody who may decide: about permissions a server needs, and about single calls (MGP §3.4, §4.4).
//!
//! Applies to: both.

mod configured;
mod elicit;
mod first;
mod inbox;
mod shown;
mod terminal;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{Actor, Grant, GrantDecision, Permission, RiskLevel};
use mgp_types::service::{BoxFuture, Context, Principal, ServerId};
use mgp_types::{Hash, Object, RpcError, Timestamp};

pub use configured::Configured;
pub use elicit::Elicit;
pub use first::First;
pub use inbox::{ApprovalRequest, Inbox, InboxConfig, RequestState};
pub use terminal::Terminal;

/// Decides what the rules leave to a person, or to a configuration.
///
/// It is never the party that the decision restrains.
pub trait Approver: Send + Sync {
    /// Decides about a question; `cx` is the call it is asked for.
    ///
    /// # Errors
    /// Nobody can be asked, or whoever was asked failed; the caller treats that as not approved.
    fn decide(
        &self,
        cx: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>>;

    /// Whether its configuration grants a permission, so that nobody needs to be asked; it never waits. No.
    ///
    /// It is looked at with each call, and nothing of it is kept: it holds as long as the configuration.
    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        let _ = (server, permission);
        false
    }

    /// How long a call waits for its decision; one that takes longer is not approved. 30 seconds.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

impl Approver for Arc<dyn Approver> {
    fn decide(
        &self,
        cx: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>> {
        (**self).decide(cx, question)
    }

    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        (**self).grants(server, permission)
    }

    fn patience(&self) -> Duration {
        (**self).patience()
    }
}

/// What is to be decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// What it is about.
    pub about: About,
    /// The server, where there is one.
    pub server: Option<ServerId>,
    /// For whom.
    pub principal: Principal,
    /// What it is bound to: an answer counts for nothing else.
    pub binding: Hash,
}

/// What a question is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum About {
    /// Permissions that a server, or one of its tools, needs.
    Permissions {
        /// The permissions, by their standard names.
        permissions: Vec<Permission>,
        /// The tool whose call needs them; none at the beginning of a connection.
        tool: Option<String>,
    },
    /// One call.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments in canonical form.
        arguments: String,
        /// How dangerous it is.
        risk: RiskLevel,
    },
}

/// Where a decision comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionSource {
    /// A person took it: the record names a `user`.
    #[default]
    Person,
    /// A configuration says it: the record names the `kernel`.
    Configuration,
}

/// What was decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The answer.
    pub answer: GrantDecision,
    /// Permissions that were decided otherwise than the rest, or with limits.
    pub single: BTreeMap<Permission, Grant>,
    /// Who decided.
    pub by: String,
    /// Whether that was a person.
    pub source: DecisionSource,
    /// Until when it holds.
    pub expires_at: Option<Timestamp>,
    /// What else whoever waits should know: an approval's id, the command to run.
    pub details: Object,
}

impl Question {
    /// A question about something, bound to it.
    #[must_use]
    pub fn new(
        about: About,
        server: Option<ServerId>,
        principal: Principal,
        binding: Hash,
    ) -> Self {
        Self { about, server, principal, binding }
    }
}

impl Decision {
    /// A decision of somebody, without an end.
    #[must_use]
    pub fn new(answer: GrantDecision, by: impl Into<String>) -> Self {
        Self {
            answer,
            single: BTreeMap::new(),
            by: by.into(),
            source: DecisionSource::Person,
            expires_at: None,
            details: Object::new(),
        }
    }

    /// A decision that nobody took in this moment: the operator's configuration says it.
    #[must_use]
    pub fn configured(answer: GrantDecision) -> Self {
        Self { source: DecisionSource::Configuration, ..Self::new(answer, "configuration") }
    }

    /// Whoever decided, for the record.
    pub(crate) fn actor(&self) -> Actor {
        let kind = match self.source {
            DecisionSource::Person => "user",
            DecisionSource::Configuration => "kernel",
        };
        Actor::new(kind, self.by.as_str())
    }
}
