//! Approvers, who decide about the permissions of a server and about single calls (MGP §3.4, §4.4).

mod by_caller;
mod chain;
mod configured;
mod describe;
mod elicit;
mod inbox;
mod later_calls;
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
pub use chain::ApproverChain;
pub use configured::ConfiguredApprover;
pub use elicit::ElicitApprover;
pub use inbox::{ApprovalRequest, Inbox, InboxConfig, RequestState};
pub(crate) use inbox::{AskedAndKept, Requests};
pub(crate) use later_calls::like_words;
pub use later_calls::{ApprovalTerm, CallApproval, CallApprovals};
pub(crate) use later_calls::{CallBook, CalledTool};
pub use place::AnswerPlace;
pub use terminal::TerminalApprover;

/// A source of decisions about questions that the rules do not decide, e.g. a person or a configuration.
///
/// An approver must never be the agent whose call it decides about.
///
/// An implementation needs the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides a question; `cx` is the context of the call that the question is about.
    ///
    /// # Errors
    /// An error if the approver is unavailable or failed; the question then counts as not approved.
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError>;

    /// Returns whether the approver's configuration grants a permission, so that no person is asked. Must not block.
    /// Returns `false` by default.
    ///
    /// This method is called for every call, and its result is not cached. A changed configuration therefore counts
    /// from the next call on.
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
    /// The permissions or the call to decide about.
    pub about: QuestionSubject,
    /// The server that needs the permissions or is called, if it has an id.
    pub server: Option<ServerId>,
    /// The principal whose call the question is about.
    pub principal: Principal,
    /// The hash of everything that the question is about. An answer is valid only for a question with this hash.
    pub binding: Sha256Hash,
    /// The hash of the call alone, without the permissions that the server lacks for it; `None` if it is not known.
    pub call: Option<Sha256Hash>,
    /// `true` if an approval can also apply to later calls, because the [term](Decision::term) of the decision is
    /// stored.
    pub keeps_terms: bool,
    /// The confirmation message, with placeholders, that the server declares for its tool, if any. It comes from the
    /// server and is not verified.
    pub message: Option<String>,
    /// The rule that requires the question, if it is known.
    pub rule: Option<Rule>,
    /// The trace id of the call that the question is about.
    pub trace: Option<String>,
    /// The argument that might exceed the limits of a permission, as text for a person.
    pub(crate) doubt: Option<String>,
}

/// The subject of a question: permissions, or a single call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum QuestionSubject {
    /// Permissions that a server or one of its tools needs.
    Permissions {
        /// The permissions, by their standard names.
        permissions: Vec<Permission>,
        /// The tool whose call needs the permissions, or `None` if the server asks for the permissions at the beginning
        /// of a connection.
        tool: Option<String>,
    },
    /// A single call, which needs a confirmation.
    Call {
        /// The tool that is called.
        tool: String,
        /// The arguments of the call, as canonical JSON.
        arguments: String,
        /// The risk level of the call.
        risk: RiskLevel,
        /// The permissions that the server lacks for the call; an approval of the call grants them, too.
        permissions: Vec<Permission>,
    },
}

/// The maker of a decision: a person or a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionSource {
    /// A person. In the audit log, the actor has the type `user`.
    #[default]
    Person,
    /// A configuration. In the audit log, the actor has the type `kernel`.
    Configuration,
}

/// The answer to a question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The answer for the call, or for all permissions that have no entry in `per_permission`.
    pub answer: GrantDecision,
    /// The answers for individual permissions. Each of them can have limits.
    pub per_permission: BTreeMap<Permission, Grant>,
    /// The name of the person who decided, or `configuration`.
    pub by: String,
    /// The maker of the decision: a person or a configuration.
    pub source: DecisionSource,
    /// The place where the person answered (page, terminal or host), if it is known.
    pub via: Option<AnswerPlace>,
    /// The expiry of the answer, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The later calls to which an approval of a call also applies.
    pub term: ApprovalTerm,
    /// Additional information for the caller, e.g. an approval id or, as `justification`, the person's reason.
    pub details: Object,
}

/// The reason why a question was left undecided; stored in the details of a decision under the name `cause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftOpen {
    /// The person closed the form without an answer, or this process stops waiting for answers.
    Closed,
    /// The person answered, but did not allow the call.
    NotAllowed,
    /// The person did not answer in time.
    Unanswered,
}

impl Question {
    /// Creates a question. The answer is valid only for the data from which the hash `binding` was computed.
    #[must_use]
    pub fn new(
        about: QuestionSubject,
        server: Option<ServerId>,
        principal: Principal,
        binding: Sha256Hash,
    ) -> Self {
        Self {
            about,
            server,
            principal,
            binding,
            call: None,
            keeps_terms: false,
            message: None,
            rule: None,
            trace: None,
            doubt: None,
        }
    }
}

impl QuestionSubject {
    /// Returns the permissions that the question asks for.
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

    /// Creates a decision that the operator's configuration made.
    #[must_use]
    pub fn configured(answer: GrantDecision) -> Self {
        Self { source: DecisionSource::Configuration, ..Self::new(answer, "configuration") }
    }

    /// Adds a member to the details of the decision.
    pub(crate) fn with<T: Serialize>(mut self, name: &str, value: &T) -> Self {
        self.details = self.details.with(name, value);
        self
    }

    /// Returns the reason that the person gave for the decision.
    pub(crate) fn reason(&self) -> Option<String> {
        self.details.decode("justification").ok().flatten()
    }

    /// Returns the reason why the question was left undecided, if it is known.
    pub(crate) fn left_open(&self) -> Option<LeftOpen> {
        self.details.decode("cause").ok().flatten()
    }

    /// Returns the actor to name in the audit event about this decision.
    pub(crate) fn actor(&self) -> Actor {
        let kind = match self.source {
            DecisionSource::Person => "user",
            DecisionSource::Configuration => "kernel",
        };
        Actor::new(kind, self.by.as_str())
    }
}
