//! What waits in the inbox, and what became of it.
//!
//! Applies to: both.

use std::time::SystemTime;

use mgp_types::mgp::{GrantDecision, Permission, RiskLevel};
use mgp_types::service::{AgentId, Principal};
use mgp_types::{Object, Timestamp};
use serde::{Deserialize, Serialize};

use crate::approval::shown::in_words;
use crate::approval::{About, Decision, Question};

/// A question that waits for an operator, or that one has answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// What it is answered by.
    pub id: String,
    /// The tenant of whoever is waiting.
    pub tenant: String,
    /// Whoever is waiting.
    pub subject: String,
    /// Its agent, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The server it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The tool it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The permissions that are asked for; none where it is about one call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
    /// How dangerous the call is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<RiskLevel>,
    /// The whole question, for a person.
    pub question: String,
    /// What the answer is bound to: principal, tool, arguments and definition.
    pub binding: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it is no longer of use.
    pub expires_at: Timestamp,
    /// What became of it.
    pub state: RequestState,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RequestState {
    /// Nobody has decided.
    Open,
    /// It was approved, and has not been used.
    Approved,
    /// It was denied.
    Denied,
    /// It was approved, and what it was about was done.
    Used,
}

impl RequestState {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Used => "used",
        }
    }
}

impl ApprovalRequest {
    /// A question that nobody has answered.
    pub(super) fn of(question: &Question, id: String, now: SystemTime, end: SystemTime) -> Self {
        let principal = &question.principal;
        let (tool, permissions, risk_level) = match &question.about {
            About::Call { tool, risk, .. } => (Some(tool.clone()), Vec::new(), Some(risk.clone())),
            About::Permissions { permissions, tool } => (tool.clone(), permissions.clone(), None),
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
            question: in_words(question),
            binding: question.binding.to_string(),
            asked_at: now.into(),
            expires_at: end.into(),
            state: RequestState::Open,
            decided_by: None,
            justification: None,
        }
    }

    /// Whether it is of no use any more; an end that cannot be read has passed.
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.expires_at.is_before(now).unwrap_or(true)
    }

    /// Whether it is this party that is waiting.
    pub(super) fn is_of(&self, principal: &Principal) -> bool {
        self.tenant == principal.tenant().as_str()
            && self.subject == principal.subject().as_str()
            && self.agent_id.as_deref() == principal.as_agent().map(AgentId::as_str)
    }

    /// What whoever waits is told.
    pub(super) fn decision(&self, answer: GrantDecision) -> Decision {
        let by = self.decided_by.as_deref().unwrap_or("the inbox of approvals");
        let mut decision = Decision::new(answer, by);
        let mut details = Object::new();
        // Words can always be written.
        let mut put = |name: &str, value: &str| drop(details.encode(name, value));
        put("approval_id", &self.id);
        if let Some(justification) = &self.justification {
            put("justification", justification);
        }
        if self.state == RequestState::Open {
            let remedy = format!(
                "an operator decides with `mgp approvals approve {}`; call again after that",
                self.id
            );
            put("status", "approval_pending");
            put("remedy", &remedy);
            put("expires_at", &self.expires_at.to_string());
        }
        decision.details = details;
        decision
    }
}
