//! Offers methods of extensions as tools, because clients of the reference implementation call these methods as tools.
//!
//! Applies to: inbound.

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{ManifestGet, Request as _, ServersRecommend};
use mgp_types::mgp::Extension;
use mgp_types::service::{BoxFuture, Call, Either, Method, MgpService, Params, Reply};
use mgp_types::{Payload, RpcError};
use tower_service::Service;

/// The names of the tools, each with its method and the extension that the caller must have negotiated.
const TOOLS: [(&str, &str, Extension); 2] = [
    ("get_manifest", ManifestGet::METHOD, Extension::Manifest),
    ("recommend_servers", ServersRecommend::METHOD, Extension::ServerRecommendations),
];

/// Layer that answers calls of the tools in `TOOLS` with the results of their methods. No tool list contains these
/// tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaToolsLayer;

mgp_types::layer_service! {
    /// Service of [`MetaToolsLayer`].
    pub(super) MetaTools for MetaToolsLayer
}

impl<S: MgpService> Service<Call> for MetaTools<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let Some(method) = method_of(&call) else {
            return Either::Left { future: self.inner.call(call) };
        };
        let params = Params::split(method, call.tool_arguments().as_shared().clone());
        let (_, _, cx) = call.into_parts();
        let answer = params
            .map(|params| self.inner.call(Call::request(Method::from_static(method), params, cx)));
        Either::Right { future: Box::pin(async move { as_tool_result(&answer?.await?) }) }
    }
}

fn method_of(call: &Call) -> Option<&'static str> {
    let name = call.tool()?.name;
    let known = TOOLS.iter().find(|(tool, ..)| *tool == name)?;
    call.cx().caller.has(known.2).then_some(known.1)
}

fn as_tool_result(reply: &Reply) -> Result<Reply, RpcError> {
    let value = reply.get::<Payload>()?;
    let mut result = CallToolResult::text(value.as_str());
    result.structured_content = Some(value);
    Reply::of(&result)
}
