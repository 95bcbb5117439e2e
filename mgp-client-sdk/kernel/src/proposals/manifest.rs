//! Manifests (proposal 1): that of the kernel, and those of servers that are not started yet.

use std::path::Path;

use mgp_discovery::{ServerConfig, read_manifest};
use mgp_toolindex::{ServerEntry, name_for};
use mgp_types::mcp::Revision;
use mgp_types::method::ManifestGet;
use mgp_types::mgp::{ExtensionSet, ServerState};
use mgp_types::proposal::{ManifestServer, ManifestTool, ServiceManifest};
use mgp_types::service::{Context, Router};

use crate::dispatch::Dispatcher;
use crate::fleet::FleetContext;
use crate::hops;

/// The version of the format of manifests.
const MANIFEST_VERSION: &str = "0.1.0";

/// Returns the router of `mgp/manifest/get`; `offered` are the extensions of the kernel.
pub(crate) fn router(dispatcher: &Dispatcher, offered: ExtensionSet) -> Router {
    let dispatcher = dispatcher.clone();
    Router::new().on::<ManifestGet, _, _>(move |cx, _| {
        let dispatcher = dispatcher.clone();
        async move {
            let fleet = &dispatcher.parts().fleet;
            dispatcher.wait_for_new(&cx, fleet.all().values()).await;
            Ok(manifest(&dispatcher, &cx, offered))
        }
    })
}

/// Returns the manifest of the kernel as a caller sees it: all tools that the caller may use.
fn manifest(dispatcher: &Dispatcher, cx: &Context, offered: ExtensionSet) -> ServiceManifest {
    let parts = dispatcher.parts();
    let (index, caller) = (&parts.fleet.context().index, parts.search.caller(cx));
    let tools = index.listed(&caller).into_iter().filter_map(|indexed| {
        let mut tool = indexed.tool().ok()?;
        tool.name = name_for(&indexed, index, &caller);
        super::media::fit(cx, &mut tool);
        Some(ManifestTool::of(&tool))
    });
    let mut server = ManifestServer::new(hops::KERNEL_NAME, env!("CARGO_PKG_VERSION"));
    server.mcp_spec_version = Some(Revision::MODERN.to_string());
    let mut manifest = ServiceManifest::new(MANIFEST_VERSION, server, tools.collect::<Vec<_>>());
    manifest.supported_extensions = offered.iter().map(|one| one.to_string()).collect();
    manifest
}

/// Puts the tools of a server's manifest file into the index; returns `false` if it has none that can be used.
///
/// The definitions that the server itself lists replace them as soon as it is started.
pub(crate) fn index_file(context: &FleetContext, config: &ServerConfig) -> bool {
    let Some(file) = &config.manifest else { return false };
    match index(context, config, file) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(server = %config.id, %error, "manifest not used; the server is started");
            false
        }
    }
}

fn index(context: &FleetContext, config: &ServerConfig, file: &Path) -> Result<(), String> {
    let manifest = read_manifest(file).map_err(|error| error.to_string())?;
    let mut entry = ServerEntry::new(config.id.as_str())
        .state(ServerState::Disconnected)
        .name(manifest.server.name.as_str());
    if let Some(description) = &manifest.server.description {
        entry = entry.description(description.as_str());
    }
    if let Some(mgp) = &config.mgp {
        entry = entry.categories(mgp.tags.iter().cloned());
    }
    // Without security metadata, so that each tool counts as dangerous until the server lists it.
    let entry = entry.tools(manifest.tools.iter().map(ManifestTool::to_tool));
    let put = context.index.put(entry).map_err(|error| error.to_string())?;
    for refused in &put.refused {
        let (tool, reason) = (&refused.name, &refused.reason);
        tracing::warn!(server = %config.id, %tool, %reason, "tool of a manifest not indexed");
    }
    Ok(())
}
