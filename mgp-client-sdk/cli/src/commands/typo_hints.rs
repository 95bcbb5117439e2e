//! Hints about unknown names that are nearly known ones. Unknown names are accepted: they may be added later.

use std::collections::BTreeSet;
use std::sync::Arc;

use mgp_client_sdk::Client;
use mgp_discovery::{Registrations, Sources, Trust, nearest};
use mgp_types::method::{KernelServers, KernelTools};
use mgp_types::mgp::{KernelServersParams, KernelToolsParams};
use mgp_types::service::ServerId;

use crate::args::Global;
use crate::backend::Backend;
use crate::exit::CliResult;
use crate::state;

/// The server id of the kernel's own tools.
const KERNEL_ID: &str = "mgp";

/// Returns hints about the names of a server and its tools; none if the known names cannot be read.
pub(super) async fn typo_hints(
    global: &Global,
    backend: &Backend,
    server: &str,
    tools: &[String],
) -> Vec<String> {
    let Backend::Kernel(client) = backend else {
        let known = configured(global, server).await.unwrap_or_default();
        return hint("server", server, &known).into_iter().collect();
    };
    let known = servers(client).await.unwrap_or_default();
    if !known.contains(server) {
        return hint("server", server, &known).into_iter().collect();
    }
    if tools.is_empty() {
        return Vec::new();
    }
    let known = self::tools(client, server).await.unwrap_or_default();
    tools.iter().filter_map(|tool| hint("tool", tool, &known)).collect()
}

fn hint(kind: &str, name: &str, known: &BTreeSet<String>) -> Option<String> {
    if known.contains(name) {
        return None;
    }
    let near = nearest(name, known.iter().map(String::as_str))?;
    Some(format!("unknown {kind} `{name}`; did you mean `{near}`?"))
}

/// Returns the configured servers, and the named one if it is a registered server.
async fn configured(global: &Global, name: &str) -> CliResult<BTreeSet<String>> {
    let db = state::db(global).await?;
    let is_registered = Registrations::is_approved_in(&db, &ServerId::from(name)).await?;
    let loaded = Sources::from_env().load(&Trust::new(Arc::new(db))).await?;
    let known = loaded.config.servers.into_iter().map(|server| server.id.to_string());
    let known = known.chain(loaded.broken).chain([KERNEL_ID.to_owned()]);
    Ok(known.chain(is_registered.then(|| name.to_owned())).collect())
}

async fn servers(client: &Client) -> CliResult<BTreeSet<String>> {
    let result = client.request::<KernelServers>(&KernelServersParams::new()).await?;
    let known = result.servers.into_iter().map(|server| server.id);
    Ok(known.chain([KERNEL_ID.to_owned()]).collect())
}

async fn tools(client: &Client, server: &str) -> CliResult<BTreeSet<String>> {
    let mut params = KernelToolsParams::new();
    params.server_id = Some(server.to_owned());
    let result = client.request::<KernelTools>(&params).await?;
    let own = |id: &str| id.strip_prefix(server)?.strip_prefix('.').map(str::to_owned);
    Ok(result.tools.iter().filter_map(|tool| own(&tool.tool_id)).collect())
}
