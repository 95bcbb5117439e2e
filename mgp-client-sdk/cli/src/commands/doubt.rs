//! Names that nobody bears: they may come later, but one that is nearly another's was likely typed wrong.
//!
//! Applies to: both.

use std::collections::BTreeSet;
use std::sync::Arc;

use mgp_client_sdk::Client;
use mgp_discovery::{Registrations, Sources, Trust, nearest};
use mgp_types::method::{KernelServers, KernelTools};
use mgp_types::mgp::{KernelServersParams, KernelToolsParams};
use mgp_types::service::ServerId;

use crate::books::Books;
use crate::cli::Global;
use crate::exit::Ended;
use crate::state;

/// The kernel's own, to which access is granted like to others.
const OWN: [&str; 1] = ["mgp"];

/// What may be wrong with the names of a server and of tools of it.
///
/// Where nothing can be asked nothing is doubted.
pub(super) async fn doubts(
    global: &Global,
    books: &Books,
    server: &str,
    tools: &[String],
) -> Vec<String> {
    let Books::Kernel(client) = books else {
        let known = configured(global, server).await.unwrap_or_default();
        return of("server", server, &known).into_iter().collect();
    };
    let known = servers(client).await.unwrap_or_default();
    if !known.contains(server) {
        return of("server", server, &known).into_iter().collect();
    }
    if tools.is_empty() {
        return Vec::new();
    }
    let known = self::tools(client, server).await.unwrap_or_default();
    tools.iter().filter_map(|tool| of("tool", tool, &known)).collect()
}

fn of(kind: &str, name: &str, known: &BTreeSet<String>) -> Option<String> {
    if known.contains(name) {
        return None;
    }
    let near = nearest(name, known.iter().map(String::as_str))?;
    Some(format!("no {kind} `{name}` is known here; did you mean `{near}`?"))
}

/// The servers of the files, and of those that were registered the one of that name.
async fn configured(global: &Global, name: &str) -> Ended<BTreeSet<String>> {
    let db = state::db(global).await?;
    let is_registered = Registrations::is_approved_in(&db, &ServerId::from(name)).await?;
    let loaded = Sources::of_process().load(&Trust::new(Arc::new(db))).await?;
    let known = loaded.config.servers.into_iter().map(|server| server.id.to_string());
    let known = known.chain(loaded.broken).chain(OWN.map(str::to_owned));
    Ok(known.chain(is_registered.then(|| name.to_owned())).collect())
}

async fn servers(client: &Client) -> Ended<BTreeSet<String>> {
    let told = client.request::<KernelServers>(&KernelServersParams::new()).await?;
    let known = told.servers.into_iter().map(|server| server.id);
    Ok(known.chain(OWN.map(str::to_owned)).collect())
}

async fn tools(client: &Client, server: &str) -> Ended<BTreeSet<String>> {
    let mut params = KernelToolsParams::new();
    params.server_id = Some(server.to_owned());
    let told = client.request::<KernelTools>(&params).await?;
    let own = |id: &str| id.strip_prefix(server)?.strip_prefix('.').map(str::to_owned);
    Ok(told.tools.iter().filter_map(|tool| own(&tool.tool_id)).collect())
}
