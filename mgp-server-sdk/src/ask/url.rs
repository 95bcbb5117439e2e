//! A request to the user to visit a page (MCP elicitation in URL mode).

use mgp_types::mcp::{
    ElicitAction, ElicitMode, ElicitParams, ElicitResult, ElicitationCompleteParams, Era, Revision,
    UrlElicitationRequiredData,
};
use mgp_types::method::{ElicitationComplete, ElicitationCreate, Request};
use mgp_types::service::{BoxFuture, Call, CallerRequest, Context};
use mgp_types::{ErrorCode, Payload, RpcError, random_name};

use super::elicit::unknown;
use super::{ClientCapability, Question, read};

/// The user's answer to a request to visit a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlElicited {
    /// The user agreed to visit the page; it is not known yet whether the visit takes place.
    Agreed,
    /// The user declined to open the URL.
    Declined,
    /// The user dismissed the request to open the URL.
    Cancelled,
}

/// A request that the user visit a page; awaiting this value sends it.
///
/// # Errors
/// Code 1000 (permission denied) if the caller does not support elicitation by URL; for callers of 2026-07-28, code
/// −32021 (missing client capability) instead.
#[derive(Debug)]
#[must_use = "the request is sent when it is awaited"]
pub struct UrlElicitation {
    question: Question,
    message: String,
    url: String,
    id: Option<String>,
    /// `true` if a call in the legacy era fails with code −32042 (URL elicitation required) instead of waiting for the
    /// user's answer; see [`Self::call_again`].
    call_again: bool,
}

impl UrlElicitation {
    pub(super) fn new(cx: &Context, message: String, url: String) -> Self {
        Self {
            question: Question::new(cx, "elicitation"),
            message,
            url,
            id: None,
            call_again: false,
        }
    }

    /// Sets the key of the question, which must be unique within the call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }

    /// Sets the id with which the server later reports that the page was visited. Default: a random id.
    ///
    /// See [`ContextExt::elicitation_complete`](super::ContextExt::elicitation_complete). Callers of
    /// 2026-07-28 do not use ids.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Makes a call of MCP 2025-11-25 fail with code −32042 (URL elicitation required), which contains the URL of the
    /// page. The caller repeats the call after the visit.
    ///
    /// A caller of 2026-07-28 receives the question as usual, because its call does not wait in any case.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::{ContextExt, UrlElicited};
    ///
    /// let repos = Tool::new("repos", "Lists repositories", |cx: Context| async move {
    ///     let is_signed_in = false; // Looked up somewhere.
    ///     if !is_signed_in {
    ///         let page = cx.elicit_url("Sign in first", "https://example.com/in");
    ///         if page.call_again().await? != UrlElicited::Agreed {
    ///             return Ok("not signed in");
    ///         }
    ///     }
    ///     Ok::<_, RpcError>("no repositories yet")
    /// });
    /// # drop(repos);
    /// ```
    pub fn call_again(mut self) -> Self {
        self.call_again = true;
        self
    }
}

impl IntoFuture for UrlElicitation {
    type Output = Result<UrlElicited, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let is_legacy = self.question.cx.caller.era == Era::Legacy;
        let mut params = ElicitParams::new(self.message);
        params.mode = Some(ElicitMode::Url);
        params.url = Some(self.url);
        let id = is_legacy.then(|| self.id.map_or_else(random_name, Ok)).transpose();
        let params = id.map(|id| {
            params.elicitation_id = id;
            params
        });
        if is_legacy && self.call_again {
            let refused =
                params.map_or_else(|error| error, |params| self.question.required_url(params));
            return Box::pin(std::future::ready(Err(refused)));
        }
        let ask = params.and_then(|params| {
            Ok(CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&params)?))
        });
        let answer = self.question.ask(ClientCapability::Url, ask);
        Box::pin(async move {
            let answer: ElicitResult = read(&answer.await?, "result of an elicitation")?;
            match answer.action {
                ElicitAction::Accept => Ok(UrlElicited::Agreed),
                ElicitAction::Decline => Ok(UrlElicited::Declined),
                ElicitAction::Cancel => Ok(UrlElicited::Cancelled),
                other => Err(unknown(&other)),
            }
        })
    }
}

impl Question {
    /// Returns error −32042 (URL elicitation required), which contains the page to visit. If the caller does not
    /// support elicitation by URL, returns an error that reports this instead.
    fn required_url(&self, page: ElicitParams) -> RpcError {
        let cx = &self.cx;
        if let Err(refused) = ClientCapability::Url.check(cx) {
            return refused;
        }
        let error = RpcError::new(ErrorCode::URL_ELICITATION_REQUIRED, page.message.clone());
        match Payload::of(&UrlElicitationRequiredData::new(vec![page])) {
            Ok(data) => error.data(data),
            Err(unwritten) => unwritten,
        }
    }
}

/// Notifies a caller of revision 2025-11-25 that a page was visited; others are not notified.
pub(super) fn complete(cx: &Context, id: String) -> BoxFuture<'static, ()> {
    if cx.caller.revision != Revision::V2025_11_25 {
        return Box::pin(std::future::ready(()));
    }
    // The visit can take longer than the call that requested it, so the notification belongs to the session.
    let mut out = cx.peer.context(&cx.scope);
    out.principal = cx.principal.clone();
    let (peer, params) = (cx.peer.clone(), ElicitationCompleteParams::new(id));
    Box::pin(async move {
        match Call::tell::<ElicitationComplete>(&params, out) {
            // The result is ignored, because a caller that has disconnected needs no notification.
            Ok(call) => drop(peer.send(call).await),
            Err(error) => tracing::debug!(%error, "elicitation/complete not sent"),
        }
    })
}
