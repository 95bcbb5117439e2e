//! The link of a connection over HTTP.

use std::sync::Arc;

use http::HeaderMap;
use mgp_types::mcp::Era;
use mgp_types::method::Initialized;
use mgp_types::service::{BoxFuture, Call, InFlight, Kind, Link, Reply, write_call};
use mgp_types::{Id, RpcError};

use super::core::{Core, SessionBinding, closed_here};
use super::headers::{StandardHeaders, post_headers};

pub(super) struct HttpLink(pub(super) Arc<Core>);

impl Link for HttpLink {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let core = Arc::clone(&self.0);
        match call.kind() {
            Kind::Request => Box::pin(core.request(call)),
            Kind::Notification => Box::pin(async move { core.notify(&call).await }),
        }
    }

    fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.0.send_half.pending.get(id)
    }

    fn all_in_flight(&self) -> Vec<InFlight> {
        self.0.send_half.pending.all()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn close(&self, reason: &str) {
        tracing::debug!(reason, "closing the connection");
        self.0.send_half.outbox.close();
        self.0.closing.notify_one();
    }
}

/// The [`Link`] for messages that the server sends in the response to one request. They belong to that request, so
/// `all_in_flight` returns only that request.
pub(super) struct StreamLink {
    pub(super) core: Arc<Core>,
    pub(super) number: i64,
}

impl Link for StreamLink {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        HttpLink(Arc::clone(&self.core)).send(call)
    }

    fn in_flight(&self, id: &Id) -> Option<InFlight> {
        self.core.send_half.pending.get(id)
    }

    fn all_in_flight(&self) -> Vec<InFlight> {
        self.core.send_half.pending.get(&Id::Number(self.number)).into_iter().collect()
    }

    fn is_of_one_request(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    fn close(&self, reason: &str) {
        HttpLink(Arc::clone(&self.core)).close(reason);
    }
}

impl Core {
    async fn notify(self: Arc<Self>, call: &Call) -> Result<Reply, RpcError> {
        if self.is_closed() {
            return Err(closed_here());
        }
        let mut headers: HeaderMap = post_headers();
        let is_legacy = call.cx().callee.era == Era::Legacy;
        if !is_legacy {
            StandardHeaders::of(call, call.cx().callee.revision.as_str())?
                .insert_headers(&mut headers);
        }
        let mut body = Vec::new();
        write_call(&mut body, None, call.method().as_str(), call.params(), call.hop());
        let session = if is_legacy { SessionBinding::Current } else { SessionBinding::None };
        self.post(headers, body.into(), session).await?;
        if is_legacy && call.tells::<Initialized>() {
            self.listen().await;
        }
        Ok(Reply::None)
    }
}
