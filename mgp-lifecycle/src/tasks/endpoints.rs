//! The methods `tasks/get`, `tasks/update` and `tasks/cancel`, and the methods `tasks/result` and `tasks/list` of MCP
//! 2025-11-25.
//!
//! They run outside the layers that check access. So they check themselves that a task belongs to the calling
//! principal, and that the caller's credentials permit it.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::{
    EmptyResult, Era, ListParams, ListTasksResult, ResultType, TaskParams, UpdateTaskParams,
};
use mgp_types::method::{
    Request, TasksCancel, TasksGet, TasksList, TasksResult, TasksUpdate, lookup,
};
use mgp_types::service::{Call, Context, Params, Reply, Router, Stack};

use super::entry::{Entry, Outcome};
use super::negotiate::offers_tasks;
use super::table::Table;
use crate::error::LifecycleError;

pub(super) fn router(table: &Arc<Table>) -> Router {
    let now = |answer: fn(&Table, &Params, &Context) -> Result<Reply, RpcError>| {
        let table = Arc::clone(table);
        Stack::from_fn(move |call: Call| {
            // Answer in the order of arrival and not when the future is polled, so that `tasks/get` sees an update that
            // was sent before it.
            let reply = admit(&call).and_then(|()| answer(&table, call.params(), call.cx()));
            std::future::ready(reply)
        })
    };
    let table = Arc::clone(table);
    let result = Stack::from_fn(move |call: Call| {
        let found = admit(&call).and_then(|()| find(&table, call.params(), call.cx()));
        async move { result(&found?, call.cx()).await }
    });
    Router::new()
        .route(TasksGet::METHOD, now(get))
        .route(TasksUpdate::METHOD, now(update))
        .route(TasksCancel::METHOD, now(cancel))
        .route(TasksList::METHOD, now(list))
        .route(TasksResult::METHOD, result)
}

/// Checks that the caller's revision has the method, and that a modern caller offers tasks.
fn admit(call: &Call) -> Result<(), RpcError> {
    let (caller, method) = (&call.cx().caller, call.method().as_str());
    if !lookup(method).is_some_and(|info| info.is_in(&caller.revision)) {
        return Err(RpcError::method_not_found(method));
    }
    if caller.era == Era::Modern && !offers_tasks(caller) {
        return Err(LifecycleError::TasksNotOffered.into());
    }
    Ok(())
}

fn find(table: &Table, params: &Params, cx: &Context) -> Result<Arc<Entry>, RpcError> {
    let params: TaskParams = params.get()?;
    Ok(table.find(&params.task_id, cx)?)
}

fn get(table: &Table, params: &Params, cx: &Context) -> Result<Reply, RpcError> {
    find(table, params, cx)?.describe(cx.caller.era)
}

fn update(table: &Table, params: &Params, cx: &Context) -> Result<Reply, RpcError> {
    let params: UpdateTaskParams = params.get()?;
    let entry = table.find(&params.task_id, cx)?;
    entry.accept_answers(params.input_responses.iter());
    acknowledge()
}

fn cancel(table: &Table, params: &Params, cx: &Context) -> Result<Reply, RpcError> {
    let entry = find(table, params, cx)?;
    match (cx.caller.era, entry.cancel()) {
        // Cancelling a task that has just ended is not an error, because the caller cannot know that it has ended.
        (Era::Modern, _) => acknowledge(),
        (Era::Legacy, Ok(())) => Reply::of(&entry.summary()),
        (Era::Legacy, Err(ended)) => Err(LifecycleError::TaskEnded(ended).into()),
    }
}

fn list(table: &Table, params: &Params, cx: &Context) -> Result<Reply, RpcError> {
    let params: ListParams = params.get()?;
    if params.cursor.is_some() {
        return Err(RpcError::invalid_params("unknown cursor; the list has one page"));
    }
    let tasks: Vec<_> = table.of(cx).iter().map(|entry| entry.summary()).collect();
    Reply::of(&ListTasksResult::new(tasks))
}

/// Waits until a task ends and returns the result that the call would have returned.
async fn result(entry: &Arc<Entry>, cx: &Context) -> Result<Reply, RpcError> {
    let _waiting = entry.add_waiting(cx);
    loop {
        let changed = entry.changed.notified();
        match entry.outcome() {
            None => changed.await,
            Some(Err(refusal)) => return Err(refusal.into()),
            Some(Ok(Outcome::Cancelled)) => return Err(LifecycleError::TaskCancelled.into()),
            Some(Ok(Outcome::Failed(error))) => return Err(error),
            Some(Ok(Outcome::Completed(result))) => {
                let mut reply = Reply::raw(result);
                if let Some(body) = reply.as_body_mut() {
                    let (name, task) = entry.related_task_meta();
                    body.insert_meta(name, task);
                }
                return Ok(reply);
            }
        }
    }
}

fn acknowledge() -> Result<Reply, RpcError> {
    let mut ack = EmptyResult::new();
    ack.result_type = Some(ResultType::Complete);
    Reply::of(&ack)
}
