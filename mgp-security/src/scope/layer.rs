//! Adds the scopes of the caller's session to each request.
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::read_member;
use mgp_types::service::{Call, Either, Kind, MgpService, Reply, SessionToken, Target};
use tower_service::Service;

use super::sessions::Scopes;

/// The member of `_meta` with the token of the session.
const TOKEN: &str = "session_token";

/// The tools by which the proposal names two methods.
const TOOLS: [(&str, &str); 2] = [
    ("check_permissions", "mgp_permissions_check"),
    ("negotiate_scopes", "mgp_scopes_negotiate"),
];

/// Adds the scopes of the caller's session to each request, for the [decision](crate::CallVerdict) about it.
#[derive(Clone, Debug)]
pub struct ScopeLayer(pub(super) Scopes);

mgp_types::layer_service! {
    /// Service of [`ScopeLayer`].
    pub ScopeService for ScopeLayer
}

impl<S: MgpService> Service<Call> for ScopeService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let ScopeLayer(scopes) = &self.layer;
        let has_extension = call.cx().caller.has(Extension::Scopes);
        if call.kind() == Kind::Request && scopes.limits(&call.cx().principal) {
            let header = || call.cx().extensions.get::<SessionToken>().map(|token| token.0.clone());
            let token = read_member(call.params(), TOKEN).and_then(|token| token.get().ok());
            let token: Option<String> = token.or_else(header);
            let held = scopes.held(&call.cx().principal, token.as_deref(), has_extension);
            if let Some(held) = held {
                call.cx_mut().extensions.insert(held);
            }
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
