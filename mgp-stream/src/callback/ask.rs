//! Asks the caller of a call a question, in the form that the caller negotiated (MGP §13.4; MCP elicitation and
//! sampling).

use std::time::Duration;

use mgp_types::mgp::{CallbackRequestParams, CallbackType, NotificationExtension};
use mgp_types::service::{CallerAccess, Context, OutletItem, OutletItemKind};
use mgp_types::{ErrorCode, Payload, RpcError, millis};
use tokio::time::{Instant, timeout_at};

use super::answer::CallbackAnswer;
use super::bridge;
use super::layer::CallbackChannel;
use super::table::WaitingCallback;
use crate::cancel::CancelSignal;

/// The time limit for the answer to a question that sets no limit itself.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// The longest time limit that a question can set for its answer.
const MAX_TIMEOUT: Duration = Duration::from_mins(15);
/// The time after which a callback without an answer is sent again, because the message may have been lost.
const RESEND_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of times that a callback is sent.
const MAX_ATTEMPTS: u32 = 4;
/// The maximum length of a question with its options, in bytes.
const MAX_QUESTION_BYTES: usize = 64 * 1024;

/// Asks the caller of a running call a question, and waits for the answer. Sets the question's `callback_id` and
/// `request_id`.
///
/// A caller that negotiated callbacks gets a callback; any other caller gets an elicitation. For `llm_completion`, a
/// caller that offers sampling, or did not negotiate callbacks, gets a sampling request. A question of the type
/// `notification` is sent without waiting for an answer. `key` identifies the question within the call, and must be the
/// same each time the handler runs.
///
/// # Errors
/// Returns 3003 (timeout) if there was no answer in time; nothing is confirmed in that case. Returns 3001 (resource
/// exhausted) if too many questions are open or this one is too long. Returns 1000 (permission denied), or −32021
/// (missing client capability) for a modern caller, if the caller cannot be asked. Returns −32602 (invalid params) if
/// its answer is not one of the possible answers.
///
/// # Cancel safety
/// Dropping the future withdraws the question.
pub async fn ask_callback(
    cx: &Context,
    key: &str,
    mut question: CallbackRequestParams,
) -> Result<CallbackAnswer, RpcError> {
    let mut size = question.message.as_ref().map_or(0, String::len);
    size += question.options.iter().map(String::len).sum::<usize>();
    if size > MAX_QUESTION_BYTES {
        let message = format!("a question has at most {MAX_QUESTION_BYTES} bytes");
        return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message).after_start());
    }
    let limit = question.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    let limit = limit.min(MAX_TIMEOUT).min(cx.deadline.remaining().unwrap_or(MAX_TIMEOUT));
    let until = Instant::now() + limit;
    question.timeout_ms = Some(millis(limit));
    let channel = channel(cx, &question.kind);
    if question.kind == CallbackType::Notification {
        notify(cx, channel, question).await;
        return Ok(CallbackAnswer::Dismissed);
    }
    let Some(channel) = channel else {
        let asking = timeout_at(until, bridge::ask(cx, key, &question)).await;
        return asking.map_err(|_| unanswered_in(limit))?;
    };
    let CallerAccess::Channel(rounds) = &cx.caller_access else {
        return ask_back(cx, channel, question, until).await;
    };
    // If this call asks another question, the caller might have to repeat the call, and then the handler runs again
    // from its start. Store this answer, so that its question is not asked again in that case.
    let kept = format!("callback.{key}");
    if let Some(response) = rounds.kept(&kept) {
        return CallbackAnswer::read(&question, &response);
    }
    let answer = ask_back(cx, channel, question.clone(), until).await?;
    rounds.keep(&kept, &answer.clone().into_response(&question));
    Ok(answer)
}

/// Returns whether the caller of a call can be asked a question, by a callback, an elicitation or sampling. Always
/// returns `true` for a question of the type `notification`, which needs no answer.
#[must_use]
pub fn can_ask_callback(cx: &Context, question: &CallbackRequestParams) -> bool {
    channel(cx, &question.kind).is_some()
        || question.kind == CallbackType::Notification
        || (!matches!(cx.caller_access, CallerAccess::Unavailable)
            && bridge::is_offered(cx, question))
}

/// Returns the channel for callbacks to the caller; `None` if the caller did not negotiate callbacks. Also returns
/// `None` for `llm_completion` if the caller offers MCP sampling, which is then used instead.
fn channel<'a>(cx: &'a Context, kind: &CallbackType) -> Option<&'a CallbackChannel> {
    let is_sampled = *kind == CallbackType::LlmCompletion && cx.caller.accepts.sampling;
    let wanted = !is_sampled && cx.outlet.wants(OutletItemKind::Callback);
    cx.extensions.get::<CallbackChannel>().filter(|_| wanted)
}

/// Returns the error for a question that was not answered before its time limit passed.
fn unanswered_in(limit: Duration) -> RpcError {
    let message = format!(
        "the question was not answered within {} s, so nothing was confirmed; call again to be asked again",
        limit.as_secs_f32().ceil()
    );
    RpcError::new(ErrorCode::TIMEOUT, message)
}

/// Asks the question as a callback, and waits for the answer until the time `until`.
async fn ask_back(
    cx: &Context,
    channel: &CallbackChannel,
    mut question: CallbackRequestParams,
    until: Instant,
) -> Result<CallbackAnswer, RpcError> {
    let limit = until - Instant::now();
    let call = cx.extensions.get_shared::<CancelSignal>();
    let mut waiting = channel.table.open(channel.owner.clone(), call, &mut question)?;
    question.request_id = Some(channel.request.clone());
    match timeout_at(until, send_until_answered(cx, question, &mut waiting)).await {
        Ok(answer) => answer,
        Err(_) => waiting.withdraw().ok_or_else(|| unanswered_in(limit)),
    }
}

/// Sends the callback and waits for the answer. Until the answer arrives, sends the callback again from time to time,
/// up to [`MAX_ATTEMPTS`] times in total, because a message may have been lost.
async fn send_until_answered(
    cx: &Context,
    mut question: CallbackRequestParams,
    waiting: &mut WaitingCallback,
) -> Result<CallbackAnswer, RpcError> {
    let unanswered = || {
        let message = "the caller disconnected without an answer, so nothing was confirmed";
        RpcError::new(ErrorCode::TIMEOUT, message)
    };
    for attempt in 1..=MAX_ATTEMPTS {
        if attempt > 1 {
            let mut mgp = NotificationExtension::new();
            mgp.attempt = Some(attempt);
            question.mgp = Some(mgp);
        }
        let item = OutletItem::Callback(Payload::of(&question)?);
        cx.outlet.send(item).await.map_err(|_| unanswered())?;
        if let Ok(answer) = timeout_at(Instant::now() + RESEND_INTERVAL, &mut waiting.answer).await
        {
            return answer.map_err(|_| unanswered());
        }
    }
    (&mut waiting.answer).await.map_err(|_| unanswered())
}

/// Sends a note, i.e. a question of the type `notification`, to the user: as a callback or, without a channel for
/// callbacks, as a log message. If the caller accepts neither, nothing is sent.
async fn notify(cx: &Context, channel: Option<&CallbackChannel>, mut note: CallbackRequestParams) {
    let item = if let Some(channel) = channel {
        let Ok(id) = mgp_types::random_name() else { return };
        note.callback_id = id;
        note.request_id = Some(channel.request.clone());
        note.timeout_ms = None;
        Payload::of(&note).map(OutletItem::Callback)
    } else {
        bridge::log_message(&note).map(OutletItem::Log)
    };
    if let Ok(item) = item {
        // Ignore the error: a caller that has disconnected needs no notification.
        let _ = cx.outlet.send(item).await;
    }
}
