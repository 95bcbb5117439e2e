//! `mgp/discovery/list`: the servers that a caller may use (MGP §15.2).

use std::sync::Arc;

use mgp_types::method::DiscoveryList;
use mgp_types::mgp::{
    DiscoveryFilter, DiscoveryListResult, ExtensionSet, Permission, ServerState, ServerSummary,
};
use mgp_types::service::{Authority, Context, Router, ServerId, Visibility};

use super::{KnownServer, ServerCatalog};

/// The value of the filter `status` that matches every state.
const ALL: &str = "all";

/// Returns a router for `mgp/discovery/list`.
///
/// An operator sees every server. Any other caller sees only servers with a tool that it may call, and of these servers
/// only such tools; it cannot find out that other servers exist. Without `status`, the list contains servers in every
/// state.
///
/// ```
/// use std::sync::Arc;
/// use mgp_discovery::{ServerCatalog, KnownServer, list_router};
/// use mgp_types::mgp::{ServerState, ServerSummary};
/// use mgp_types::service::{AllVisible, Stack, mock};
///
/// struct One;
/// impl ServerCatalog for One {
///     fn known(&self) -> Vec<KnownServer> {
///         let mut files = ServerSummary::new("files", ServerState::Connected);
///         files.tools = vec!["read".to_owned()].into();
///         vec![KnownServer::new(files, [])]
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = mock::client(Stack::new(list_router(Arc::new(One), Arc::new(AllVisible))));
/// let answer = client.request("mgp/discovery/list", "{}").await.unwrap();
/// assert_eq!(
///     answer.as_str(),
///     r#"{"servers":[{"id":"files","status":"connected","tools":["read"]}]}"#
/// );
/// # });
/// ```
#[must_use]
pub fn list_router(fleet: Arc<dyn ServerCatalog>, visibility: Arc<dyn Visibility>) -> Router {
    Router::new().on::<DiscoveryList, _, _>(move |cx, params| {
        let filter = params.filter.unwrap_or_default();
        let known = fleet.known().into_iter();
        // Apply the filter only to servers that the caller can see, so that it does not reveal other servers.
        let seen = known.filter_map(|known| shown(&cx, &*visibility, known));
        let servers = seen.filter(|known| matches(known, &filter)).map(|known| known.summary);
        let result = DiscoveryListResult::new(servers.collect::<Vec<ServerSummary>>());
        async move { Ok(result) }
    })
}

/// Returns the part of a server that a caller may see; `None` if the caller may see no part.
pub(crate) fn shown(
    cx: &Context,
    visibility: &dyn Visibility,
    mut known: KnownServer,
) -> Option<KnownServer> {
    if cx.principal.authority() == Authority::Operator {
        return Some(known);
    }
    let id = ServerId::from(known.summary.id.as_str());
    known.summary.tools.retain(|tool| visibility.sees(cx, Some(&id), tool).is_ok());
    (!known.summary.tools.is_empty()).then_some(known)
}

fn matches(known: &KnownServer, filter: &DiscoveryFilter) -> bool {
    let KnownServer { summary, permissions } = known;
    let state = |wanted: &ServerState| {
        let wanted = wanted.as_str();
        wanted.eq_ignore_ascii_case(ALL) || wanted.eq_ignore_ascii_case(summary.status.as_str())
    };
    // Compare meanings, not names. An extension may have several names, and a short name of a permission means its
    // standard names, e.g. `network` means `network.outbound`.
    let extensions = ExtensionSet::from_names(summary.extensions.iter());
    let has_extension = |wanted: &String| {
        summary.extensions.contains(wanted) || !extensions.names_for(&[wanted]).is_empty()
    };
    let needed = Permission::canonical(permissions);
    let needs = |wanted: &Permission| wanted.expand().iter().all(|one| needed.contains(one));
    filter.extensions.iter().all(has_extension)
        && filter.permissions.iter().all(needs)
        && filter.status.as_ref().is_none_or(state)
}
