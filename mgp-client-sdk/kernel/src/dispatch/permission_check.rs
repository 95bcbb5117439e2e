//! The methods of the extension `scopes`: `mgp/permissions/check` returns whether a call would be allowed to run,
//! without running it; the others negotiate and revoke scopes.

use mgp_security::{CallOutcome, CallVerdict, Refusal};
use mgp_types::method::{PermissionsCheck, Request as _, ScopesNegotiate, ScopesRevoke, ToolsCall};
use mgp_types::proposal::{CheckPermissionsParams, CheckPermissionsResult, RevokeScopesResult};
use mgp_types::service::{Call, Context, Method, Params, Router, ServerId};
use mgp_types::{List, Payload, RpcError};

use super::dispatcher::Dispatcher;
use super::find_tool::{CallAddress, ResolvedTool, resolve_tool};
use crate::admin::requirement_words;

/// Returns the router of the methods that check permissions and that negotiate and revoke scopes.
pub(super) fn router(dispatcher: &Dispatcher) -> Router {
    let scopes = &dispatcher.parts().fleet.context().scopes;
    let (checking, negotiating, revoking) = (dispatcher.clone(), scopes.clone(), scopes.clone());
    Router::new()
        .on::<PermissionsCheck, _, _>(move |cx, params| {
            let result = check(&checking, cx, params);
            async move { Ok(result) }
        })
        .on::<ScopesNegotiate, _, _>(move |cx, params| {
            let scopes = negotiating.clone();
            async move { scopes.negotiate(&cx.principal, params).await }
        })
        .on::<ScopesRevoke, _, _>(move |cx, params| {
            let scopes = revoking.clone();
            async move {
                Ok(RevokeScopesResult::new(scopes.revoke(&cx.principal, &params.token).await?))
            }
        })
}

/// Finds the tool among the known tools, and decides about the call by the same rules as for a real call of this
/// caller.
fn check(
    dispatcher: &Dispatcher,
    cx: Context,
    params: CheckPermissionsParams,
) -> CheckPermissionsResult {
    let arguments = params.parameters.map(Payload::from);
    let given = arguments.clone().unwrap_or_else(Payload::empty_object);
    let intended = Params::tool(&params.tool, &given);
    let mut call = Call::request(Method::of(ToolsCall::METHOD), intended, cx);
    let (server, tool) = match resolve_tool(dispatcher, &mut call, &CallAddress::default()) {
        Ok(ResolvedTool::Found { tool, .. }) => {
            (ServerId::from(tool.server_id()), tool.name().to_owned())
        }
        Ok(ResolvedTool::Held(server)) => {
            let tool = call.tool().map_or_else(String::new, |tool| tool.name.to_owned());
            (server.id().clone(), tool)
        }
        Err(refusal) => return refused(&refusal.error, Vec::new()),
    };
    let governance = &dispatcher.parts().fleet.context().governance;
    result_of(&governance.explain_for(call.cx(), &server, &tool, arguments.as_ref()))
}

fn result_of(verdict: &CallVerdict) -> CheckPermissionsResult {
    match verdict.outcome() {
        CallOutcome::Allow => answer(true, Vec::new()),
        CallOutcome::Ask(requirement) => {
            let mut result = answer(false, Vec::new());
            result.reason = Some(requirement_words(requirement));
            result
        }
        CallOutcome::Refuse(refusal) => {
            let missing = match refusal {
                Refusal::Scopes(missing) => missing.scopes().to_vec(),
                _ => Vec::new(),
            };
            refused(&RpcError::from(refusal.clone()), missing)
        }
        _ => answer(false, Vec::new()),
    }
}

/// Creates an answer. It always has the member `missing_scopes`, which the proposal requires.
fn answer(allowed: bool, missing: Vec<String>) -> CheckPermissionsResult {
    let mut result = CheckPermissionsResult::new(allowed);
    result.missing_scopes = List::written(missing);
    result
}

fn refused(error: &RpcError, missing: Vec<String>) -> CheckPermissionsResult {
    let mut result = answer(false, missing);
    result.reason = Some(error.message().to_owned());
    result.code = Some(error.code().0);
    result
}
