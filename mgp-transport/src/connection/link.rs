//! The sending side of a connection: sends calls to the peer, each with a new JSON-RPC id, and waits for the answers.

use std::sync::Arc;

use mgp_types::method::{Cancelled, Initialize, Notification};
use mgp_types::service::{
    BoxFuture, Call, Context, HopMembers, InFlight, Kind, Link, Params, Reply, connection_closed,
    write_call,
};
use mgp_types::{ErrorCode, Id, Payload, RpcError, clip};

use super::Limits;
use super::outbox::Outbox;
use super::pending::PendingRequests;

/// The state that a connection and its peer handles share.
#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) outbox: Outbox,
    pub(crate) pending: PendingRequests,
}

impl SendHalf {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            outbox: Outbox::new(limits.unread_bytes),
            pending: PendingRequests::new(limits.held_bytes),
        }
    }

    async fn notify(&self, call: &Call) -> Result<Reply, RpcError> {
        self.outbox.room().await.map_err(|_| closed_by_peer())?;
        self.outbox
            .push(|out| write_call(out, None, call.method().as_str(), call.params(), call.hop()))
            .map_err(|_| closed_by_peer())?;
        Ok(Reply::None)
    }

    async fn request(self: Arc<Self>, mut call: Call) -> Result<Reply, RpcError> {
        self.outbox.room().await.map_err(|_| closed_by_peer())?;
        let number = self.pending.assign_number(&mut call).ok_or_else(closed_by_peer)?;
        let waiting = PendingGuard { send_half: &self, number, cancels: !call.is::<Initialize>() };
        let outlet = call.cx().outlet.clone();
        let mut slot = None;
        self.outbox
            .push(|out| {
                let id = Id::Number(number);
                write_call(out, Some(&id), call.method().as_str(), call.params(), call.hop());
                // The call is inserted before the request is sent, so that the answer can be matched to it.
                slot = self.pending.insert(number, call);
            })
            .map_err(|_| closed_by_peer())?;
        let slot = slot.ok_or_else(closed_by_peer)?;
        let outcome = slot.outcome(&outlet).await;
        drop(waiting);
        outcome
    }
}

fn closed_by_peer() -> RpcError {
    connection_closed("the peer is gone")
}

/// A guard for a request that waits for its answer. Dropping the guard removes the request and, if it is still
/// unanswered and not `initialize`, sends a cancellation to the peer.
struct PendingGuard<'a> {
    send_half: &'a SendHalf,
    number: i64,
    cancels: bool,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        let unanswered = self.send_half.pending.remove(self.number);
        if unanswered && self.cancels {
            // Ignore the error: if the connection is closed, no cancellation is needed.
            let _ = self.send_half.outbox.push(|out| write_cancelled(out, self.number));
        }
    }
}

/// Writes the cancellation of a request that this side sent.
pub(crate) fn write_cancelled(out: &mut Vec<u8>, number: i64) {
    let text = format!(r#"{{"requestId":{number},"reason":"the caller stopped waiting"}}"#);
    let params = Params::split(Cancelled::METHOD, text.into()).unwrap_or_default();
    write_call(out, None, Cancelled::METHOD, &params, &HopMembers::default());
}

/// The [`Link`] of a connection over a byte stream.
#[derive(Debug)]
pub(crate) struct ConnectionLink(pub(crate) Arc<SendHalf>);

impl Link for ConnectionLink {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let send_half = Arc::clone(&self.0);
        match call.kind() {
            Kind::Request => Box::pin(send_half.request(call)),
            Kind::Notification => Box::pin(async move { send_half.notify(&call).await }),
        }
    }

    fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.0.pending.get(id)
    }

    fn all_in_flight(&self) -> Vec<InFlight> {
        self.0.pending.all()
    }

    fn is_closed(&self) -> bool {
        self.0.outbox.is_closed()
    }

    fn close(&self, reason: &str) {
        tracing::debug!(reason, "closing the connection");
        self.0.outbox.close();
    }
}

/// The length, in bytes, to which an error message cuts the kind of a result.
const MAX_KIND_BYTES: usize = 64;

/// Determines the kind of a result: complete, input required, or a task.
///
/// # Errors
/// Returns error 5000 if the result is of another kind, or if its questions cannot be read. Without this check, a
/// modern caller would receive questions of the callee that no layer has checked. A legacy callee may return complete
/// results only; nothing is checked if its caller is legacy too.
pub(crate) fn read_reply(cx: &Context, result: Payload) -> Result<Reply, RpcError> {
    use mgp_types::mcp::Era;
    use mgp_types::service::{Body, InputRequired, is_clearly_complete, result_type};
    let is_legacy = cx.callee.era == Era::Legacy;
    if is_legacy && cx.caller.era == Era::Legacy || is_clearly_complete(result.as_str()) {
        return Ok(Reply::raw(result));
    }
    match result_type(&result).as_deref() {
        None | Some("complete") => Ok(Reply::raw(result)),
        Some("input_required") if !is_legacy => {
            let goes_on =
                |needed: &InputRequired| needed.state.is_some() || !needed.asks.is_empty();
            let needed = InputRequired::read(&result).filter(goes_on).map(Reply::InputRequired);
            let malformed = "the server's questions cannot be read: check its `inputRequests` and `requestState`";
            needed.ok_or_else(|| RpcError::new(ErrorCode::UPSTREAM_ERROR, malformed))
        }
        Some("task") if !is_legacy => Ok(Reply::Task(Body::new(result))),
        Some(kind) => Err(RpcError::new(
            ErrorCode::UPSTREAM_ERROR,
            format!("a result of the unknown kind `{}`", clip(kind, MAX_KIND_BYTES)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp::Revision;
    use mgp_types::service::{Peer, PeerInfo, Principal, Scope, ScopeKind};

    use super::*;

    fn kind_between(caller: Revision, callee: Revision, text: &'static str) -> &'static str {
        let scope = Scope::new(ScopeKind::Connection);
        let mut cx = Context::new(Peer::none(), scope, Principal::local());
        cx.caller = Arc::new(PeerInfo::new(caller));
        cx.callee = Arc::new(PeerInfo::new(callee));
        match read_reply(&cx, Payload::from_trusted(text)) {
            Ok(Reply::InputRequired(_)) => "questions",
            Ok(Reply::Task(_)) => "task",
            Ok(_) => "result",
            Err(_) => "error",
        }
    }

    #[test]
    fn the_kind_of_an_answer_is_its_own_member_in_any_spelling() {
        let kind = |text| kind_between(Revision::V2025_11_25, Revision::MODERN, text);
        assert_eq!(kind(r#"{"resultType":"complete","content":[]}"#), "result");
        assert_eq!(kind(r#"{"resultType":"task","taskId":"1"}"#), "task");
        assert_eq!(kind(r#"{"result\u0054ype":"t\u0061sk"}"#), "task");
        let asks = r#"{"resultType":"input_required","requestState":"s"}"#;
        assert_eq!(kind(asks), "questions");
        assert_eq!(kind(r#"{"resultType":"input_required","content":[]}"#), "error");
        let told = r#"{"resultType":"complete","structuredContent":{"resultType":"task"}}"#;
        assert_eq!(kind(told), "result");
    }

    #[test]
    fn a_result_that_parsers_could_take_for_another_kind_is_an_error() {
        for (text, expected) in [
            (r#"{"content":[],"resultType":"input_required","requestState":"s"}"#, "error"),
            (r#"{"result\u0054ype":"input_required"}"#, "error"),
            (r#"{"\ud800":1,"resultType":"input_required"}"#, "error"),
            (r#"{"resultType":"complete","content":[],"resultType":"input_required"}"#, "error"),
            (r#"{"resultType":"task","taskId":"1"}"#, "error"),
            (r#"{"resultType":"complete","content":[]}"#, "result"),
            (r#"{"content":[],"structuredContent":{"resultType":"input_required"}}"#, "result"),
            (r#"{"content":[{"type":"text","text":"caf\u00e9"}]}"#, "result"),
            ("[]", "result"),
        ] {
            let kind = |caller| kind_between(caller, Revision::V2025_11_25, text);
            assert_eq!(kind(Revision::MODERN), expected, "{text}");
            assert_eq!(
                kind(Revision::V2025_11_25),
                "result",
                "a legacy caller knows no kinds: {text}"
            );
        }
        for text in [
            r#"{"resultType":"complete","content":[],"resultType":"input_required"}"#,
            r#"{"content":[],"resultType":"task","resultType":"input_required"}"#,
            r#"{"resultType":"later"}"#,
            r#"{"resultType":5}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"params":{}}}}"#,
            r#"{"resultType":"input_required","requestState":5}"#,
        ] {
            let kind = kind_between(Revision::MODERN, Revision::MODERN, text);
            assert_eq!(kind, "error", "{text}");
        }
    }
}
