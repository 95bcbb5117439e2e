//! `mgp_tools_call_many`: several tool calls in one request.
//!
//! Each call of the batch is checked, limited and recorded separately, and a failed call does not affect the others.

use std::future::Future;

use futures_util::{StreamExt, stream};
use mgp_types::mcp::{CallToolResult, ContentBlock};
use mgp_types::method::{Request, TOOLS_CALL, ToolsCall};
use mgp_types::mgp::ExtensionSet;
use mgp_types::proposal::{CallMembers, IdempotencyHeader, IdempotencyKey, ResultMembers, StepId};
use mgp_types::service::{Call, CallKey, CallerAccess, Context, Method, Outlet, Params, Reply};
use mgp_types::{Payload, RawObject, RpcError, Sha256Hash};
use serde::{Deserialize, Serialize};

use super::call_tool;
use super::dispatcher::Dispatcher;
use super::find_tool::CallAddress;

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

#[derive(Serialize)]
struct NamedCall<'a> {
    name: &'static str,
    /// The arguments of `mgp_tools_call`: the name, server and arguments of a tool.
    arguments: &'a RawObject,
    #[serde(rename = "_mgp")]
    shared: SharedMembers<'a>,
}

/// The members of the batch's `_mgp` that the kernel copies into each of its calls.
#[derive(Serialize)]
struct SharedMembers<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    delegation: Option<Chain<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_handle: Option<&'a str>,
}

/// The chain of agents on whose behalf the caller makes the batch.
#[derive(Serialize)]
struct Chain<'a> {
    chain: &'a [String],
}

/// The result of `mgp_tools_call_many`.
#[derive(Serialize)]
struct Results {
    /// The outcome of each call, in the order of the calls.
    results: Vec<Outcome>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Result(Payload),
    Error(RpcError),
}

/// Runs the calls of a batch, at most [`MAX_AT_ONCE`] of them at a time.
pub(super) async fn run(dispatcher: Dispatcher, call: Call) -> Result<Reply, RpcError> {
    let Batch { calls } = call.tool_arguments().get()?;
    if calls.len() > MAX_CALLS {
        let message = format!("`calls` has {} calls; use at most {MAX_CALLS}", calls.len());
        return Err(RpcError::invalid_params(message));
    }
    let address = CallAddress::read(&call)?;
    // Find the session first, so that an expired session handle makes the batch fail before a tool runs.
    dispatcher.parts().sessions.find(call.cx(), address.session_handle.as_deref())?;
    let separate =
        calls.iter().zip(1..).map(|(named, place)| single(&call, &address, named, place));
    let separate = separate.collect::<Result<Vec<_>, _>>()?;
    let running = separate.into_iter().enumerate().map(|(place, one)| {
        let outcome = run_one(&dispatcher, one);
        async move { (place, outcome.await) }
    });
    // Do not use `buffered`, which starts no further calls while an early call is slow.
    let mut outcomes: Vec<_> = stream::iter(running).buffer_unordered(MAX_AT_ONCE).collect().await;
    outcomes.sort_unstable_by_key(|(place, _)| *place);
    let results = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    let structured = Payload::of(&Results { results })?;
    let mut result = CallToolResult::new(vec![ContentBlock::text(structured.as_str())]);
    result.structured_content = Some(structured);
    Reply::of(&result)
}

/// Returns one call of a batch, on behalf of the same agents and in the same session as the batch. The call has no
/// progress of its own and cannot ask the caller questions, because progress and questions belong to the whole batch.
fn single(
    batch: &Call,
    address: &CallAddress,
    named: &RawObject,
    place: u32,
) -> Result<Call, RpcError> {
    let mut cx = batch.cx().clone();
    cx.key = CallKey::next();
    // Remove the logical id of the batch: with it, the calls would count as repetitions (rounds) of one call.
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.caller_access = CallerAccess::Unavailable;
    separate_members(&mut cx, place)?;
    let chain = address.on_behalf_of.as_slice();
    let shared = SharedMembers {
        delegation: (!chain.is_empty()).then_some(Chain { chain }),
        session_handle: address.session_handle.as_deref(),
    };
    let named = NamedCall { name: TOOLS_CALL, arguments: named, shared };
    let params = Params::of(ToolsCall::METHOD, &named)?;
    Ok(Call::request(Method::from_static(ToolsCall::METHOD), params, cx))
}

/// Replaces the idempotency key and the step id of the batch by separate values for one of its calls, because each such
/// value identifies a single call. The new values derive from the batch's values and the position of the call, so a
/// repeated batch leads to the same values.
fn separate_members(cx: &mut Context, place: u32) -> Result<(), RpcError> {
    // Hash the batch's value. So the result is never too long, and never equals a value that a caller chose.
    let own = |of_batch: &str| format!("{}:{place}", Sha256Hash::digest(of_batch.as_bytes()));
    if let Some(IdempotencyHeader(IdempotencyKey(key))) = cx.extensions.get::<IdempotencyHeader>() {
        let header = IdempotencyHeader(IdempotencyKey(own(key)));
        cx.extensions.insert(header);
    }
    let (key, step) = (cx.member::<IdempotencyKey>()?, cx.member::<StepId>()?);
    if key.is_none() && step.is_none() {
        return Ok(());
    }
    let mut members = cx.extensions.get::<CallMembers>().cloned().unwrap_or_default();
    if let Some(key) = key {
        key.check()?;
        members.set(&IdempotencyKey(own(&key.0)))?;
    }
    if let Some(StepId(id)) = step {
        members.set(&StepId(own(&id)))?;
    }
    cx.extensions.insert(members);
    Ok(())
}

fn run_one(dispatcher: &Dispatcher, mut call: Call) -> impl Future<Output = Outcome> + use<> {
    let negotiated = call.cx().caller.mgp;
    let active = negotiated.unwrap_or_default() & ExtensionSet::PROPOSALS;
    // Collect the members of this call's result separately; otherwise they would be added to the result of the batch.
    let members = ResultMembers::collect(call.cx_mut(), active);
    let answer = call_tool::call(dispatcher.clone(), call);
    async move {
        let result = answer.await.and_then(|mut reply| {
            let body = reply.as_body_mut().ok_or_else(|| RpcError::internal("no result"))?;
            members.write(body);
            Ok(Payload::from_trusted(String::from_utf8_lossy(&body.to_json()).into_owned()))
        });
        match result {
            Ok(result) => Outcome::Result(result),
            Err(error) if negotiated.is_some() => Outcome::Error(error),
            // The hints are a member of MGP, which a plain caller must not see.
            Err(error) => Outcome::Error(error.without_recovery()),
        }
    }
}
