//! The gate: calls and lists of a server, for those who have access (MGP §5).
//!
//! Applies to: both.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::method::{
    CompletionComplete, PromptsGet, PromptsList, Request, ResourcesList, ResourcesRead,
    ResourcesSubscribe, ResourcesTemplatesList, SubscriptionsListen, ToolsCall, ToolsList,
};
use mgp_types::service::{Call, Context, MgpService, Reply, ServerId, Target};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::book::Access;
use super::entry::NAME_MAX;
use super::list;
use super::pass::Credentials;
use crate::error::{LongName, Refusal};

/// Lets through what [`Access`] allows, and leaves out of lists what it does not.
///
/// - `tools/call` is decided for the tool and refused with 1001, which names agent, server, tool, the level that decided
///   and a remedy; `tools/list` is filtered by the same decision.
/// - Resources, prompts and completion belong to the whole server: they are decided by its entry or policy, refused with
///   1001, and their lists are empty.
/// - Credentials ([`Pass`](mgp_types::service::Pass)) narrow this further: those for some tools are not for the rest of a
///   server. Those that ended are refused with 1003.
///
/// ```
/// use mgp_security::{Access, AccessLayer, Policies};
/// use mgp_types::Payload;
/// use mgp_types::mgp::{AccessGrantParams, AccessPermission, EntryType};
/// use mgp_types::service::{Principal, Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let access = Access::in_memory(Policies::default());
/// let tools = Stack::from_fn(|_| async {
///     Ok(Reply::raw(Payload::from_trusted(r#"{"tools":[{"name":"read"},{"name":"write"}]}"#)))
/// });
/// let mut client = mock::client(Stack::new(AccessLayer::new(access.clone()).server("files").layer(tools)));
/// assert_eq!(client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err().code().0, 1001);
///
/// let mut grant = AccessGrantParams::new(EntryType::ToolGrant, "local", "files", AccessPermission::Allow);
/// grant.tool_name = Some("read".to_owned());
/// access.grant(&Principal::local().operator(), grant).await.unwrap();
/// assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_ok());
/// assert_eq!(client.request("tools/list", "{}").await.unwrap().as_str(), r#"{"tools":[{"name":"read"}]}"#);
/// # });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AccessLayer {
    access: Access,
    server: Option<ServerId>,
}

impl AccessLayer {
    /// A layer that asks a book.
    pub fn new(access: Access) -> Self {
        Self { access, server: None }
    }

    /// Names the server that entries are about, whatever the context says.
    ///
    /// Without it no entry is about such a server, and its default policy decides.
    pub fn server(mut self, id: impl Into<ServerId>) -> Self {
        self.server = Some(id.into());
        self
    }

    fn server_of<'a>(&'a self, cx: &'a Context) -> Option<&'a ServerId> {
        self.server.as_ref().or(cx.server.as_ref())
    }

    /// Refuses what a caller has no access to; a server as a whole where no tool is named.
    fn admit(&self, cx: &Context, tool: Option<&str>) -> Result<(), Refusal> {
        self.access.allow(cx, self.server_of(cx), tool)
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, layer: Arc::new(self.clone()) }
    }
}

/// Service of [`AccessLayer`].
#[derive(Clone)]
pub struct Gated<S> {
    inner: S,
    layer: Arc<AccessLayer>,
}

impl<S> fmt::Debug for Gated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gated")
    }
}

impl<S: MgpService> Service<Call> for Gated<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let cx = call.cx();
        let admitted = match Aim::of(&call) {
            // Nobody could name it in an entry, and a refusal would say it again.
            Aim::Tool(tool) if tool.len() > NAME_MAX => {
                Err(Refusal::from(LongName::new(tool.len(), NAME_MAX)).into())
            }
            Aim::Tool(tool) => self.layer.admit(cx, Some(tool)).map_err(RpcError::from),
            Aim::Nothing => Err(RpcError::invalid_params("`name` must be a string")),
            Aim::Server => self.layer.admit(cx, None).map_err(RpcError::from),
            Aim::List(member) => match self.layer.admit(cx, None) {
                Err(Refusal::AccessDenied(_)) => {
                    return ResponseFuture::answer(Ok(list::empty(member, cx)));
                }
                admitted => admitted.map_err(RpcError::from),
            },
            Aim::Tools => {
                if let Err(ended) = Credentials::of(cx).hold() {
                    return ResponseFuture::answer(Err(Refusal::from(ended).into()));
                }
                let look = Look { layer: Arc::clone(&self.layer), cx: cx.clone() };
                return ResponseFuture::list(self.inner.call(call), look);
            }
            Aim::Elsewhere => Ok(()),
        };
        match admitted {
            Ok(()) => ResponseFuture::pass(self.inner.call(call)),
            Err(error) => ResponseFuture::answer(Err(error)),
        }
    }
}

/// What of a server a call is about.
///
/// Notifications are looked at like requests: a server might run either.
enum Aim<'a> {
    Tool(&'a str),
    /// A tool call that names no tool.
    Nothing,
    /// The list of tools.
    Tools,
    /// Something that belongs to the whole server.
    Server,
    /// A list of such things, by the member that holds it.
    List(&'static str),
    Elsewhere,
}

impl<'a> Aim<'a> {
    fn of(call: &'a Call) -> Self {
        match call.params().target() {
            Some(Target::Tool(name)) => Self::Tool(name),
            _ if call.is::<SubscriptionsListen>() && watches(call) => Self::Server,
            _ => Self::of_method(call.method().as_str()),
        }
    }

    fn of_method(method: &str) -> Self {
        match method {
            ToolsCall::METHOD => Self::Nothing,
            ToolsList::METHOD => Self::Tools,
            ResourcesRead::METHOD
            | ResourcesSubscribe::METHOD
            | PromptsGet::METHOD
            | CompletionComplete::METHOD => Self::Server,
            ResourcesList::METHOD => Self::List("resources"),
            ResourcesTemplatesList::METHOD => Self::List("resourceTemplates"),
            PromptsList::METHOD => Self::List("prompts"),
            // Whoever may no longer read a resource may still stop watching it.
            _ => Self::Elsewhere,
        }
    }
}

/// Whether a stream is asked for that tells of resources; one that cannot be read is none for anybody without access.
fn watches(call: &Call) -> bool {
    let params = call.params().get::<<SubscriptionsListen as Request>::Params>();
    params.map_or(true, |params| !params.notifications.resource_subscriptions.is_empty())
}

pin_project! {
    /// Response future of [`Gated`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProj]
    #[derive(Debug)]
    enum State<F> {
        Pass { #[pin] future: F },
        Answer { answer: Option<Result<Reply, RpcError>> },
        List { #[pin] future: F, look: Box<Look> },
    }
}

/// Who looks at a list, kept until it is there: it is decided then.
#[derive(Debug)]
struct Look {
    layer: Arc<AccessLayer>,
    cx: Context,
}

impl Look {
    fn at(&self, reply: Reply) -> Result<Reply, RpcError> {
        let Self { layer, cx } = self;
        let (access, server) = (&layer.access, layer.server_of(cx));
        let reply = list::for_one(reply, cx);
        if access.lists_all(cx, server) {
            return Ok(reply);
        }
        list::without(reply, |tool| access.lists(cx, server, tool))
    }
}

impl<F> ResponseFuture<F> {
    fn pass(future: F) -> Self {
        Self { state: State::Pass { future } }
    }

    fn answer(answer: Result<Reply, RpcError>) -> Self {
        Self { state: State::Answer { answer: Some(answer) } }
    }

    fn list(future: F, look: Look) -> Self {
        Self { state: State::List { future, look: Box::new(look) } }
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        match self.project().state.project() {
            StateProj::Pass { future } => future.poll(task),
            StateProj::Answer { answer } => match answer.take() {
                Some(answer) => Poll::Ready(answer),
                // Only a future that has answered is here, and it is not polled again.
                None => Poll::Pending,
            },
            StateProj::List { future, look } => {
                let reply = ready!(future.poll(task))?;
                Poll::Ready(look.at(reply))
            }
        }
    }
}
