//! The extensions beyond MGP (proposals) that callers and servers can negotiate with the kernel.
//!
//! A call passes the layers of this module only if its caller has negotiated such an extension or is limited to scopes.

pub(crate) mod manifest;
pub(crate) mod media;
mod meta_tools;
pub(crate) mod provenance;
pub(crate) mod recommend;
pub(crate) mod session_state;

use mgp_discovery::KernelConfig;
use mgp_lifecycle::ProposalLayer;
use mgp_security::{CallerConfirmLayer, Scopes};
use mgp_types::Extras;
use mgp_types::mcp::Meta;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Call, MgpService, Reply, Stack};
use tower::ServiceBuilder;

use self::meta_tools::MetaToolsLayer;
use self::recommend::Recommender;
use self::session_state::SessionStates;

/// The extensions beyond MGP that the kernel can serve. The configuration can switch some of them off.
const SERVED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::Idempotency)
    .with(Extension::Transactions)
    .with(Extension::CostHints)
    .with(Extension::Scopes)
    .with(Extension::HumanInTheLoop)
    .with(Extension::StructuredErrors)
    .with(Extension::Manifest)
    .with(Extension::Provenance)
    .with(Extension::MultimodalSignatures)
    .with(Extension::ServerRecommendations)
    .with(Extension::SessionState)
    .with(Extension::Checkpoint)
    .with(Extension::DataReferences);

/// The extensions whose members the kernel exchanges with servers.
pub(crate) const WITH_SERVERS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::Idempotency)
    .with(Extension::Transactions)
    .with(Extension::CostHints)
    .with(Extension::Scopes)
    .with(Extension::Provenance)
    .with(Extension::MultimodalSignatures)
    .with(Extension::SessionState)
    .with(Extension::Checkpoint)
    .with(Extension::DataReferences);

/// The extensions with which servers can declare additional members in the definitions of their tools.
pub(crate) const OF_TOOLS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::CostHints)
    .with(Extension::Scopes)
    .with(Extension::HumanInTheLoop);

/// The state of those extensions for which the kernel keeps state. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct ProposalState {
    /// The session states that servers returned for the kernel's callers.
    pub(crate) session_states: SessionStates,
    /// The recommender of servers from the registry file.
    pub(crate) recommender: Recommender,
    /// The extensions that the kernel serves until its next start. They do not change before, because the kernel has
    /// opened its state for exactly these.
    pub(crate) served: ExtensionSet,
}

impl ProposalState {
    /// Reads the registry file that the configuration names.
    pub(crate) async fn load(config: &KernelConfig) -> Self {
        let recommender = Recommender::load(config.registry.as_deref()).await;
        Self { session_states: SessionStates::default(), recommender, served: served(config) }
    }

    /// Returns the extensions whose members the kernel exchanges with servers.
    pub(crate) fn with_servers(&self) -> ExtensionSet {
        self.served & WITH_SERVERS
    }
}

pub(crate) fn served(config: &KernelConfig) -> ExtensionSet {
    let served = config.extensions & SERVED;
    match config.references.listen {
        Some(_) => served,
        None => served.without(Extension::DataReferences),
    }
}

/// Puts the layers of the extensions around a service. The outermost layer is added first.
pub(crate) fn layers(inner: impl MgpService, scopes: &Scopes) -> Stack {
    let service = ServiceBuilder::new()
        // Put this layer first, because all other layers use the members of the call, which it reads.
        .layer(ProposalLayer::new())
        // Add the scopes of the session, because the decision about a call needs them.
        .layer(scopes.layer())
        // Put this layer here, so that it answers an unconfirmed call with a question before the inner layers decide
        // about the call.
        .layer(CallerConfirmLayer)
        // Put this layer here, so that it answers calls of the meta tools before tools are looked up by name.
        .layer(MetaToolsLayer)
        .service(inner);
    Stack::new(service)
}

/// Returns whether the layers of the extensions apply to a call: its caller has negotiated such an extension, or is
/// limited to scopes.
pub(crate) fn apply_to(call: &Call, scopes: &Scopes) -> bool {
    let cx = call.cx();
    cx.caller.mgp.is_some_and(|active| !(active & ExtensionSet::PROPOSALS).is_empty())
        || scopes.is_limited(&cx.principal)
}

fn read_meta(reply: &Reply) -> Option<Meta> {
    let raw = reply.as_body()?.as_raw();
    // Search the text before parsing it, because few results have the member.
    if !raw.as_str().contains("_meta") {
        return None;
    }
    raw.get::<Extras>().ok()?.decode("_meta").ok()?
}
