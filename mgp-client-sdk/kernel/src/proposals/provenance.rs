//! The sources of results (extension `provenance`): the kernel adds to a result the name of the server that sent it. It
//! does not change what the server itself states about sources.

use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Member as _, ProvenanceHop, ProvenanceHops};
use mgp_types::service::{Context, Reply, ServerId};

/// The maximum number of hops in a result, i.e. of servers that the result has passed. The kernel adds no further hops.
const MAX_HOPS: usize = 16;

/// Adds the server to the hops of a result, if the caller negotiated the extension.
///
/// # Errors
/// Returns −32603 (internal error) if the hops cannot be written as JSON.
pub(crate) fn add_hop(cx: &Context, server: &ServerId, reply: &Reply) -> Result<(), RpcError> {
    if !cx.caller.has(Extension::Provenance) {
        return Ok(());
    }
    // Keep the hops that the result already contains, because the server may itself be a kernel.
    let meta = super::read_meta(reply);
    let read = ProvenanceHops::read(meta.as_ref()).ok().flatten();
    let mut hops = read.unwrap_or_default();
    if hops.0.len() >= MAX_HOPS {
        return Ok(());
    }
    let mut hop = ProvenanceHop::new(server.as_str());
    hop.trace_id = cx.trace.as_deref().map(str::to_owned);
    hops.0.push(hop);
    cx.add_to_result(&hops)
}
