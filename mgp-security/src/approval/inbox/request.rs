//! A request in the inbox, and its state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::{GrantDecision, KernelApproval, Permission, RiskLevel};
use mgp_types::service::{AgentId, Principal, ServerId};
use mgp_types::{Object, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use crate::approval::describe::{describe, describe_later, describe_review, without_permissions};
use crate::approval::{AnswerPlace, Decision, Question, QuestionSubject, like_words};
use crate::audit::{Event, EventActor};
use crate::state::Snapshot;

/// A request that waits for an operator or has been decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The id by which an operator refers to the request.
    pub id: String,
    /// The tenant of the principal whose call waits.
    pub tenant: String,
    /// The subject of the principal whose call waits.
    pub subject: String,
    /// The agent whose call waits, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The server that is called or needs permissions, if it has an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The tool that is called or needs permissions, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The requested permissions. If the request is about a call, these are the permissions that the server lacks for
    /// the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// The risk level of the call; `None` if the request is about permissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The question as text for a person; the middle of long arguments is left out.
    pub question: String,
    /// The complete arguments of a call, as canonical JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// A description of the calls that an approval of "calls like this" would cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The time until which an approval of permissions applies; `None` if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds_until: Option<Timestamp>,
    /// The hash of principal, tool, arguments, definition and permissions. The answer is valid only for these.
    pub binding: String,
    /// The hash of the call alone, without the permissions that the server lacks for the call. The number of these
    /// permissions can decrease while the request is open. `None` if the hash is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// `true` if the request is a review: it asks for permissions for all tools of a server that was not ready before.
    /// The answer is a decision about these permissions, and not about one call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_review: bool,
    /// The trace id of the waiting call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The time at which the question was asked.
    pub asked_at: Timestamp,
    /// The time when the request, or the answer to it, expires.
    pub expires_at: Timestamp,
    /// The state of the request.
    pub state: RequestState,
    /// The name of the operator who decided the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The place where the operator answered: page, terminal or host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<AnswerPlace>,
    /// The reason that was given for the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

/// The state of a request in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RequestState {
    /// The request is a review that waits for its server. The operator is asked once the server is ready.
    Later,
    /// The request is not decided yet.
    Open,
    /// The request was approved, and the approval has not been used yet.
    Approved,
    /// An operator denied the request.
    Denied,
    /// The request was approved, and the approval has been used.
    Used,
    /// The request was closed by something other than an answer in the inbox: an operator decided about the permissions
    /// themselves, or a person did not allow the call when another approver asked, e.g. with a form.
    Settled,
}

impl RequestState {
    /// Returns the name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Later => "later",
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Used => "used",
            Self::Settled => "settled",
        }
    }
}

impl ApprovalRequest {
    /// Creates an open request for a question.
    pub(crate) fn of(question: &Question, id: String, now: SystemTime, end: SystemTime) -> Self {
        let principal = &question.principal;
        let (tool, permissions, risk_level, arguments) = match &question.about {
            QuestionSubject::Call { tool, risk, arguments, permissions } => {
                let (risk, arguments) = (Some(risk.clone()), Some(arguments.clone()));
                (Some(tool.clone()), permissions.clone(), risk, arguments)
            }
            QuestionSubject::Permissions { permissions, tool } => {
                (tool.clone(), permissions.clone(), None, None)
            }
        };
        Self {
            id,
            tenant: principal.tenant().as_str().to_owned(),
            subject: principal.subject().as_str().to_owned(),
            agent_id: principal.as_agent().map(|agent| agent.as_str().to_owned()),
            server_id: question.server.as_ref().map(|server| server.as_str().to_owned()),
            tool,
            permissions,
            risk_level,
            question: describe(question),
            like: arguments.as_deref().map(like_words),
            holds_until: None,
            arguments,
            binding: question.binding.to_string(),
            call: question.call.map(|call| call.to_string()),
            is_review: false,
            trace_id: question.trace.clone(),
            asked_at: now.into(),
            expires_at: end.into(),
            state: RequestState::Open,
            decided_by: None,
            via: None,
            justification: None,
        }
    }

    /// Creates the request for a review of the permissions of a server that is not ready yet.
    pub(super) fn review(
        by: &Principal,
        server: &ServerId,
        id: String,
        now: SystemTime,
        end: SystemTime,
    ) -> Self {
        let binding = Sha256Hash::digest(format!("review of {server}").as_bytes());
        let (permissions, tool) = (Vec::new(), None);
        let about = QuestionSubject::Permissions { permissions, tool };
        let question = Question::new(about, Some(server.clone()), by.clone(), binding);
        let mut review = Self::of(&question, id, now, end);
        review.question = describe_later(server);
        (review.state, review.is_review) = (RequestState::Later, true);
        review
    }

    /// Returns the open request that replaces this review once its server is ready.
    pub(super) fn asking_for(
        &self,
        permissions: &[Permission],
        now: SystemTime,
        end: SystemTime,
    ) -> Self {
        let server = self.server_id.as_deref().map(ServerId::from);
        let mut asked = self.clone();
        asked.permissions = permissions.to_vec();
        asked.question = describe_review(server.as_ref(), permissions);
        (asked.state, asked.asked_at, asked.expires_at) =
            (RequestState::Open, now.into(), end.into());
        asked
    }

    /// Returns whether `state` means, for this request, that an operator decided about the requested permissions for
    /// all calls of the server.
    pub(super) fn is_decision(&self, state: RequestState) -> bool {
        match state {
            RequestState::Settled => self.arguments.is_none(),
            RequestState::Approved | RequestState::Denied => self.is_review,
            _ => false,
        }
    }

    pub(super) fn is_review_of(&self, server: &ServerId) -> bool {
        self.is_review && self.server_id.as_deref() == Some(server.as_str())
    }

    /// Returns a copy of the request without the permissions that are no longer needed; `None` if all are still needed,
    /// or if the request has no hash of a call.
    pub(super) fn only(&self, is_needed: impl Fn(&Permission) -> bool) -> Option<Self> {
        // Without the hash of the call, the answer is bound to exactly these permissions, so none may be removed.
        self.call.as_ref()?;
        let (needed, gone): (Vec<_>, Vec<_>) =
            self.permissions.iter().cloned().partition(|permission| is_needed(permission));
        if gone.is_empty() {
            return None;
        }
        let question = without_permissions(&self.question, &gone);
        Some(Self { permissions: needed, question, ..self.clone() })
    }

    /// Returns whether the request is about the same call as a question, even if their permissions differ.
    pub(super) fn is_about(&self, question: &Question) -> bool {
        self.call.is_some() && self.call == question.call.map(|call| call.to_string())
    }

    /// Returns whether the answer to this request also answers a question. Both must be about the same call or
    /// permissions, and the request must name all permissions of the question.
    pub(super) fn answers(&self, question: &Question) -> bool {
        if self.call.is_none() || question.call.is_none() {
            return self.binding == question.binding.to_string();
        }
        let needed = question.about.permissions();
        let names_all = needed.iter().all(|permission| self.permissions.contains(permission));
        // A denial answers only a question about the same permissions: if the call needs fewer permissions, the person
        // might allow it.
        let is_same = self.state != RequestState::Denied || needed.len() == self.permissions.len();
        self.is_about(question) && names_all && is_same
    }

    /// Returns the name of the state to show to people: a settled request about a call is shown as denied.
    pub(super) fn state_word(&self) -> &'static str {
        match self.state {
            RequestState::Settled if self.arguments.is_some() => RequestState::Denied.as_str(),
            state => state.as_str(),
        }
    }

    /// Returns the request in the form in which the kernel's methods list it; `whole` adds the complete arguments of a
    /// call.
    #[must_use]
    pub fn to_listed(&self, whole: bool) -> KernelApproval {
        let mut listed = KernelApproval::new(
            self.id.as_str(),
            if self.arguments.is_some() { "call" } else { "permissions" },
            self.state_word(),
            self.question.as_str(),
            self.subject.as_str(),
            self.asked_at.clone(),
        );
        listed.arguments = self.arguments.clone().filter(|_| whole);
        listed.like.clone_from(&self.like);
        listed.agent_id.clone_from(&self.agent_id);
        listed.server_id.clone_from(&self.server_id);
        listed.tool.clone_from(&self.tool);
        listed.permissions = self.permissions.clone().into();
        listed.risk_level.clone_from(&self.risk_level);
        listed.expires_at = Some(self.expires_at.clone());
        listed.trace_id.clone_from(&self.trace_id);
        listed.decided_by.clone_from(&self.decided_by);
        listed.via = self.via.map(|place| place.as_str().to_owned());
        listed.justification.clone_from(&self.justification);
        listed
    }

    /// Returns the audit event about a decision of the request.
    pub(super) fn decided_event(&self, by: impl Into<EventActor>, word: &str) -> Event {
        Event::approval_decided(by, &self.id, word)
            .tenant(&self.tenant)
            .asked_by(&self.subject, self.agent_id.as_deref())
            .server(self.server_id.as_deref().map(ServerId::from).as_ref())
            .tool(self.tool.as_deref())
            .trace(self.trace_id.as_deref())
            .via(self.via.map(AnswerPlace::as_str))
    }

    /// Returns whether the request has expired; an unreadable expiry counts as past.
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.expires_at.is_before(now).unwrap_or(true)
    }

    /// Returns whether this principal made the request.
    pub(super) fn is_of(&self, principal: &Principal) -> bool {
        self.tenant == principal.tenant().as_str()
            && self.subject == principal.subject().as_str()
            && self.agent_id.as_deref() == principal.as_agent().map(AgentId::as_str)
    }

    /// Returns the decision that a waiting call gets once its request was closed, or answered by a review.
    ///
    /// A review is decided before its permissions are stored. Therefore the waiting call gets the answer itself: if the
    /// call was decided again immediately, it would still lack the permissions. If the request was closed for another
    /// reason, the decision is `Deferred`, and the `gate` module decides about the call again with the permissions that
    /// are stored by then.
    pub(super) fn closing_decision(&self) -> Decision {
        self.decision(match self.state {
            RequestState::Approved => GrantDecision::Approved,
            RequestState::Denied => GrantDecision::Denied,
            _ => GrantDecision::Deferred,
        })
    }

    /// Returns the decision that the waiting call gets for an answer.
    pub(super) fn decision(&self, answer: GrantDecision) -> Decision {
        let by = self.decided_by.as_deref().unwrap_or("the inbox of approvals");
        let mut decision = Decision::new(answer, by);
        let mut details = Object::new()
            .with("approval_id", &self.id)
            .with_optional("justification", self.justification.as_ref());
        if self.state == RequestState::Open {
            let id = &self.id;
            let remedy =
                format!("approval {id} stays open: call again once a person has decided it");
            details = details
                .with("status", "approval_pending")
                .with("remedy", &remedy)
                .with("expires_at", &self.expires_at.to_string());
        }
        decision.details = details;
        decision.expires_at.clone_from(&self.holds_until);
        decision.via = self.via;
        decision
    }
}

/// All requests by their ids.
#[derive(Debug, Default)]
pub(crate) struct Requests(BTreeMap<String, Arc<ApprovalRequest>>);

impl Requests {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<ApprovalRequest>> {
        self.0.get(id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ApprovalRequest>> {
        self.0.values()
    }

    /// Returns the request that matches a question, unless the request was used or has expired. If several requests
    /// match, prefers a denied request, then an approved request, then an open request.
    pub(super) fn about(
        &self,
        question: &Question,
        now: SystemTime,
    ) -> Option<&Arc<ApprovalRequest>> {
        self.in_force(now, |request| request.answers(question))
    }

    /// Returns a request that meets the condition and has not expired: a denied request if there is one, else an
    /// approved request, else an open request.
    pub(super) fn in_force(
        &self,
        now: SystemTime,
        is_right: impl Fn(&ApprovalRequest) -> bool,
    ) -> Option<&Arc<ApprovalRequest>> {
        let order = [RequestState::Denied, RequestState::Approved, RequestState::Open];
        order.into_iter().find_map(|state| {
            let is_match = |request: &&Arc<ApprovalRequest>| {
                request.state == state && !request.is_over(now) && is_right(request)
            };
            self.0.values().find(is_match)
        })
    }

    /// If there are more than `max` used and settled requests, returns the oldest of them, so that `max` remain.
    pub(super) fn closed_beyond(&self, max: usize) -> impl Iterator<Item = &Arc<ApprovalRequest>> {
        let is_closed = |request: &&Arc<ApprovalRequest>| {
            matches!(request.state, RequestState::Used | RequestState::Settled)
        };
        let mut closed: Vec<_> = self.0.values().filter(is_closed).collect();
        let excess = closed.len().saturating_sub(max);
        closed.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
        closed.truncate(excess);
        closed.into_iter()
    }

    /// Returns the undecided requests that have not expired.
    pub(super) fn open(&self, now: SystemTime) -> impl Iterator<Item = &Arc<ApprovalRequest>> {
        let open = move |request: &&Arc<ApprovalRequest>| {
            request.state == RequestState::Open && !request.is_over(now)
        };
        self.0.values().filter(open)
    }
}

impl Snapshot for Requests {
    type Entry = ApprovalRequest;
    const SPACE: &'static str = "approvals";

    fn of(entries: &BTreeMap<String, Arc<ApprovalRequest>>) -> Self {
        Self(entries.clone())
    }
}
