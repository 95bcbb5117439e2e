//! Brings the partial results a peer sends to the calls they belong to (MGP §12.4, §12.6; MCP progress).
//!
//! It happens where a notification is dispatched, in the order of the wire, so no chunk is overtaken by its answer.
//!
//! Applies to: inbound, on the side that made the calls.

use std::fmt;
use std::future::{Ready, ready};
use std::task::{Context as Task, Poll};

use mgp_types::mcp::ProgressParams;
use mgp_types::method::{Progress, StreamChunk, StreamProgress};
use mgp_types::mgp::StreamProgressParams;
use mgp_types::service::{
    Call, Either, Item, MgpService, Params, Peer, Progress as Step, Reply, Room,
};
use mgp_types::{Id, Payload, RpcError};
use serde::Deserialize;
use tower_layer::Layer;
use tower_service::Service;

use crate::collect::ProgressForm;

/// Hands chunks and progress to the outlet of the call they name; everything else passes.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RouteLayer(());

impl RouteLayer {
    /// The layer.
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

impl<S> fmt::Debug for Route<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Route")
    }
}

impl<S: MgpService> Service<Call> for Route<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Ready<Result<Reply, RpcError>>, S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let (read, form): (Read, Form) = if call.tells::<StreamChunk>() {
            (read_chunk, Form::Chunk)
        } else if call.tells::<StreamProgress>() {
            (read_stream_progress, Form::MgpProgress)
        } else if call.tells::<Progress>() {
            (read_progress, Form::McpProgress)
        } else {
            return Either::Right { future: self.inner.call(call) };
        };
        match read(call.params()) {
            Ok((id, item)) => deliver(&call.cx().peer, &id, item, form),
            Err(error) => {
                tracing::debug!(%error, method = %call.method(), "a partial result was not understood");
            }
        }
        Either::Left { future: ready(Ok(Reply::None)) }
    }
}

/// Reads the params of a partial result: the call it names, and what it brings.
type Read = fn(&Params) -> Result<(Id, Item), RpcError>;

/// In which form a partial result came.
#[derive(Clone, Copy)]
enum Form {
    Chunk,
    MgpProgress,
    McpProgress,
}

fn deliver(peer: &Peer, id: &Id, item: Item, from: Form) {
    let Some(call) = peer.in_flight(id) else {
        tracing::debug!(%id, "a partial result of no call of ours");
        return;
    };
    if let Some(form) = call.cx.extensions.get::<ProgressForm>() {
        match from {
            Form::McpProgress => form.note_mcp(),
            Form::MgpProgress if form.is_mcp() => return,
            Form::MgpProgress | Form::Chunk => {}
        }
    }
    if call.cx.outlet.wants(item.kind()) && call.inbox.push(item) == Room::Full {
        tracing::trace!(%id, "a partial result was dropped");
    }
}

/// The content stays text: who wants blocks decodes them.
fn read_chunk(params: &Params) -> Result<(Id, Item), RpcError> {
    #[derive(Deserialize)]
    struct Chunk {
        request_id: Id,
        content: Payload,
    }
    let chunk: Chunk = params.get()?;
    Ok((chunk.request_id, Item::Chunk(chunk.content)))
}

fn read_stream_progress(params: &Params) -> Result<(Id, Item), RpcError> {
    let read: StreamProgressParams = params.get()?;
    let step = Step {
        progress: read.progress.to_f64(),
        total: Some(1.0),
        message: read.message,
        estimated_remaining_ms: read.estimated_remaining_ms,
    };
    Ok((read.request_id, Item::Progress(step)))
}

fn read_progress(params: &Params) -> Result<(Id, Item), RpcError> {
    let read: ProgressParams = params.get()?;
    let step = Step {
        progress: read.progress.to_f64(),
        total: read.total.map(|total| total.to_f64()),
        message: read.message,
        estimated_remaining_ms: None,
    };
    Ok((read.progress_token, Item::Progress(step)))
}
