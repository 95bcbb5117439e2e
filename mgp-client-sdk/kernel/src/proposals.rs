//! The proposals that the kernel serves: extensions beyond MGP that callers and servers negotiate.
//!
//! A call of a caller that negotiated none of them passes no layer of this module.

use mgp_lifecycle::ProposalLayer;
use mgp_security::CallerConfirmLayer;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Call, MgpService, Stack};
use tower::ServiceBuilder;

/// The proposals that the kernel serves; the configuration may leave some out.
pub(crate) const SERVED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::Idempotency)
    .with(Extension::Transactions)
    .with(Extension::CostHints)
    .with(Extension::Scopes)
    .with(Extension::HumanInTheLoop)
    .with(Extension::StructuredErrors);

/// The proposals whose members the kernel exchanges with servers.
pub(crate) const WITH_SERVERS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::Idempotency)
    .with(Extension::Transactions)
    .with(Extension::CostHints)
    .with(Extension::Scopes);

/// The proposals by which servers state more about their tools.
pub(crate) const OF_TOOLS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::CostHints)
    .with(Extension::Scopes)
    .with(Extension::HumanInTheLoop);

/// Adds the layers of the proposals: one per line, outermost first, each with its reason.
pub(crate) fn layers(inner: impl MgpService) -> Stack {
    let service = ServiceBuilder::new()
        // All others use the members of the call.
        .layer(ProposalLayer::new())
        // Answers an unconfirmed call with a question, below which the gates decide.
        .layer(CallerConfirmLayer)
        .service(inner);
    Stack::new(service)
}

/// Returns whether layers of proposals apply to a call.
pub(crate) fn apply_to(call: &Call) -> bool {
    call.cx().caller.mgp.is_some_and(|active| !(active & ExtensionSet::PROPOSALS).is_empty())
}
