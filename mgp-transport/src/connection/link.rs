//! The peer's side of a connection: sends calls and waits for their answers.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_types::method::{Cancelled, Initialize, Notification};
use mgp_types::service::{
    BoxFuture, Call, Context, InFlight, Kind, Link, OutMeta, Params, Reply, closed, write_call,
};
use mgp_types::{Id, Payload, RpcError};

use super::outbox::Outbox;
use super::pending::Pending;

/// What the connection and its peer handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) outbox: Outbox,
    pub(crate) pending: Pending,
}

impl Shared {
    async fn notify(&self, call: &Call) -> Result<Reply, RpcError> {
        self.outbox.room().await.map_err(|_| gone())?;
        self.outbox
            .push(|out| write_call(out, None, call.method().as_str(), call.params(), call.hop()))
            .map_err(|_| gone())?;
        Ok(Reply::None)
    }

    async fn request(self: Arc<Self>, mut call: Call) -> Result<Reply, RpcError> {
        self.outbox.room().await.map_err(|_| gone())?;
        let number = self.pending.number(&mut call).ok_or_else(gone)?;
        let waiting = Waiting { shared: &self, number, cancels: !call.is::<Initialize>() };
        let outlet = call.cx().outlet.clone();
        let mut slot = None;
        self.outbox
            .push(|out| {
                let id = Id::Number(number);
                write_call(out, Some(&id), call.method().as_str(), call.params(), call.hop());
                // Before it leaves, so that its answer finds it.
                slot = self.pending.enter(number, call);
            })
            .map_err(|_| gone())?;
        let slot = slot.ok_or_else(gone)?;
        let outcome = slot.outcome(&outlet).await;
        drop(waiting);
        outcome
    }
}

fn gone() -> RpcError {
    closed("the peer is gone")
}

/// Leaves the table when the caller stops waiting, and tells the peer if it had not answered.
struct Waiting<'a> {
    shared: &'a Shared,
    number: i64,
    cancels: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let unanswered = self.shared.pending.leave(self.number);
        if unanswered && self.cancels {
            // A connection that is gone needs no cancellation.
            let _ = self.shared.outbox.push(|out| write_abandoned(out, self.number));
        }
    }
}

/// Writes that nobody waits for the answer to a request of ours any more.
pub(crate) fn write_abandoned(out: &mut Vec<u8>, number: i64) {
    let text = format!(r#"{{"requestId":{number},"reason":"the caller stopped waiting"}}"#);
    let params = Params::split(Cancelled::METHOD, text.into()).unwrap_or_default();
    write_call(out, None, Cancelled::METHOD, &params, &OutMeta::default());
}

/// The link of a connection.
#[derive(Debug)]
pub(crate) struct WireLink(pub(crate) Arc<Shared>);

impl Link for WireLink {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let shared = Arc::clone(&self.0);
        match call.kind() {
            Kind::Request => Box::pin(shared.request(call)),
            Kind::Notification => Box::pin(async move { shared.notify(&call).await }),
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

/// Reads what kind of answer a result is.
pub(crate) fn read_reply(cx: &Context, result: Payload) -> Reply {
    use mgp_types::mcp::Era;
    use mgp_types::service::{Body, InputRequired};
    // Most results do not even mention what would make them more than a result; the look is cheaper than the parse.
    let mentions = |words| result.as_str().contains(words);
    let is_more = mentions("\"input_required\"") || mentions("\"task\"") || mentions(r"\u");
    if cx.callee.era == Era::Legacy || !is_more {
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
    use mgp_types::service::{Facts, Peer, Principal, Scope, ScopeKind};

    use super::*;

    #[test]
    fn the_kind_of_an_answer_is_its_own_member_in_any_spelling() {
        let kind = |text: &'static str| {
            let scope = Scope::new(ScopeKind::Connection);
            let mut cx = Context::new(Peer::none(), scope, Principal::local());
            cx.callee = Arc::new(Facts::new(Revision::MODERN));
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
