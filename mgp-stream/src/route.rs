//! Delivers the partial results of a peer, each to the call to which it belongs (MGP §12.4, §12.6; MCP progress).
//!
//! Each notification is delivered when it arrives, so partial results stay in order and an answer is never delivered
//! before its chunks. If a caller takes its chunks too slowly, the callee is asked to pause (MGP §12.8).
//!
//! Applies to: inbound.

use std::future::{Ready, ready};
use std::sync::Arc;

use mgp_types::mcp::{ProgressParams, key};
use mgp_types::method::{Progress, StreamChunk, StreamGap, StreamGapUnrecoverable, StreamProgress};
use mgp_types::mgp::{GapParams, GapUnrecoverableParams, StreamProgressParams};
use mgp_types::proposal::OperationProgress;
use mgp_types::service::{
    BoxFuture, Call, Chunk, Context, Either, InFlight, MgpService, OutletItem, Params, Peer,
    Progress as Step, QueueRoom, Reply,
};
use mgp_types::{Id, RpcError};
use tower_service::Service;

use crate::chunk::{ChunkNotification, ChunkReceiver, Delivered, ReceivedChunk};
use crate::collect::ProgressForms;
use crate::emit::EstimateMeta;

/// Layer that delivers each chunk and each step of progress to the consumer of the call to which it belongs. It passes
/// on everything else.
///
/// Chunks are delivered in the order of their numbers. Missing chunks are requested from the callee. If they are lost,
/// the caller gets no further chunks, and finds the remaining content in the result.
///
/// If many chunks wait for their caller, the callee is asked to pause, and to continue when the caller has taken most
/// of them, or after 10 s. Chunks that are on their way still arrive; if they have no room, they are dropped and
/// counted.
///
/// The layer belongs on the inbound stack of the side that made the calls.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RouteLayer(());

impl RouteLayer {
    /// Creates the layer, which has no settings.
    pub const fn new() -> Self {
        Self(())
    }
}

mgp_types::layer_service! {
    /// The service that [`RouteLayer`] creates.
    pub Route for RouteLayer
}

type Answer = Result<Reply, RpcError>;

impl<S: MgpService> Service<Call> for Route<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Ready<Answer>, Either<BoxFuture<'static, Answer>, S::Future>>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let read = if call.tells::<StreamChunk>() {
            route_chunk(&call)
        } else if call.tells::<StreamProgress>() {
            read_stream_progress(call.params()).map(|(id, step)| {
                deliver_progress(&call.cx().peer, &id, step, ProgressSource::Mgp);
                None
            })
        } else if call.tells::<Progress>() {
            read_progress(call.params()).map(|(id, step)| {
                deliver_progress(&call.cx().peer, &id, step, ProgressSource::Mcp);
                None
            })
        } else if call.tells::<StreamGapUnrecoverable>() {
            route_loss(&call).map(|()| None)
        } else {
            let future = Either::Right { future: self.inner.call(call) };
            return Either::Right { future };
        };
        match read {
            Ok(Some(requesting)) => {
                return Either::Right { future: Either::Left { future: requesting } };
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, method = %call.method(), "invalid partial result");
            }
        }
        Either::Left { future: ready(Ok(Reply::None)) }
    }
}

fn find(peer: &Peer, id: &Id) -> Option<InFlight> {
    let call = peer.in_flight(id);
    if call.is_none() {
        tracing::debug!(%id, "dropped partial result: no such call in flight");
    }
    call
}

fn push(call: &InFlight, item: OutletItem) -> QueueRoom {
    if !call.cx.outlet.wants(item.kind()) {
        return QueueRoom::Free;
    }
    let room = call.inbox.push(item);
    if room == QueueRoom::Full {
        tracing::trace!(id = %call.id, "dropped partial result: the inbox is full");
    }
    room
}

// === Chunks ===

/// Delivers a chunk. If earlier chunks are missing, or many chunks wait for the caller, returns a future that requests
/// the missing chunks or a pause from the callee.
fn route_chunk(call: &Call) -> Result<Option<BoxFuture<'static, Answer>>, RpcError> {
    let read = ChunkNotification::read(call.params())?;
    let Some(waiting) = find(&call.cx().peer, &read.request_id) else { return Ok(None) };
    let mut chunk = Chunk::new(read.content);
    chunk.done = read.done;
    let Some(receiver) = waiting.cx.extensions.get_shared::<ChunkReceiver>() else {
        tracing::debug!(id = %read.request_id, "dropped a chunk that was not requested");
        return Ok(None);
    };
    let reports_loss = read.gap_unrecoverable;
    let received = ReceivedChunk { index: read.index, chunk, reports_loss };
    let Delivered { missing, pauses } =
        receiver.deliver(received, |chunk| push(&waiting, OutletItem::Chunk(chunk)));
    if missing.is_empty() && !pauses {
        return Ok(None);
    }
    let cx = call.cx();
    let mut own = Context::new(cx.peer.clone(), cx.scope.clone(), cx.principal.clone());
    own.callee = Arc::clone(&waiting.cx.callee);
    if pauses {
        receiver.set_callee(own.clone(), read.request_id.clone());
    }
    let mut request = None;
    if !missing.is_empty() {
        let params = GapParams::new(read.request_id, missing);
        let mut gap = Call::tell::<StreamGap>(&params, own)?;
        gap.hop_mut().meta = receiver.meta();
        request = Some(cx.peer.send(gap));
    }
    Ok(Some(Box::pin(async move {
        if pauses {
            receiver.send_pace().await;
            tokio::spawn(async move { receiver.limit_pause().await });
        }
        match request {
            Some(request) => request.await,
            None => Ok(Reply::None),
        }
    })))
}

/// Records that the callee has lost a chunk. Some implementations report this with a separate notification instead of
/// an empty chunk.
fn route_loss(call: &Call) -> Result<(), RpcError> {
    let read: GapUnrecoverableParams = call.params().get()?;
    if let Some(waiting) = find(&call.cx().peer, &read.request_id)
        && let Some(receiver) = waiting.cx.extensions.get::<ChunkReceiver>()
    {
        receiver.record_lost(read.missing_index);
    }
    Ok(())
}

// === Progress ===

/// The protocol (MCP or MGP) that determines the form of an arrived step of progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressSource {
    Mgp,
    Mcp,
}

fn deliver_progress(peer: &Peer, id: &Id, step: Step, source: ProgressSource) {
    let Some(call) = find(peer, id) else { return };
    let step = match (call.cx.extensions.get::<ProgressForms>(), source) {
        (Some(forms), ProgressSource::Mcp) => Some(forms.note_mcp(step)),
        (Some(forms), ProgressSource::Mgp) => forms.combine(step),
        (None, _) => Some(step),
    };
    if let Some(step) = step {
        push(&call, OutletItem::Progress(step));
    }
}

fn read_stream_progress(params: &Params) -> Result<(Id, Step), RpcError> {
    let read: StreamProgressParams = params.get().or_else(|error| {
        let read: Result<OperationProgress, RpcError> = params.get();
        read.map(StreamProgressParams::from).map_err(|_| error)
    })?;
    let step = Step {
        progress: read.progress.to_f64(),
        total: Some(1.0),
        message: read.message,
        estimated_remaining_ms: read.estimated_remaining_ms,
    };
    Ok((read.request_id, step))
}

fn read_progress(params: &Params) -> Result<(Id, Step), RpcError> {
    let read: ProgressParams = params.get()?;
    let estimate = read.meta.as_ref().and_then(|meta| meta.0.get(key::MGP));
    let estimate = estimate.and_then(|estimate| estimate.get::<EstimateMeta>().ok());
    let step = Step {
        progress: read.progress.to_f64(),
        total: read.total.map(|total| total.to_f64()),
        message: read.message,
        estimated_remaining_ms: estimate.map(|estimate| estimate.estimated_remaining_ms),
    };
    Ok((read.progress_token, step))
}

#[cfg(test)]
mod model;
