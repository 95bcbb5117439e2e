//! What hosts and agents talk to: one server of MCP and MGP (DESIGN §5).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_lifecycle::Fleet;
use mgp_server_sdk::Server;
use mgp_types::mcp::{ListChanged, ResourcesCapability};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::Router;

use super::hops::CameLayer;
use super::remedy::RemedyLayer;
use super::switch::{Switch, tasks};

/// What the kernel answers of MGP.
const SERVED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::Streaming)
    .with(Extension::ToolSecurity)
    .with(Extension::AccessControl)
    .with(Extension::Lifecycle)
    .with(Extension::Discovery)
    .with(Extension::ToolDiscovery);

/// What a model should know before it looks for a tool.
const INSTRUCTIONS: &str = "Tools of many servers are behind this one. \
    Find the right one with mgp_tools_discover, then call it by its name, or with mgp_tools_call.";

/// A server that passes everything on.
pub(super) fn server(switch: &Switch, admin: Router) -> Server {
    let (router, shown) = (switch.router(admin), switch.shown());
    let index = switch.parts().fleet.ground().index.clone();
    let herald = &switch.parts().fleet.ground().herald;
    let server = Server::new("mgp", env!("CARGO_PKG_VERSION")).herald(herald, switch.clone());
    server.drain_handle().fleet(Arc::clone(&shown) as Arc<dyn Fleet>);
    server
        .instructions(INSTRUCTIONS)
        .offer(|offer| {
            if let Some(mgp) = &mut offer.mgp {
                mgp.extensions = SERVED;
            }
            let mut tools = ListChanged::new();
            tools.list_changed = Some(true);
            offer.capabilities.tools = Some(tools.clone());
            // Offered always: what servers have comes and goes, and a list may be empty.
            offer.capabilities.prompts = Some(tools);
            let mut resources = ResourcesCapability::new();
            resources.list_changed = Some(true);
            resources.subscribe = Some(true);
            offer.capabilities.resources = Some(resources);
            offer.capabilities.completions.get_or_insert_default();
        })
        .logging()
        .tasks_of(move |tool| tasks::support(&index, tool))
        .layer((
            // How far a call has come, before anything is made of it.
            CameLayer,
            switch.notes(),
            // What helps against a refusal is told in the words of the program.
            RemedyLayer,
        ))
        .health(|health| health.fleet(shown))
        .endpoints(router)
}
