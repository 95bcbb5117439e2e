//! Reads stale lists again and notifies the clients that see them (MGP §16.4).
//!
//! The definitions of tools are checked before they enter the index, so a tool whose definition waits for an operator
//! is not in the index. Resources, templates and prompts go into the [list cache](super::list_cache) of their server.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_client_sdk::{Client, Error, SupervisedClient, gateway};
use mgp_security::DefinitionLayer;
use mgp_toolindex::{IndexError, ServerEntry, ToolEntry, ToolIndex};
use mgp_types::mcp::{ListParams, ListToolsResult, Tool};
use mgp_types::method::ToolsList;
use mgp_types::mgp::{ServerState, ToolSecurity};
use mgp_types::service::{Call, ServerId, Stack};
use mgp_types::{ErrorCode, RpcError};
use tokio::time::timeout;
use tower_layer::Layer as _;

use super::context::FleetContext;
use super::instance::READY_TIMEOUT;
use super::list_cache::ListKind;
use super::managed_server::ManagedServer;
use super::refresh_queue::{ListGroup, StaleLists};
use super::servers::{Fleet, WeakFleet};
use super::stored_lists;
use crate::hops;
use crate::proposals::media;

const MAX_PAGES: usize = 100;

/// The time limit for reading all pages of a list.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time that the answer to an approval waits until the tools were read again.
const REREAD_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    Client(#[from] Error),
    #[error("{}", .0.message())]
    Refused(#[from] RpcError),
    #[error("no answer within {READ_TIMEOUT:?}")]
    Timeout,
    #[error("the list has more than {MAX_PAGES} pages")]
    TooManyPages,
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Reads stale lists as they appear, until the fleet is dropped.
pub(super) async fn run(fleet: WeakFleet, stale: StaleLists) {
    loop {
        let lists = tokio::select! {
            lists = stale.next() => lists,
            // No list becomes stale once the fleet has been dropped, so wake up from time to time to check for that.
            () = tokio::time::sleep(READ_TIMEOUT) => BTreeSet::default(),
        };
        let Some(fleet) = fleet.upgrade() else { return };
        let all = fleet.all();
        for (id, group) in lists {
            // Start one task per server, so that a server that does not answer does not delay the lists of others.
            if let Some(server) = all.get(&id)
                && server.refresh_queue().push(group)
            {
                tokio::spawn(refresh_server(Arc::clone(server), fleet.clone()));
            }
        }
    }
}

impl Fleet {
    /// Reads the tools of a server again, and waits for a limited time until they were read. If the server does not
    /// run, they are read once it runs; the next call of a tool that is not known starts it.
    pub(crate) async fn reread_tools(&self, id: &ServerId) {
        let Some(server) = self.get(id.as_str()) else { return };
        if server.state() != ServerState::Connected {
            if !server.lists_may_be_outdated() {
                server.first_sync().defer();
            }
            return;
        }
        let (needs_reader, read) = server.refresh_queue().push_observed(ListGroup::Tools);
        if needs_reader {
            tokio::spawn(refresh_server(Arc::clone(&server), self.clone()));
        }
        if timeout(REREAD_TIMEOUT, read).await.is_err() {
            tracing::warn!(server = %id, "tools not read again yet; the decision is answered without them");
        }
    }
}

/// Reads the stale lists of one server, one after the other.
async fn refresh_server(server: Arc<ManagedServer>, fleet: Fleet) {
    while let Some(group) = server.refresh_queue().pop() {
        let observers = server.refresh_queue().take_observers(group);
        let read = timeout(READ_TIMEOUT, read_group(&server, group, &fleet)).await;
        let read = read.unwrap_or(Err(RefreshError::Timeout));
        if group == ListGroup::Tools {
            server.note_listing();
        }
        match read {
            Ok(()) => server.refresh_queue().note_success(group),
            Err(error) => {
                tracing::warn!(server = %server.id(), %error, list = ?group, "list not read");
                server.refresh_queue().note_failure(group, &error.to_string());
                if !matches!(error, RefreshError::TooManyPages) {
                    let stale = fleet.context().stale.clone();
                    tokio::spawn(retry_later(Arc::downgrade(&server), group, stale));
                }
            }
        }
        drop(observers);
        // Prompts are the last list that the kernel reads from a new server.
        if group == ListGroup::Prompts {
            server.finish_first_sync();
        }
        // Keep the lists only if the server was not removed while it answered.
        if fleet.is_present(&server) {
            let store = fleet.context().governance.store();
            stored_lists::save(store, server.id(), server.lists()).await;
        }
    }
}

/// Waits for a while after a list could not be read, and then marks it as stale again if the server is connected.
async fn retry_later(server: Weak<ManagedServer>, group: ListGroup, stale: StaleLists) {
    let delay = server.upgrade().and_then(|server| server.refresh_queue().delay_retry(group));
    let Some(delay) = delay else { return };
    tokio::time::sleep(delay).await;
    let Some(server) = server.upgrade() else { return };
    server.refresh_queue().end_delay(group);
    if server.state() == ServerState::Connected {
        stale.mark(server.id(), &[group]);
    }
}

/// Reads all lists of a group again, and notifies clients of each that changed, also if another one cannot be read.
async fn read_group(
    server: &Arc<ManagedServer>,
    group: ListGroup,
    fleet: &Fleet,
) -> Result<(), RefreshError> {
    // The client can become available a moment after the state "connected".
    let reader = server.latest();
    let ready = timeout(READY_TIMEOUT, reader.ready()).await;
    let client = ready.unwrap_or_else(|_| reader.client())?;
    let notify = |has_changed: bool| {
        if has_changed {
            fleet.notify_list_changed(server, group);
        }
    };
    let reread = async |kind| -> Result<(), RefreshError> {
        notify(server.lists().reread(kind, server.id(), &reader).await?);
        Ok(())
    };
    match group {
        ListGroup::Tools => {
            notify(read_tools(server, &reader, &client, fleet.context()).await?);
            Ok(())
        }
        ListGroup::Resources => {
            let (resources, templates, skills) = tokio::join!(
                reread(ListKind::Resources),
                reread(ListKind::Templates),
                reread(ListKind::Skills)
            );
            resources.and(templates).and(skills)
        }
        ListGroup::Prompts => reread(ListKind::Prompts).await,
    }
}

/// Updates the tools of a server in the index; returns whether they changed.
async fn read_tools(
    server: &ManagedServer,
    reader: &SupervisedClient,
    client: &Client,
    context: &FleetContext,
) -> Result<bool, RefreshError> {
    server.lists().set_capabilities(client.capabilities(), client.server().era);
    let tools = if client.capabilities().tools.is_some() {
        list_tools(server, reader, client, context).await?
    } else if client.server().capabilities.is_none() {
        // The server has not described its capabilities, so only its answer shows if it has tools.
        match list_tools(server, reader, client, context).await {
            Err(RefreshError::Refused(error)) if error.code() == ErrorCode::METHOD_NOT_FOUND => {
                Vec::new()
            }
            listed => listed?,
        }
    } else {
        Vec::new()
    };
    let tools = hops::nested_tools(tools, client.server());
    let entry = index_entry(server, client, tools, context);
    let has_changed = index(&context.index, entry).await?;
    let tools = context.index.tools_of(server.id().as_str()).len();
    context.known.insert(&server.config(), tools);
    if let Err(error) = context.governance.review_ready(server.id()).await {
        tracing::warn!(server = %server.id(), %error, "review of permissions not asked for");
    }
    Ok(has_changed)
}

/// Returns the tools from all pages of the list.
async fn list_tools(
    server: &ManagedServer,
    reader: &SupervisedClient,
    client: &Client,
    context: &FleetContext,
) -> Result<Vec<Tool>, RefreshError> {
    let gate = DefinitionLayer::new(context.governance.definitions().clone());
    let gate = gate.server(server.id().clone());
    let stack = Stack::new(gate.layer(gateway::ungated_supervised(reader).clone()));
    let (mut tools, mut params) = (Vec::new(), ListParams::new());
    for _ in 0..MAX_PAGES {
        let mut call = Call::ask::<ToolsList>(&params, client.context())?;
        hops::count(&mut call, client.server());
        let page: ListToolsResult = stack.send(call).await?.get()?;
        tools.extend(page.tools);
        match client.server().next_page(page.next_cursor) {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(tools),
        }
    }
    Err(RefreshError::TooManyPages)
}

fn index_entry(
    server: &ManagedServer,
    client: &Client,
    tools: Vec<Tool>,
    context: &FleetContext,
) -> ServerEntry {
    let definitions = context.governance.definitions();
    let mut entry = ServerEntry::new(server.id().as_str()).state(server.state());
    if let Some(info) = client.server_info() {
        entry = entry.name(info.title.unwrap_or(info.name));
    }
    if let Some(instructions) = client.instructions() {
        entry = entry.description(instructions);
    }
    if let Some(mgp) = &server.config().mgp {
        entry = entry.categories(mgp.tags.iter().cloned());
    }
    entry.tools(tools.into_iter().map(|mut tool| {
        media::fold(client.server(), &mut tool);
        // Use the kernel's own assessment, not the metadata that the server claims.
        let assessed = definitions.assessment(Some(server.id()), &tool.name);
        let claimed = tool.find_security();
        let mut security = claimed
            .as_ref()
            .and_then(mgp_types::Lenient::valid)
            .cloned()
            .unwrap_or_else(|| ToolSecurity::new(assessed.effective_risk.clone()));
        security.risk_level = assessed.effective_risk.clone();
        // A claimed effective risk would take precedence over the assessed one.
        security.effective_risk_level = None;
        security.permissions_required = assessed.permissions.iter().cloned().collect();
        ToolEntry::from(tool).security(security)
    }))
}

/// Writes an entry to the index, on a thread of its own because it takes some milliseconds.
async fn index(index: &ToolIndex, entry: ServerEntry) -> Result<bool, RefreshError> {
    let index = index.clone();
    let put = tokio::task::spawn_blocking(move || index.put(entry)).await;
    let put = put.map_err(|error| RpcError::internal("the index failed").because(error))??;
    for refused in &put.refused {
        let (server, tool, reason) = (&refused.server, &refused.name, &refused.reason);
        tracing::warn!(%server, %tool, %reason, "tool not indexed");
    }
    Ok(put.added + put.changed + put.removed > 0)
}
