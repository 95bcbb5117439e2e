//! Answers methods of inactive extensions as if the methods did not exist (MGP §2.4).

use mgp_types::mcp::{Era, key};
use mgp_types::method::{self, lookup};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Call, Kind, PeerInfo};
use mgp_types::{ErrorCode, Payload, RpcError};

/// The decision whether an inbound call is passed on.
#[derive(Debug)]
pub(crate) enum GateDecision {
    Pass,
    Refuse(RpcError),
    /// The call is a notification of an extension that was not negotiated, so it is dropped.
    Drop,
}

/// Decides whether a call passes: a method of MCP must exist in the caller's era, and a method of MGP must belong to an
/// active extension. Other methods pass. `served` are the extensions of this server.
pub(crate) fn check(call: &Call, caller: &PeerInfo, served: ExtensionSet) -> GateDecision {
    let name = call.method().as_str();
    let known = lookup(name);
    if let Some(info) = known
        && info.kind == method::Kind::Notification
        && call.kind() == Kind::Request
    {
        return GateDecision::Refuse(not_a_request(name));
    }
    let inactive = match known.and_then(|info| info.extension) {
        Some(extension) => !caller.has(extension),
        None => is_mgp_named(name) && !caller.supports_mgp(),
    };
    let foreign = known.is_some_and(|info| !info.is_in_era(caller.era));
    if !inactive && !foreign {
        return GateDecision::Pass;
    }
    if call.kind() == Kind::Notification {
        return GateDecision::Drop;
    }
    // Name the extension only if the server serves it; otherwise offering it would not help the client.
    let missing = known
        .and_then(|info| info.extension)
        .filter(|extension| inactive && !foreign && served.contains(*extension));
    GateDecision::Refuse(match missing {
        Some(extension) if caller.era == Era::Modern => needs_extension(name, extension),
        _ => RpcError::method_not_found(name),
    })
}

fn is_mgp_named(method: &str) -> bool {
    method.starts_with("mgp/") || method.starts_with("notifications/mgp.")
}

/// Returns the error −32601 (method not found) for a notification that was sent with an id.
fn not_a_request(name: &str) -> RpcError {
    let message = format!("`{name}` is a notification; send it without `id`");
    RpcError::new(ErrorCode::METHOD_NOT_FOUND, message)
}

/// Returns the error −32021 (missing client capability), with the extension that a modern client would have to offer
/// for the method.
fn needs_extension(method: &str, extension: Extension) -> RpcError {
    let needed = format!(
        r#"{{"requiredCapabilities":{{"extensions":{{"{}":{{"extensions":["{extension}"]}}}}}}}}"#,
        key::MGP
    );
    RpcError::new(
        ErrorCode::MISSING_CLIENT_CAPABILITY,
        format!("`{method}` needs the extension {}", key::MGP),
    )
    .data(Payload::from_trusted(needed))
}
