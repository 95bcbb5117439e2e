//! The lists of a server that a command has started, e.g. `mgp import`. The next kernel uses these lists, so that its
//! first answers do not wait until it has started the server itself.

use std::collections::BTreeMap;
use std::future::ready;

use mgp_client_sdk::gateway::FailsAtProbe;
use mgp_client_sdk::{Client, gateway};
use mgp_discovery::{Config, ServerConfig};
use mgp_security::{DefinitionLayer, Definitions, Governance};
use mgp_toolindex::ToolIndex;
use mgp_types::mcp::{Era, ListParams, Tool};
use mgp_types::method::ToolsList;
use mgp_types::service::{
    Call, Context, Peer, PeerInfo, Principal, Reply, Scope, ScopeKind, ServerId, Stack,
};
use mgp_types::store::Db;
use mgp_types::{Payload, RpcError};
use tower_layer::Layer as _;

use super::list_cache::{ListCache, ListKind};
use super::list_reading::read_pages;
use super::refresh::{ToolsPage, index_entry};
use super::{known_servers, stored_lists};
use crate::error::KernelError;
use crate::kernel_hops;
use crate::policy::policy;

/// The configuration of a server, and the lists that it returned to a command that was started with this configuration.
pub struct ProbedLists {
    config: ServerConfig,
    facts: PeerInfo,
    tools: Vec<Payload>,
    lists: ListCache,
}

mgp_types::opaque_debug!(ProbedLists);

impl ProbedLists {
    /// Reads the lists of a connected server, except its tools, which the caller has read. `fails_at_probe` is the flag
    /// of the client's builder.
    ///
    /// Returns `None` if a list other than the skills cannot be read, or if a kernel might get other lists, because it
    /// declares roots to the server, or because the server speaks MGP and may ask the kernel for permissions before it
    /// lists its tools.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn read(
        config: &ServerConfig,
        client: &Client,
        tools: &[Payload],
        fails_at_probe: &FailsAtProbe,
    ) -> Option<Self> {
        let (facts, lists) = (client.server().clone(), ListCache::default());
        let gets_roots = config.is_per_agent() || config.mgp.as_ref().is_some_and(|mgp| mgp.roots);
        if gets_roots || facts.mgp.is_some() {
            return None;
        }
        lists.set_capabilities(client.capabilities(), facts.era);
        lists.eras().fails_at_probe().set(fails_at_probe.get());
        lists.eras().observe(&facts);
        for kind in ListKind::ALL {
            // Servers list skills in the modern era only, and a kernel does not wait for them.
            let is_skills = kind == ListKind::Skills;
            if is_skills && facts.era == Era::Legacy {
                continue;
            }
            match read_pages(kind, &config.id, client, gateway::ungated(client)).await {
                Ok(list) => lists.set(kind, list),
                Err(_) if is_skills => {}
                Err(_) => return None,
            }
        }
        Some(Self { config: config.clone(), facts, tools: tools.to_vec(), lists })
    }

    /// Reviews the tools, and puts them into the index in the form in which a kernel would put them there. Returns
    /// `false`, and leaves the index unchanged, if a kernel has to list the tools itself: the server has none, or an
    /// operator must review one of them.
    async fn index(&self, governance: &Governance, index: &ToolIndex) -> Result<bool, KernelError> {
        let (id, definitions) = (&self.config.id, governance.definitions());
        let usable = usable_tools(definitions, id, &self.tools).await;
        let usable = usable.unwrap_or_else(|error| {
            tracing::debug!(server = %id, %error, "read tools not used");
            Vec::new()
        });
        // After an approval, a kernel reads the tools again only if it has started the server.
        if usable.is_empty() || usable.len() != self.tools.len() {
            return Ok(false);
        }
        let tools = kernel_hops::nested_tools(usable, &self.facts);
        index.put(index_entry(definitions, &self.config, &self.facts, tools))?;
        if let Err(error) = governance.review_ready(id).await {
            tracing::warn!(server = %id, %error, "review of permissions not asked for");
        }
        Ok(true)
    }
}

/// Returns the tools of a list that a kernel would put into its index. The definitions are reviewed and pinned as if
/// the kernel had read the list.
async fn usable_tools(
    definitions: &Definitions,
    server: &ServerId,
    tools: &[Payload],
) -> Result<Vec<Tool>, RpcError> {
    let list = Payload::of(&BTreeMap::from([("tools", tools)]))?;
    let read = Stack::from_fn(move |_: Call| ready(Ok(Reply::raw(list.clone()))));
    let gate = DefinitionLayer::new(definitions.clone()).server(server.clone());
    let scope = Scope::new(ScopeKind::Request);
    let cx = Context::new(Peer::none(), scope, Principal::local());
    let call = Call::ask::<ToolsList>(&ListParams::new(), cx)?;
    let reply = Stack::new(gate.layer(read)).send(call).await?;
    Ok(reply.get::<ToolsPage>()?.tools)
}

/// Stores the lists of servers in a state folder, so that the next kernel uses them as if it had read them itself, as
/// long as the configuration of each server is the same. `config` is the configuration of that kernel. No kernel may be
/// running in this folder.
///
/// # Errors
/// [`KernelError::Index`] or [`KernelError::Store`] if the state cannot be read or written.
///
/// # Cancel safety
/// If the future is dropped, the next kernel may start some of the servers to read their lists.
pub async fn store_probed_lists(
    governance: &Governance,
    db: Db,
    config: &Config,
    probed: &[&ProbedLists],
) -> Result<(), KernelError> {
    // Set all policies first: the review of a tool's name must know all servers, also those that did not start.
    for server in &config.servers {
        governance.policies().set(server.id.clone(), policy(&config.kernel, server));
    }
    // The next kernel computes the missing vectors with its own embedder.
    let index = ToolIndex::builder().without_embedder().open(db).await?;
    let mut indexed = Vec::new();
    for lists in probed {
        if lists.index(governance, &index).await? {
            indexed.push(lists);
        }
    }
    index.flush().await?;
    for ProbedLists { config: server, lists, .. } in indexed {
        if let Some(change) = stored_lists::change_of(&server.id, lists) {
            governance.store().commit(change).await?;
        }
        // Commit this last: from then on, the kernel uses the tools and the lists.
        let tools = index.tools_of(server.id.as_str()).len();
        if let Ok(change) = known_servers::change_of(server, tools) {
            governance.store().commit(change).await?;
        }
    }
    Ok(())
}
