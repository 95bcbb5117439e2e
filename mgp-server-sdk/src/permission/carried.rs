//! Grants that come with a modern request, for that request only, and the question for those that are missing
//! (MGP §3.6; checklist D11).
//!
//! Applies to: inbound.

use std::collections::BTreeMap;

use mgp_types::Payload;
use mgp_types::RpcError;
use mgp_types::mcp::{Era, InputResponses, key};
use mgp_types::method::{PermissionRequest, Request};
use mgp_types::mgp::{
    Extension, Grant, Permission, PermissionDecision, PermissionRequestParams,
    PermissionRequestResult,
};
use mgp_types::service::{Ask, Call, InputRequired, Params, Reply};
use serde::Deserialize;

use crate::tool::Grants;

/// Under which name a caller is asked; a call that brings an answer to it is not asked again.
const KEY: &str = "mgp.permission";

type Decisions = BTreeMap<Permission, Grant>;

/// Lets a call work with the grants it brings.
pub(crate) fn bring(call: &mut Call) {
    if says_what_stands(call)
        && let Some(grants) = in_meta(call.params())
    {
        note(call, [decision(grants)]);
    }
}

/// The same for a call of such a caller that needs permissions; gives a question where the call does not say how they
/// stand, unless it is the one that was asked.
pub(crate) fn bring_or_ask(
    call: &mut Call,
    needed: &[Permission],
) -> Result<Option<Reply>, RpcError> {
    let (brought, answered) = (in_meta(call.params()), answer(call.params())?);
    let is_told = brought.is_some() || answered.is_some();
    if !is_told && Grants::of(call.cx()).is_told() {
        // The connection was told by requests.
        return Ok(None);
    }
    let said = Permission::canonical(brought.iter().flat_map(Decisions::keys));
    let unsaid: Vec<_> = needed.iter().filter(|name| !said.contains(name)).cloned().collect();
    if answered.is_none() && !unsaid.is_empty() {
        return question(call, unsaid).map(Some);
    }
    // What the request itself says is newer than the answer.
    note(call, answered.into_iter().chain(brought.map(decision)));
    Ok(None)
}

/// Whether a caller says with each call what stands; one that speaks no MGP does not, and is never asked.
pub(crate) fn says_what_stands(call: &Call) -> bool {
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

fn decision(grants: Decisions) -> PermissionDecision {
    PermissionDecision::new(String::new(), grants)
}

/// `_meta["dev.cloto/mgp"].grants`, else in the older spelling; what cannot be read says nothing.
fn in_meta(params: &Params) -> Option<Decisions> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "dev.cloto/mgp")]
        mgp: Option<Payload>,
        #[serde(rename = "dev.cloto/mgp/grants")]
        grants: Option<Payload>,
    }
    #[derive(Deserialize)]
    struct Mgp {
        grants: Option<Payload>,
    }
    let text = params.meta_str().filter(|text| text.contains(key::MGP))?;
    let meta: Meta = serde_json::from_str(text).ok()?;
    let ours = meta.mgp.and_then(|mgp| mgp.get::<Mgp>().ok()).and_then(|mgp| mgp.grants);
    ours.or(meta.grants)?.get().ok()
}

/// What the caller answered to our question.
fn answer(params: &Params) -> Result<Option<PermissionDecision>, RpcError> {
    let Some(responses) = params.input_responses() else { return Ok(None) };
    let responses: InputResponses = responses.get()?;
    let Some(answer) = responses.get(KEY) else { return Ok(None) };
    let answer: PermissionRequestResult = answer.get().map_err(RpcError::invalid_params)?;
    let mut decision = decision(answer.grants.unwrap_or_default());
    decision.expires_at = answer.expires_at;
    Ok(Some(decision))
}

fn question(call: &Call, missing: Vec<Permission>) -> Result<Reply, RpcError> {
    let mut params = PermissionRequestParams::new(call.cx().key.to_string(), missing);
    params.message = call.tool().map(|tool| format!("`{}` needs these permissions", tool.name));
    let ask = Ask::new(PermissionRequest::METHOD, Payload::of(&params)?);
    Ok(Reply::InputRequired(InputRequired { asks: vec![(KEY.to_owned(), ask)], state: None }))
}
