//! Manifests of servers that are not started yet (extension `manifest`).

use mgp_discovery::{ServerConfig, read_manifest};
use mgp_security::Inspection;
use mgp_toolindex::{ServerEntry, ToolEntry};
use mgp_types::Payload;
use mgp_types::mgp::{RiskLevel, ServerState, ToolSecurity};
use mgp_types::proposal::ManifestTool;
use mgp_types::service::ServerId;

use crate::fleet::FleetContext;
use crate::lock::{ActiveLock, check_definition};

/// Puts the tools of a server's manifest file into the index. Returns `false` if the server has no manifest file or has
/// listed one of these tools before. Also returns `false` if the server must list one of the tools first, because an
/// operator must review the tool or it differs from the lock file.
///
/// The server's own definitions replace those of the manifest when the server is started.
///
/// # Errors
/// The reason why the manifest cannot be used.
pub(crate) fn index_file(context: &FleetContext, config: &ServerConfig) -> Result<bool, String> {
    let Some(file) = &config.manifest else { return Ok(false) };
    let manifest = read_manifest(file).map_err(|error| error.to_string())?;
    let definitions = context.governance.definitions();
    if manifest.tools.iter().any(|tool| definitions.is_pinned(&config.id, &tool.name)) {
        // Keep the definitions that the server itself has listed and that may be in the index, until it lists its tools
        // again.
        return Ok(false);
    }
    let mut entry = ServerEntry::new(config.id.as_str())
        .state(ServerState::Disconnected)
        .name(manifest.server.name.as_str());
    if let Some(description) = &manifest.server.description {
        entry = entry.description(description.as_str());
    }
    if let Some(mgp) = &config.mgp {
        entry = entry.categories(mgp.tags.iter().cloned());
    }
    let mut is_complete = true;
    for tool in &manifest.tools {
        match reviewed(context, &config.id, tool) {
            Ok(tool) => entry = entry.tool(tool),
            Err(reason) => {
                is_complete = false;
                let tool = &tool.name;
                tracing::warn!(server = %config.id, ?tool, %reason, "tool of a manifest waits for its server's list");
            }
        }
    }
    let put = context.index.put(entry).map_err(|error| error.to_string())?;
    for refused in &put.refused {
        let (tool, reason) = (&refused.name, &refused.reason);
        tracing::warn!(server = %config.id, %tool, %reason, "tool of a manifest not indexed");
    }
    Ok(is_complete)
}

/// Returns the entry of a tool for the index; if the server must list the tool first, returns the reason as the error.
fn reviewed(
    context: &FleetContext,
    server: &ServerId,
    tool: &ManifestTool,
) -> Result<ToolEntry, String> {
    let tool = tool.to_tool();
    let definition = Payload::of(&tool).map_err(|error| error.to_string())?;
    if let Some(lock) = context.lock.as_ref().map(ActiveLock::current) {
        if !lock.servers.contains_key(server.as_str()) {
            return Err("its server is not in the lock file".to_owned());
        }
        if let Some(reason) = check_definition(&lock, server, &definition) {
            return Err(reason);
        }
    }
    match Inspection::of(&definition).findings().iter().find(|finding| finding.blocks()) {
        Some(finding) => Err(finding.to_string()),
        // Treat the tool as dangerous until the server lists it, whatever the manifest claims.
        None => Ok(ToolEntry::from(tool).security(ToolSecurity::new(RiskLevel::Dangerous))),
    }
}
