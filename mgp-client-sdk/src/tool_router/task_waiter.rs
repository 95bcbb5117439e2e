//! Waits for the tasks of servers. The wait is inside the layers that record how a call ended, so that they record the
//! end of the task.

use mgp_lifecycle::{AcceptsRequiredTask, AcceptsTask, StepTask, serves_tasks};
use mgp_types::method::ToolsCall;
use mgp_types::service::{Call, Context, Reply, Stack};
use mgp_types::{Object, Payload, RpcError};

use super::AwaitLegacyTask;
use crate::client::{Client, LegacyTask};
use crate::supervised::TaskHold;
use crate::wire::{TaskCaller, TaskCallers, remove_local_ids};

/// A waiter for the task of a call. It is stored in the extensions of each forwarded call whose caller wants the result
/// of the task.
#[derive(Clone)]
pub(super) struct TaskWaiter {
    client: Client,
    cx: Context,
}

impl TaskWaiter {
    pub(super) fn new(client: &Client, cx: &Context) -> Self {
        Self { client: client.clone(), cx: cx.clone() }
    }

    /// Adds a waiter to a call to a modern callee if the call accepts a task, or if the callee may turn a tool call
    /// into a task. Until the returned value is dropped, the task counts as a running call of the connection.
    pub(super) fn add_to(call: &mut Call, client: &Client) -> Option<TaskHold> {
        if call.cx().extensions.get::<AcceptsTask>().is_none() {
            if !call.is::<ToolsCall>() || !serves_tasks(client.server()) {
                return None;
            }
            call.cx_mut().extensions.insert(AcceptsRequiredTask);
        }
        let waiter = Self::new(client, call.cx());
        call.cx_mut().extensions.insert(waiter);
        Some(TaskHold::add_to(call))
    }

    /// Stores the caller of a legacy task before the call is sent: the server can ask a question as soon as it has
    /// answered the call, before the wait for the task begins.
    fn add_caller(&self) -> Option<TaskCaller> {
        self.cx.extensions.get::<AwaitLegacyTask>()?;
        Some(self.client.scope().state::<TaskCallers>().add(&self.cx))
    }

    /// Waits for the task if the server answered the call with one, and returns its result. Returns any other reply
    /// unchanged, and also a legacy task whose call has no [`AwaitLegacyTask`].
    pub(super) async fn result(&self, reply: Reply) -> Result<Reply, RpcError> {
        if let Reply::Task(_) = &reply {
            return self.client.await_task(&self.cx, &reply).await;
        }
        if self.cx.extensions.get::<AwaitLegacyTask>().is_none() {
            return Ok(reply);
        }
        match LegacyTask::of(&reply) {
            Some(task) => {
                self.client.await_legacy_task(&self.cx, task).await.map(without_local_ids)
            }
            None => Ok(reply),
        }
    }
}

/// Returns the result of a legacy task without the id of the task, which the caller cannot use. If the call is itself a
/// task of this process, its own id is added later.
fn without_local_ids(mut reply: Reply) -> Reply {
    if let Some(body) = reply.as_body_mut()
        && let Ok(mut result) = body.as_raw().get::<Object>()
    {
        remove_local_ids(&mut result);
        if let Ok(result) = Payload::of(&result) {
            body.replace_raw(result);
        }
    }
    reply
}

/// Returns whether [`await_tasks`] would wait for the task of a call, if the call becomes one.
#[must_use]
pub fn awaits_task(call: &Call) -> bool {
    call.cx().extensions.get::<TaskWaiter>().is_some()
}

/// Returns a stack that waits for the task if a call became a task, and replies with the result of the task.
///
/// A [`Hop`](crate::Hop) waits for tasks anyway, but outside all layers. Put this stack inside a layer that needs the
/// end of each call, e.g. one that stores results. The stack waits only for tasks that the hop would wait for. If a
/// task fails, its error has `details.started`; the step of a transaction is [marked](StepTask).
#[must_use]
pub fn await_tasks(inner: Stack) -> Stack {
    Stack::from_fn(move |call: Call| {
        let waiter = call.cx().extensions.get_shared::<TaskWaiter>();
        let step = StepTask::of(call.cx()).cloned();
        let caller = waiter.as_deref().and_then(TaskWaiter::add_caller);
        let sending = inner.send(call);
        async move {
            let _caller = caller;
            let reply = sending.await?;
            if let (Reply::Task(_), Some(step)) = (&reply, step) {
                step.mark();
            }
            match waiter {
                // This future is boxed so that calls that become no task, i.e. most calls, keep small futures.
                Some(waiter) => Box::pin(waiter.result(reply)).await.map_err(mark_started),
                None => Ok(reply),
            }
        }
    })
}

/// Adds `started` to the details of a task's error. For this call, it is certain that it was started, even if the code
/// means otherwise for other calls.
fn mark_started(error: RpcError) -> RpcError {
    let mut hints = error.as_recovery().cloned().unwrap_or_default();
    hints.details.get_or_insert_with(Object::new).insert("started", Payload::from_trusted("true"));
    error.recovery(hints)
}

#[cfg(test)]
mod tests {
    use mgp_lifecycle::{HandshakeLayer, ServerOffer};
    use mgp_types::ErrorCode;
    use mgp_types::mcp::Implementation;
    use mgp_types::method::Request as _;
    use mgp_types::service::{Method, Params};
    use tower_layer::Layer as _;

    use super::*;
    use crate::test_client::TestClient;

    /// Regression test: a question that a server asked directly after its answer with a task was refused, or asked the
    /// caller of another call.
    #[tokio::test]
    async fn the_caller_of_a_legacy_task_is_known_before_its_call_is_answered() {
        let idle = Stack::from_fn(|_| async { Ok(Reply::empty()) });
        let offer = ServerOffer::new(Implementation::new("s", "1"));
        let client = TestClient::modern(Stack::new(HandshakeLayer::new(offer).layer(idle))).await;
        let callers = client.scope().state::<TaskCallers>();
        let known = std::sync::Arc::clone(&callers);
        let server = Stack::from_fn(move |_| {
            assert_eq!(known.all().len(), 1);
            async { Ok(Reply::empty()) }
        });
        let mut cx = client.context();
        cx.extensions.insert(AwaitLegacyTask);
        let waiter = TaskWaiter::new(&client, &cx);
        cx.extensions.insert(waiter);
        let params = Params::tool("t", &Payload::empty_object());
        let call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
        await_tasks(server).send(call).await.unwrap();
        assert!(callers.all().is_empty());
    }

    #[test]
    fn an_error_of_a_task_never_means_that_the_call_did_not_run() {
        for code in [ErrorCode::SERVER_NOT_READY, ErrorCode::INTERNAL_ERROR] {
            let error = mark_started(RpcError::new(code, "gone"));
            let details = error.as_recovery().and_then(|hints| hints.details.clone()).unwrap();
            assert_eq!(details.decode::<bool>("started").unwrap(), Some(true), "{code}");
            assert_eq!((error.code(), error.message()), (code, "gone"));
        }
    }
}
