//! `mgp_tools_call_many`: several calls of tools in one request (C17 of the tool contracts).
//!
//! Each call of the batch is checked, limited and recorded separately, and a failed call does not affect the others.

use std::future::Future;

use futures_util::{StreamExt, stream};
use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::method::{Request, TOOLS_CALL, ToolsCall};
use mgp_types::service::{Call, CallKey, CallerAccess, Method, Outlet, Params, Reply};
use mgp_types::{ErrorCode, Payload, RawObject, RpcError};
use serde::{Deserialize, Serialize};

use super::call_tool;
use super::dispatcher::Dispatcher;

/// The maximum number of calls in one batch of `mgp_tools_call_many`.
const MAX_CALLS: usize = 32;

/// The maximum number of calls that run at the same time.
const MAX_AT_ONCE: usize = 8;

/// The arguments of `mgp_tools_call_many`.
#[derive(Deserialize)]
struct Batch {
    /// The calls of the batch, each with the arguments of `mgp_tools_call`.
    calls: Vec<RawObject>,
}

/// The result of `mgp_tools_call_many`.
#[derive(Serialize)]
struct Results {
    /// The outcomes, in the order of the calls.
    results: Vec<Outcome>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Result(Payload),
    Error(Failure),
}

#[derive(Serialize)]
struct Failure {
    code: ErrorCode,
    message: String,
}

/// Runs the calls of a batch, at most [`MAX_AT_ONCE`] of them at a time.
pub(super) async fn run(dispatcher: Dispatcher, call: Call) -> Result<Reply, RpcError> {
    let Batch { calls } = call.tool_arguments().get()?;
    if calls.len() > MAX_CALLS {
        let message = format!("`calls` has {} calls; use at most {MAX_CALLS}", calls.len());
        return Err(RpcError::invalid_params(message));
    }
    let running = calls.into_iter().map(|named| run_one(&dispatcher, &call, &named));
    let results: Vec<_> = stream::iter(running).buffered(MAX_AT_ONCE).collect().await;
    let structured = Payload::of(&Results { results })?;
    let mut result = CallToolResult::new(vec![ContentBlock::text(structured.as_str())]);
    result.structured_content = Some(structured);
    Reply::of(&result)
}

/// Runs one call. It has no progress of its own and cannot ask the caller, because both belong to the whole batch.
fn run_one(
    dispatcher: &Dispatcher,
    batch: &Call,
    named: &RawObject,
) -> impl Future<Output = Outcome> + use<> {
    let mut cx = batch.cx().clone();
    cx.key = CallKey::next();
    cx.outlet = Outlet::none();
    cx.caller_access = CallerAccess::Unavailable;
    let params = Params::tool(TOOLS_CALL, named.as_payload());
    let call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
    let answer = call_tool::call(dispatcher.clone(), call);
    async move {
        match answer.await {
            Ok(reply) => match reply.as_body() {
                Some(body) => Outcome::Result(body.as_raw().clone()),
                None => Outcome::Error(Failure::from(&RpcError::internal("no result"))),
            },
            Err(error) => Outcome::Error(Failure::from(&error)),
        }
    }
}

impl From<&RpcError> for Failure {
    fn from(error: &RpcError) -> Self {
        Self { code: error.code(), message: error.message().to_owned() }
    }
}
