//! `tools/list`: the tools to find tools, and the tools in the caller's session (MGP §16.3).

use mgp_toolindex::surface;
use mgp_types::RpcError;
use mgp_types::mcp::{CacheScope, Era, ListToolsResult};
use mgp_types::mgp::ContextLevel;
use mgp_types::service::{Call, Reply};

use super::dispatcher::Dispatcher;
use crate::hops;

/// Returns the list for a caller.
pub(super) fn list(dispatcher: &Dispatcher, call: &Call) -> Result<Reply, RpcError> {
    let parts = dispatcher.parts();
    let (index, cx) = (&parts.fleet.context().index, call.cx());
    let caller = parts.search.caller(cx);
    let session = parts.sessions.find(cx, None)?;
    let view = parts.sessions.view(&cx.principal, session.as_ref(), index, &caller);
    // Another kernel has an index of its own.
    let level =
        if hops::is_from_kernel(cx) { ContextLevel::Standard } else { ContextLevel::Hybrid };
    let meta_tools = parts.meta_tools.listed(cx);
    let mut list = ListToolsResult::new(surface(&level, &meta_tools, index, &caller, &view));
    if cx.caller.era == Era::Modern {
        // Any call may add to the caller's session, so the list must not be cached.
        list.ttl_ms = Some(0);
        list.cache_scope = Some(CacheScope::Private);
    }
    Reply::of(&list)
}
