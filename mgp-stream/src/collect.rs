//! Requests streaming for outbound calls whose caller accepts chunks (MGP §12.3), and passes the caller's pace on to
//! the callee (§12.8).
//!
//! Applies to: outbound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::mcp::key;
use mgp_types::method::StreamPace;
use mgp_types::mgp::{CallExtension, Extension, PaceParams, ResultExtension};
use mgp_types::service::{
    Body, BoxFuture, Call, ConsumerGone, Either, MgpService, OutletItem, OutletItemKind,
    Progress as Step, Reply, Sink,
};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use pin_project_lite::pin_project;
use serde::Serialize;
use tower_service::Service;

use crate::chunk::ChunkReceiver;

/// Layer that sets `_mgp.stream` on a tool call whose caller accepts chunks, if the callee negotiated streaming.
///
/// The chunks arrive through [`RouteLayer`](crate::RouteLayer) on the inbound stack of the same connection. While that
/// layer pauses the stream of a slow caller, a pace that the caller requests waits until the stream is resumed.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CollectLayer(());

impl CollectLayer {
    /// Creates the layer, which has no settings.
    pub const fn new() -> Self {
        Self(())
    }
}

mgp_types::layer_service! {
    /// The service that [`CollectLayer`] creates.
    pub Collect for CollectLayer
}

/// The last step of progress that arrived in MCP's form. MCP's form has the real units, and MGP's form the remaining
/// time. An MGP peer sends each step in MCP's form first, so this value is needed to combine the two.
#[derive(Debug, Default)]
pub(crate) struct ProgressForms(Mutex<Option<Step>>);

impl ProgressForms {
    /// Stores a step that arrived in MCP's form, and returns it.
    pub(crate) fn note_mcp(&self, step: Step) -> Step {
        *self.0.lock() = Some(step.clone());
        step
    }

    /// Returns the step to deliver when a step in MGP's form arrives; `None` if it only repeats what was delivered. A
    /// peer that only changes its estimate of the remaining time sends the step again, but only in MGP's form.
    pub(crate) fn combine(&self, step: Step) -> Option<Step> {
        let mut last = self.0.lock();
        let Some(before) = &mut *last else { return Some(step) };
        let estimate = Some(step.estimated_remaining_ms?);
        if before.estimated_remaining_ms == estimate {
            return None;
        }
        before.estimated_remaining_ms = estimate;
        Some(before.clone())
    }
}

impl<S: MgpService> Service<Call> for Collect<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<BoxFuture<'static, Result<Reply, RpcError>>, ResponseFuture<S::Future>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.tells::<StreamPace>()
            && let Some((receiver, pace)) = paced_stream(&call)
        {
            let sending = self.inner.call(call);
            let set = async move { receiver.set_pace(pace, sending).await };
            return Either::Left { future: Box::pin(set) };
        }
        if call.cx().outlet.wants(OutletItemKind::Progress) {
            call.cx_mut().extensions.insert(ProgressForms::default());
        }
        let cx = call.cx();
        let mut receiver = None;
        if call.tool().is_some()
            && cx.callee.has(Extension::Streaming)
            && cx.outlet.wants(OutletItemKind::Chunk)
        {
            let mut mgp = CallExtension::new();
            mgp.stream = Some(true);
            let received = Arc::new(ChunkReceiver::new(call.hop()));
            // Encoding cannot fail. If it did, the only effect would be that the call does not stream.
            call.hop_mut().mgp = Payload::of(&mgp).ok();
            let cx = call.cx_mut();
            cx.extensions.insert_shared(Arc::clone(&received));
            let taken = Arc::clone(&received);
            let outlet = std::mem::take(&mut cx.outlet);
            cx.outlet = outlet.wrap(|inner| Arc::new(TakenChunks { inner, receiver: taken }));
            receiver = Some(received);
        }
        let is_checked = call.tool().is_some();
        let future = ResponseFuture { inner: self.inner.call(call), receiver, is_checked };
        Either::Right { future }
    }
}

/// Returns the receiver of the stream whose pace a `notifications/mgp.stream.pace` sets, and the new pace.
fn paced_stream(call: &Call) -> Option<(Arc<ChunkReceiver>, u32)> {
    let params: PaceParams = call.params().get().ok()?;
    let waiting = call.cx().peer.in_flight(&params.request_id)?;
    let receiver = waiting.cx.extensions.get_shared::<ChunkReceiver>()?;
    Some((receiver, params.max_chunks_per_second))
}

/// A sink (receiver of partial results) that counts the chunks that the caller takes, and resumes a paused stream when
/// few chunks are left.
struct TakenChunks {
    inner: Arc<dyn Sink>,
    receiver: Arc<ChunkReceiver>,
}

impl TakenChunks {
    fn pass_on(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        if self.inner.wants(item.kind()) {
            self.inner.send(item)
        } else {
            Box::pin(std::future::ready(Ok(())))
        }
    }
}

impl Sink for TakenChunks {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        let resumes = match &item {
            OutletItem::Chunk(chunk) => self.receiver.record_taken(chunk),
            _ => false,
        };
        if !resumes {
            return self.pass_on(item);
        }
        Box::pin(async move {
            self.receiver.send_pace().await;
            self.pass_on(item).await
        })
    }

    /// Returns `true` for chunks, even if the caller does not want them any more. The chunks in the queue pass through
    /// this sink in any case, and must be counted.
    fn wants(&self, kind: OutletItemKind) -> bool {
        kind == OutletItemKind::Chunk || self.inner.wants(kind)
    }
}

pin_project! {
    /// Response future of [`Collect`], which corrects the counts of chunks in the result.
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        receiver: Option<Arc<ChunkReceiver>>,
        // `true` if the result might contain counts of chunks; these are then replaced by the counts of this side.
        is_checked: bool,
    }
}

mgp_types::opaque_debug!(ResponseFuture<F>);

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let mut outcome = ready!(this.inner.poll(task));
        if let (Ok(Reply::Complete(body)), true) = (&mut outcome, *this.is_checked) {
            check_totals(body, this.receiver.as_deref())?;
        }
        Poll::Ready(outcome)
    }
}

/// Replaces the counts of chunks in a result by those of this side, because a callee can send wrong counts. Adds the
/// number of chunks that were dropped on this side to the count of dropped chunks.
fn check_totals(body: &mut Body, receiver: Option<&ChunkReceiver>) -> Result<(), RpcError> {
    let (arrived, dropped) = receiver.map_or((0, 0), |of| (of.arrived(), of.dropped()));
    let sent = body.get("_mgp");
    let is_copied =
        (sent.is_some() || receiver.is_some()) && body.as_raw().as_str().contains(key::MGP);
    if sent.is_none() && !is_copied && dropped == 0 {
        return Ok(());
    }
    let sent: Option<ResultExtension> = sent.and_then(|sent| sent.get().ok());
    let mut mgp = sent.clone().unwrap_or_default();
    mgp.streamed = mgp.streamed.or((arrived > 0).then_some(true)).map(|_| arrived > 0);
    mgp.chunks_sent = mgp.chunks_sent.map(|_| arrived);
    mgp.dropped = mgp.dropped.filter(|_| arrived > 0);
    if dropped > 0 {
        mgp.dropped = Some(mgp.dropped.unwrap_or(0).saturating_add(dropped));
    }
    if sent.as_ref() != Some(&mgp) {
        let mgp = Payload::of(&mgp)?;
        if is_copied {
            body.insert_meta(key::MGP, Payload::of(&MetaCopy { result: &mgp })?);
        }
        body.insert("_mgp", mgp);
    }
    Ok(())
}

/// The value of `_meta["dev.cloto/mgp"]` in a result. It repeats the result's member `_mgp` for clients that read only
/// `_meta`.
#[derive(Serialize)]
struct MetaCopy<'a> {
    result: &'a Payload,
}

/// Writes the member `_mgp` of a result. Writes it to `_meta` too, because the MCP SDKs for Python and Rust drop `_mgp`
/// from results and keep `_meta`.
pub(crate) fn set_result_extension(body: &mut Body, mgp: &ResultExtension) -> Result<(), RpcError> {
    let mgp = Payload::of(mgp)?;
    body.insert_meta(key::MGP, Payload::of(&MetaCopy { result: &mgp })?);
    body.insert("_mgp", mgp);
    Ok(())
}

/// Returns the member `_mgp` of a result; an empty value if the member is absent or cannot be decoded.
pub(crate) fn result_extension(body: &Body) -> ResultExtension {
    body.get("_mgp").and_then(|mgp| mgp.get().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_estimate_for_the_same_step_is_delivered_once() {
        let step = |progress, total, estimated_remaining_ms| Step {
            progress,
            total: Some(total),
            message: None,
            estimated_remaining_ms,
        };
        let forms = ProgressForms::default();
        forms.note_mcp(step(5.0, 10.0, Some(9_000)));
        let delivered = [Some(9_000), Some(8_000), Some(8_000), None, Some(9_000)]
            .map(|estimate| forms.combine(step(0.5, 1.0, estimate)));
        let of_ten = |estimate| Some(step(5.0, 10.0, Some(estimate)));
        assert_eq!(delivered, [None, of_ten(8_000), None, None, of_ten(9_000)]);
    }
}
