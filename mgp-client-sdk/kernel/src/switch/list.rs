//! `tools/list`: the tools to find tools, and what the caller has in its session (MGP §16.3).
//!
//! Applies to: inbound.

use mgp_toolindex::surface;
use mgp_types::RpcError;
use mgp_types::mcp::{CacheScope, Era, ListToolsResult};
use mgp_types::mgp::ContextLevel;
use mgp_types::service::{Call, Reply};

use super::{Parts, Switch};
use crate::hops;

/// The list of a caller.
pub(super) fn tools(switch: &Switch, call: &Call) -> Result<Reply, RpcError> {
    let Parts { fleet, sessions, search, offers, .. } = switch.parts();
    let (index, cx) = (&fleet.ground().index, call.cx());
    let caller = search.caller(cx);
    let session = sessions.find(cx, None)?;
    let view = sessions.view(&cx.principal, session.as_ref(), index, &caller);
    // Another kernel has an index of its own.
    let level =
        if hops::is_from_kernel(cx) { ContextLevel::Standard } else { ContextLevel::Hybrid };
    let mut list = ListToolsResult::new(surface(&level, &offers.meta(cx), index, &caller, &view));
    if cx.caller.era == Era::Modern {
        // Any call may add to the caller's session, so the list is not to be kept.
        list.ttl_ms = Some(0);
        list.cache_scope = Some(CacheScope::Private);
    }
    Reply::of(&list)
}
