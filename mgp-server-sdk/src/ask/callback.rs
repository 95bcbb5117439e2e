//! Questions to the user: a confirmation, a text, or a choice (MGP §13.4; MCP elicitation).

use std::time::Duration;

use mgp_stream::{CallbackAnswer, ask_callback};
use mgp_types::mcp::LogLevel;
use mgp_types::mgp::{CallbackRequestParams, CallbackType, Extension};
use mgp_types::service::{BoxFuture, Context, OutletItemKind};
use mgp_types::{ErrorCode, RpcError, millis};

use super::Question;
use crate::log::Logger;

/// A question to the caller's user; awaiting this value asks it.
///
/// A caller that negotiated MGP callbacks receives a callback; any other caller receives an elicitation. A caller of
/// MCP 2026-07-28 receives the elicitation in the result of its call, and a caller of an older revision receives it as
/// a request.
///
/// # Errors
/// Code 3003 (timeout) if the question was not answered in time, or was closed without an answer; this never counts as
/// a confirmation. Code 1000 (permission denied) if the caller supports neither callbacks nor elicitation; for callers
/// of 2026-07-28, code −32021 (missing client capability) instead. Code 3001 (resource exhausted) if 64 callbacks to
/// the caller are open, or for a question above 64 KiB. Code −32602 (invalid params) if the answer is not an option.
#[must_use = "the question is asked when it is awaited"]
pub struct UserQuestion<T> {
    question: Question,
    params: CallbackRequestParams,
    read: fn(CallbackAnswer, &CallbackRequestParams) -> Option<T>,
}

mgp_types::opaque_debug!(UserQuestion<T> { params });

impl<T> UserQuestion<T> {
    fn new(
        cx: &Context,
        kind: CallbackType,
        message: String,
        read: fn(CallbackAnswer, &CallbackRequestParams) -> Option<T>,
    ) -> Self {
        let mut params = CallbackRequestParams::new("", kind);
        params.message = Some(message);
        Self { question: Question::new(cx, "callback"), params, read }
    }

    /// Sets the possible answers. For a confirmation, the first answer means yes; the default is `confirm` and
    /// `cancel`.
    pub fn options<O: Into<String>>(mut self, options: impl IntoIterator<Item = O>) -> Self {
        self.params.options = options.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the time limit for the answer: at most 15 minutes, and at most the time that the call has left, which is
    /// 30 s from its start unless [`Tool::timeout`](crate::Tool::timeout) or
    /// [`Server::timeout`](crate::Server::timeout) is set. Default: 60 s.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.params.timeout_ms = Some(millis(limit));
        self
    }

    /// Sets the key of the question, which must be unique within the call. By default, questions are numbered in order
    /// of creation.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }
}

impl<T: Send + 'static> IntoFuture for UserQuestion<T> {
    type Output = Result<T, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { question, params, read } = self;
        Box::pin(async move {
            let key = question.key()?;
            let answer = ask_callback(&question.cx, &key, params.clone()).await?;
            read(answer, &params).ok_or_else(|| {
                let message = "the user closed the question without an answer";
                RpcError::new(ErrorCode::TIMEOUT, message)
            })
        })
    }
}

pub(super) fn confirm(cx: &Context, message: String) -> UserQuestion<bool> {
    let read = |answer, params: &_| match answer {
        CallbackAnswer::Declined => Some(false),
        CallbackAnswer::Given(_) => Some(answer.confirms(params)),
        _ => None,
    };
    let question = UserQuestion::new(cx, CallbackType::Confirmation, message, read);
    question.options(["confirm", "cancel"])
}

pub(super) fn text(cx: &Context, kind: CallbackType, message: String) -> UserQuestion<String> {
    UserQuestion::new(cx, kind, message, |answer, _| match answer {
        // The answer can be any JSON; if it is not a string, its JSON text is returned.
        CallbackAnswer::Given(response) => {
            Some(response.get().unwrap_or_else(|_| response.as_str().to_owned()))
        }
        _ => None,
    })
}

pub(super) fn inform(cx: &Context, message: String) -> BoxFuture<'static, ()> {
    if !cx.caller.has(Extension::Callbacks) || !cx.outlet.wants(OutletItemKind::Callback) {
        return Logger::of(cx).log(LogLevel::Notice, &message);
    }
    let (cx, mut note) = (cx.clone(), CallbackRequestParams::new("", CallbackType::Notification));
    note.message = Some(message);
    Box::pin(async move {
        // The result is ignored, because a caller that has disconnected needs no notification.
        let _ = ask_callback(&cx, "inform", note).await;
    })
}
