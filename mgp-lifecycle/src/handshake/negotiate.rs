//! The MGP part of the handshake: determines the active extensions from two offers (MGP §2.4).

use mgp_types::mcp::{ClientCapabilities, MgpPlaces, ServerCapabilities, key};
use mgp_types::mgp::{Extension, ExtensionSet, MgpCapability};
use mgp_types::{Lenient, Object, Payload, RpcError};

use super::offer::MgpOffer;

/// Parses a peer's offer. A malformed or incompatible offer counts as no offer, so the connection uses plain MCP.
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

/// Returns the extensions of an offer. Error handling is always one of them, because every MGP peer supports it (§14).
pub(crate) fn offered(ours: &MgpOffer) -> ExtensionSet {
    ours.extensions.with(Extension::ErrorHandling)
}

/// Returns the extensions that both sides offered.
pub(crate) fn active(ours: &MgpOffer, theirs: &MgpCapability) -> ExtensionSet {
    offered(ours) & theirs.extension_set()
}

/// Returns a server's answer to a client's offer: the extensions that both have, under the names that the client used.
pub(crate) fn server_answer(ours: &MgpOffer, theirs: &MgpCapability) -> MgpCapability {
    let names = active(ours, theirs).names_for(&theirs.extensions);
    let mut answer = MgpCapability::new(
        ours.version.clone(),
        names.into_iter().map(str::to_owned).collect::<Vec<_>>(),
    );
    answer.permissions_required = ours.permissions_required.clone().into();
    answer.server_id.clone_from(&ours.server_id);
    answer.trust_level = ours
        .trust_level
        .as_ref()
        .map(|trust| if theirs.speaks_later_words() { trust.later() } else { trust.seed() });
    answer
}

pub(crate) fn client_offer(ours: &MgpOffer) -> MgpCapability {
    let names: Vec<_> = offered(ours).offered_names().map(str::to_owned).collect();
    MgpCapability::new(ours.version.clone(), names)
}

/// Writes a server's MGP answer into its capabilities, at each place where the client had put its offer.
pub(crate) fn put_server(
    capabilities: &mut ServerCapabilities,
    mgp: MgpCapability,
    places: MgpPlaces,
) -> Result<(), RpcError> {
    if places.extension {
        put(&mut capabilities.extensions, key::MGP, &mgp)?;
    }
    if places.experimental {
        put(&mut capabilities.experimental, key::MGP_SHORT, &mgp)?;
    }
    if places.capability {
        capabilities.mgp = Some(mgp.into());
    }
    Ok(())
}

/// Inserts a client's offer into the capabilities of `initialize`, in the member that every MGP revision reads.
pub(crate) fn put_legacy(capabilities: &mut ClientCapabilities, mgp: MgpCapability) {
    capabilities.mgp = Some(mgp.into());
}

/// Writes a client's offer for modern requests, which contain it only as an MCP extension.
pub(crate) fn put_modern(
    capabilities: &mut ClientCapabilities,
    mgp: &MgpCapability,
) -> Result<(), RpcError> {
    put(&mut capabilities.extensions, key::MGP, mgp)
}

fn put(object: &mut Option<Object>, name: &str, mgp: &MgpCapability) -> Result<(), RpcError> {
    object.get_or_insert_default().insert(name, Payload::of(mgp)?);
    Ok(())
}
