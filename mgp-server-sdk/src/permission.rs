//! Permission grants in modern requests: a grant applies only to the request that contains it. A caller whose request
//! lacks grants is asked for them (MGP §3.6).

use mgp_security::Grants;
use mgp_types::Payload;
use mgp_types::RpcError;
use mgp_types::mcp::{Era, InputResponses};
use mgp_types::method::{PermissionRequest, Request};
use mgp_types::mgp::{
    Extension, Permission, PermissionDecision, PermissionRequestParams, PermissionRequestResult,
};
use mgp_types::service::{Call, CallerRequest, InputRequired, Params, Reply};

/// The key of the question for permissions. If a call contains an answer under this key, its caller is not asked again.
const KEY: &str = "mgp.permission";

/// Applies the permission grants in a call's params to that call.
pub(crate) fn apply_grants(call: &mut Call) {
    if sends_grants(call)
        && let Some(grants) = Grants::carried_by(call.params())
    {
        note(call, [grants]);
    }
}

/// Applies the grants in a call whose tool needs the permissions `needed`. Returns a question to the caller if the
/// call lacks a decision about one of these permissions, and does not answer an earlier question.
pub(crate) fn apply_grants_or_ask(
    call: &mut Call,
    needed: &[Permission],
) -> Result<Option<Reply>, RpcError> {
    let (brought, answered) = (Grants::carried_by(call.params()), answer(call.params())?);
    let is_told = brought.is_some() || answered.is_some();
    if !is_told && Grants::from_context(call.cx()).is_told() {
        // This client sent its grants earlier, in separate requests, so the call need not contain any.
        return Ok(None);
    }
    let said = Permission::canonical(brought.iter().flat_map(|told| told.grants.keys()));
    let unsaid: Vec<_> = needed.iter().filter(|name| !said.contains(name)).cloned().collect();
    if answered.is_none() && !unsaid.is_empty() {
        return question(call, unsaid).map(Some);
    }
    // The grants in the request are applied last, because they are newer than the answer and must override it.
    note(call, answered.into_iter().chain(brought));
    Ok(None)
}

/// Returns whether the caller sends its grants with each call. A caller without MGP does not, and is never asked for
/// them.
pub(crate) fn sends_grants(call: &Call) -> bool {
    let caller = &call.cx().caller;
    caller.era == Era::Modern && caller.has(Extension::Permissions)
}

fn note(call: &mut Call, decisions: impl IntoIterator<Item = PermissionDecision>) {
    let grants = Grants::default();
    for decision in decisions {
        grants.apply(&decision);
    }
    call.cx_mut().extensions.insert(grants);
}

fn answer(params: &Params) -> Result<Option<PermissionDecision>, RpcError> {
    let Some(responses) = params.input_responses() else { return Ok(None) };
    let responses: InputResponses = responses.get()?;
    let Some(answer) = responses.get(KEY) else { return Ok(None) };
    let answer: PermissionRequestResult = answer.get().map_err(RpcError::invalid_params)?;
    let mut decision = PermissionDecision::new("", answer.grants.unwrap_or_default());
    decision.expires_at = answer.expires_at;
    Ok(Some(decision))
}

fn question(call: &Call, missing: Vec<Permission>) -> Result<Reply, RpcError> {
    let mut params = PermissionRequestParams::new(call.cx().key.to_string(), missing);
    params.message = call.tool().map(|tool| format!("`{}` needs these permissions", tool.name));
    let ask = CallerRequest::new(PermissionRequest::METHOD, Payload::of(&params)?);
    Ok(Reply::InputRequired(InputRequired { asks: vec![(KEY.to_owned(), ask)], state: None }))
}
