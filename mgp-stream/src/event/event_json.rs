//! The stored forms (JSON) of events, and of the terms of subscriptions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::RpcError;
use mgp_types::service::{AgentId, Authority, Principal};
use serde::{Deserialize, Serialize};

use super::draft::{EventDraft, EventSubject, PublishedEvent};
use super::filter::Filter;
use super::pattern::Pattern;

#[derive(Deserialize, Serialize)]
struct StoredPrincipal {
    tenant: String,
    subject: String,
    agent: Option<String>,
    is_operator: bool,
}

/// The terms of a subscription as they are stored: its owner, its channels and its filter.
#[derive(Deserialize, Serialize)]
pub(super) struct Terms {
    principal: StoredPrincipal,
    patterns: Vec<String>,
    #[serde(flatten)]
    filter: Filter,
}

#[derive(Deserialize, Serialize)]
struct StoredForm {
    channel: String,
    rank: u8,
    at_ms: u64,
    depth: u32,
    #[serde(default)]
    dropped: u64,
    members: String,
    server: Option<String>,
    tool: Option<String>,
    tenant: Option<String>,
    owner: Option<StoredPrincipal>,
    is_forwarded: bool,
}

impl StoredPrincipal {
    fn new(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant().to_string(),
            subject: principal.subject().to_string(),
            agent: principal.as_agent().map(AgentId::to_string),
            is_operator: principal.authority() > Authority::User,
        }
    }

    fn to_principal(&self) -> Principal {
        let mut principal = Principal::new(self.tenant.as_str(), self.subject.as_str());
        if let Some(agent) = &self.agent {
            principal = principal.agent(agent.as_str());
        }
        if self.is_operator { principal.operator() } else { principal }
    }
}

impl Terms {
    pub(super) fn to_json(principal: &Principal, patterns: &[Pattern], filter: &Filter) -> String {
        let principal = StoredPrincipal::new(principal);
        let patterns = patterns.iter().map(Pattern::to_text).collect();
        // Encoding texts, a number and JSON values cannot fail.
        serde_json::to_string(&Self { principal, patterns, filter: filter.clone() })
            .unwrap_or_default()
    }

    pub(super) fn read(terms: &str) -> Result<(Principal, Vec<Pattern>, Filter), RpcError> {
        let terms: Self = serde_json::from_str(terms).map_err(RpcError::parse)?;
        let patterns = Pattern::parse_all(&terms.patterns)?;
        Ok((terms.principal.to_principal(), patterns, terms.filter))
    }
}

impl PublishedEvent {
    pub(super) fn to_stored(&self) -> String {
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let EventDraft { channel, subject, depth, dropped, .. } = &self.draft;
        let EventSubject { server, tool, tenant, owner, is_forwarded } = subject;
        let form = StoredForm {
            channel: channel.to_string(),
            rank: self.rank,
            at_ms: mgp_types::millis(since),
            depth: *depth,
            dropped: *dropped,
            members: self.members().to_owned(),
            server: server.as_ref().map(ToString::to_string),
            tool: tool.clone(),
            tenant: tenant.as_ref().map(ToString::to_string),
            owner: owner.as_ref().map(StoredPrincipal::new),
            is_forwarded: *is_forwarded,
        };
        // Encoding texts and numbers cannot fail.
        serde_json::to_string(&form).unwrap_or_default()
    }

    pub(super) fn from_stored(text: &str) -> Option<Arc<Self>> {
        let form: StoredForm = serde_json::from_str(text).ok()?;
        let subject = EventSubject {
            server: form.server.map(Into::into),
            tool: form.tool,
            tenant: form.tenant.map(Into::into),
            owner: form.owner.map(|owner| owner.to_principal()),
            is_forwarded: form.is_forwarded,
        };
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(form.at_ms);
        let draft = EventDraft::new(form.channel).subject(subject);
        let draft = draft.depth(form.depth).dropped(form.dropped);
        Some(Arc::new(Self::restored(draft, form.rank, at, form.members)))
    }
}
