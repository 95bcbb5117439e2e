//! The definition layer and its service.
//!
//! Applies to: both.

use std::fmt;
use std::future::{Ready, ready};
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::method::ToolsList;
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply, ServerId};
use tower_layer::Layer;
use tower_service::Service;

use super::definitions::{Definitions, Look, Whose};
use super::{ask, reply};
use crate::error::Refusal;

/// Lets only those tools be listed and called whose definitions are as they were approved.
///
/// On an outbound stack it watches `tools/list`, pins what is new, leaves out what waits or is refused, and refuses
/// calls of that with 4002. A call of a tool that nobody listed yet lists the tools first.
/// What a server runs itself is [learned](Definitions::learn), and passes.
///
/// ```
/// use mgp_security::{DefinitionLayer, Definitions, Policies};
/// use mgp_types::ErrorCode;
/// use mgp_types::service::{Reply, Stack, mock};
/// use mgp_types::Payload;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::sync::Arc;
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// // A server that says something else the second time it is asked.
/// let asked = Arc::new(AtomicUsize::new(0));
/// let server = Stack::from_fn(move |call| {
///     let lists = call.method().as_str() == "tools/list";
///     let time = if lists { asked.fetch_add(1, Ordering::Relaxed) } else { 0 };
///     let tools = format!(r#"{{"tools":[{{"name":"add","description":"Version {time}.","inputSchema":{{}}}}]}}"#);
///     async move { Ok(if lists { Reply::raw(Payload::from_trusted(tools)) } else { Reply::empty() }) }
/// });
/// let layer = DefinitionLayer::new(Definitions::in_memory(Policies::default())).server("calculator");
/// let mut client = mock::client(Stack::new(layer.layer(server)));
///
/// client.request("tools/call", r#"{"name":"add"}"#).await.unwrap();
/// let tools = client.request("tools/list", "{}").await.unwrap();
/// assert_eq!(tools.as_str(), r#"{"tools":[]}"#);
/// let error = client.request("tools/call", r#"{"name":"add"}"#).await.unwrap_err();
/// assert_eq!(error.code(), ErrorCode::TOOL_DISABLED);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct DefinitionLayer {
    definitions: Definitions,
    server: Option<ServerId>,
    tools: Whose,
}

impl DefinitionLayer {
    /// A layer over what is known of tools.
    pub fn new(definitions: Definitions) -> Self {
        Self { definitions, server: None, tools: Whose::Foreign }
    }

    /// A layer before tools of one's own: nothing is listed or pinned, and nothing refused.
    pub(crate) fn own(definitions: Definitions) -> Self {
        Self { tools: Whose::Own, ..Self::new(definitions) }
    }

    /// Names the server whose tools are called, where the context does not.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.server = Some(id.into());
        self
    }
}

impl fmt::Debug for DefinitionLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DefinitionLayer")
    }
}

impl<S> Layer<S> for DefinitionLayer {
    type Service = Definition<S>;

    fn layer(&self, inner: S) -> Definition<S> {
        Definition { inner, layer: self.clone() }
    }
}

/// Service of [`DefinitionLayer`].
#[derive(Clone)]
pub struct Definition<S> {
    inner: S,
    layer: DefinitionLayer,
}

impl<S> fmt::Debug for Definition<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Definition")
    }
}

/// An answer that is there at once, or takes a while.
type Own = Either<Ready<Result<Reply, RpcError>>, BoxFuture<'static, Result<Reply, RpcError>>>;

impl<S: MgpService> Service<Call> for Definition<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Own, S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let Some(server) = call.cx().server.as_ref().or(self.layer.server.as_ref()) else {
            return Either::Right { future: self.inner.call(call) };
        };
        if let Some(tool) = call.tool() {
            let refused = |error: RpcError| Either::Left {
                future: Either::Left { future: ready(Err(error)) },
            };
            let look = self.layer.definitions.look(server, tool.name);
            if self.layer.tools == Whose::Own && !matches!(look, Ok(Look::Tell(_))) {
                return Either::Right { future: self.inner.call(call) };
            }
            return match look {
                Ok(Look::Pass) => Either::Right { future: self.inner.call(call) },
                Ok(Look::Refuse(standing)) => refused(ask::refuse(server, &call, standing).into()),
                Ok(Look::Tell(_) | Look::List) => {
                    let server = server.clone();
                    let future = ask::first(
                        self.layer.definitions.clone(),
                        server,
                        self.inner.clone(),
                        call,
                    );
                    Either::Left { future: Either::Right { future: Box::pin(future) } }
                }
                Err(error) => refused(Refusal::Unchanged(error.into()).into()),
            };
        }
        if call.is::<ToolsList>() && self.layer.tools == Whose::Foreign {
            let (definitions, server) = (self.layer.definitions.clone(), server.clone());
            let (cx, page) = (call.cx().clone(), reply::page(&call));
            let listed = self.inner.call(call);
            let future =
                async move { reply::watch(&definitions, &server, &cx, page, listed.await?).await };
            return Either::Left { future: Either::Right { future: Box::pin(future) } };
        }
        Either::Right { future: self.inner.call(call) }
    }
}
