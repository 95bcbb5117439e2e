//! An approver that asks the caller with a form (MCP elicitation; MGP §3.4, §4.4).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_types::mcp::{ElicitAction, ElicitParams, ElicitResult};
use mgp_types::method::{ElicitationCreate, Request};
use mgp_types::mgp::{GrantDecision, Permission};
use mgp_types::service::{Authority, CallerRequest, Context, Principal};
use mgp_types::{ErrorCode, Object, Payload, RawObject, RpcError, Timestamp};
use serde_json::{Map, json};

use super::describe::{describe, name};
use super::{AnswerPlace, ApprovalTerm, Approver, Decision, LeftOpen, Question, QuestionSubject};

/// The name of the form field with which the person confirms a call.
const CONFIRM_FIELD: &str = "confirm";

/// The name of the form field with which the person chooses the duration or the term of an approval.
const TERM_FIELD: &str = "term";

/// The name of the form field for the person's reason.
const REASON_FIELD: &str = "reason";

/// The first word of the names of form fields for permissions; the names of other fields do not begin with it.
const PERMISSION_PREFIX: &str = "allow";

/// The maximum length of a stored reason, in bytes.
const MAX_REASON: usize = 500;

/// The durations for which permissions can be approved. The first duration is the default. A refusal always lasts the
/// first duration, whatever the person chooses.
///
/// An approval applies to all principals of the tenant, so only an operator can choose an approval that never expires.
const TERMS: [(&str, Option<Duration>); 4] = [
    ("1 hour", Some(Duration::from_hours(1))),
    ("1 day", Some(Duration::from_hours(24))),
    ("30 days", Some(Duration::from_hours(24 * 30))),
    ("until revoked", None),
];

/// The choices that a form offers for the approval of a call. Each names the calls to which the approval applies. The
/// first is the default.
const CALL_TERMS: [&str; 4] = [
    "this call only",
    "calls of this tool for 1 hour",
    "calls like this for 30 days",
    "calls like this until revoked",
];

/// Returns the choices that a principal has for the approval of a call; only an operator can choose the last one.
fn call_terms(principal: &Principal) -> &'static [&'static str] {
    let is_operator = principal.authority() >= Authority::TenantOperator;
    if is_operator { &CALL_TERMS } else { &CALL_TERMS[..3] }
}

/// Returns the term that was chosen on the form for the approval of a call.
fn call_term(principal: &Principal, chosen: Option<&str>) -> ApprovalTerm {
    let chosen = call_terms(principal).iter().position(|words| Some(*words) == chosen);
    match (chosen, expiry(TERMS[0].1), expiry(TERMS[2].1)) {
        (Some(1), Some(until), _) => ApprovalTerm::Tool { until },
        (Some(2), _, Some(until)) => ApprovalTerm::Like { until: Some(until) },
        (Some(3), ..) => ApprovalTerm::Like { until: None },
        _ => ApprovalTerm::Once,
    }
}

/// Returns the durations that a principal can choose for permissions.
fn terms(principal: &Principal) -> impl Iterator<Item = (&'static str, Option<Duration>)> {
    let is_operator = principal.authority() >= Authority::TenantOperator;
    TERMS.into_iter().filter(move |(_, term)| is_operator || term.is_some())
}

/// The maximum number of permissions that one form asks for.
const MAX_PERMISSIONS: usize = 32;

/// An approver that asks the caller with a form, if a person uses the caller's client; otherwise it is unavailable.
///
/// Most callers are agents, and a confirmation exists to restrain them, so an agent must not confirm its own calls.
/// Therefore only callers that are configured as interactive are asked.
///
/// ```
/// use mgp_security::ElicitApprover;
///
/// // Only Ada's own client shows her the question; her agents are not asked.
/// let elicit = ElicitApprover::new(|principal| principal.subject().as_str() == "ada" && principal.as_agent().is_none());
/// # drop(elicit);
/// ```
#[derive(Clone)]
#[must_use]
pub struct ElicitApprover {
    interactive: Arc<dyn Fn(&Principal) -> bool + Send + Sync>,
    wait: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl ElicitApprover {
    /// Creates an approver that asks only interactive callers, i.e. callers for which `interactive` returns `true`.
    pub fn new(interactive: impl Fn(&Principal) -> bool + Send + Sync + 'static) -> Self {
        Self { interactive: Arc::new(interactive), wait: Arc::new(|| Duration::from_mins(10)) }
    }

    /// Sets how long a form waits for its answer.
    pub fn wait(self, wait: Duration) -> Self {
        self.wait_by(move || wait)
    }

    /// Sets a function that returns how long a form waits for its answer. The function is called for each form.
    pub fn wait_by(mut self, wait: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.wait = Arc::new(wait);
        self
    }

    /// Creates an approver that asks every caller. Use it for a host whose user sees all forms.
    pub fn everyone() -> Self {
        Self::new(|_| true)
    }
}

impl Default for ElicitApprover {
    /// Creates an approver that asks no caller.
    fn default() -> Self {
        Self::new(|_| false)
    }
}

mgp_types::opaque_debug!(ElicitApprover);

#[async_trait]
impl Approver for ElicitApprover {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        if !(self.interactive)(&cx.principal) {
            let error = RpcError::new(
                ErrorCode::PERMISSION_DENIED,
                "no approver is available: the caller is not marked interactive",
            );
            return Err(error);
        }
        let (key, ask) = form(&question, &cx.principal)?;
        let answer: ElicitResult = cx.ask_again(&key, ask).await?.get()?;
        let mut decision = read(&question, &cx.principal, &answer);
        decision.via = Some(AnswerPlace::Host);
        Ok(decision)
    }

    /// Returns ten minutes unless another time was [set](Self::wait). The time can be long, because the caller itself
    /// is asked and can end the call earlier.
    fn timeout(&self) -> Duration {
        (self.wait)()
    }
}

/// Converts the question to a form. Returns the form, and the key under which the client's answer to the form is found.
///
/// Each optional field has a default. Without one, a client of `FastMCP` sends `null` for an untouched field, and its
/// SDK then refuses the whole answer.
fn form(question: &Question, principal: &Principal) -> Result<(String, CallerRequest), RpcError> {
    let mut fields = Map::new();
    let mut required = Vec::new();
    let kind = match &question.about {
        QuestionSubject::Call { .. } => {
            fields.insert(CONFIRM_FIELD.to_owned(), json!({"type": "boolean", "title": "Run it"}));
            required.push(CONFIRM_FIELD);
            if question.keeps_terms {
                let terms = call_terms(principal);
                let choice = json!({"type": "string", "title": "Approve", "enum": terms, "default": terms[0]});
                fields.insert(TERM_FIELD.to_owned(), choice);
            }
            "confirm"
        }
        QuestionSubject::Permissions { permissions, .. } => {
            for (permission, field_name) in form_permissions(permissions) {
                let title = format!("{} ({})", name(permission.as_str()), permission.risk());
                let field = json!({"type": "boolean", "title": title, "default": false});
                fields.insert(field_name, field);
            }
            let terms: Vec<_> = terms(principal).map(|(term, _)| term).collect();
            let choice =
                json!({"type": "string", "title": "Holds for", "enum": terms, "default": terms[0]});
            fields.insert(TERM_FIELD.to_owned(), choice);
            "permission"
        }
    };
    let title = "Reason (recorded, and shown to the caller)";
    let reason = json!({"type": "string", "title": title, "default": ""});
    fields.insert(REASON_FIELD.to_owned(), reason);
    let schema = json!({"type": "object", "properties": fields, "required": required});
    let hint = match question.about {
        QuestionSubject::Permissions { .. } => {
            "\nDeclining the form denies all of them for 1 hour."
        }
        QuestionSubject::Call { .. } => "",
    };
    let mut params = ElicitParams::new(describe(question) + hint);
    params.requested_schema = Some(RawObject::of(&schema)?);
    let key = format!("mgp.{kind}.{}", question.binding);
    Ok((key, CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&params)?)))
}

/// Returns the permissions that the form shows, each with the name of its field. Leaves out permissions with an invalid
/// name, and permissions beyond the maximum number; they stay undecided. Equal lists of permissions have equal field
/// names; an answer is valid only for the list that was asked about.
///
/// The names are identifiers, because clients with typed answers, e.g. of `FastMCP`, rename all other fields.
fn form_permissions(permissions: &[Permission]) -> Vec<(&Permission, String)> {
    let mut shown: Vec<(&Permission, String)> = Vec::new();
    for permission in permissions.iter().filter(|name| name.is_valid()).take(MAX_PERMISSIONS) {
        // The clients also merge adjacent underscores, so join the words by single underscores.
        let words = permission.as_str().split(['.', '-', '_']).filter(|word| !word.is_empty());
        let base = [PERMISSION_PREFIX].into_iter().chain(words).collect::<Vec<_>>().join("_");
        // Some clients ignore the case of names, so names must not differ in case only.
        let is_free =
            |name: &String| shown.iter().all(|(_, taken)| !taken.eq_ignore_ascii_case(name));
        let mut numbered = (2_usize..).map(|number| format!("{base}_{number}"));
        let name = Some(base.clone()).filter(is_free).or_else(|| numbered.find(is_free));
        shown.push((permission, name.unwrap_or(base)));
    }
    shown
}

/// Returns the decision that an answer contains, with the person's reason.
fn read(question: &Question, principal: &Principal, answer: &ElicitResult) -> Decision {
    let decision = read_content(question, principal, answer);
    let reason =
        answer.content.as_ref().and_then(|content| content.decode::<String>(REASON_FIELD).ok()?);
    match reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => decision.with("justification", &mgp_types::clip(reason, MAX_REASON)),
        None => decision,
    }
}

/// Returns the decision that an answer contains. Only an accepted form with the required content approves.
fn read_content(question: &Question, principal: &Principal, answer: &ElicitResult) -> Decision {
    let by = principal.subject().as_str();
    let nothing = Object::new();
    let content = match answer.action {
        ElicitAction::Accept => answer.content.as_ref().unwrap_or(&nothing),
        ElicitAction::Decline => {
            let mut decision = Decision::new(GrantDecision::Denied, by);
            decision.expires_at = expiry(TERMS[0].1);
            return decision;
        }
        // A person who closes the form without answering has decided nothing, so the question is deferred.
        _ => return Decision::new(GrantDecision::Deferred, by).with("cause", &LeftOpen::Closed),
    };
    let answered = |field: &str| content.get(field).map(|value| value.as_str() == "true");
    let yes = |field: &str| answered(field) == Some(true);
    // Also accept the answer to a form of an earlier version, whose fields have the names of the permissions.
    let is_allowed = |permission: &Permission, field: &str| {
        answered(field).or_else(|| answered(permission.as_str())) == Some(true)
    };
    let permissions = match &question.about {
        QuestionSubject::Call { .. } if yes(CONFIRM_FIELD) => {
            let chosen = content.decode::<String>(TERM_FIELD).ok().flatten();
            let mut decision = Decision::new(GrantDecision::Approved, by);
            decision.term = call_term(principal, chosen.as_deref());
            return decision;
        }
        QuestionSubject::Call { .. } => return Decision::new(GrantDecision::Denied, by),
        QuestionSubject::Permissions { permissions, .. } => permissions,
    };
    let mut decision = Decision::new(GrantDecision::Approved, by);
    for (permission, field) in form_permissions(permissions) {
        if is_allowed(permission, &field) {
            decision.per_permission.insert(permission.clone(), GrantDecision::Approved.into());
        }
    }
    if decision.per_permission.len() < permissions.len() {
        // A person who leaves the box empty does not allow the call, but has not denied it either, so no denial is
        // stored.
        decision.answer = GrantDecision::Deferred;
        decision = decision.with("cause", &LeftOpen::NotAllowed);
    }
    let chosen = content.decode::<String>(TERM_FIELD).ok().flatten();
    let chosen = terms(principal).find(|(words, _)| Some(*words) == chosen.as_deref());
    let (_, term) = chosen.unwrap_or(TERMS[0]);
    decision.expires_at = expiry(term);
    decision
}

/// Returns the time when a duration that begins now ends, or `None` if it never ends.
fn expiry(term: Option<Duration>) -> Option<Timestamp> {
    let end = SystemTime::now().checked_add(term?)?;
    Some(Timestamp::from(end))
}
