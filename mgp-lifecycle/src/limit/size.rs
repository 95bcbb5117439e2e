//! Size limits of the arguments and results of tool calls (MGP §14.3: 3001).
//!
//! Applies to: inbound and outbound.

use std::fmt;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Poll};

use mgp_types::service::{
    BoxFuture, Call, ConsumerGone, Either, MgpService, OutletItem, OutletItemKind, Reply, Sink,
};
use mgp_types::{Object, RpcError};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::error::LifecycleError;

/// Limits of a [`SizeLayer`], in bytes of JSON.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SizeConfig {
    /// The maximum size of the arguments of a call. Default: 1 MiB.
    pub arguments: usize,
    /// The maximum size of the result of a call, and separately of all chunks sent before it. Default: 8 MiB.
    pub result: usize,
}

impl Default for SizeConfig {
    fn default() -> Self {
        Self { arguments: 1 << 20, result: 8 << 20 }
    }
}

/// Layer that refuses tool calls whose arguments or results are too large, with code 3001 (resource exhausted). Passes
/// on all other methods.
///
/// A call whose arguments are too large does not run. If the result is too large, the call has already run, and its
/// caller gets an error with the size instead. A call that sends chunks is ended when their total size exceeds the
/// limit.
///
/// ```
/// use mgp_lifecycle::{SizeConfig, SizeLayer};
/// use mgp_types::Payload;
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut config = SizeConfig::default();
/// config.result = 100;
/// let chatty = Stack::from_fn(|_| async { Ok(Reply::raw(Payload::of(&"word ".repeat(99))?)) });
/// let mut client = mock::client(Stack::new(SizeLayer::new(config).layer(chatty)));
/// let refused = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
/// assert_eq!(refused.to_string(), "the result has 497 bytes, and may have 100 (3001)");
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SizeLayer(SizeConfig);

impl SizeLayer {
    /// Creates a layer with these limits.
    pub const fn new(config: SizeConfig) -> Self {
        Self(config)
    }
}

mgp_types::layer_service! {
    /// The service that [`SizeLayer`] creates.
    pub SizeService for SizeLayer
}

/// A refusal of a call that exceeded a size limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {part} {size} bytes, and may have {limit}")]
pub struct TooLarge {
    part: Part,
    size: usize,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Arguments,
    Result,
    Chunks,
}

impl TooLarge {
    /// Returns the structured details of the refusal (MGP §14.5).
    pub(crate) fn details(&self) -> Object {
        Object::new()
            .with("limit", &self.limit)
            .with("size", &self.size)
            .with("of", self.part.as_str())
            .with("started", &(self.part != Part::Arguments))
    }
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Result => "result",
            Self::Chunks => "partial results",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = if *self == Self::Result { "has" } else { "have" };
        write!(f, "{} {has}", self.as_str())
    }
}

impl<S: MgpService> Service<Call> for SizeService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let Some(tool) = call.tool() else {
            let future = self.inner.call(call);
            return Either::Left { future: ResponseFuture { future, limit: None, chunks: None } };
        };
        let size = tool.arguments.map_or(0, str::len);
        let config = self.layer.0;
        if size > config.arguments {
            let refused = TooLarge { part: Part::Arguments, size, limit: config.arguments };
            return Either::Right { future: ready(Err(LifecycleError::from(refused).into())) };
        }
        let chunks = meter_chunks(&mut call, config.result);
        let future = self.inner.call(call);
        Either::Left { future: ResponseFuture { future, limit: Some(config.result), chunks } }
    }
}

/// Replaces the call's outlet (its channel for partial results) by one that counts the bytes of the chunks. Returns the
/// running sum, or `None` if the outlet accepts no chunks.
fn meter_chunks(call: &mut Call, limit: usize) -> Option<Arc<AtomicUsize>> {
    let outlet = &mut call.cx_mut().outlet;
    if !outlet.wants(OutletItemKind::Chunk) {
        return None;
    }
    let sum = Arc::new(AtomicUsize::new(0));
    let total = Arc::clone(&sum);
    *outlet = std::mem::take(outlet).wrap(|inner| Arc::new(ChunkMeter { inner, total, limit }));
    Some(sum)
}

/// Sink that counts the bytes of the chunks sent to the caller, and refuses chunks beyond the limit.
struct ChunkMeter {
    inner: Arc<dyn Sink>,
    total: Arc<AtomicUsize>,
    limit: usize,
}

impl Sink for ChunkMeter {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        if let OutletItem::Chunk(chunk) = &item {
            let size = chunk.content.as_str().len();
            let add = |sum: usize| Some(sum.saturating_add(size));
            let before = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            if before.unwrap_or(usize::MAX).saturating_add(size) > self.limit {
                // The caller gets the refusal from the response future, so only report here that no more chunks are
                // accepted.
                return Box::pin(ready(Err(ConsumerGone)));
            }
        }
        self.inner.send(item)
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}

pin_project! {
    /// Response future of [`SizeService`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        future: F,
        limit: Option<usize>,
        chunks: Option<Arc<AtomicUsize>>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = this.future.poll(task);
        let Some(limit) = *this.limit else { return outcome };
        let chunks = this.chunks.as_ref().map_or(0, |sum| sum.load(Ordering::Relaxed));
        if chunks > limit {
            let refused = TooLarge { part: Part::Chunks, size: chunks, limit };
            return Poll::Ready(Err(LifecycleError::from(refused).into()));
        }
        if let Poll::Ready(Ok(Reply::Complete(body))) = &outcome {
            let size = body.as_raw().as_str().len();
            if size > limit {
                let refused = TooLarge { part: Part::Result, size, limit };
                return Poll::Ready(Err(LifecycleError::from(refused).into()));
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;
    use mgp_types::service::{Outlet, Stack, mock};
    use tokio::time::{Duration, sleep};

    use tower_layer::Layer;

    use super::*;

    fn client(arguments: usize, result: usize, tools: Stack) -> mock::Client {
        mock::client(Stack::new(SizeLayer::new(SizeConfig { arguments, result }).layer(tools)))
    }

    #[tokio::test]
    async fn arguments_are_bounded_to_the_byte() {
        let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
        let mut client = client(10, 10, tools);
        let call = |arguments: &str| format!(r#"{{"name":"t","arguments":{arguments}}}"#);
        assert!(client.request("tools/call", r#"{"name":"t"}"#).await.is_ok());
        assert!(client.request("tools/call", &call(r#"{"a":1234}"#)).await.is_ok());
        let refused = client.request("tools/call", &call(r#"{"a":12345}"#)).await.unwrap_err();
        assert_eq!(
            serde_json::to_string(&refused).unwrap(),
            r#"{"code":3001,"message":"the arguments have 11 bytes, and may have 10","data":{"_mgp":{"category":"resource","retryable":false,"details":{"limit":10,"size":11,"of":"arguments","started":false}}}}"#
        );
        let long = format!(r#"{{"uri":"{}"}}"#, "x".repeat(99));
        assert!(client.request("resources/read", &long).await.is_ok());
    }

    #[tokio::test]
    async fn results_are_bounded_to_the_byte() {
        let tools = Stack::from_fn(|call: Call| async move {
            Ok(Reply::raw(Payload::from_trusted(call.tool_arguments().as_str().to_owned())))
        });
        let mut client = client(99, 10, tools);
        let call = |result: &str| format!(r#"{{"name":"t","arguments":{result}}}"#);
        assert!(client.request("tools/call", &call(r#"{"a":1234}"#)).await.is_ok());
        let refused = client.request("tools/call", &call(r#"{"a":12345}"#)).await.unwrap_err();
        assert_eq!(refused.to_string(), "the result has 11 bytes, and may have 10 (3001)");
        assert!(!refused.as_recovery().unwrap().is_retryable());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_sends_too_many_chunks_is_ended_there() {
        let continued = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&continued);
        let tools = Stack::from_fn(move |call: Call| {
            let count = Arc::clone(&count);
            async move {
                for _ in 0..5 {
                    let chunk = OutletItem::chunk(Payload::from_trusted(r#"{"a":1}"#));
                    // This tool ignores the error which reports that its caller accepts no more chunks.
                    let _ = call.cx().outlet.send(chunk).await;
                    let _ = call.cx().outlet.progress(1.0, None).await;
                    sleep(Duration::from_secs(1)).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Reply::empty())
            }
        });
        for (bound, ran, received) in [(21, 3, 3), (35, 5, 5)] {
            continued.store(0, Ordering::Relaxed);
            let mut client = client(99, bound, tools.clone());
            let seen = Arc::new(AtomicUsize::new(0));
            let chunks = Arc::clone(&seen);
            client.cx.outlet = Outlet::from_fn(move |item| {
                chunks.fetch_add(
                    usize::from(item.kind() == OutletItemKind::Chunk),
                    Ordering::Relaxed,
                );
            });
            let outcome = client.request("tools/call", r#"{"name":"t"}"#).await;
            assert_eq!(seen.load(Ordering::Relaxed), received);
            assert_eq!(continued.load(Ordering::Relaxed), ran);
            match outcome {
                Ok(_) => assert_eq!(bound, 35),
                Err(error) => assert_eq!(
                    error.to_string(),
                    "the partial results have 28 bytes, and may have 21 (3001)"
                ),
            }
        }
    }
}
