//! Approvers, who decide about the permissions of a server and about single calls (MGP §3.4, §4.4).

mod by_caller;
mod calls;
mod chain;
mod configured;
mod describe;
mod elicit;
mod inbox;
mod place;
mod terminal;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mgp::{Actor, Grant, GrantDecision, Permission, RiskLevel};
use mgp_types::service::{Context, Principal, Rule, ServerId};
use mgp_types::{Object, RpcError, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

pub(crate) use by_caller::{ByCaller, MayConfirm};
pub use by_caller::{CallerConfirm, CallerConfirmLayer};
pub(crate) use calls::like_words;
pub use calls::{ApprovalTerm, CallApproval, CallApprovals};
pub use chain::ApproverChain;
pub use configured::ConfiguredApprover;
pub use elicit::ElicitApprover;
pub(crate) use inbox::AskedAndKept;
pub use inbox::{ApprovalRequest, Inbox, InboxConfig, RequestState};
pub use place::AnswerPlace;
pub use terminal::TerminalApprover;

/// Decides questions that the rules leave to a person or a configuration.
///
/// An approver must never be the agent whose call it decides about.
///
/// Implement it with `#[async_trait]` of the crate of that name.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides a question; `cx` is the call that it is about.
    ///
    /// # Errors
    /// The approver is unavailable or failed; the caller treats that as not approved.
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError>;

    /// Returns whether the approver's configuration grants a permission, so that no question is needed; must not wait.
    /// `false` by default.
    ///
    /// It is called for every call and never cached, so a grant ends with the configuration.
    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        let _ = (server, permission);
        false
    }

    /// Returns the time limit for a decision; a later decision counts as not approved. 30 seconds by default.
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

#[async_trait]
impl Approver for Arc<dyn Approver> {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        (**self).decide(cx, question).await
    }

    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        (**self).grants(server, permission)
    }

    fn timeout(&self) -> Duration {
        (**self).timeout()
    }
}

/// A question for an approver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// The subject of the question.
    pub about: QuestionSubject,
    /// The server, if there is one.
    pub server: Option<ServerId>,
    /// The principal of the call.
    pub principal: Principal,
    /// The hash of everything the question is about; an answer is valid for nothing else.
    pub binding: Sha256Hash,
    /// The hash of a call without the permissions that it lacks.
    pub call: Option<Sha256Hash>,
    /// If set, an approval may hold for later calls, too: its [term](Decision::term) is kept.
    pub keeps_terms: bool,
    /// The message that the server declares for its tool, with placeholders; only the server vouches for it.
    pub message: Option<String>,
    /// The rule that needs an answer, if it is known.
    pub rule: Option<Rule>,
    /// The trace id of the call.
    pub trace: Option<String>,
}

/// The subject of a question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QuestionSubject {
    /// Permissions that a server or one of its tools needs.
    Permissions {
        /// The permissions, by their standard names.
        permissions: Vec<Permission>,
        /// The tool whose call needs them, or `None` when a connection begins.
        tool: Option<String>,
    },
    /// One call.
    Call {
        /// The tool.
        tool: String,
        /// The arguments in canonical form.
        arguments: String,
        /// The risk of the call.
        risk: RiskLevel,
        /// The permissions that the server lacks for the call; an approval is for them, too.
        permissions: Vec<Permission>,
    },
}

/// The origin of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionSource {
    /// A person; the record names a `user`.
    #[default]
    Person,
    /// A configuration; the record names the `kernel`.
    Configuration,
}

/// The answer to a question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The answer for the call, or for all permissions that have no entry in `per_permission`.
    pub answer: GrantDecision,
    /// The answers for single permissions, each of which may have limits.
    pub per_permission: BTreeMap<Permission, Grant>,
    /// The name of the person, or `configuration`.
    pub by: String,
    /// The origin.
    pub source: DecisionSource,
    /// The place where the person answered, if it is known.
    pub via: Option<AnswerPlace>,
    /// The expiry of the answer, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The later calls that an approval of a call is for, too.
    pub term: ApprovalTerm,
    /// Additional information for the caller: an approval id, the person's reason.
    pub details: Object,
}

/// The reason why a question was left undecided, under the name `cause` of its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftOpen {
    /// The person closed the question.
    Closed,
    /// The person answered, and allowed nothing.
    NotAllowed,
    /// There was no answer in time.
    Unanswered,
}

impl Question {
    /// Creates a question, bound to a hash.
    #[must_use]
    pub fn new(
        about: QuestionSubject,
        server: Option<ServerId>,
        principal: Principal,
        binding: Sha256Hash,
    ) -> Self {
        let (call, message, rule, trace) = (None, None, None, None);
        Self { about, server, principal, binding, call, keeps_terms: false, message, rule, trace }
    }
}

impl QuestionSubject {
    /// Returns the permissions that are asked for.
    pub(crate) fn permissions(&self) -> &[Permission] {
        let (Self::Permissions { permissions, .. } | Self::Call { permissions, .. }) = self;
        permissions
    }
}

impl Decision {
    /// Creates a decision of a person that does not expire.
    #[must_use]
    pub fn new(answer: GrantDecision, by: impl Into<String>) -> Self {
        Self {
            answer,
            per_permission: BTreeMap::new(),
            by: by.into(),
            source: DecisionSource::Person,
            via: None,
            expires_at: None,
            term: ApprovalTerm::Once,
            details: Object::new(),
        }
    }

    /// Creates a decision of the operator's configuration.
    #[must_use]
    pub fn configured(answer: GrantDecision) -> Self {
        Self { source: DecisionSource::Configuration, ..Self::new(answer, "configuration") }
    }

    /// Adds a member to the details.
    pub(crate) fn with<T: Serialize>(mut self, name: &str, value: &T) -> Self {
        // Words can always be encoded.
        let _ = self.details.encode(name, value);
        self
    }

    /// Returns the reason that the person gave.
    pub(crate) fn reason(&self) -> Option<String> {
        self.details.decode("justification").ok().flatten()
    }

    /// Returns why the question was left undecided, if it is known.
    pub(crate) fn left_open(&self) -> Option<LeftOpen> {
        self.details.decode("cause").ok().flatten()
    }

    /// Returns the actor of the audit event.
    pub(crate) fn actor(&self) -> Actor {
        let kind = match self.source {
            DecisionSource::Person => "user",
            DecisionSource::Configuration => "kernel",
        };
        Actor::new(kind, self.by.as_str())
    }
}
