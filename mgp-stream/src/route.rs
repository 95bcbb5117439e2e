//! Delivers partial results from a peer to the calls they belong to (MGP §12.4, §12.6; MCP progress).
//!
//! Each notification is delivered while it is dispatched, in the order of arrival, so an answer never overtakes its
//! chunks.
//!
//! Applies to: inbound.

use std::future::{Ready, ready};

use mgp_types::mcp::ProgressParams;
use mgp_types::method::{Progress, StreamChunk, StreamProgress};
use mgp_types::mgp::StreamProgressParams;
use mgp_types::service::{
    Call, Either, MgpService, OutletItem, Params, Peer, Progress as Step, QueueRoom, Reply,
};
use mgp_types::{Id, Payload, RpcError};
use serde::Deserialize;
use tower_layer::Layer;
use tower_service::Service;

use crate::collect::ProgressForm;

/// Delivers chunks and progress to the outlet of the call they name; everything else passes.
///
/// It belongs on the inbound stack of the side that made the calls.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RouteLayer(());

impl RouteLayer {
    /// Creates the layer.
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for RouteLayer {
    type Service = Route<S>;

    fn layer(&self, inner: S) -> Route<S> {
        Route { inner }
    }
}

/// Service of [`RouteLayer`].
#[derive(Clone)]
pub struct Route<S> {
    inner: S,
}

mgp_types::opaque_debug!(Route<S>);

impl<S: MgpService> Service<Call> for Route<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Ready<Result<Reply, RpcError>>, S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let (read, form): (ReadItem, ItemForm) = if call.tells::<StreamChunk>() {
            (read_chunk, ItemForm::Chunk)
        } else if call.tells::<StreamProgress>() {
            (read_stream_progress, ItemForm::MgpProgress)
        } else if call.tells::<Progress>() {
            (read_progress, ItemForm::McpProgress)
        } else {
            return Either::Right { future: self.inner.call(call) };
        };
        match read(call.params()) {
            Ok((id, item)) => deliver(&call.cx().peer, &id, item, form),
            Err(error) => {
                tracing::debug!(%error, method = %call.method(), "invalid partial result");
            }
        }
        Either::Left { future: ready(Ok(Reply::None)) }
    }
}

/// Reads the params of a partial result: the id of its call, and the item.
type ReadItem = fn(&Params) -> Result<(Id, OutletItem), RpcError>;

/// The form in which a partial result arrived.
#[derive(Clone, Copy)]
enum ItemForm {
    Chunk,
    MgpProgress,
    McpProgress,
}

fn deliver(peer: &Peer, id: &Id, item: OutletItem, from: ItemForm) {
    let Some(call) = peer.in_flight(id) else {
        tracing::debug!(%id, "dropped partial result: no such call in flight");
        return;
    };
    if let Some(form) = call.cx.extensions.get::<ProgressForm>() {
        match from {
            ItemForm::McpProgress => form.note_mcp(),
            ItemForm::MgpProgress if form.is_mcp() => return,
            ItemForm::MgpProgress | ItemForm::Chunk => {}
        }
    }
    if call.cx.outlet.wants(item.kind()) && call.inbox.push(item) == QueueRoom::Full {
        tracing::trace!(%id, "dropped partial result: the inbox is full");
    }
}

/// Parses a chunk. Its content stays raw JSON until a caller decodes it.
fn read_chunk(params: &Params) -> Result<(Id, OutletItem), RpcError> {
    #[derive(Deserialize)]
    struct Chunk {
        request_id: Id,
        content: Payload,
    }
    let chunk: Chunk = params.get()?;
    Ok((chunk.request_id, OutletItem::Chunk(chunk.content)))
}

fn read_stream_progress(params: &Params) -> Result<(Id, OutletItem), RpcError> {
    let read: StreamProgressParams = params.get()?;
    let step = Step {
        progress: read.progress.to_f64(),
        total: Some(1.0),
        message: read.message,
        estimated_remaining_ms: read.estimated_remaining_ms,
    };
    Ok((read.request_id, OutletItem::Progress(step)))
}

fn read_progress(params: &Params) -> Result<(Id, OutletItem), RpcError> {
    let read: ProgressParams = params.get()?;
    let step = Step {
        progress: read.progress.to_f64(),
        total: read.total.map(|total| total.to_f64()),
        message: read.message,
        estimated_remaining_ms: None,
    };
    Ok((read.progress_token, OutletItem::Progress(step)))
}
