//! Moves the members that negotiated proposals (extensions beyond MGP) add to a tool call from its params to its
//! context, and writes the members for the caller into the result.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::method::ToolsCall;
use mgp_types::mgp::ExtensionSet;
use mgp_types::proposal::{CallMembers, ResultMembers};
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply};
use tower_service::Service;

use crate::idempotency::check_key;

/// Layer that moves the members of proposals from tool calls to their context, where inner layers and handlers read
/// them.
///
/// A call whose caller negotiated no proposals is passed on unchanged. A call whose idempotency key is malformed is
/// refused.
///
/// ```
/// use mgp_lifecycle::ProposalLayer;
/// use mgp_types::mgp::ExtensionSet;
/// use mgp_types::proposal::{Intent, Suggestion};
/// use mgp_types::service::{Call, PeerInfo, Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let tool = Stack::from_fn(|call: Call| async move {
///     let intent = call.cx().member::<Intent>()?;
///     call.cx().add_to_result(&Suggestion::new("newest"))?;
///     Reply::of(&intent)
/// });
/// let mut client = mock::client(Stack::new(ProposalLayer::new().layer(tool)));
/// let mut caller = PeerInfo::default();
/// caller.mgp = Some(ExtensionSet::PROPOSALS);
/// client.cx.caller = caller.into();
/// let reply = client.call("tools/call", r#"{"name":"list","_meta":{"intent":"the last failure"}}"#).await.unwrap();
/// assert_eq!(reply.get::<String>().unwrap(), "the last failure");
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct ProposalLayer;

impl ProposalLayer {
    /// Creates the layer, which has no settings.
    pub const fn new() -> Self {
        Self
    }
}

mgp_types::layer_service! {
    /// The service that [`ProposalLayer`] creates.
    pub ProposalService for ProposalLayer
}

impl<S: MgpService> Service<Call> for ProposalService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let active = call.cx().caller.mgp.unwrap_or_default() & ExtensionSet::PROPOSALS;
        if active.is_empty() || !call.is::<ToolsCall>() {
            return Either::Left { future: self.inner.call(call) };
        }
        let received = CallMembers::receive(&mut call, active);
        // A malformed idempotency key is refused here, because an inner layer may ask a person about the call before
        // the layer for keys gets it.
        if let Err(refused) = received.and_then(|()| check_key(call.cx())) {
            return Either::Right { future: Box::pin(std::future::ready(Err(refused))) };
        }
        let results = ResultMembers::collect(call.cx_mut(), active);
        let answer = self.inner.call(call);
        Either::Right { future: Box::pin(write_members(answer, results)) }
    }
}

async fn write_members(
    answer: impl Future<Output = Result<Reply, RpcError>>,
    results: Arc<ResultMembers>,
) -> Result<Reply, RpcError> {
    let mut reply = answer.await?;
    if let Some(body) = reply.as_body_mut() {
        results.write(body);
    }
    Ok(reply)
}
