//! A builder for the call of a tool: awaited, streamed, or run together with other calls.

mod stream;

use std::borrow::Cow;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{StreamExt as _, iter};
use mgp_lifecycle::{AcceptsRequiredTask, AcceptsTask};
use mgp_types::mcp::{CallToolParams, CallToolResult, Era, LogLevel, TaskAugmentation, key};
use mgp_types::method::{Request, ToolsCall};
use mgp_types::proposal::{CallMembers, Member};
use mgp_types::service::{
    BoxFuture, Call, CallKey, ConsumerGone, Method, Outlet, OutletItem, OutletItemKind, Params,
    Progress, Reply, Sink,
};
use mgp_types::{Object, Payload, RpcError};
use serde::Serialize;

pub use stream::{StreamItem, ToolStream};

use crate::client::{Client, LegacyTask};
use crate::error::Error;
use crate::wire::{TaskCallers, TimeLimits};

/// A call that has not been sent yet: await it, or use its [`stream`](Self::stream).
///
/// ```
/// use mgp_client_sdk::{TestClient, ToolResult};
/// use mgp_server_sdk::prelude::*;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Sum {
///     a: i64,
///     b: i64,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let sum = Tool::new("sum", "Adds", |Args(Sum { a, b }): Args<Sum>| async move { Json(a + b) });
/// let client = TestClient::new(Server::new("s", "1").tool(sum)).await;
/// let result = client
///     .call("sum")
///     .arg("a", 2)
///     .arg("b", 3)
///     .timeout(std::time::Duration::from_secs(5))
///     .progress(|step| println!("{}", step.progress))
///     .await
///     .unwrap();
/// assert_eq!(result.get::<i64>().unwrap(), 5);
/// # });
/// ```
#[must_use = "a call is made when it is awaited"]
pub struct ToolCall {
    client: Client,
    tool: String,
    arguments: Result<Arguments, RpcError>,
    /// The first error that occurred when a member of the call was encoded; the call then fails with this error.
    error: Option<RpcError>,
    meta: Vec<(Cow<'static, str>, Payload)>,
    members: CallMembers,
    trace: Option<String>,
    timeout: Option<Duration>,
    max_timeout: Option<Duration>,
    outlet: Outlet,
    progress: Option<StepHook>,
    task: TaskMode,
    /// The key of the call. It is chosen before the call is sent, so that a [`ToolStream`] can find the call among all
    /// calls in flight.
    key: CallKey,
}

type StepHook = Box<dyn Fn(&Progress) + Send + Sync>;

/// The condition under which a call may become a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskMode {
    /// The call may become a task if the server requires it. Otherwise it may become a task only if the caller wants no
    /// progress and no partial results, because most tasks do not report them.
    IfUnobserved,
    /// The call may always become a task. The client asks a legacy server to create the task.
    Wanted,
}

enum Arguments {
    Whole(Payload),
    Members(Object),
}

impl ToolCall {
    pub(crate) fn new(client: Client, tool: String) -> Self {
        Self {
            client,
            tool,
            arguments: Ok(Arguments::Whole(Payload::empty_object())),
            error: None,
            meta: Vec::new(),
            members: CallMembers::default(),
            trace: None,
            timeout: None,
            max_timeout: None,
            outlet: Outlet::none(),
            progress: None,
            task: TaskMode::IfUnobserved,
            key: CallKey::next(),
        }
    }

    /// Sets all arguments: any value that serializes to a JSON object; `()` and `None` mean no arguments.
    ///
    /// ```
    /// use mgp_client_sdk::TestClient;
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let now = Tool::new("now", "The time", || async { "noon" });
    /// let client = TestClient::new(Server::new("clock", "1").tool(now)).await;
    /// assert_eq!(client.call("now").args(()).await.unwrap().content.len(), 1);
    /// # });
    /// ```
    pub fn args(mut self, arguments: impl Serialize) -> Self {
        self.arguments = Payload::of(&arguments).map(|arguments| {
            // Replace `null` by an empty object: `()` and `None` serialize to `null`, which servers do not accept as
            // arguments.
            Arguments::Whole(if arguments.is_null() { Payload::empty_object() } else { arguments })
        });
        self
    }

    /// Sets one argument.
    pub fn arg(mut self, name: &str, value: impl Serialize) -> Self {
        self.arguments = self.arguments.and_then(|arguments| {
            let mut members = match arguments {
                Arguments::Whole(whole) => whole.get::<Object>()?,
                Arguments::Members(members) => members,
            };
            members.encode(name, &value)?;
            Ok(Arguments::Members(members))
        });
        self
    }

    /// Adds a member to the call's `_meta`.
    pub fn meta(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        match Payload::of(&value) {
            Ok(value) => self.meta.push((Cow::Owned(name.into()), value)),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        self
    }

    /// Adds a member of an extension; it is sent only if the server negotiated the extension.
    pub fn with(mut self, member: &impl Member) -> Self {
        if let Err(error) = self.members.set(member) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Sets the versions of the tool that the caller accepts, e.g. `^1.2`. A server with another version refuses the
    /// call with code 4000 (invalid arguments).
    pub fn version(self, range: &str) -> Self {
        self.meta("tool_version", range)
    }

    /// Sets the id of the trace that the call belongs to (MGP §6.5). Default: a new trace.
    pub fn trace(mut self, id: impl Into<String>) -> Self {
        self.trace = Some(id.into());
        self
    }

    /// Asks a server of 2026-07-28 to send log messages of this call, at this level and above; for older revisions see
    /// [`Client::set_level`](crate::Client::set_level).
    pub fn log_level(self, level: LogLevel) -> Self {
        self.meta(key::LOG_LEVEL, level)
    }

    /// Sets the time-out of this call. Each progress notification restarts it. Default: the client's time-out.
    ///
    /// Before its first call, the client reads the list of tools of a server of 2026-07-28 at a URL, because headers
    /// depend on it. This time-out also limits how long the call waits for the list.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum duration of this call if it reports progress. Default: the client's maximum.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = Some(timeout);
        self
    }

    /// Sets a hook that receives the progress of the call; it must not block.
    pub fn progress(mut self, hook: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(hook));
        self
    }

    /// Sets an outlet for partial results. If it accepts chunks, the client requests them from the server.
    pub fn outlet(mut self, outlet: Outlet) -> Self {
        self.outlet = outlet;
        self
    }

    /// Lets the call become a task even if its progress is observed, and asks a server of 2025-11-25 to create a task.
    ///
    /// With a server of 2026-07-28, this setting is not needed for a call without a hook for progress and without an
    /// outlet, nor for a tool that runs only as a task. With a server of 2025-11-25, it is required for tools that run
    /// only as tasks.
    pub fn as_task(mut self) -> Self {
        self.task = TaskMode::Wanted;
        self
    }

    /// Sends the call, repeats it for each round of the server's questions, and returns its result. Awaiting the
    /// value does the same.
    ///
    /// If the call becomes a task, this method waits for its result, at most for
    /// [`max_timeout`](Self::max_timeout), and the client's handlers answer its questions.
    ///
    /// # Errors
    /// See [`Client::request`]; a tool that ran and failed is not an error, see [`ToolResult`](crate::ToolResult).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server, and its task.
    pub async fn send(self) -> Result<CallToolResult, Error> {
        let client = self.client.clone();
        let wanted = self.task == TaskMode::Wanted;
        let call = self.into_call()?;
        let cx = call.cx().clone();
        // A legacy server can ask a question of the task as soon as it has answered the call, so store the caller
        // before the call is sent.
        let may_ask = wanted && client.server().era == Era::Legacy;
        let _caller = may_ask.then(|| client.scope().state::<TaskCallers>().add(&cx));
        let reply = client.request_in_rounds(call).await?;
        let outcome = match reply {
            Reply::Task(_) => client.await_task(&cx, &reply).await?,
            reply if wanted => match LegacyTask::of(&reply) {
                Some(task) => client.await_legacy_task(&cx, task).await?,
                None => reply,
            },
            reply => reply,
        };
        Ok(outcome.get()?)
    }

    /// Sends the call once and returns the raw reply: a result, questions, or a task.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn raw(self) -> Result<Reply, Error> {
        let stack = self.client.stack().clone();
        Ok(stack.send(self.into_call()?).await?)
    }

    /// Returns a stream that sends the call, and yields its chunks and progress and, as the last item, its result.
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// use mgp_client_sdk::{StreamItem, TestClient};
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_client_sdk::types::Payload;
    /// use mgp_client_sdk::types::mcp::ContentBlock;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let think = Tool::new("think", "Thinks aloud", |outlet: Outlet| async move {
    ///     for word in ["to ", "be"] {
    ///         let _ = outlet.send(OutletItem::chunk(Payload::of(&ContentBlock::text(word))?)).await;
    ///     }
    ///     Ok::<_, RpcError>("to be")
    /// });
    /// let client = TestClient::new(Server::new("s", "1").tool(think)).await;
    /// let mut stream = client.call("think").stream();
    /// let mut text = String::new();
    /// while let Some(item) = stream.next().await {
    ///     match item.unwrap() {
    ///         StreamItem::Chunk(block) => text += block.as_text().unwrap(),
    ///         StreamItem::Result(result) => assert_eq!(result.content[0].as_text(), Some(&*text)),
    ///         _ => {}
    ///     }
    /// }
    /// assert_eq!(text, "to be");
    /// # });
    /// ```
    pub fn stream(self) -> ToolStream {
        ToolStream::new(self)
    }

    /// Returns the call's own time limits, if it has any.
    fn bounds(&self) -> Option<TimeLimits> {
        if self.timeout.is_none() && self.max_timeout.is_none() {
            return None;
        }
        let usual = self.client.time_limits();
        let timeout = self.timeout.unwrap_or(usual.timeout);
        // If only a time-out is set, the maximum must not be lower than this time-out.
        let max = self.max_timeout.unwrap_or(usual.max.max(timeout));
        Some(TimeLimits { timeout, max })
    }

    fn into_call(self) -> Result<Call, RpcError> {
        let bounds = self.bounds();
        let wanted = self.task != TaskMode::IfUnobserved;
        let unobserved = self.progress.is_none() && self.outlet.is_none();
        if let Some(error) = self.error {
            return Err(error);
        }
        let arguments = match self.arguments? {
            Arguments::Whole(whole) => whole,
            Arguments::Members(members) => Payload::of(&members)?,
        };
        let mut cx = self.client.context();
        cx.key = self.key;
        cx.outlet = match self.progress {
            Some(hook) => Outlet::new(Arc::new(ProgressTap { hook, inner: self.outlet })),
            None => self.outlet,
        };
        cx.trace = self.trace.map(Into::into);
        if let Some(bounds) = bounds {
            cx.extensions.insert(bounds);
        }
        if !self.members.is_empty() {
            cx.extensions.insert(self.members);
        }
        if wanted || unobserved {
            cx.extensions.insert(AcceptsTask);
        } else {
            cx.extensions.insert(AcceptsRequiredTask);
        }
        let params = match self.task {
            TaskMode::Wanted if self.client.server().era == Era::Legacy => {
                let mut params = CallToolParams::new(self.tool);
                params.arguments = Some(arguments.try_into()?);
                params.task = Some(TaskAugmentation::new());
                Params::of(ToolsCall::METHOD, &params)?
            }
            _ => Params::tool(&self.tool, &arguments),
        };
        let mut call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
        if !self.meta.is_empty() {
            call.hop_mut().meta = self.meta;
        }
        Ok(call)
    }
}

impl IntoFuture for ToolCall {
    type Output = Result<CallToolResult, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

mgp_types::opaque_debug!(ToolCall { tool });

/// Sends calls, with at most `max_in_flight` in flight at the same time; returns the results in the order of
/// the calls.
pub(crate) async fn call_many(
    calls: impl IntoIterator<Item = ToolCall>,
    max_in_flight: usize,
) -> Vec<Result<CallToolResult, Error>> {
    let calls: Vec<_> = calls.into_iter().collect();
    let mut results: Vec<_> = calls.iter().map(|_| None).collect();
    let mut running = iter(calls.into_iter().enumerate())
        .map(|(index, call)| async move { (index, call.await) })
        .buffer_unordered(max_in_flight.max(1));
    while let Some((index, result)) = running.next().await {
        results[index] = Some(result);
    }
    results.into_iter().flatten().collect()
}

/// A `Sink` of an outlet that calls a hook for each progress step, and passes on each item that the inner outlet
/// accepts.
struct ProgressTap {
    hook: StepHook,
    inner: Outlet,
}

impl Sink for ProgressTap {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        if let OutletItem::Progress(step) = &item {
            (self.hook)(step);
        }
        if self.inner.wants(item.kind()) {
            Box::pin(self.inner.send(item))
        } else {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        kind == OutletItemKind::Progress || self.inner.wants(kind)
    }
}
