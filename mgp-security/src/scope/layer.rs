//! Adds the scopes of the caller's session to each request.
//!
//! Applies to: inbound.

use mgp_types::mgp::Extension;
use mgp_types::proposal::{CallMembers, Member as _, SessionToken};
use mgp_types::service::{BoxFuture, Call, Either, Kind, MgpService, Reply, Target};
use mgp_types::{Object, RpcError};
use tower_service::Service;

use super::sessions::Scopes;

/// The tool names that the extension `scopes` uses for two methods, each with the name of our tool that implements the
/// method.
const TOOLS: [(&str, &str); 2] =
    [("check_permissions", "mgp_permissions_check"), ("negotiate_scopes", "mgp_scopes_negotiate")];

/// Layer that adds the scopes of the caller's session to each request, so that the [decision](crate::CallVerdict) can
/// check them.
#[derive(Clone, Debug)]
pub struct ScopeLayer(pub(super) Scopes);

mgp_types::layer_service! {
    /// Service of [`ScopeLayer`].
    pub ScopeService for ScopeLayer
}

impl<S: MgpService> Service<Call> for ScopeService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let ScopeLayer(scopes) = &self.layer;
        let has_extension = call.cx().caller.has(Extension::Scopes);
        // Remove the token of a tool call even if it is not needed: a server to which a gateway forwards the call must
        // not receive it.
        let token = match take_token(&mut call).transpose() {
            None => None,
            Some(Ok(token)) => Some(token),
            Some(Err(error)) => {
                return Either::Right { future: Box::pin(std::future::ready(Err(error))) };
            }
        };
        if call.kind() == Kind::Request
            && let Some(held) = scopes.held(&call.cx().principal, token.as_deref())
        {
            call.cx_mut().extensions.insert(held);
        }
        let renamed = call.tool().filter(|_| has_extension).and_then(|tool| {
            TOOLS.iter().find(|(name, _)| *name == tool.name).map(|(_, tool)| *tool)
        });
        if let Some(tool) = renamed {
            call.params_mut().set_target(Target::Tool(tool.into()));
        }
        Either::Left { future: self.inner.call(call) }
    }
}

/// Returns the session token of a call, or `None` if it has none. The token of a tool call is in a member, which this
/// function removes from the call. The token of any other request is in `_meta`. Without either, the token of the HTTP
/// header is used.
fn take_token(call: &mut Call) -> Result<Option<String>, RpcError> {
    if let Some(SessionToken(token)) = CallMembers::take(call.cx_mut())? {
        return Ok(Some(token));
    }
    let meta = call.params().meta().filter(|meta| meta.as_str().contains(SessionToken::NAME));
    let of_request = match meta.filter(|_| call.cx().caller.has(Extension::Scopes)) {
        Some(meta) => meta.get::<Object>()?.decode(SessionToken::NAME)?,
        None => None,
    };
    Ok(of_request.or_else(|| Some(call.cx().extensions.get::<SessionToken>()?.0.clone())))
}
