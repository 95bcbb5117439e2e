//! Manifests of servers that are not started yet (proposal 1).

use std::path::Path;

use mgp_discovery::{ServerConfig, read_manifest};
use mgp_toolindex::{ServerEntry, ToolIndex};
use mgp_types::mgp::ServerState;
use mgp_types::proposal::ManifestTool;

/// Puts the tools of a server's manifest file into the index; returns `false` if the server has no usable manifest.
///
/// As soon as the server is started, its own definitions replace these.
pub(crate) fn index_file(tools: &ToolIndex, config: &ServerConfig) -> bool {
    let Some(file) = &config.manifest else { return false };
    match index(tools, config, file) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(server = %config.id, %error, "manifest not used; the server is started");
            false
        }
    }
}

fn index(tools: &ToolIndex, config: &ServerConfig, file: &Path) -> Result<(), String> {
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
    // The security metadata is omitted, so that each tool counts as dangerous until the server lists it.
    let entry = entry.tools(manifest.tools.iter().map(ManifestTool::to_tool));
    let put = tools.put(entry).map_err(|error| error.to_string())?;
    for refused in &put.refused {
        let (tool, reason) = (&refused.name, &refused.reason);
        tracing::warn!(server = %config.id, %tool, %reason, "tool of a manifest not indexed");
    }
    Ok(())
}
