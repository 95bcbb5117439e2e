//! Reads stale lists again, and notifies the clients that see these lists (MGP §16.4).
//!
//! The definitions of tools are reviewed before they enter the index. So a tool whose definition waits for an operator
//! is not in the index. Resources, templates, prompts and skills go into the [list cache](super::list_cache) of their
//! server.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_client_sdk::{Client, Error, SupervisedClient, gateway};
use mgp_discovery::ServerConfig;
use mgp_security::{DefinitionLayer, Definitions};
use mgp_toolindex::{IndexError, IndexedTool, ServerEntry, ToolEntry, ToolFeature, ToolIndex};
use mgp_types::mcp::{
    Implementation, ListParams, NextCursor, ServerCapabilities, Tool, is_of_objects,
    legacy_output_schema,
};
use mgp_types::method::ToolsList;
use mgp_types::mgp::{ServerState, ToolSecurity};
use mgp_types::service::{Call, PeerInfo, ServerId, Stack};
use mgp_types::{ErrorCode, Object, RawObject, RpcError, clip};
use serde::{Deserialize, Deserializer};
use tokio::time::{Instant, timeout, timeout_at};
use tower_layer::Layer as _;

use super::first_sync::LIST_TIMEOUT;
use super::instance::READY_TIMEOUT;
use super::list_cache::ListKind;
use super::managed_server::ManagedServer;
use super::refresh_queue::{ListGroup, MAX_ERROR_BYTES, StaleLists};
use super::servers::{Fleet, WeakFleet};
use super::stored_lists;
use crate::kernel_hops;
use crate::proposals::media;

/// The maximum number of pages to read of a list of tools.
const MAX_PAGES: usize = 10_000;

/// The number of tools after which the kernel reads no further page. It would refuse more definitions anyway.
const MAX_TOOLS: usize = 10_000;

/// The size of a list of tools, in bytes, after which the kernel reads no further page.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The time after which the kernel reads no further page of a list of tools.
const PAGES_TIMEOUT: Duration = Duration::from_secs(20);

/// The time limit for reading all pages of a list. For a list of tools, the limit applies to each request.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit for reading a list of tools, and for reviewing and storing its definitions. It is long, because the
/// review of a long list may take longer than the answer of the server, and an interrupted review begins again.
const REVIEW_TIMEOUT: Duration = Duration::from_mins(10);

/// The maximum time that the answer to an operator's approval waits until the tools are read again.
const REREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A page of a list of tools. The kernel does not decode its other members, so a malformed one does not make the list
/// fail.
#[derive(Deserialize)]
pub(super) struct ToolsPage {
    /// The tools; servers written in Go encode an empty list as null.
    #[serde(deserialize_with = "nullable_list")]
    pub(super) tools: Vec<Tool>,
    #[serde(default, rename = "nextCursor")]
    next: NextCursor,
}

fn nullable_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Tool>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    Client(#[from] Error),
    #[error("{}", .0.message())]
    Refused(#[from] RpcError),
    #[error("no answer within {}", mgp_types::duration_words(*.0))]
    Timeout(Duration),
    #[error("only {tools} tools were read, because {why}")]
    Incomplete { tools: usize, why: &'static str },
    #[error("only {tools} tools were read within {}", mgp_types::duration_words(PAGES_TIMEOUT))]
    Slow { tools: usize },
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl RefreshError {
    /// Returns whether the kernel has read only a part of the list and uses this part.
    fn is_partial(&self) -> bool {
        matches!(self, Self::Incomplete { .. } | Self::Slow { .. })
    }
}

/// Reads stale lists as they appear, until the fleet is dropped.
pub(super) async fn run(fleet: WeakFleet, stale: StaleLists) {
    loop {
        let lists = tokio::select! {
            lists = stale.next() => lists,
            // Wake up from time to time even if no list is stale, to check whether the fleet was dropped.
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
    /// Reads the tools of a server again, and waits for a limited time until they are read. If the server does not run,
    /// its tools are read at its next start; a call of an unknown tool causes this start.
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

/// Reads the stale lists of one server, one after the other. If the server does not return a list in time, also reads
/// the next one: a server that never returns e.g. its resources must not delay its prompts.
async fn refresh_server(server: Arc<ManagedServer>, fleet: Fleet) {
    while let Some(group) = server.refresh_queue().next().await {
        let mut read = tokio::spawn(refresh_group(Arc::clone(&server), group, fleet.clone()));
        if timeout(LIST_TIMEOUT, &mut read).await.is_err() && group != ListGroup::Tools {
            server.end_first_wait(group);
        }
    }
}

/// Reads the stale lists of one group, records the outcome, and stores the lists.
async fn refresh_group(server: Arc<ManagedServer>, group: ListGroup, fleet: Fleet) {
    let observers = server.refresh_queue().take_observers(group);
    let limit = if group == ListGroup::Tools { REVIEW_TIMEOUT } else { READ_TIMEOUT };
    let begun = Instant::now();
    let read = timeout(limit, read_group(&server, group, &fleet)).await;
    let read = read.unwrap_or(Err(RefreshError::Timeout(limit)));
    server.refresh_queue().note_read(group, begun);
    if group == ListGroup::Tools {
        server.note_listing();
    }
    match read {
        Ok(()) => server.refresh_queue().note_success(group),
        Err(error) => note_failure(&server, group, &error, fleet.context().stale.clone()),
    }
    drop(observers);
    server.finish_first_list(group);
    // Store the lists only if the server has not been removed while it answered.
    if fleet.is_present(&server) {
        let store = fleet.context().governance.store();
        stored_lists::save(store, server.id(), server.lists()).await;
    }
}

/// Logs why a list was not read or was truncated, and records it for operators. Reads the list again later, unless it
/// would be truncated in the same way.
fn note_failure(
    server: &Arc<ManagedServer>,
    group: ListGroup,
    error: &RefreshError,
    stale: StaleLists,
) {
    let is_connected = server.state() == ServerState::Connected;
    let why = clip(&error.to_string(), MAX_ERROR_BYTES);
    let shown = if error.is_partial() {
        tracing::warn!(server = %server.id(), error = %why, "list of tools truncated");
        why
    } else {
        if is_connected {
            tracing::warn!(server = %server.id(), error = %why, list = ?group, "list not read");
        } else {
            tracing::debug!(server = %server.id(), error = %why, list = ?group, "list not read");
        }
        format!("its {} could not be listed: {why}", group.as_str())
    };
    server.refresh_queue().note_failure(group, &shown);
    if !matches!(error, RefreshError::Incomplete { .. }) {
        tokio::spawn(retry_later(Arc::downgrade(server), group, stale));
    }
}

/// Waits for a while after the read of a list has failed. Then marks the list as stale again, if the server is
/// connected.
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

/// Reads all lists of a group again. Notifies the clients of each list that changed, even if another list of the group
/// cannot be read.
async fn read_group(
    server: &Arc<ManagedServer>,
    group: ListGroup,
    fleet: &Fleet,
) -> Result<(), RefreshError> {
    // Wait for the client, because it can become available shortly after the state "connected".
    let reader = server.latest();
    let ready = timeout(READY_TIMEOUT, reader.ready()).await;
    let client = ready.unwrap_or_else(|_| reader.client())?;
    let notify = |has_changed: bool| {
        if has_changed {
            server.refresh_queue().note_change(group);
            fleet.notify_list_changed(server, group);
        }
    };
    let reread = async |kind| -> Result<(), RefreshError> {
        notify(server.lists().reread(kind, server.id(), &reader).await?);
        Ok(())
    };
    match group {
        ListGroup::Tools => {
            let (has_changed, cut) = read_tools(server, &reader, &client).await?;
            notify(has_changed);
            cut.map_or(Ok(()), Err)
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

/// Updates the tools of a server in the index. Returns whether they changed. If the kernel has read only a part of the
/// list, also returns the reason.
async fn read_tools(
    server: &ManagedServer,
    reader: &SupervisedClient,
    client: &Client,
) -> Result<(bool, Option<RefreshError>), RefreshError> {
    let context = server.context();
    server.lists().set_capabilities(client.capabilities(), client.server().era);
    if !server.is_second_session(client) {
        // Record the eras that the server supports here, because they are stored together with the lists.
        server.observe_eras(client.server());
    }
    let (tools, cut) = if client.capabilities().tools.is_some() {
        list_tools(server, reader, client).await?
    } else if *client.capabilities() == ServerCapabilities::default() {
        // The server has described no capability. So try to read the list, because only the answer shows whether the
        // server has tools.
        match list_tools(server, reader, client).await {
            Err(RefreshError::Refused(error)) if error.code() == ErrorCode::METHOD_NOT_FOUND => {
                (Vec::new(), None)
            }
            listed => listed?,
        }
    } else {
        (Vec::new(), None)
    };
    let is_slow = matches!(cut, Some(RefreshError::Slow { .. }));
    if is_slow && tools.len() < context.index.tools_of(server.id().as_str()).len() {
        // Keep the tools that are already known, because they are more than those that were read now.
        return Err(RefreshError::Timeout(PAGES_TIMEOUT));
    }
    let mut tools = kernel_hops::nested_tools(tools, client.server());
    if server.is_second_session(client) {
        keep_output_schemas(&mut tools, &context.index.tools_of(server.id().as_str()));
    }
    let definitions = context.governance.definitions();
    let entry = index_entry(definitions, &server.config(), client.server(), tools);
    let has_changed = index(&context.index, entry.state(server.state())).await?;
    let tools = context.index.tools_of(server.id().as_str()).len();
    context.known.insert(&server.config(), tools);
    if let Err(error) = context.governance.review_ready(server.id()).await {
        tracing::warn!(server = %server.id(), %error, "review of permissions not asked for");
    }
    Ok((has_changed, cut))
}

/// Returns the tools on all pages of the list. If the kernel could not read all pages, returns the tools on the first
/// pages, and the reason.
async fn list_tools(
    server: &ManagedServer,
    reader: &SupervisedClient,
    client: &Client,
) -> Result<(Vec<Tool>, Option<RefreshError>), RefreshError> {
    let gate = DefinitionLayer::new(server.context().governance.definitions().clone());
    let gate = gate.server(server.id().clone());
    let stack = Stack::new(gate.layer(gateway::ungated_supervised(reader).clone()));
    let (mut tools, mut params) = (Vec::new(), ListParams::new());
    let (mut bytes, mut cursors) = (0_usize, HashSet::new());
    let until = Instant::now() + PAGES_TIMEOUT;
    let mut why = "its list has too many pages";
    for _ in 0..MAX_PAGES {
        let mut call = Call::ask::<ToolsList>(&params, client.context())?;
        kernel_hops::count(&mut call, client.server());
        gateway::limit_time(&mut call, READ_TIMEOUT, READ_TIMEOUT);
        let answer = stack.send(call);
        let reply = if params.cursor.is_none() {
            answer.await.map_err(list_error)?
        } else if let Ok(reply) = timeout_at(until, answer).await {
            reply?
        } else {
            let slow = RefreshError::Slow { tools: tools.len() };
            return Ok((tools, Some(slow)));
        };
        bytes += reply.as_body().map_or(0, |body| body.as_raw().as_str().len());
        let page: ToolsPage = reply.get()?;
        tools.extend(page.tools);
        let Some(cursor) = client.server().next_page(page.next.0) else {
            return Ok((tools, None));
        };
        if !cursors.insert(cursor.clone()) {
            why = "it repeats the cursor of a page";
            // Remove repeated tools, because a server that ignores cursors lists its first tools again.
            let mut names = HashSet::new();
            tools.retain(|tool: &Tool| names.insert(tool.name.clone()));
            break;
        }
        if tools.len() >= MAX_TOOLS || bytes >= MAX_BYTES {
            why = "its list is too long";
            break;
        }
        params.cursor = Some(cursor);
    }
    let cut = RefreshError::Incomplete { tools: tools.len(), why };
    Ok((tools, Some(cut)))
}

fn list_error(error: RpcError) -> RefreshError {
    if error.code() == ErrorCode::TIMEOUT {
        return RefreshError::Timeout(READ_TIMEOUT);
    }
    error.into()
}

/// Restores, in a list from a legacy session, the output schemas that are not of type `object`. Only the modern era has
/// such schemas: in the legacy list, the server has left such a schema out, wrapped it in the schema of an object, or
/// replaced a reference to it.
fn keep_output_schemas(tools: &mut [Tool], indexed: &[IndexedTool]) {
    let known = indexed.iter().filter(|tool| tool.may_use(ToolFeature::OutputSchema));
    let known: HashMap<&str, &IndexedTool> = known.map(|tool| (tool.name(), tool)).collect();
    for tool in tools {
        let known = known.get(tool.name.as_str()).and_then(|known| known.tool().ok());
        let schema = known.and_then(|known| known.output_schema);
        let Some(schema) = schema.filter(|schema| !is_of_objects(schema)) else { continue };
        let is_legacy_form = |listed: &RawObject| {
            may_wrap(listed) || legacy_output_schema(schema.clone()).as_ref() == Some(listed)
        };
        if tool.output_schema.as_ref().is_none_or(is_legacy_form) {
            tool.output_schema = Some(schema);
        }
    }
}

/// Returns whether a schema can be that of an object whose only member is `result`.
fn may_wrap(schema: &RawObject) -> bool {
    let members = schema.get::<Object>().ok();
    let names = members.and_then(|members| members.decode("required").ok().flatten());
    names.is_some_and(|names: Vec<String>| names == ["result"])
}

/// Returns the entry of a server and its tools in the index. `facts` are the properties of the connection over which
/// the tools were read.
pub(super) fn index_entry(
    definitions: &Definitions,
    server: &ServerConfig,
    facts: &PeerInfo,
    tools: Vec<Tool>,
) -> ServerEntry {
    let mut entry = ServerEntry::new(server.id.as_str());
    let info = facts.info.as_ref().and_then(|info| info.get::<Implementation>().ok());
    if let Some(info) = info {
        entry = entry.name(info.title.unwrap_or(info.name));
    }
    if let Some(instructions) = facts.instructions.as_deref() {
        entry = entry.description(instructions);
    }
    if let Some(mgp) = &server.mgp {
        entry = entry.categories(mgp.tags.iter().cloned());
    }
    entry.tools(tools.into_iter().map(|mut tool| {
        media::fold(facts, &mut tool);
        // Use the kernel's own assessment, not the metadata that the server claims.
        let assessed = definitions.assessment(Some(&server.id), &tool.name);
        let claimed = tool.find_security();
        let mut security = claimed
            .as_ref()
            .and_then(mgp_types::Lenient::valid)
            .cloned()
            .unwrap_or_else(|| ToolSecurity::new(assessed.effective_risk.clone()));
        security.risk_level = assessed.effective_risk.clone();
        // Remove the effective risk that the server claims, because it would take precedence over the assessed risk.
        security.effective_risk_level = None;
        security.permissions_required = assessed.permissions.iter().cloned().collect();
        ToolEntry::from(tool).security(security)
    }))
}

/// Writes an entry to the index. This happens on a separate thread, because it takes some milliseconds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_its_tools_only() {
        let page = |text: &str| serde_json::from_str::<ToolsPage>(text);
        let tool = r#"{"name":"a","inputSchema":{}}"#;
        let odd = format!(r#"{{"tools":[{tool}],"_meta":[],"ttlMs":"5","nextCursor":7}}"#);
        let read = page(&odd).unwrap();
        assert_eq!((read.tools.len(), read.next.0.as_deref()), (1, Some("7")));
        assert!(page(r#"{"tools":null}"#).unwrap().tools.is_empty());
        for other in ["{}", r#"{"tools":{}}"#, "null"] {
            assert!(page(other).is_err(), "{other}");
        }
    }
}
