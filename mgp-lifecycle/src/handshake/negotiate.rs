//! The MGP half of the handshake: two offers become an active set (MGP §2.4).

use mgp_types::mcp::{ClientCapabilities, ServerCapabilities, key};
use mgp_types::mgp::{ExtensionSet, MgpCapability};
use mgp_types::{Lenient, Object, Payload, RpcError};

use super::offer::MgpOffer;

/// Reads a peer's offer leniently: a malformed or incompatible offer means plain MCP.
pub(crate) fn read_offer(
    offered: Option<&Lenient<MgpCapability>>,
    ours: &MgpOffer,
) -> Option<MgpCapability> {
    let Lenient::Valid(offered) = offered? else {
        tracing::warn!("malformed `mgp` object of the peer; using plain MCP");
        return None;
    };
    if !ours.version.is_compatible(&offered.version) {
        tracing::warn!(ours = %ours.version, theirs = %offered.version, "incompatible MGP versions; using plain MCP");
        return None;
    }
    Some(offered.clone())
}

/// Returns the extensions that both offered.
pub(crate) fn active(ours: &MgpOffer, theirs: &MgpCapability) -> ExtensionSet {
    ours.extensions & theirs.extension_set()
}

/// Returns a server's answer to a client that offered MGP: the intersection, with the client's extension names.
pub(crate) fn server_answer(ours: &MgpOffer, theirs: &MgpCapability) -> MgpCapability {
    let names = active(ours, theirs).names_for(&theirs.extensions);
    let mut answer = MgpCapability::new(
        ours.version.clone(),
        names.into_iter().map(str::to_owned).collect::<Vec<_>>(),
    );
    answer.permissions_required = ours.permissions_required.clone().into();
    answer.server_id.clone_from(&ours.server_id);
    answer.trust_level.clone_from(&ours.trust_level);
    answer
}

pub(crate) fn client_offer(ours: &MgpOffer) -> MgpCapability {
    let names: Vec<_> =
        ours.extensions.iter().map(|extension| extension.as_str().to_owned()).collect();
    MgpCapability::new(ours.version.clone(), names)
}

/// Writes a server's answer to both places where MGP and MCP peers look for it.
pub(crate) fn put_server(
    capabilities: &mut ServerCapabilities,
    mgp: MgpCapability,
) -> Result<(), RpcError> {
    put_extension(&mut capabilities.extensions, &mgp)?;
    capabilities.mgp = Some(mgp.into());
    Ok(())
}

/// Writes a client's offer to both places where MGP and MCP peers look for it.
pub(crate) fn put_client(
    capabilities: &mut ClientCapabilities,
    mgp: MgpCapability,
) -> Result<(), RpcError> {
    put_extension(&mut capabilities.extensions, &mgp)?;
    capabilities.mgp = Some(mgp.into());
    Ok(())
}

fn put_extension(extensions: &mut Option<Object>, mgp: &MgpCapability) -> Result<(), RpcError> {
    let mut all = extensions.take().unwrap_or_default();
    all.insert(key::MGP, Payload::of(mgp)?);
    *extensions = Some(all);
    Ok(())
}
