//! The MGP half of the handshake: offers to an active set (MGP §2.4).
//!
//! Applies to: both.

use mgp_types::mcp::{ClientCapabilities, ServerCapabilities, key};
use mgp_types::mgp::{ExtensionSet, MgpCapability};
use mgp_types::{Lenient, Object, Payload, RpcError};

use super::offer::MgpOffer;

/// What a peer offered, read with all tolerance: a malformed or foreign offer means plain MCP.
pub(crate) fn read_offer(
    offered: Option<&Lenient<MgpCapability>>,
    ours: &MgpOffer,
) -> Option<MgpCapability> {
    let offered = match offered? {
        Lenient::Valid(offered) => offered,
        _ => {
            tracing::warn!("the peer's `mgp` object is malformed; speaking plain MCP");
            return None;
        }
    };
    if !ours.version.is_compatible(&offered.version) {
        tracing::warn!(ours = %ours.version, theirs = %offered.version, "MGP versions do not fit; speaking plain MCP");
        return None;
    }
    Some(offered.clone())
}

/// The active set: what both offered.
pub(crate) fn active(ours: &MgpOffer, theirs: &MgpCapability) -> ExtensionSet {
    ours.extensions & theirs.extension_set()
}

/// What a server answers a client that offered MGP: the intersection, in the client's words (checklist C41, C48).
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

/// What a client offers.
pub(crate) fn client_offer(ours: &MgpOffer) -> MgpCapability {
    let names: Vec<_> =
        ours.extensions.iter().map(|extension| extension.as_str().to_owned()).collect();
    MgpCapability::new(ours.version.clone(), names)
}

/// Puts a server's answer where both MGP and MCP look for it (DESIGN §4).
pub(crate) fn put_server(
    capabilities: &mut ServerCapabilities,
    mgp: MgpCapability,
) -> Result<(), RpcError> {
    put_extension(&mut capabilities.extensions, &mgp)?;
    capabilities.mgp = Some(mgp.into());
    Ok(())
}

/// The same for a client's offer.
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
