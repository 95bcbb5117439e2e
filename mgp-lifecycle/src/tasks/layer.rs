//! The layer: decides which calls may become tasks, and serves the methods about them.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::TaskSupport;
use mgp_types::service::{Call, Deadline, Either, MgpService, Reply, Routed, RouterLayer};
use tower_layer::Layer;
use tower_service::Service;

use super::endpoints;
use super::future::ResponseFuture;
use super::negotiate::{Plan, asks};
use super::switch::Switch;
use super::table::Table;
use crate::drain::Drain;

/// Bounds of a [`TasksLayer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TasksConfig {
    /// Tasks that are kept, running or ended; more are refused with 3001. 128.
    ///
    /// A task keeps the turn its call has at a limit, so this stays below what a limit lets run.
    ///
    /// Where there is no room, the oldest ended task whose caller saw the outcome gives way first.
    pub max: usize,
    /// The same for one principal. 64.
    pub max_per_principal: usize,
    /// How long a task is kept from its beginning on, unless its caller asks for another time. 10 minutes.
    ///
    /// What still runs then is dropped.
    pub ttl: Duration,
    /// The longest time a caller can ask for. 24 hours.
    pub ttl_max: Duration,
    /// How often callers are told to ask. 1 s.
    pub poll_interval: Duration,
    /// How long a modern call stays in its request before it becomes a task. 50 ms; zero is one poll.
    ///
    /// A tool that runs on its own is never done within one poll of its call, however quick it is.
    /// Callers of 2025-11-25 ask for a task themselves, so for them it is one poll always.
    pub grace: Duration,
}

impl Default for TasksConfig {
    fn default() -> Self {
        Self {
            max: 128,
            max_per_principal: 64,
            ttl: Duration::from_mins(10),
            ttl_max: Duration::from_hours(24),
            poll_interval: Duration::from_secs(1),
            grace: Duration::from_millis(50),
        }
    }
}

/// Turns tool calls that take long into tasks, and answers `tasks/*`.
///
/// It stands between drain and audit: the gates below are passed within the request, so a refusal answers at once,
/// and their guards live as long as the call.
/// All stacks a layer is put on share one table, which knows principals and no connections.
/// Partial results of a task go nowhere, since no stream is open for them.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mgp_lifecycle::{TasksConfig, TasksLayer};
/// use mgp_types::Payload;
/// use mgp_types::mcp::{Revision, Task, TaskStatus, TaskSupport};
/// use mgp_types::service::{Facts, Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let slow = Stack::from_fn(|_| async {
///     tokio::time::sleep(Duration::from_secs(60)).await;
///     Ok(Reply::raw(Payload::from_trusted(r#"{"content":[]}"#)))
/// });
/// let tasks = TasksLayer::new(TasksConfig::default(), |_tool| TaskSupport::Optional);
/// let mut client = mock::client(Stack::new(tasks.layer(slow)));
/// let mut facts = Facts::new(Revision::MODERN);
/// facts.capabilities = Some(Payload::from_trusted(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
/// client.cx.caller = Arc::new(facts);
///
/// let task: Task = client.request("tools/call", r#"{"name":"slow"}"#).await.unwrap().get().unwrap();
/// assert_eq!((task.status, tasks.running()), (TaskStatus::Working, 1));
///
/// tokio::time::sleep(Duration::from_secs(61)).await;
/// let params = format!(r#"{{"taskId":"{}"}}"#, task.task_id);
/// let task: Task = client.request("tasks/get", &params).await.unwrap().get().unwrap();
/// assert_eq!(task.result.unwrap().as_payload().as_str(), r#"{"resultType":"complete","content":[]}"#);
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct TasksLayer {
    table: Arc<Table>,
    support: Support,
    only_if_asked: bool,
}

/// Says whether a tool runs as a task.
type Support = Arc<dyn Fn(&str) -> TaskSupport + Send + Sync>;

impl TasksLayer {
    /// A layer with one table; `support` says of each tool whether it runs as a task.
    pub fn new(
        config: TasksConfig,
        support: impl Fn(&str) -> TaskSupport + Send + Sync + 'static,
    ) -> Self {
        Self {
            table: Arc::new(Table::new(config)),
            support: Arc::new(support),
            only_if_asked: false,
        }
    }

    /// Looks at calls only whose caller can wait for a task, as where finding a tool costs something: what runs only as a
    /// task is then the matter of whoever runs it.
    pub fn only_if_asked(mut self) -> Self {
        self.only_if_asked = true;
        self
    }

    /// Has a drain wait for the tasks, and cut them with the calls when its time is over.
    ///
    /// An outcome nobody asked for yet is kept up for two [`poll_interval`](TasksConfig::poll_interval)s.
    pub fn drain(self, drain: Drain) -> Self {
        self.table.drain(drain);
        self
    }

    /// Tasks whose call still runs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.table.running()
    }

    /// Tasks that are kept, running or ended.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.table.kept()
    }

    /// Cancels every task that runs.
    pub fn cancel_all(&self) {
        self.table.cancel_all();
    }
}

impl fmt::Debug for TasksLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

impl<S> Layer<S> for TasksLayer {
    type Service = Routed<Tasks<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        let endpoints: RouterLayer = endpoints::router(&self.table).into_layer();
        endpoints.layer(Tasks {
            inner,
            table: Arc::clone(&self.table),
            support: Arc::clone(&self.support),
            only_if_asked: self.only_if_asked,
        })
    }
}

/// Service of [`TasksLayer`], below its endpoints.
#[derive(Clone)]
pub struct Tasks<S> {
    inner: S,
    table: Arc<Table>,
    support: Support,
    only_if_asked: bool,
}

impl<S> fmt::Debug for Tasks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

impl<S> Tasks<S> {
    /// The plan for a call that may become a task.
    fn plan(&self, call: &Call) -> Result<Option<Plan>, RpcError> {
        let Some(tool) = call.tool() else { return Ok(None) };
        if self.only_if_asked && !asks(call) {
            return Ok(None);
        }
        let support = (self.support)(tool.name);
        let plan = Plan::of(call, tool.name, &support, self.table.config())?;
        if plan.as_ref().is_some_and(|plan| plan.must) {
            // What can only be a task does not begin without room for one.
            self.table.has_room(&call.cx().principal)?;
        }
        Ok(plan)
    }
}

impl<S: MgpService> Service<Call> for Tasks<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Either<Pending, Ready<Result<Reply, RpcError>>>>;

    fn poll_ready(&mut self, task: &mut Poller<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let plan = match self.plan(&call) {
            Ok(Some(plan)) => plan,
            Ok(None) => return Either::Left { future: self.inner.call(call) },
            Err(error) => {
                return Either::Right { future: Either::Right { future: ready(Err(error)) } };
            }
        };
        call.cx_mut().deadline = Deadline::after(plan.ttl);
        let switch = Switch::install(&mut call, &self.table, plan);
        let inner = Box::pin(self.inner.call(call));
        let future = Pending(ResponseFuture::new(inner, switch, Arc::clone(&self.table)));
        Either::Right { future: Either::Left { future } }
    }
}

/// Response future of [`Tasks`] for a call that may become a task.
#[derive(Debug)]
pub struct Pending(ResponseFuture);

impl Future for Pending {
    type Output = Result<Reply, RpcError>;

    fn poll(self: std::pin::Pin<&mut Self>, task: &mut Poller<'_>) -> Poll<Self::Output> {
        std::pin::Pin::new(&mut self.get_mut().0).poll(task)
    }
}
