//! Asks whoever calls, with a form of MCP (elicitation; MGP §3.4, §4.4).
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mcp::{ElicitAction, ElicitParams, ElicitResult};
use mgp_types::method::{ElicitationCreate, Request};
use mgp_types::mgp::{GrantDecision, Permission};
use mgp_types::service::{Ask, Authority, BoxFuture, Context, Principal};
use mgp_types::{ErrorCode, Object, Payload, RawObject, RpcError, Timestamp};
use serde_json::{Map, json};

use super::shown::{in_words, name};
use super::{About, Approver, Decision, Question};

/// The field that says yes to a call.
const CONFIRM: &str = "confirm";

/// The field that says how long permissions hold; no permission has this name.
const HOLDS: &str = "holds for";

/// How long permissions may hold, the shortest first: that is what no choice means, and how long a decline holds.
///
/// What an answer decides holds for everyone in the tenant, so only an operator decides without an end.
const TERMS: [(&str, Option<Duration>); 4] = [
    ("1 hour", Some(Duration::from_hours(1))),
    ("1 day", Some(Duration::from_hours(24))),
    ("30 days", Some(Duration::from_hours(24 * 30))),
    ("until revoked", None),
];

/// The terms that somebody may choose.
fn terms(principal: &Principal) -> impl Iterator<Item = (&'static str, Option<Duration>)> {
    let is_operator = principal.authority() == Authority::Operator;
    TERMS.into_iter().filter(move |(_, term)| is_operator || term.is_some())
}

/// How many permissions one form asks about.
const PERMISSIONS_MAX: usize = 32;

/// Asks the caller with a form, where a person sits in front of it.
///
/// Most callers are the very party that a confirmation restrains: an agent must not confirm its own calls.
/// So it says who is interactive, and asks nobody else.
///
/// ```
/// use mgp_security::Elicit;
///
/// // Only Ada's own client shows her the question; her agents answer nothing.
/// let elicit = Elicit::new(|principal| principal.subject().as_str() == "ada" && principal.as_agent().is_none());
/// # drop(elicit);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Elicit {
    interactive: Arc<dyn Fn(&Principal) -> bool + Send + Sync>,
}

impl Elicit {
    /// Asks those callers that are interactive.
    pub fn new(interactive: impl Fn(&Principal) -> bool + Send + Sync + 'static) -> Self {
        Self { interactive: Arc::new(interactive) }
    }

    /// Asks every caller: for a client whose user sits in front of it.
    pub fn everyone() -> Self {
        Self::new(|_| true)
    }
}

impl Default for Elicit {
    /// Asks nobody.
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl fmt::Debug for Elicit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elicit")
    }
}

impl Approver for Elicit {
    fn decide(
        &self,
        cx: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>> {
        if !(self.interactive)(&cx.principal) {
            let error = RpcError::new(
                ErrorCode::PERMISSION_DENIED,
                "nobody can be asked: the caller is not marked interactive",
            );
            return Box::pin(std::future::ready(Err(error)));
        }
        let cx = cx.clone();
        Box::pin(async move {
            let (key, ask) = form(&question, &cx.principal)?;
            let answer: ElicitResult = cx.ask_afresh(&key, ask).await?.get()?;
            Ok(read(&question, &cx.principal, &answer))
        })
    }

    /// As long as the caller's own time-out allows, at most five minutes: it is the caller who is asked.
    fn patience(&self) -> Duration {
        Duration::from_mins(5)
    }
}

/// The question as a form, and its key.
fn form(question: &Question, principal: &Principal) -> Result<(String, Ask), RpcError> {
    let mut fields = Map::new();
    let mut required = Vec::new();
    let kind = match &question.about {
        About::Call { .. } => {
            fields.insert(CONFIRM.to_owned(), json!({"type": "boolean", "title": "Run it"}));
            required.push(CONFIRM);
            "confirm"
        }
        About::Permissions { permissions, .. } => {
            for permission in asked(permissions) {
                let title = format!("{} ({})", name(permission.as_str()), permission.risk());
                let field = json!({"type": "boolean", "title": title});
                fields.insert(permission.as_str().to_owned(), field);
            }
            let terms: Vec<_> = terms(principal).map(|(term, _)| term).collect();
            let choice = json!({"type": "string", "title": "Holds for", "enum": terms});
            fields.insert(HOLDS.to_owned(), choice);
            "permission"
        }
    };
    let schema = json!({"type": "object", "properties": fields, "required": required});
    let mut params = ElicitParams::new(in_words(question));
    params.requested_schema = Some(RawObject::of(&schema)?);
    let key = format!("mgp.{kind}.{}", question.binding);
    Ok((key, Ask::new(ElicitationCreate::METHOD, Payload::of(&params)?)))
}

/// The permissions that one form asks about; the others stay undecided.
fn asked(permissions: &[Permission]) -> impl Iterator<Item = &Permission> {
    permissions.iter().filter(|permission| permission.is_valid()).take(PERMISSIONS_MAX)
}

/// What an answer decides: only the right content of an accepted form approves.
fn read(question: &Question, principal: &Principal, answer: &ElicitResult) -> Decision {
    let by = principal.subject().as_str();
    let nothing = Object::new();
    let content = match answer.action {
        ElicitAction::Accept => answer.content.as_ref().unwrap_or(&nothing),
        ElicitAction::Decline => {
            let mut decision = Decision::new(GrantDecision::Denied, by);
            decision.expires_at = after(TERMS[0].1);
            return decision;
        }
        // Who went away has decided nothing.
        _ => return Decision::new(GrantDecision::Deferred, by),
    };
    let yes = |field: &str| content.get(field).is_some_and(|value| value.as_str() == "true");
    let permissions = match &question.about {
        About::Call { .. } if yes(CONFIRM) => return Decision::new(GrantDecision::Approved, by),
        About::Call { .. } => return Decision::new(GrantDecision::Denied, by),
        About::Permissions { permissions, .. } => permissions,
    };
    let mut decision = Decision::new(GrantDecision::Approved, by);
    for permission in asked(permissions) {
        let answer =
            if yes(permission.as_str()) { GrantDecision::Approved } else { GrantDecision::Denied };
        decision.single.insert(permission.clone(), answer.into());
    }
    if decision.single.len() < permissions.len() {
        // What was not on the form was not decided.
        decision.answer = GrantDecision::Deferred;
    } else if decision.single.values().any(|grant| grant.decision() != GrantDecision::Approved) {
        decision.answer = GrantDecision::Denied;
    }
    let chosen = content.decode::<String>(HOLDS).ok().flatten();
    let chosen = terms(principal).find(|(words, _)| Some(*words) == chosen.as_deref());
    let (_, term) = chosen.unwrap_or(TERMS[0]);
    decision.expires_at = after(term);
    decision
}

/// The end of a term that begins now.
fn after(term: Option<Duration>) -> Option<Timestamp> {
    let end = SystemTime::now().checked_add(term?)?;
    Some(Timestamp::from(end))
}
