//! Silence towards peers that did not negotiate: an inactive method is answered as if it did not exist (MGP §2.4).
//!
//! Applies to: inbound.

use mgp_types::mcp::{Era, key};
use mgp_types::method::lookup;
use mgp_types::service::{Call, Facts, Kind};
use mgp_types::{ErrorCode, Payload, RpcError};

/// What an inbound call meets at the gate.
#[derive(Debug)]
pub(crate) enum Entry {
    /// It goes on.
    Pass,
    /// It is refused.
    Refuse(RpcError),
    /// A notification that nobody negotiated: it is dropped.
    Drop,
}

/// Lets a call pass whose method is part of MCP, or of an active extension.
pub(crate) fn entry(call: &Call, caller: &Facts) -> Entry {
    let method = call.method().as_str();
    let known = lookup(method);
    let inactive = match known.and_then(|info| info.extension) {
        Some(extension) => !caller.has(extension),
        None => is_mgp_named(method) && !caller.speaks_mgp(),
    };
    let foreign = known.is_some_and(|info| !info.is_in_era(caller.era));
    match (inactive || foreign, call.kind()) {
        (false, _) => Entry::Pass,
        (true, Kind::Notification) => Entry::Drop,
        (true, Kind::Request) if caller.era == Era::Modern && inactive => {
            Entry::Refuse(needs_extension(method))
        }
        (true, Kind::Request) => Entry::Refuse(RpcError::method_not_found(method)),
    }
}

fn is_mgp_named(method: &str) -> bool {
    method.starts_with("mgp/") || method.starts_with("notifications/mgp.")
}

/// −32021: a modern client learns what it would have to offer.
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
