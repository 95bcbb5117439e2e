//! Calls that a modern server answers with questions: the client's handlers answer, and the client repeats the
//! call (MCP 2026-07-28, multi round-trip requests).

use futures_util::future::try_join_all;
use mgp_types::mcp::{ElicitAction, ElicitMode, ElicitParams, ElicitResult, Era};
use mgp_types::method::{ElicitationCreate, PermissionRequest, Request as _};
use mgp_types::service::{
    Call, CallKey, CallerAccess, CallerRequest, Context, Method, Params, Principal, Reply,
    result_type,
};
use mgp_types::{ErrorCode, Object, Payload, RpcError, clip, random_name};
use serde::de::IgnoredAny;

use super::Client;
use crate::wire::{answer_form, not_offered, offers, question_for_caller};

impl Client {
    /// Sends a call, and repeats it with the answers for each round of the server's questions.
    pub(crate) async fn request_in_rounds(&self, mut call: Call) -> Result<Reply, RpcError> {
        if self.0.facts.era == Era::Legacy {
            return self.0.stack.send(call).await;
        }
        // Create the trace here, because inner layers would create a separate trace for each round.
        call.cx_mut().trace_or_new();
        let logical = call.cx().key.to_string();
        let mut next = call.clone();
        for round in 0.. {
            let needed = match self.0.stack.send(next).await? {
                Reply::InputRequired(needed) => needed,
                reply => return ensure_known_kind(reply),
            };
            // This was the last allowed round. Answers to further questions would not be sent, so do not ask the
            // handlers.
            if round >= self.0.max_rounds {
                break;
            }
            let answers = self.answers(call.cx(), needed.asks).await?;
            next = call.clone();
            next.cx_mut().key = CallKey::next();
            next.cx_mut().logical = Some(logical.clone().into());
            let hop = next.hop_mut();
            hop.input_responses = Some(Payload::of(&answers)?);
            hop.request_state = needed.state.map(|state| Payload::of(&state)).transpose()?;
        }
        Err(self.too_many_rounds())
    }

    /// Returns the maximum number of rounds of questions during one call.
    pub(crate) fn max_rounds(&self) -> u32 {
        self.0.max_rounds
    }

    pub(crate) fn too_many_rounds(&self) -> RpcError {
        let message = format!(
            "the server asked questions in more than {} rounds (`max_rounds`)",
            self.0.max_rounds
        );
        RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message)
    }

    /// Obtains the answers to all questions of a round, and returns each under the key of its question.
    pub(super) async fn answers(
        &self,
        cx: &Context,
        asks: Vec<(String, CallerRequest)>,
    ) -> Result<Object, RpcError> {
        let answering = asks.into_iter().map(|(key, ask)| async move {
            let answer = if let CallerAccess::Unavailable = cx.caller_access {
                self.answer(cx.clone(), &ask).await
            } else {
                // This future is boxed so that calls that are not forwarded, i.e. most calls, keep small futures.
                Box::pin(self.answer_for_caller(cx, &format!("task.{key}"), &ask)).await
            };
            answer.map(|answer| (key, answer))
        });
        Ok(try_join_all(answering).await?.into_iter().collect())
    }

    /// Obtains the answer to a question that the server asks during a forwarded call. The answer comes from the party
    /// that fills in forms for callers, from this client's permission handler, or else from the original caller, whom
    /// this function asks under `key`.
    pub(crate) async fn answer_for_caller(
        &self,
        cx: &Context,
        key: &str,
        ask: &CallerRequest,
    ) -> Result<Payload, RpcError> {
        let method = ask.method();
        if let Some(answer) = answer_form(self.callbacks(), cx, method, ask.params()).await {
            return answer;
        }
        if method == PermissionRequest::METHOD {
            // Let the client's own permission authority answer questions about permissions; they are never passed on to
            // the caller.
            return self.answer_for(&cx.principal, ask).await;
        }
        offers(&cx.caller, cx.server.as_ref(), ask).map_err(|fault| question_refused(&fault))?;
        let mut params = question_for_caller(cx.server.as_ref(), method, ask.params());
        if cx.caller.era == Era::Legacy && method == ElicitationCreate::METHOD {
            params = add_page_id(params)?;
        }
        cx.ask_again(key, CallerRequest::new(method.to_owned(), params)).await
    }

    /// Asks a modern caller to let the user visit a page, in a round of the call. The ids of pages are left out,
    /// because the modern era has no such ids.
    ///
    /// # Errors
    /// Returns code 5000 (upstream error) with the address of the page if the caller cannot be asked, or the user does
    /// not agree to the visit.
    pub(crate) async fn ask_for_visit(
        &self,
        cx: &Context,
        (round, at): (u32, usize),
        page: ElicitParams,
    ) -> Result<(), RpcError> {
        let address = page.url.clone().unwrap_or_default();
        let mut asked = ElicitParams::new(page.message);
        (asked.mode, asked.url) = (Some(ElicitMode::Url), page.url);
        let ask = CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&asked)?);
        let is_offered = cx.caller.accepts.elicitation;
        let refused = if is_offered && offers(&cx.caller, cx.server.as_ref(), &ask).is_ok() {
            let answer = self.answer_for_caller(cx, &format!("visit.{round}.{at}"), &ask).await?;
            if answer.get::<ElicitResult>()?.action == ElicitAction::Accept {
                return Ok(());
            }
            "the user did not agree to it"
        } else {
            "this client cannot ask the user to open it"
        };
        let message = format!(
            "the server requires that the user first visits the page `{address}`, but {refused}; \
             visit the page in a browser, then make the call again"
        );
        Err(RpcError::new(ErrorCode::UPSTREAM_ERROR, message))
    }

    /// Lets a handler answer one question on behalf of the principal whose call is forwarded.
    async fn answer_for(
        &self,
        principal: &Principal,
        ask: &CallerRequest,
    ) -> Result<Payload, RpcError> {
        let mut cx = self.context();
        cx.principal = principal.clone();
        self.answer(cx, ask).await
    }

    /// Lets a handler answer one question.
    async fn answer(&self, mut cx: Context, ask: &CallerRequest) -> Result<Payload, RpcError> {
        let method = ask.method();
        if !self.0.answers.methods().any(|known| known == method) {
            return Err(not_offered(method));
        }
        cx.key = CallKey::next();
        let params = Params::split(method, ask.params().as_shared().clone())?;
        let question = Call::request(Method::of(method), params, cx);
        let reply = self.0.guarded_answers.send(question).await?;
        let body =
            reply.as_body().ok_or_else(|| RpcError::internal("the handler did not answer"))?;
        let text = String::from_utf8(body.to_json());
        let text =
            text.map_err(|error| RpcError::internal("the answer is not UTF-8").because(error))?;
        Ok(Payload::from_trusted(text))
    }
}

/// Adds an id to a question that asks the user to visit a page, if it has none: MCP 2025-11-25 requires the id, and
/// later revisions do not have it.
fn add_page_id(params: Payload) -> Result<Payload, RpcError> {
    let mut question: Object = params.get()?;
    let is_page = question.decode::<ElicitMode>("mode")? == Some(ElicitMode::Url);
    if !is_page || question.decode::<IgnoredAny>("elicitationId")?.is_some() {
        return Ok(params);
    }
    question.encode("elicitationId", &random_name()?)?;
    Payload::of(&question)
}

/// Returns the error for the caller of a server that asked an invalid question. `fault` is the error of the question;
/// the caller's own request is valid.
fn question_refused(fault: &RpcError) -> RpcError {
    let message = format!("the server asked a question that is refused: {}", fault.message());
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message)
}

/// Refuses a result of an unknown kind, as revision 2026-07-28 requires. If the kind is missing, the result
/// counts as complete.
pub(super) fn ensure_known_kind(reply: Reply) -> Result<Reply, RpcError> {
    if let Reply::Complete(body) = &reply
        && let Some(kind) = result_type(body.as_raw())
        && kind != "complete"
    {
        let kind = clip(&kind, 120);
        return Err(RpcError::internal(format!("a result of the unknown kind `{kind}`")));
    }
    Ok(reply)
}
