//! The sources of results (proposal 7): the kernel adds to a result the server that sent it, and does not change the
//! server's own statements about sources.

use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Member as _, ProvenanceHop, ProvenanceHops};
use mgp_types::service::{Context, Reply, ServerId};

/// The maximum number of hops (servers that a result has passed) in a result; further hops are not added.
const MAX_HOPS: usize = 16;

/// Adds the server to the hops of a result, for callers that negotiated provenance.
///
/// # Errors
/// Returns −32603 if the hops cannot be written as JSON.
pub(crate) fn add_hop(cx: &Context, server: &ServerId, reply: &Reply) -> Result<(), RpcError> {
    if !cx.caller.has(Extension::Provenance) {
        return Ok(());
    }
    // Keep the hops that the result contains already, because the server may itself be a kernel.
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
