//! The proposals that the kernel serves: extensions beyond MGP that callers and servers negotiate.
//!
//! A call of a caller that negotiated none of them passes no layer of this module.

use mgp_discovery::KernelConfig;
use mgp_lifecycle::ProposalLayer;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Call, MgpService, Stack};
use tower::ServiceBuilder;

/// The proposals that the kernel serves; the configuration may leave some out.
const SERVED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::Checkpoint)
    .with(Extension::DataReferences);

/// The proposals whose members the kernel exchanges with servers.
pub(crate) const WITH_SERVERS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::Checkpoint)
    .with(Extension::DataReferences);

/// Returns the proposals that a kernel with this configuration serves.
pub(crate) fn served(config: &KernelConfig) -> ExtensionSet {
    let served = config.extensions & SERVED;
    match config.references.listen {
        Some(_) => served,
        None => served.without(Extension::DataReferences),
    }
}

/// Adds the layers of the proposals: one per line, outermost first, each with its reason.
pub(crate) fn layers(inner: impl MgpService) -> Stack {
    let service = ServiceBuilder::new()
        // All others use the members of the call.
        .layer(ProposalLayer::new())
        .service(inner);
    Stack::new(service)
}

/// Returns whether layers of proposals apply to a call.
pub(crate) fn apply_to(call: &Call) -> bool {
    call.cx().caller.mgp.is_some_and(|active| !(active & ExtensionSet::PROPOSALS).is_empty())
}
