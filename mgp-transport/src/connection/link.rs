//! The sending side of a connection: sends calls to the peer, each with a new JSON-RPC id, and waits for the answers.

use std::sync::Arc;

use mgp_types::method::{Cancelled, Initialize, Notification};
use mgp_types::service::{
    BoxFuture, Call, Context, HopMembers, InFlight, Kind, Link, Params, Reply, connection_closed,
    write_call,
};
use mgp_types::{Id, Payload, RpcError};

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
/// unanswered, sends a cancellation to the peer.
struct PendingGuard<'a> {
    send_half: &'a SendHalf,
    number: i64,
    cancels: bool,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        let unanswered = self.send_half.pending.remove(self.number);
        if unanswered && self.cancels {
            // Sending fails if the connection is closed; then no cancellation is needed.
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

/// Determines the kind of a result: complete, input required, or a task.
pub(crate) fn read_reply(cx: &Context, result: Payload) -> Reply {
    use mgp_types::mcp::Era;
    use mgp_types::service::{Body, InputRequired, leading_result_type};
    if cx.callee.era == Era::Legacy
        || leading_result_type(result.as_str()).is_some_and(|kind| kind == "complete")
    {
        return Reply::raw(result);
    }
    // Most results do not contain the text `input_required` or `task` at all, and a text search is faster than parsing.
    let mentions = |words| result.as_str().contains(words);
    let is_more = mentions("\"input_required\"") || mentions("\"task\"") || mentions(r"\u");
    if !is_more {
        return Reply::raw(result);
    }
    match mgp_types::service::result_type(&result).as_deref() {
        Some("input_required") => match InputRequired::read(&result) {
            Some(needed) => Reply::InputRequired(needed),
            None => Reply::raw(result),
        },
        Some("task") => Reply::Task(Body::new(result)),
        _ => Reply::raw(result),
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp::Revision;
    use mgp_types::service::{Peer, PeerInfo, Principal, Scope, ScopeKind};

    use super::*;

    #[test]
    fn the_kind_of_an_answer_is_its_own_member_in_any_spelling() {
        let kind = |text: &'static str| {
            let scope = Scope::new(ScopeKind::Connection);
            let mut cx = Context::new(Peer::none(), scope, Principal::local());
            cx.callee = Arc::new(PeerInfo::new(Revision::MODERN));
            match read_reply(&cx, Payload::from_trusted(text)) {
                Reply::InputRequired(_) => "questions",
                Reply::Task(_) => "task",
                _ => "result",
            }
        };
        assert_eq!(kind(r#"{"resultType":"complete","content":[]}"#), "result");
        assert_eq!(kind(r#"{"resultType":"task","taskId":"1"}"#), "task");
        assert_eq!(kind(r#"{"result\u0054ype":"t\u0061sk"}"#), "task");
        let asks = r#"{"resultType":"input_required","requestState":"s"}"#;
        assert_eq!(kind(asks), "questions");
        let told = r#"{"resultType":"complete","structuredContent":{"resultType":"task"}}"#;
        assert_eq!(kind(told), "result");
    }
}
