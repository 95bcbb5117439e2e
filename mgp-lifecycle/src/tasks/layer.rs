//! The layer that decides which calls can become tasks, and serves the methods for tasks.
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Poller, Poll};

use mgp_types::RpcError;
use mgp_types::mcp::TaskSupport;
use mgp_types::service::{Call, Deadline, Either, MgpService, Reply, RoutedService, RouterLayer};
use tower_layer::Layer;
use tower_service::Service;

use super::config::TasksConfig;
use super::endpoints;
use super::future::ResponseFuture;
use super::handover::CallStage;
use super::negotiate::{Plan, can_wait_for_task};
use super::table::Table;
use super::tables::TaskTables;
use crate::drain::Drain;

/// Layer that turns slow tool calls into tasks, and answers `tasks/*`.
///
/// Put it between the drain layer and the audit layer. The inner layers that can refuse a call then run while the call
/// is still a request, so a refusal is returned immediately, and the guards of these layers live as long as the call.
/// All stacks that use a layer share one table of tasks. A task belongs to a principal, not to a connection. Partial
/// results of a task are dropped, because a task has no stream for them.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mgp_lifecycle::{TasksConfig, TasksLayer};
/// use mgp_types::Payload;
/// use mgp_types::mcp::{Revision, Task, TaskStatus, TaskSupport};
/// use mgp_types::service::{PeerInfo, Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let slow = Stack::from_fn(|_| async {
///     tokio::time::sleep(Duration::from_secs(60)).await;
///     Ok(Reply::raw(Payload::from_trusted(r#"{"content":[]}"#)))
/// });
/// let tasks = TasksLayer::new(TasksConfig::default(), |_tool| TaskSupport::Optional);
/// let mut client = mock::client(Stack::new(tasks.layer(slow)));
/// let mut facts = PeerInfo::new(Revision::MODERN);
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
    only_if_requested: bool,
}

/// Function that returns whether a tool can, must or must not run as a task.
type Support = Arc<dyn Fn(&str) -> TaskSupport + Send + Sync>;

impl TasksLayer {
    /// Creates a layer with a new table of tasks; `support` returns whether a tool can run as a task.
    pub fn new(
        config: TasksConfig,
        support: impl Fn(&str) -> TaskSupport + Send + Sync + 'static,
    ) -> Self {
        Self {
            table: Arc::new(Table::new(config)),
            support: Arc::new(support),
            only_if_requested: false,
        }
    }

    /// Makes the layer pass a call on unchanged, without calling `support`, if its caller does not support tasks or, in
    /// the legacy era, does not request a task. This is useful if `support` is expensive.
    ///
    /// The inner service must then itself refuse such calls of tools that can run only as a task.
    pub fn only_if_requested(mut self) -> Self {
        self.only_if_requested = true;
        self
    }

    /// Makes a drain wait for running tasks, and cut them off at its deadline like other calls.
    ///
    /// An outcome that was not delivered delays the drain by at most twice the
    /// [`poll_interval`](TasksConfig::poll_interval).
    pub fn drain(self, drain: Drain) -> Self {
        self.table.drain(drain);
        self
    }

    /// Adds the table of the layer's tasks to `tables`, which can remove the tasks of a tenant.
    pub fn tables(self, tables: &TaskTables) -> Self {
        tables.add(&self.table);
        self
    }

    /// Returns the number of tasks whose call is still running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.table.running()
    }

    /// Returns the number of tasks in the table, running or ended.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.table.len()
    }
}

mgp_types::opaque_debug!(TasksLayer { table });

impl<S> Layer<S> for TasksLayer {
    type Service = RoutedService<Tasks<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        let endpoints: RouterLayer = endpoints::router(&self.table).into_layer();
        endpoints.layer(Tasks {
            inner,
            table: Arc::clone(&self.table),
            support: Arc::clone(&self.support),
            only_if_requested: self.only_if_requested,
        })
    }
}

/// Service of [`TasksLayer`]; the router of `tasks/*` is wrapped around it.
#[derive(Clone)]
pub struct Tasks<S> {
    inner: S,
    table: Arc<Table>,
    support: Support,
    only_if_requested: bool,
}

mgp_types::opaque_debug!(Tasks<S> { table });

impl<S> Tasks<S> {
    /// Returns how a call can become a task; `None` if it cannot.
    fn plan(&self, call: &Call) -> Result<Option<Plan>, RpcError> {
        let Some(tool) = call.tool() else { return Ok(None) };
        if self.only_if_requested && !can_wait_for_task(call) {
            return Ok(None);
        }
        let support = (self.support)(tool.name);
        let Some(plan) = Plan::of(call, tool.name, &support, self.table.config())? else {
            return Ok(None);
        };
        match self.table.has_room(&call.cx().principal) {
            Ok(()) => Ok(Some(plan)),
            // A call that must become a task is not started unless there is room for the task.
            Err(full) if plan.task_only => Err(full.into()),
            Err(_) => Ok(None),
        }
    }
}

impl<S: MgpService> Service<Call> for Tasks<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Either<Pending, Ready<Result<Reply, RpcError>>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let plan = match self.plan(&call) {
            Ok(Some(plan)) => plan,
            Ok(None) => return Either::Left { future: self.inner.call(call) },
            Err(error) => {
                return Either::Right { future: Either::Right { future: ready(Err(error)) } };
            }
        };
        call.cx_mut().deadline = Deadline::after(plan.ttl);
        let stage = CallStage::install(&mut call, &self.table, plan);
        let inner = Box::pin(self.inner.call(call));
        let future = Pending(ResponseFuture::new(inner, stage, Arc::clone(&self.table)));
        Either::Right { future: Either::Left { future } }
    }
}

/// Response future of [`Tasks`] for a call that can become a task.
#[derive(Debug)]
pub struct Pending(ResponseFuture);

impl Future for Pending {
    type Output = Result<Reply, RpcError>;

    fn poll(self: std::pin::Pin<&mut Self>, task: &mut Poller<'_>) -> Poll<Self::Output> {
        std::pin::Pin::new(&mut self.get_mut().0).poll(task)
    }
}
