//! The extensions and capabilities that the kernel offers to its servers. Servers list some tools, and some members of
//! definitions, only to clients that offer certain extensions or capabilities.

use mgp_client_sdk::{ClientBuilder, ClientConfig};
use mgp_discovery::{KernelConfig, ServerConfig};
use mgp_lifecycle::Answerer;
use mgp_types::mcp::{ElicitationCapability, ListChanged, SamplingCapability};
use mgp_types::mgp::{Extension, ExtensionSet};

use crate::proposals::{WITH_SERVERS, served};

/// The extensions of MGP that the kernel offers to servers, because it implements them itself.
const EXTENSIONS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::Security)
    .with(Extension::Lifecycle)
    .with(Extension::Callbacks)
    .with(Extension::Streaming)
    .with(Extension::Events);

/// Offers to a server the extensions that a kernel with this configuration would offer, so that the server lists the
/// same definitions.
pub fn offer_extensions(
    builder: ClientBuilder,
    kernel: &KernelConfig,
    server: &ServerConfig,
) -> ClientBuilder {
    offer_to(builder, served(kernel) & WITH_SERVERS, server)
}

/// Offers to a server the extensions of the kernel and the given extensions beyond MGP, except those that the server's
/// configuration excludes.
pub(super) fn offer_to(
    builder: ClientBuilder,
    proposals: ExtensionSet,
    server: &ServerConfig,
) -> ClientBuilder {
    let builder = builder.limit_extensions(EXTENSIONS).offer_also(proposals);
    match &server.mgp {
        None => builder.without_mgp(),
        Some(mgp) if !mgp.extensions.is_empty() => {
            builder.limit_extensions(ExtensionSet::from_names(&mgp.extensions))
        }
        Some(_) => builder,
    }
}

/// Sets the capabilities that the kernel declares to servers on behalf of its callers, e.g. elicitation and sampling.
/// Some servers list further tools for clients with these capabilities.
pub fn offer_callers(config: &mut ClientConfig, has_roots: bool) {
    // In the modern era, each request declares what its own caller supports. In the legacy era, several callers share a
    // session, so the session declares all capabilities, and the kernel refuses requests that the caller does not
    // support.
    config.offer.answerer = Answerer::Caller;
    let offered = &mut config.offer.capabilities;
    let ask = offered.elicitation.get_or_insert_with(ElicitationCapability::new);
    ask.form.get_or_insert_default();
    ask.url.get_or_insert_default();
    let sample = offered.sampling.get_or_insert_with(SamplingCapability::new);
    sample.tools.get_or_insert_default();
    sample.context.get_or_insert_default();
    if has_roots {
        let mut roots = ListChanged::new();
        roots.list_changed = Some(true);
        offered.roots.get_or_insert(roots);
    }
    // Declare support for pages (user interfaces of tools, MCP Apps) to every server: servers offer tools with pages
    // only to clients that support pages, and all callers share one list of tools.
    offered.declare_apps();
}
