//! Permission grants in modern requests: a grant applies only to the request that contains it. If a request lacks
//! grants, the server asks its caller for them (MGP §3.6).

use mgp_security::Grants;
use mgp_types::Payload;
use mgp_types::RpcError;
use mgp_types::mcp::{Era, InputResponses};
use mgp_types::method::{PermissionRequest, Request};
use mgp_types::mgp::{
    Extension, Permission, PermissionDecision, PermissionRequestParams, PermissionRequestResult,
};
use mgp_types::service::{Call, CallerRequest, InputRequired, Params, Reply};

/// The key under which the server asks a caller for permissions. If a call contains an answer under this key, its
/// caller is not asked again.
const KEY: &str = "mgp.permission";

/// Reads the permission grants from the params of a call, and stores them in its context.
pub(crate) fn apply_grants(call: &mut Call) {
    if sends_grants(call)
        && let Some(grants) = Grants::carried_by(call.params())
    {
        note(call, [grants]);
    }
}

/// Stores the grants that a call contains in the call's context. `needed` are the permissions that the called tool
/// needs. If the call lacks a decision about one of them and contains no answer to an earlier question, returns a
/// question to the caller instead, unless the client has sent its grants in separate requests.
pub(crate) fn apply_grants_or_ask(
    call: &mut Call,
    needed: &[Permission],
) -> Result<Option<Reply>, RpcError> {
    let (sent, answered) = (Grants::carried_by(call.params()), answer(call.params())?);
    if sent.is_none() && answered.is_none() && Grants::from_context(call.cx()).is_told() {
        // This client sent its grants earlier, in separate requests, so nothing is asked.
        return Ok(None);
    }
    let decided = Permission::canonical(sent.iter().flat_map(|sent| sent.grants.keys()));
    let open: Vec<_> = needed.iter().filter(|name| !decided.contains(name)).cloned().collect();
    if answered.is_none() && !open.is_empty() {
        return question(call, open).map(Some);
    }
    // Apply the grants in the request after the answer to the question: they are newer, so they override it.
    note(call, answered.into_iter().chain(sent));
    Ok(None)
}

/// Returns whether the caller sends its grants with each call, as a modern caller does that negotiated `permissions`. A
/// caller without MGP sends no grants, and is never asked for them.
pub(crate) fn sends_grants(call: &Call) -> bool {
    let caller = &call.cx().caller;
    caller.era == Era::Modern && caller.has(Extension::Permissions)
}

/// Stores decisions about permissions in the context of a call. They replace all decisions that the context contained
/// before.
fn note(call: &mut Call, decisions: impl IntoIterator<Item = PermissionDecision>) {
    let grants = Grants::default();
    for decision in decisions {
        grants.apply(&decision);
    }
    call.cx_mut().extensions.insert(grants);
}

/// Returns the caller's answer to the question for permissions.
fn answer(params: &Params) -> Result<Option<PermissionDecision>, RpcError> {
    let Some(responses) = params.input_responses() else { return Ok(None) };
    let responses: InputResponses = responses.get()?;
    let Some(answer) = responses.get(KEY) else { return Ok(None) };
    let answer: PermissionRequestResult = answer.get().map_err(RpcError::invalid_params)?;
    let mut decision = PermissionDecision::new("", answer.grants.unwrap_or_default());
    decision.expires_at = answer.expires_at;
    Ok(Some(decision))
}

/// Returns the reply that asks the caller to decide about permissions.
fn question(call: &Call, missing: Vec<Permission>) -> Result<Reply, RpcError> {
    let mut params = PermissionRequestParams::new(call.cx().key.to_string(), missing);
    params.message = call.tool().map(|tool| format!("`{}` needs these permissions", tool.name));
    let ask = CallerRequest::new(PermissionRequest::METHOD, Payload::of(&params)?);
    Ok(Reply::InputRequired(InputRequired { asks: vec![(KEY.to_owned(), ask)], state: None }))
}
