//! The sources of results (proposal 7): the kernel adds the server from which it received a result, and changes no
//! claim of the server.

use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Member as _, ProvenanceHop, ProvenanceHops};
use mgp_types::service::{Context, Reply, ServerId};

/// The maximum number of hops in a result; if there are more, the hops next to the server are kept.
const MAX_HOPS: usize = 16;

/// Adds the server to the hops of a result, for callers that negotiated provenance.
///
/// # Errors
/// Returns −32603 if the hops cannot be written as JSON.
pub(crate) fn add_hop(cx: &Context, server: &ServerId, reply: &Reply) -> Result<(), RpcError> {
    if !cx.caller.has(Extension::Provenance) {
        return Ok(());
    }
    // A server that is a kernel itself has added its own hops.
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
