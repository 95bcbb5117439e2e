//! Methods of inactive extensions are answered as if they did not exist (MGP §2.4).

use mgp_types::mcp::{Era, key};
use mgp_types::method::lookup;
use mgp_types::service::{Call, Kind, PeerInfo};
use mgp_types::{ErrorCode, Payload, RpcError};

/// The decision about an inbound call.
#[derive(Debug)]
pub(crate) enum GateDecision {
    Pass,
    Refuse(RpcError),
    /// Drop a notification of an extension that was not negotiated.
    Drop,
}

/// Checks that a call's method is part of MCP, or of an active extension.
pub(crate) fn check(call: &Call, caller: &PeerInfo) -> GateDecision {
    let method = call.method().as_str();
    let known = lookup(method);
    let inactive = match known.and_then(|info| info.extension) {
        Some(extension) => !caller.has(extension),
        None => is_mgp_named(method) && !caller.speaks_mgp(),
    };
    let foreign = known.is_some_and(|info| !info.is_in_era(caller.era));
    match (inactive || foreign, call.kind()) {
        (false, _) => GateDecision::Pass,
        (true, Kind::Notification) => GateDecision::Drop,
        (true, Kind::Request) if caller.era == Era::Modern && inactive => {
            GateDecision::Refuse(needs_extension(method))
        }
        (true, Kind::Request) => GateDecision::Refuse(RpcError::method_not_found(method)),
    }
}

fn is_mgp_named(method: &str) -> bool {
    method.starts_with("mgp/") || method.starts_with("notifications/mgp.")
}

/// Returns −32021 with the extension that a modern client would have to offer.
fn needs_extension(method: &str) -> RpcError {
    let extension = lookup(method).and_then(|info| info.extension);
    let names = extension.map_or_else(String::new, |extension| format!("\"{extension}\""));
    let needed = format!(
        r#"{{"requiredCapabilities":{{"extensions":{{"{}":{{"extensions":[{names}]}}}}}}}}"#,
        key::MGP
    );
    RpcError::new(
        ErrorCode::MISSING_CLIENT_CAPABILITY,
        format!("`{method}` needs the extension {}", key::MGP),
    )
    .data(Payload::from_trusted(needed))
}
