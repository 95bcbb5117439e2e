//! The caller of an inbound call, to whom the call sends notifications while it runs: chunks, progress, logs, events
//! and questions.

use bytestring::ByteString;
use mgp_types::service::{
    Call, CallKey, ConsumerGone, Context, Method, Params, Peer, Principal, Scope,
};
use mgp_types::{Id, Payload, RpcError};

/// The caller of a running call, to whom notifications about the call are sent.
#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    pub(crate) peer: Peer,
    pub(crate) scope: Scope,
    pub(crate) principal: Principal,
    pub(crate) key: CallKey,
    /// The request id that the caller chose for the call.
    pub(crate) id: Id,
    pub(crate) trace: Option<ByteString>,
}

impl Recipient {
    /// Sends a notification with params as JSON. Waits while the connection has no room for it.
    pub(crate) async fn notify(
        &self,
        method: &'static str,
        params: Result<Payload, RpcError>,
    ) -> Result<(), ConsumerGone> {
        let params = params
            .and_then(|params| Params::split(method, params.as_shared().clone()))
            .map_err(|_| ConsumerGone)?;
        self.send(method, params).await
    }

    /// Sends a notification whose params are already in the form in which they are written.
    pub(crate) async fn send(
        &self,
        method: &'static str,
        params: Params,
    ) -> Result<(), ConsumerGone> {
        let cx = Context::new(self.peer.clone(), self.scope.clone(), self.principal.clone());
        let call = Call::notification(Method::from_static(method), params, cx).related(self.key);
        self.peer.send(call).await.map(drop).map_err(|_| ConsumerGone)
    }
}
