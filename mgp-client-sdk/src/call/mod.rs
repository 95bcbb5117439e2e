//! One call of a tool, put together and then made: plainly, as a stream, or with many others.
//!
//! Applies to: outbound.

mod many;
mod stream;

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::TakesTask;
use mgp_types::mcp::{
    CallToolParams, CallToolResult, Era, LegacyCreateTaskResult, LogLevel, TaskAugmentation, key,
};
use mgp_types::method::{Request, ToolsCall};
use mgp_types::service::{
    BoxFuture, Call, CallKey, Gone, Item, ItemKind, Method, Outlet, Params, Progress, Reply, Sink,
};
use mgp_types::{Object, Payload, RpcError};
use serde::Serialize;

pub(crate) use many::many;
pub use stream::{Streamed, ToolStream};

use crate::client::Client;
use crate::error::Error;
use crate::wire::Allowance;

/// A call that is not made yet: await it, or take its [`stream`](Self::stream).
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
    meta: Vec<(Cow<'static, str>, Payload)>,
    trace: Option<String>,
    timeout: Option<Duration>,
    max_timeout: Option<Duration>,
    outlet: Outlet,
    progress: Option<StepHook>,
    task: Tasking,
    /// Known before the call is made, for whoever has to find it among those in flight.
    key: CallKey,
}

/// Hears the steps of one call.
type StepHook = Box<dyn Fn(&Progress) + Send + Sync>;

/// Whether a call may become a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tasking {
    /// Where nobody listens to the call: nothing is heard of a task but its end.
    Unheard,
    /// In any case; a legacy server is asked to make one, and to keep it so long.
    Wanted(Option<Duration>),
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
            meta: Vec::new(),
            trace: None,
            timeout: None,
            max_timeout: None,
            outlet: Outlet::none(),
            progress: None,
            task: Tasking::Unheard,
            key: CallKey::next(),
        }
    }

    /// Sets all arguments: anything that is an object in JSON; `()` and `None` are none.
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
            // `null` is what they are in JSON, and no arguments that a server takes.
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

    /// Sends something beside the call, in `_meta`.
    pub fn meta(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        match Payload::of(&value) {
            Ok(value) => self.meta.push((Cow::Owned(name.into()), value)),
            Err(error) => self.arguments = Err(error),
        }
        self
    }

    /// Names the trace the call belongs to (MGP §6.5); without it a new one begins.
    pub fn trace(mut self, id: impl Into<String>) -> Self {
        self.trace = Some(id.into());
        self
    }

    /// Asks a modern server for log messages of this call, from this level on.
    pub fn log_level(self, level: LogLevel) -> Self {
        self.meta(key::LOG_LEVEL, level)
    }

    /// Bounds this call; each sign of progress starts the time anew.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Bounds this call however much progress it reports.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = Some(timeout);
        self
    }

    /// Hears how far the call is; it must not wait.
    pub fn progress(mut self, hook: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(hook));
        self
    }

    /// Sends partial results into an outlet; taking chunks asks the server for them.
    pub fn outlet(mut self, outlet: Outlet) -> Self {
        self.outlet = outlet;
        self
    }

    /// Lets the call become a task even where somebody listens to it, and has a server of 2025-11-25 make one.
    ///
    /// A modern call that nobody listens to may become one without this.
    /// A tool that only runs as a task needs it in the legacy era.
    pub fn as_task(mut self) -> Self {
        self.task = Tasking::Wanted(None);
        self
    }

    /// The same, and says how long the outcome should be kept (2025-11-25).
    pub fn as_task_for(mut self, ttl: Duration) -> Self {
        self.task = Tasking::Wanted(Some(ttl));
        self
    }

    /// Makes the call, as often as the server asks back, and gives its result; awaiting does the same.
    ///
    /// A call that becomes a task is waited for, as long as [`max_timeout`](Self::max_timeout) says; the handlers
    /// answer what it asks.
    ///
    /// # Errors
    /// As [`Client::request`]; a tool that ran and failed is no error, see [`ToolResult`](crate::ToolResult).
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server, and the task it became.
    pub async fn send(self) -> Result<CallToolResult, Error> {
        let client = self.client.clone();
        let max = self.bounds().map_or_else(|| client.allowance().max, |bounds| bounds.max);
        let wanted = matches!(self.task, Tasking::Wanted(_));
        let call = self.into_call()?;
        let cx = call.cx().clone();
        let reply = client.in_rounds(call).await?;
        let outcome = match reply {
            Reply::Task(_) => client.see_through(&cx, &reply, max).await?,
            reply if wanted => match reply.get::<LegacyCreateTaskResult>() {
                Ok(created) => client.see_legacy_through(&cx, created.task, max).await?,
                Err(_) => reply,
            },
            reply => reply,
        };
        Ok(outcome.get()?)
    }

    /// Makes the call once and gives the reply as it came: a result, questions, or a task.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn raw(self) -> Result<Reply, Error> {
        let stack = self.client.stack().clone();
        Ok(stack.send(self.into_call()?).await?)
    }

    /// Makes the call and gives its chunks, its progress and, last, its result.
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// use mgp_client_sdk::{Streamed, TestClient};
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_types::Payload;
    /// use mgp_types::mcp::ContentBlock;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let think = Tool::new("think", "Thinks aloud", |outlet: Outlet| async move {
    ///     for word in ["to ", "be"] {
    ///         let _ = outlet.send(Item::Chunk(Payload::of(&ContentBlock::text(word))?)).await;
    ///     }
    ///     Ok::<_, RpcError>("to be")
    /// });
    /// let client = TestClient::new(Server::new("s", "1").tool(think)).await;
    /// let mut stream = client.call("think").stream();
    /// let mut said = String::new();
    /// while let Some(item) = stream.next().await {
    ///     match item.unwrap() {
    ///         Streamed::Chunk(block) => said += block.as_text().unwrap(),
    ///         Streamed::Result(result) => assert_eq!(result.content[0].as_text(), Some(&*said)),
    ///         _ => {}
    ///     }
    /// }
    /// assert_eq!(said, "to be");
    /// # });
    /// ```
    pub fn stream(self) -> ToolStream {
        ToolStream::new(self)
    }

    /// How long the call may take, where it says so itself.
    fn bounds(&self) -> Option<Allowance> {
        if self.timeout.is_none() && self.max_timeout.is_none() {
            return None;
        }
        let usual = self.client.allowance();
        let timeout = self.timeout.unwrap_or(usual.timeout);
        // A call that is given more time than any other means it.
        let max = self.max_timeout.unwrap_or(usual.max.max(timeout));
        Some(Allowance { timeout, max })
    }

    fn into_call(self) -> Result<Call, RpcError> {
        let bounds = self.bounds();
        let wanted = self.task != Tasking::Unheard;
        let unheard = self.progress.is_none() && self.outlet.is_none();
        let arguments = match self.arguments? {
            Arguments::Whole(whole) => whole,
            Arguments::Members(members) => Payload::of(&members)?,
        };
        let mut cx = self.client.context();
        cx.key = self.key;
        cx.outlet = match self.progress {
            Some(hook) => Outlet::new(Arc::new(Told { hook, inner: self.outlet })),
            None => self.outlet,
        };
        cx.trace = self.trace.map(Into::into);
        if let Some(bounds) = bounds {
            cx.extensions.insert(bounds);
        }
        if wanted || unheard {
            cx.extensions.insert(TakesTask);
        }
        let params = match self.task {
            Tasking::Wanted(ttl) if self.client.server().era == Era::Legacy => {
                let mut params = CallToolParams::new(self.tool);
                params.arguments = Some(arguments.try_into()?);
                let mut task = TaskAugmentation::new();
                task.ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
                params.task = Some(task);
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

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// Tells a closure of each step, and passes everything on.
struct Told {
    hook: StepHook,
    inner: Outlet,
}

impl Sink for Told {
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
        if let Item::Progress(step) = &item {
            (self.hook)(step);
        }
        if self.inner.wants(item.kind()) {
            Box::pin(self.inner.send(item))
        } else {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn wants(&self, kind: ItemKind) -> bool {
        kind == ItemKind::Progress || self.inner.wants(kind)
    }
}
