//! Questions of servers that wait for an operator, because the callers cannot be asked (MGP §13.4).
//!
//! A question belongs to a running call. So it is kept in memory, and ends with the call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_client_sdk::CallbackAnswer;
use mgp_security::Event;
use mgp_types::mgp::{CallbackRequestParams, CallbackType, KernelCallback};
use mgp_types::service::{AgentId, AuditSink, Context, Principal, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError, random_name};
use tokio::sync::oneshot;

/// The maximum number of open questions of one server to operators, in the calls of one caller.
const MAX_OF_SERVER: usize = 16;
/// The maximum number of open questions to operators in the calls of one caller.
const MAX_OF_CALLER: usize = 64;
/// The maximum number of open questions to operators in the calls of another tenant than the local one.
const MAX_OF_TENANT: usize = 128;
/// The maximum number of open questions of all servers to operators.
const MAX_OPEN: usize = 256;
/// The time limit of a question that sets none. Questions to callers have the same limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// The maximum time limit that a server can set for a question to operators.
const MAX_TIMEOUT: Duration = Duration::from_mins(15);

/// The questions of servers that wait for an operator.
#[derive(Clone, Default)]
pub(crate) struct ServerQuestions(Arc<Mutex<HashMap<String, OpenQuestion>>>);

mgp_types::opaque_debug!(ServerQuestions);

struct OpenQuestion {
    listed: KernelCallback,
    question: CallbackRequestParams,
    principal: Principal,
    answer: oneshot::Sender<CallbackAnswer>,
}

/// A guard whose drop removes a question, because its call does not wait for the answer any more.
struct OpenGuard(ServerQuestions, String);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

impl ServerQuestions {
    /// Asks an operator, and waits for the answer.
    ///
    /// # Cancel safety
    /// The question is withdrawn when the future is dropped.
    pub(crate) async fn ask(
        self,
        cx: Context,
        question: CallbackRequestParams,
    ) -> Result<CallbackAnswer, RpcError> {
        match question.kind {
            // Do not ask an operator for these: a person cannot write the answer of a model, and a notification needs
            // no answer.
            CallbackType::Notification | CallbackType::LlmCompletion => {
                return Ok(CallbackAnswer::Dismissed);
            }
            _ => {}
        }
        let (_open, answer) = self.open(&cx, question)?;
        answer.await.map_err(|_| RpcError::internal("the question was closed"))
    }

    fn open(
        &self,
        cx: &Context,
        question: CallbackRequestParams,
    ) -> Result<(OpenGuard, oneshot::Receiver<CallbackAnswer>), RpcError> {
        let id = random_name()?;
        let id = id.get(..10).unwrap_or(&id).to_owned();
        let listed = listed(&id, cx, &question);
        let (sender, answer) = oneshot::channel();
        let mut open = self.0.lock();
        let of_caller = open.values().filter(|one| one.principal == cx.principal);
        let of_server = of_caller.clone().filter(|one| one.listed.server_id == listed.server_id);
        let tenant = cx.principal.tenant();
        let of_tenant = open.values().filter(|one| one.principal.tenant() == tenant);
        let most = if tenant == Principal::local().tenant() { MAX_OPEN } else { MAX_OF_TENANT };
        let is_full = of_server.count() >= MAX_OF_SERVER
            || of_caller.count() >= MAX_OF_CALLER
            || of_tenant.count() >= most;
        if is_full || open.len() >= MAX_OPEN {
            let message = "too many questions of servers wait; `mgp callbacks ls` lists them";
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        tracing::info!(server = %listed.server_id, id, "a question of a server waits for an operator");
        let principal = cx.principal.clone();
        open.insert(id.clone(), OpenQuestion { listed, question, principal, answer: sender });
        drop(open);
        Ok((OpenGuard(self.clone(), id), answer))
    }

    /// Returns the open questions of calls in the operator's tenant, the oldest first.
    pub(crate) fn list(&self, by: &Principal) -> Vec<KernelCallback> {
        let open = self.0.lock();
        let visible = open.values().filter(|one| one.principal.tenant() == by.tenant());
        let mut all: Vec<_> = visible.map(|one| one.listed.clone()).collect();
        all.sort_by(|one, other| one.asked_at.as_str().cmp(other.asked_at.as_str()));
        all
    }

    /// Reads an operator's response. Returns the open question and the operator's answer.
    pub(crate) fn read(
        &self,
        by: &Principal,
        id: &str,
        response: &Payload,
    ) -> Result<(KernelCallback, CallbackAnswer), RpcError> {
        let open = self.0.lock();
        let one = open.get(id).filter(|one| one.principal.tenant() == by.tenant());
        let one = one.ok_or_else(|| unknown(id))?;
        let is_plain = one.question.options.is_empty();
        let response = match response.get::<String>().as_deref() {
            Ok("yes" | "confirm" | "true") if is_plain && is_confirmation(one) => {
                Payload::from_trusted("true")
            }
            Ok("no" | "cancel" | "false") if is_plain && is_confirmation(one) => {
                Payload::from_trusted("false")
            }
            _ => response.clone(),
        };
        Ok((one.listed.clone(), CallbackAnswer::read(&one.question, &response)?))
    }

    /// Passes an operator's answer to the waiting call. Only the first answer to each question counts.
    pub(crate) fn answer(&self, id: &str, answer: CallbackAnswer) -> Result<(), RpcError> {
        let one = self.0.lock().remove(id).ok_or_else(|| unknown(id))?;
        one.answer.send(answer).map_err(|_| unknown(id))
    }
}

/// Returns a function that writes an audit event about each question that was not answered in time.
pub(crate) fn record_unanswered(
    audit: &Arc<dyn AuditSink>,
) -> impl Fn(&Context, &CallbackRequestParams) + Send + Sync + 'static {
    let audit = Arc::clone(audit);
    move |cx, question| {
        let event = Event::callback_unanswered(&cx.principal, cx.server.as_ref(), &question.kind);
        let recording = audit.record(event.in_call(cx).build());
        tokio::spawn(async move {
            if let Err(error) = recording.await {
                tracing::warn!(%error, "a question without an answer is not recorded");
            }
        });
    }
}

fn is_confirmation(one: &OpenQuestion) -> bool {
    one.question.kind == CallbackType::Confirmation
}

fn unknown(id: &str) -> RpcError {
    let id = mgp_types::clip(id, 80);
    let message = format!("no question `{id}` is open; `mgp callbacks ls` lists the open ones");
    RpcError::new(ErrorCode::INVALID_PARAMS, message)
}

fn listed(id: &str, cx: &Context, question: &CallbackRequestParams) -> KernelCallback {
    let limit = question.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    let now = SystemTime::now();
    let mut listed = KernelCallback::new(
        id,
        cx.server.as_ref().map_or_else(String::new, ServerId::to_string),
        question.kind.clone(),
        question.message.clone().unwrap_or_default(),
        cx.principal.subject().as_str(),
        now,
        now + limit.min(MAX_TIMEOUT),
    );
    listed.options = question.options.clone();
    listed.agent_id = cx.principal.as_agent().map(AgentId::to_string);
    listed
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Peer, Scope, ScopeKind};

    use super::*;

    fn open(
        questions: &ServerQuestions,
        principal: Principal,
        server: String,
    ) -> Option<OpenGuard> {
        let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), principal);
        cx.server = Some(server.into());
        let question = CallbackRequestParams::new("", CallbackType::Input);
        questions.open(&cx, question).ok().map(|(guard, _)| guard)
    }

    #[test]
    fn open_questions_in_the_calls_of_another_tenant_leave_places_for_others() {
        let questions = ServerQuestions::default();
        let open = |tenant: &str, number: usize| {
            let principal = Principal::new(tenant, format!("user {number}"));
            open(&questions, principal, "a".to_owned())
        };
        let of_acme: Vec<_> = (0..MAX_OPEN).map_while(|number| open("acme", number)).collect();
        assert_eq!(of_acme.len(), MAX_OF_TENANT);
        let of_local: Vec<_> = (0..MAX_OPEN).map_while(|number| open("local", number)).collect();
        assert_eq!(of_acme.len() + of_local.len(), MAX_OPEN);
    }

    #[test]
    fn open_questions_in_the_calls_of_one_agent_leave_places_for_others() {
        let questions = ServerQuestions::default();
        let open =
            |agent: &str, server: String| open(&questions, Principal::local().agent(agent), server);
        let one_server: Vec<_> = (0..100).map_while(|_| open("ada", "a".to_owned())).collect();
        assert_eq!(one_server.len(), MAX_OF_SERVER);
        let others: Vec<_> = (0..100).map_while(|server| open("ada", server.to_string())).collect();
        assert_eq!(one_server.len() + others.len(), MAX_OF_CALLER);
        assert!(open("bob", "a".to_owned()).is_some());
    }
}
