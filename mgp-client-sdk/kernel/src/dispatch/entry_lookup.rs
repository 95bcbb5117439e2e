//! Finds the entries (resources, prompts and others) that callers name: refreshes the lists, and creates the errors.

use std::sync::Arc;

use futures_util::future::join_all;
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError, clip};

use super::dispatcher::Dispatcher;
use super::names::ServerEntry;
use crate::fleet::{FIRST_LIST_TIMEOUT, ListGroup, ListKind, ManagedServer};
use crate::kernel_hops;

/// The maximum number of candidates that an error names for an ambiguous name.
pub(super) const MAX_NAMES: usize = 8;

/// The maximum number of bytes of a caller's text that an error quotes.
pub(super) const MAX_QUOTED_BYTES: usize = 200;

/// The entry to which the name in a call leads.
pub(super) struct ResolvedEntry {
    pub(super) entry: ServerEntry,
    /// `false` if the caller has no access to the entry. The call is forwarded nevertheless, because the checks in
    /// front of the server then refuse it and record the refusal.
    pub(super) has_access: bool,
}

impl ResolvedEntry {
    pub(super) fn visible(entry: ServerEntry) -> Self {
        Self { entry, has_access: true }
    }

    pub(super) fn hidden(entry: ServerEntry) -> Self {
        Self { entry, has_access: false }
    }
}

/// Refreshes the stale lists of the servers to which a caller has access as a whole, and returns these servers.
pub(super) async fn refreshed_servers(
    dispatcher: &Dispatcher,
    cx: &Context,
    kind: ListKind,
) -> Vec<Arc<ManagedServer>> {
    let servers = dispatcher.visible_servers(cx);
    dispatcher.wait_for_first_lists(cx, &servers, kind.group(), FIRST_LIST_TIMEOUT).await;
    refresh_lists(dispatcher, &servers, kind).await;
    servers
}

/// Waits until new servers have returned a list in which a named entry may be: a request for a list gives up sooner.
pub(super) async fn wait_for_entries(
    dispatcher: &Dispatcher,
    cx: &Context,
    servers: &[Arc<ManagedServer>],
    kind: ListKind,
) {
    if !kernel_hops::is_from_kernel(cx) {
        let fleet = &dispatcher.parts().fleet;
        fleet.first_reads_ended(servers, kind.group(), FIRST_LIST_TIMEOUT).await;
    }
}

/// Refreshes the stale lists of servers, for a limited time. Does not wait for the first lists of new servers. If a
/// list is not returned in time, the kernel notifies the clients later.
pub(super) async fn refresh_lists(
    dispatcher: &Dispatcher,
    servers: &[Arc<ManagedServer>],
    kind: ListKind,
) {
    join_all(servers.iter().map(|server| refresh(dispatcher, server, kind))).await;
}

/// Refreshes a stale list of a server. If the list changed, notifies the clients and stores the lists of the server.
async fn refresh(dispatcher: &Dispatcher, server: &Arc<ManagedServer>, kind: ListKind) {
    if !server.refresh_list(kind).await {
        return;
    }
    let fleet = &dispatcher.parts().fleet;
    match kind {
        ListKind::Resources | ListKind::Templates => {
            fleet.notify_list_changed(server, ListGroup::Resources);
        }
        ListKind::Prompts => fleet.notify_list_changed(server, ListGroup::Prompts),
        // Send nothing, because MCP has no notification about changed skills.
        ListKind::Skills => {}
    }
    fleet.store_lists(server);
}

/// Returns the servers that are for the caller's tenant, including those to which the caller has no access. For callers
/// of other tenants, a server and its entries do not exist.
pub(super) fn servers_of_tenant(dispatcher: &Dispatcher, cx: &Context) -> Vec<Arc<ManagedServer>> {
    let fleet = &dispatcher.parts().fleet;
    let policies = fleet.context().governance.policies();
    let tenant = cx.principal.tenant().as_str();
    let all = fleet.all();
    let admitting = all.values().filter(|one| policies.admits(Some(one.id().as_str()), tenant));
    admitting.cloned().collect()
}

/// Returns the error for a name that can belong to several servers.
pub(super) fn ambiguous(cx: &Context, what: &str, name: &str, names: &[String]) -> RpcError {
    let quoted = |name: &str| format!("`{}`", clip(name, MAX_QUOTED_BYTES));
    let names: Vec<_> = names.iter().take(MAX_NAMES).map(|name| quoted(name)).collect();
    let message = format!(
        "the {what} {} can belong to several servers; use one of {}",
        quoted(name),
        names.join(", ")
    );
    let code = if cx.caller.supports_mgp() {
        ErrorCode::TOOL_NAME_CONFLICT
    } else {
        ErrorCode::INVALID_PARAMS
    };
    RpcError::new(code, message)
}
