//! `_mgp.delegation` of a call: the agents on whose behalf it is made (MGP §5.6).
//!
//! The member is `{"chain": ["first", "second"]}` or `{"agent_id": "first"}`. The caller and each of these agents must
//! have the access that the call needs, so no caller gains a right by naming another agent.

use mgp_security::Delegation;
use mgp_types::service::Call;
use mgp_types::{ErrorCode, Object, Payload, RawObject, Recovery, RpcError};
use serde::Deserialize;

/// The maximum length of the name of an agent in `_mgp.delegation`, in bytes.
const MAX_NAME_BYTES: usize = 128;

#[derive(Deserialize)]
struct Named {
    agent_id: Option<String>,
    #[serde(default)]
    chain: Vec<String>,
}

/// Reads the names of the agents from the member `_mgp.delegation` of a call. Refuses a member in any other form: if
/// the kernel ignored it, the call would have more rights than the caller intended.
pub(super) fn agents(member: &RawObject) -> Result<Vec<String>, RpcError> {
    let unfit = |what: &str| RpcError::invalid_params(format!("`_mgp.delegation`: {what}"));
    let named: Named = Payload::of(member)?.get()?;
    let agents: Vec<String> = named.chain.into_iter().chain(named.agent_id).collect();
    if agents.is_empty() {
        return Err(unfit("name the agents in `chain`, or one in `agent_id`"));
    }
    if agents.len() > Delegation::MAX_DEPTH {
        let message = format!(
            "the call is delegated over {} agents; {} are possible",
            agents.len(),
            Delegation::MAX_DEPTH
        );
        let details = Object::new().with("reason", "delegation_depth_exceeded");
        let hints = Recovery::default_for(ErrorCode::PERMISSION_DENIED).unwrap_or_default();
        let refused = RpcError::new(ErrorCode::PERMISSION_DENIED, message);
        return Err(refused.recovery(hints.details(details)));
    }
    if agents.iter().any(|agent| agent.is_empty() || agent.len() > MAX_NAME_BYTES) {
        return Err(unfit("an agent's name has 1 to 128 bytes"));
    }
    Ok(agents)
}

/// Adds the agents to the context of a call, where the access check reads them.
pub(super) fn apply(call: &mut Call, agents: &[String]) {
    if agents.is_empty() {
        return;
    }
    let delegation = Delegation::new(&call.cx().principal, agents.iter().map(String::as_str));
    call.cx_mut().extensions.insert(delegation);
}
