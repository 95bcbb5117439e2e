//! The methods of MGP that clients can also call as tools (MGP §16.5, later revisions of §5).
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::sync::Arc;

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{self, KernelToolName, Kind, find_kernel_tool, tool_spelling};
use mgp_types::service::{
    BoxFuture, Call, CallRecord, Context, Either, Method, MgpService, Params, Reply, Router, Target,
};
use mgp_types::{Object, Payload, RpcError};
use tower_layer::Layer;
use tower_service::Service;

/// Layer that answers tool calls whose tool name is a method of its router, in any of the forms `mgp.access.grant`,
/// `mgp_access_grant` and `mgp/access/grant`.
///
/// The tool's arguments become the method's params; the method's result is returned as text and as structured
/// content. These tools do not appear in any list. Calls with other names, including methods that the router does
/// not serve, are passed on.
///
/// Place this layer inside the audit layer, which records these calls like all others, and outside
/// [`AccessLayer`](crate::AccessLayer), because each method checks the caller's authority itself.
///
/// ```
/// use mgp_security::{Access, KernelToolsLayer, Policies};
/// use mgp_types::service::{Principal, Router, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let access = Access::in_memory(Policies::default());
/// let stack = KernelToolsLayer::new(access.router()).layer(Router::new());
/// let mut client = mock::client(Stack::new(stack));
/// let revoke = r#"{"name":"mgp_access_revoke","arguments":
///     {"agent_id":"ada","server_id":"files","entry_type":"server_grant"}}"#;
/// assert_eq!(client.request("tools/call", revoke).await.unwrap_err().code().0, 1000);
///
/// client.cx.principal = Principal::local().operator();
/// let result = client.request("tools/call", revoke).await.unwrap();
/// assert!(result.as_str().contains(r#""structuredContent":{"status":"revoked","deleted_count":0"#));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct KernelToolsLayer(Arc<Served>);

struct Served {
    router: Router,
    methods: Vec<&'static str>,
}

impl KernelToolsLayer {
    /// Creates a layer that serves the methods of a router.
    pub fn new(router: Router) -> Self {
        let methods = router.methods().collect();
        Self(Arc::new(Served { router, methods }))
    }
}

mgp_types::opaque_debug!(KernelToolsLayer);

impl<S> Layer<S> for KernelToolsLayer {
    type Service = KernelToolsService<S>;

    fn layer(&self, inner: S) -> KernelToolsService<S> {
        KernelToolsService { inner, served: Arc::clone(&self.0) }
    }
}

/// Service of [`KernelToolsLayer`].
#[derive(Clone)]
pub struct KernelToolsService<S> {
    inner: S,
    served: Arc<Served>,
}

mgp_types::opaque_debug!(KernelToolsService<S>);

/// The future of a call that this layer answers itself: the router's reply, or an error if the call could not be
/// converted for the router.
type Own = Either<BoxFuture<'static, Result<Reply, RpcError>>, Ready<Result<Reply, RpcError>>>;

impl<S: MgpService> Service<Call> for KernelToolsService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Own, S::Future>;
    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        match self.served.tool(&call) {
            Some(tool) => Either::Left { future: self.served.run(tool, call) },
            None => Either::Right { future: self.inner.call(call) },
        }
    }
}

impl Served {
    /// Returns the tool that a call names if the router serves the tool's method, else `None`.
    fn tool(&self, call: &Call) -> Option<&'static KernelToolName> {
        // Do not skip notifications: otherwise, a notification could bypass the authorization of the method.
        let Some(Target::Tool(name)) = call.params().target() else { return None };
        let tool = find_kernel_tool(name)?;
        self.methods.contains(&method_of(tool)).then_some(tool)
    }

    fn run(&self, tool: &'static KernelToolName, call: Call) -> Own {
        let (method, arguments) = (method_of(tool), call.tool_arguments());
        if let Some(name) = tool.required
            && arguments.get::<Object>().is_ok_and(|given| given.get(name).is_none())
        {
            let message = format!("`{}` needs the argument `{name}`", tool_spelling(tool.name));
            return Either::Right { future: ready(Err(RpcError::invalid_params(message))) };
        }
        let kind = match call.kind() {
            Kind::Notification => Kind::Notification,
            Kind::Request => method::lookup(method).map_or(Kind::Request, |info| info.kind),
        };
        let (_, _, mut cx) = call.into_parts();
        let is_mgp = cx.caller.supports_mgp();
        Recorded::mark(&mut cx);
        // Do not check here that the arguments are an object: the method itself checks it, after it has authorized the
        // caller.
        let params = match Params::split(method, arguments.as_shared().clone()) {
            Ok(params) => params,
            Err(error) => return Either::Right { future: ready(Err(error)) },
        };
        let name = Method::from_static(method);
        let answer = self.router.clone().call(match kind {
            Kind::Request => Call::request(name, params, cx),
            Kind::Notification => Call::notification(name, params, cx),
        });
        Either::Left { future: Box::pin(async move { as_tool_result(answer.await?, is_mgp) }) }
    }
}

/// Returns the name of the method that a tool of the kernel calls. If the tool has no separate method, its own name is
/// the method.
fn method_of(tool: &KernelToolName) -> &'static str {
    tool.method.unwrap_or(tool.name)
}

/// Converts the result of a method to a tool result; for peers that speak MGP, it is marked as a result of the kernel.
fn as_tool_result(reply: Reply, is_mgp: bool) -> Result<Reply, RpcError> {
    let value = match &reply {
        Reply::Complete(body) => body.to_json(),
        Reply::None => b"{}".to_vec(),
        _ => return Ok(reply),
    };
    let value = Payload::from_trusted(String::from_utf8_lossy(&value).into_owned());
    let mut result = CallToolResult::text(value.as_str());
    result.structured_content = Some(value);
    let mut reply = Reply::of(&result)?;
    if is_mgp && let Reply::Complete(body) = &mut reply {
        body.insert("_mgp", Payload::from_trusted(r#"{"source":"kernel"}"#));
    }
    Ok(reply)
}

/// A marker in the context of a call. With it, the audit layer will record a refusal of the call, so the method must
/// not record the refusal as well.
#[derive(Debug)]
pub(super) struct Recorded;

impl Recorded {
    /// Marks a call that an outer audit layer is recording already.
    fn mark(cx: &mut Context) {
        if cx.extensions.get::<CallRecord>().is_some_and(|start| start.key == cx.key) {
            cx.extensions.insert(Self);
        }
    }

    pub(super) fn is(cx: &Context) -> bool {
        cx.extensions.get::<Self>().is_some()
    }
}
