//! Answers the callbacks of a server, or passes each to the caller whose call it belongs to (MGP §13.4).
//!
//! A server sends the notification of a question again until it is answered. While the first notification waits for an
//! answer, repetitions are ignored; after the answer, the same response is sent again. A notification is a repetition
//! only if its call and its content are the same, because a server may use one id for the questions of several calls.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_stream::{CallbackAnswer, ask_callback, can_ask_callback};
use mgp_transport::spawn_scoped;
use mgp_types::mgp::{CallbackRequestParams, CallbackRespondParams, CallbackType};
use mgp_types::service::{BoxFuture, Call, Context, Peer, Stack, keep_alive};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Id, Payload, RpcError, Sha256Hash, canonical_hash, to_hex};
use tokio::time::{sleep, timeout};

use super::OpenQuestion;
use super::inbound::attribute;
use super::offers::shown_text;

/// The maximum number of questions of one server that wait for answers at the same time, and separately of responses
/// that are sent again. Further questions are ignored until the server sends them again.
const MAX_WAITING: usize = 64;
/// The maximum number of stored responses to repeated notifications; the oldest is dropped first.
const MAX_ANSWERED: usize = 256;
/// The time limit for the answer to a question that sets no limit.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// The maximum time that a callback can give the client to answer.
const MAX_TIMEOUT: Duration = Duration::from_mins(15);
/// The time that is added to the limit of a question, so that `pass_on` reaches its own limit first.
const GRACE: Duration = Duration::from_millis(500);
/// The maximum length in bytes of the id of a question, and of the id of its call. A question with a longer id is
/// ignored.
const MAX_ID_BYTES: usize = 256;
/// The maximum length in bytes of a question with all its members; a longer question is dismissed.
pub(super) const MAX_QUESTION_BYTES: usize = 256 * 1024;
/// The interval between checks whether the call of a question still runs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The future that yields the answer to a question.
type Answering = BoxFuture<'static, Result<CallbackAnswer, RpcError>>;

/// The party that answers the callbacks of a server.
#[derive(Clone)]
pub(crate) enum CallbackHandler {
    /// A function of the SDK's user.
    Own(Arc<dyn Fn(CallbackRequestParams) -> Answering + Send + Sync>),
    /// The caller whose call was running when the server asked.
    Caller(Arc<CallerAnswers>),
}

type Answer = dyn Fn(Context, CallbackRequestParams) -> Answering + Send + Sync;
type Report = dyn Fn(&Context, &CallbackRequestParams) + Send + Sync;

/// The functions to call when a question cannot be passed to a caller, or is not answered in time.
pub(crate) struct CallerAnswers {
    /// The function that answers for callers that cannot be asked.
    pub(crate) otherwise: Box<Answer>,
    /// The function that receives the questions that were not answered in time.
    pub(crate) unanswered: Box<Report>,
}

mgp_types::opaque_debug!(CallbackHandler);

/// The callbacks that one connection has received; stored in the connection's scope.
#[derive(Default)]
pub(crate) struct ReceivedCallbacks {
    /// The stack for sending responses; set once the connection is established.
    stack: OnceLock<Stack>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    waiting: HashSet<QuestionKey>,
    answered: VecDeque<Answered>,
    /// The number of responses that are sent again at this moment.
    repeated: usize,
}

/// The identity of a question: the call that it names, and the hash of its id and content.
#[derive(Clone, PartialEq, Eq, Hash)]
struct QuestionKey {
    request: Option<Id>,
    content: Sha256Hash,
}

impl QuestionKey {
    /// Returns the identity of a question.
    ///
    /// # Errors
    /// Code −32602 (invalid params) if an id is too long. A limit is needed, because the server chooses both ids, and
    /// the identities of many questions are stored.
    fn of(question: &CallbackRequestParams) -> Result<Self, RpcError> {
        let is_long = |id: &Id| matches!(id, Id::String(text) if text.len() > MAX_ID_BYTES);
        if question.callback_id.len() > MAX_ID_BYTES
            || question.request_id.as_ref().is_some_and(is_long)
        {
            let message = format!("the ids of a callback have at most {MAX_ID_BYTES} bytes");
            return Err(RpcError::invalid_params(message));
        }
        let content = content_hash(question)?;
        Ok(Self { request: question.request_id.clone(), content })
    }
}

/// Returns the hash of the members of a question that are the same in each repetition and in each run of its call.
///
/// Members that begin with `_` are left out, because they describe the message and not the question, e.g.
/// `_mgp.attempt` of older drafts.
fn content_hash(question: &CallbackRequestParams) -> Result<Sha256Hash, RpcError> {
    let mut content = question.clone();
    (content.request_id, content.timeout_ms, content.mgp) = (None, None, None);
    let members = question.extra.iter().filter(|(name, _)| !name.starts_with('_'));
    content.extra = members.map(|(name, value)| (name, value.clone())).collect();
    canonical_hash(Payload::of(&content)?.as_str())
}

/// A question that was answered or a notification that was shown. It is stored so that the client recognizes a
/// repetition.
struct Answered {
    key: QuestionKey,
    /// The calls that the question could belong to when it arrived.
    calls: Vec<Id>,
    /// The response; `None` for a notification, which gets no response.
    response: Option<Payload>,
}

/// The state of a callback when its notification arrives.
enum Received {
    New,
    Answered(Payload),
    Ignored,
}

impl ReceivedCallbacks {
    pub(crate) fn send_on(&self, stack: &Stack) {
        // A connection is established once, so the stack was not set before.
        let _ = self.stack.set(stack.clone());
    }

    /// Returns the state of a question. A question that does not name its call counts as repeated only if the same
    /// calls are in flight as when it was answered.
    fn receive(&self, key: &QuestionKey, calls: &[Id]) -> Received {
        let mut table = self.table.lock();
        let mut answered = table.answered.iter();
        if let Some(answered) = answered.find(|one| one.key == *key && one.calls == calls) {
            let Some(response) = answered.response.clone() else { return Received::Ignored };
            if table.repeated >= MAX_WAITING {
                return Received::Ignored;
            }
            table.repeated += 1;
            return Received::Answered(response);
        }
        if table.waiting.len() >= MAX_WAITING || !table.waiting.insert(key.clone()) {
            return Received::Ignored;
        }
        Received::New
    }

    fn answered(&self, key: QuestionKey, calls: Vec<Id>, response: Option<Payload>) {
        let mut table = self.table.lock();
        if table.answered.len() >= MAX_ANSWERED {
            table.answered.pop_front();
        }
        table.answered.push_back(Answered { key, calls, response });
    }

    /// Sends a response. A lost response is sent again when the server repeats its question.
    async fn respond(&self, call: &Call, id: &str, response: Payload) {
        let Some(stack) = self.stack.get() else { return };
        let cx = call.cx().peer.context(&call.cx().scope);
        let params = CallbackRespondParams::new(id, response);
        let sent = match Call::ask::<mgp_types::method::CallbackRespond>(&params, cx) {
            Ok(call) => stack.send(call).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, callback = id, "response to a callback was not accepted");
        }
    }
}

/// A guard that removes a question from the waiting questions when it is dropped.
struct WaitingGuard {
    received: Arc<ReceivedCallbacks>,
    key: QuestionKey,
    calls: Vec<Id>,
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.received.table.lock().waiting.remove(&self.key);
    }
}

/// A guard that ends the count of a response that is sent again.
struct RepeatGuard(Arc<ReceivedCallbacks>);

impl Drop for RepeatGuard {
    fn drop(&mut self) {
        self.0.table.lock().repeated -= 1;
    }
}

/// Handles a callback notification in a separate task, so that no other message waits for the answer.
pub(super) fn receive(handler: &CallbackHandler, call: Call) {
    let question: CallbackRequestParams = match call.params().get() {
        Ok(question) => question,
        Err(error) => return tracing::debug!(%error, "invalid callback"),
    };
    let (id, scope) = (question.callback_id.clone(), call.cx().scope.clone());
    let key = match QuestionKey::of(&question) {
        Ok(key) => key,
        Err(error) => return tracing::debug!(%error, "invalid callback"),
    };
    let received = call.cx().scope.state::<ReceivedCallbacks>();
    let calls = possible_calls(&call.cx().peer, &question);
    match received.receive(&key, &calls) {
        Received::Ignored => {}
        Received::Answered(response) => {
            let guard = RepeatGuard(received);
            drop(spawn_scoped(&scope, async move { guard.0.respond(&call, &id, response).await }));
        }
        Received::New => {
            let waiting = WaitingGuard { received, key, calls };
            // Look up the question's call now, while it certainly runs: the server's next message may answer that call.
            let answering = answer(handler, &call, question.clone());
            drop(spawn_scoped(&scope, handle(answering, call, question, waiting)));
        }
    }
}

async fn handle(
    answering: Answering,
    call: Call,
    question: CallbackRequestParams,
    waiting: WaitingGuard,
) {
    let peer = call.cx().peer.clone();
    // `pass_on` has the same time limit, and reports questions that were not answered in time, so it must end first.
    let answering = timeout(limit(&question) + GRACE, answering);
    let (key, calls) = (waiting.key.clone(), waiting.calls.clone());
    if question.kind == CallbackType::Notification {
        // Show a notification even if its call has ended; no answer to it is sent.
        drop(answering.await);
        return waiting.received.answered(key, calls, None);
    }
    let answer = tokio::select! {
        answer = answering => answer,
        () = ended(&peer, question.request_id.as_ref()) => return,
    };
    // Without an answer, the question is dismissed, so that the server does not wait; a dismissal confirms nothing.
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::debug!(%error, callback = question.callback_id, "callback was not answered");
            CallbackAnswer::Dismissed
        }
        Err(_) => CallbackAnswer::Dismissed,
    };
    let response = answer.into_response(&question);
    waiting.received.answered(key, calls, Some(response.clone()));
    waiting.received.respond(&call, &question.callback_id, response).await;
}

/// Returns the ids of the calls to which a question may belong.
fn possible_calls(peer: &Peer, question: &CallbackRequestParams) -> Vec<Id> {
    match &question.request_id {
        Some(request) => vec![request.clone()],
        None => peer.all_in_flight().into_iter().map(|call| call.id).collect(),
    }
}

/// Waits until the call of a question has ended.
async fn ended(peer: &Peer, request: Option<&Id>) {
    let Some(request) = request else { return std::future::pending().await };
    while peer.in_flight(request).is_some() {
        sleep(CHECK_INTERVAL).await;
    }
}

/// Returns a future that answers a question. This function itself, and not the future, determines the caller who will
/// be asked.
fn answer(handler: &CallbackHandler, call: &Call, question: CallbackRequestParams) -> Answering {
    if Payload::of(&question).map_or(0, |text| text.as_str().len()) > MAX_QUESTION_BYTES {
        let message = format!("a question has at most {MAX_QUESTION_BYTES} bytes");
        return Box::pin(std::future::ready(Err(RpcError::invalid_params(message))));
    }
    let answers = match handler {
        CallbackHandler::Own(handler) => {
            let open = open_questions(&call.cx().peer, &question);
            let answering = handler(question);
            return Box::pin(async move {
                let _open = open;
                answering.await
            });
        }
        CallbackHandler::Caller(answers) => Arc::clone(answers),
    };
    let origin = match &question.request_id {
        Some(request) => call
            .cx()
            .peer
            .in_flight(request)
            .map(|call| call.cx)
            .ok_or_else(|| RpcError::invalid_params("the callback names no call that runs")),
        None => attribute(call, None),
    };
    Box::pin(async move { pass_on(origin?, question, &answers).await })
}

/// Pauses the time-outs of the calls to which a question may belong. A notification needs no answer, and pauses none.
fn open_questions(peer: &Peer, question: &CallbackRequestParams) -> Vec<OpenQuestion> {
    if question.kind == CallbackType::Notification {
        return Vec::new();
    }
    match &question.request_id {
        Some(request) => {
            let call = peer.in_flight(request);
            call.and_then(|call| OpenQuestion::of(&call.cx)).into_iter().collect()
        }
        None => OpenQuestion::of_all(peer),
    }
}

/// Forwards a question to the caller of a call, or to the party that answers for this caller.
async fn pass_on(
    origin: Context,
    mut question: CallbackRequestParams,
    answers: &CallerAnswers,
) -> Result<CallbackAnswer, RpcError> {
    let _open = OpenQuestion::of(&origin);
    let waiting = "waiting for the answer to a question of the server";
    if !can_ask_callback(&origin, &question) {
        let answering =
            timeout(limit(&question), (answers.otherwise)(origin.clone(), question.clone()));
        let answer = keep_alive(&origin.outlet, waiting, answering).await;
        return answer.unwrap_or_else(|_| {
            (answers.unanswered)(&origin, &question);
            Ok(CallbackAnswer::Dismissed)
        });
    }
    // A server may use one id for several questions, so the key depends on the content.
    let key = format!("callback-{}", to_hex(&content_hash(&question)?.as_bytes()[..16]));
    if let Some(server) = &origin.server {
        // A person must be able to see which server asks the question.
        let text = shown_text(question.message.take().unwrap_or_default());
        let is_notice = question.kind == CallbackType::Notification;
        let verb = if is_notice { "reports" } else { "asks" };
        question.message = Some(format!("The server `{server}` {verb}:\n{text}"));
    }
    question.mgp = None;
    let asking = ask_callback(&origin, &key, question.clone());
    let answer = keep_alive(&origin.outlet, waiting, asking).await;
    if answer.as_ref().is_err_and(|error| error.code() == ErrorCode::TIMEOUT) {
        (answers.unanswered)(&origin, &question);
    }
    answer
}

fn limit(question: &CallbackRequestParams) -> Duration {
    question.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis).min(MAX_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_repetition_with_another_number_is_the_same_question() {
        let hash = |members: &str| {
            let text = format!(
                r#"{{"callback_id":"c","type":"confirmation","message":"Delete?","options":[]{members}}}"#
            );
            let question = Payload::parse(text).unwrap().get::<CallbackRequestParams>().unwrap();
            content_hash(&question).unwrap()
        };
        assert_eq!(hash(""), hash(r#","_mgp.attempt":2,"timeout_ms":5,"_mgp":{"attempt":2}"#));
        assert_ne!(hash(""), hash(r#","messages":[]"#));
    }

    /// Regression test: a server that repeated an answered question without end, and answered no response, made the
    /// client start a task for each repetition.
    #[test]
    fn the_responses_to_repeated_questions_are_limited() {
        let received = Arc::new(ReceivedCallbacks::default());
        let question = CallbackRequestParams::new("c", CallbackType::Confirmation);
        let key = QuestionKey::of(&question).unwrap();
        received.answered(key.clone(), Vec::new(), Some(Payload::empty_object()));
        let is_sent = || matches!(received.receive(&key, &[]), Received::Answered(_));
        assert_eq!((0..2 * MAX_WAITING).filter(|_| is_sent()).count(), MAX_WAITING);
        drop(RepeatGuard(Arc::clone(&received)));
        assert!(is_sent());
    }

    /// Regression test: each member that begins with `_` was removed separately, so many took quadratic time.
    #[test]
    fn a_question_with_many_members_is_hashed_in_linear_time() {
        let mut question = CallbackRequestParams::new("c", CallbackType::Confirmation);
        let hash = content_hash(&question).unwrap();
        let value = Payload::empty_object();
        question.extra = (0..300_000).map(|number| (format!("_{number}"), value.clone())).collect();
        let begun = Instant::now();
        assert_eq!(content_hash(&question).unwrap(), hash);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_question_with_an_excessive_id_is_not_stored() {
        let (fits, long) = ("i".repeat(MAX_ID_BYTES), "i".repeat(MAX_ID_BYTES + 1));
        for (id, call, is_stored) in
            [(&fits, &fits, true), (&long, &fits, false), (&fits, &long, false)]
        {
            let mut question = CallbackRequestParams::new(id.clone(), CallbackType::Confirmation);
            question.request_id = Some(Id::from(call.as_str()));
            assert_eq!(QuestionKey::of(&question).is_ok(), is_stored);
        }
    }
}
