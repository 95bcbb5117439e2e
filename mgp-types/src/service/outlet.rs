//! The output of a running call: chunks, progress, logs, events, callbacks (MGP §12, §13).

use std::sync::Arc;

use tokio::sync::mpsc;

use super::BoxFuture;
use super::write::write_text;
use crate::mcp::{ContentBlock, ProgressParams};
use crate::record::{MAX_EXACT, Number};
use crate::wire::{Id, Payload, RpcError};

/// The channel on which a running call sends partial results to its caller. A call that is forwarded to another server
/// keeps its outlet.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use mgp_types::Payload;
/// use mgp_types::mcp::ContentBlock;
/// use mgp_types::service::{BoxFuture, ConsumerGone, OutletItem, Outlet, Sink};
///
/// #[derive(Default)]
/// struct Seen(Mutex<Vec<OutletItem>>);
///
/// impl Sink for Seen {
///     fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
///         self.0.lock().unwrap().push(item);
///         Box::pin(async { Ok(()) })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let seen = Arc::new(Seen::default());
/// let outlet = Outlet::new(seen.clone());
/// let chunk = Payload::of(&ContentBlock::text("hello")).unwrap();
/// outlet.send(OutletItem::chunk(chunk)).await.unwrap();
/// assert_eq!(seen.0.lock().unwrap().len(), 1);
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Outlet(Option<Arc<dyn Sink>>);

/// A partial result or notification of a running call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OutletItem {
    /// A piece of the result (§12.4).
    Chunk(Chunk),
    /// The progress of the call (§12.6).
    Progress(Progress),
    /// A log message, as the params of `notifications/message`.
    Log(Payload),
    /// An event, as the params of `notifications/mgp.event` (§13.3).
    Event(Payload),
    /// A callback, as the params of `notifications/mgp.callback.request` (§13.4).
    Callback(Payload),
}

/// A piece of the result of a running call, sent before the result itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// The content of the chunk: one content block as JSON.
    pub content: Payload,
    /// `true` if no other chunk of the call follows. A call can also end without such a chunk.
    pub done: bool,
}

/// The kind of an [`OutletItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutletItemKind {
    /// The kind of [`OutletItem::Chunk`].
    Chunk,
    /// The kind of [`OutletItem::Progress`].
    Progress,
    /// The kind of [`OutletItem::Log`].
    Log,
    /// The kind of [`OutletItem::Event`].
    Event,
    /// The kind of [`OutletItem::Callback`].
    Callback,
}

/// The progress of a running call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The number of units of work that are done.
    pub progress: f64,
    /// The total number of units of work, if known.
    pub total: Option<f64>,
    /// A description of the current step for the user.
    pub message: Option<String>,
    /// The estimated remaining time, in milliseconds (§12.6).
    pub estimated_remaining_ms: Option<u64>,
}

/// The error of sending an item to a consumer that no longer accepts items. The sender should stop its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the consumer of partial results is gone")]
pub struct ConsumerGone;

impl From<ConsumerGone> for RpcError {
    fn from(gone: ConsumerGone) -> Self {
        Self::internal(gone.to_string()).because(gone)
    }
}

/// A consumer of the items of one call. A layer can wrap it in its own consumer to observe the items.
// `send` is not `async`, so that a layer that wraps a sink can return the boxed future of the inner sink unchanged.
pub trait Sink: Send + Sync {
    /// Consumes an item. Waits while the consumer is slow; the implementation decides for how long.
    ///
    /// # Errors
    /// Returns [`ConsumerGone`] if the consumer no longer accepts items.
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>>;

    /// Returns whether the sink accepts items of a kind, so that callers need not create items that it would drop.
    fn wants(&self, _kind: OutletItemKind) -> bool {
        true
    }
}

impl Chunk {
    /// Creates a chunk from a content block in JSON, e.g. `Payload::of(&ContentBlock::text("…"))?`.
    #[must_use]
    pub const fn new(content: Payload) -> Self {
        Self { content, done: false }
    }

    /// Creates a chunk whose content is a text block.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut block = Vec::with_capacity(ContentBlock::TEXT_PREFIX.len() + text.len() + 3);
        block.extend_from_slice(ContentBlock::TEXT_PREFIX.as_bytes());
        write_text(&mut block, text);
        block.push(b'}');
        // Cannot fail: JSON is UTF-8. The empty object is only a fallback.
        let block = String::from_utf8(block).map(Payload::from_trusted);
        Self::new(block.unwrap_or_else(|_| Payload::empty_object()))
    }

    /// Marks the chunk as the last of its call.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.done = true;
        self
    }
}

impl Progress {
    /// Creates the params of `notifications/progress` for the token of a request.
    #[must_use]
    pub fn to_params(&self, token: Id) -> ProgressParams {
        let mut params = ProgressParams::new(token, whole_or_float(self.progress));
        params.total = self.total.map(whole_or_float);
        params.message.clone_from(&self.message);
        params
    }
}

/// Converts a float to a JSON number. A whole number is written as `1` instead of `1.0`, because some peers accept only
/// integers.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole, and at most 2^53")]
fn whole_or_float(number: f64) -> Number {
    if number.fract() == 0.0 && number.abs() <= MAX_EXACT {
        return Number::from(number as i64);
    }
    Number::from(number)
}

impl OutletItem {
    /// Creates an item that is a chunk of text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Chunk(Chunk::text(text))
    }

    /// Creates an item that is a chunk with a content block in JSON.
    #[must_use]
    pub const fn chunk(content: Payload) -> Self {
        Self::Chunk(Chunk::new(content))
    }

    /// Returns the kind of the item.
    #[must_use]
    pub fn kind(&self) -> OutletItemKind {
        match self {
            Self::Chunk(_) => OutletItemKind::Chunk,
            Self::Progress(_) => OutletItemKind::Progress,
            Self::Log(_) => OutletItemKind::Log,
            Self::Event(_) => OutletItemKind::Event,
            Self::Callback(_) => OutletItemKind::Callback,
        }
    }
}

impl Outlet {
    /// Creates an outlet that sends its items to a sink.
    #[must_use]
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self(Some(sink))
    }

    /// Returns an outlet without a sink; items sent to it are dropped.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Creates an outlet that passes each item to a function, which must not wait.
    ///
    /// ```
    /// use mgp_types::service::Outlet;
    ///
    /// let outlet = Outlet::from_fn(|item| println!("{item:?}"));
    /// ```
    #[must_use]
    pub fn from_fn(take: impl Fn(OutletItem) + Send + Sync + 'static) -> Self {
        struct Function<F>(F);
        impl<F: Fn(OutletItem) + Send + Sync> Sink for Function<F> {
            fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
                (self.0)(item);
                Box::pin(std::future::ready(Ok(())))
            }
        }
        Self::new(Arc::new(Function(take)))
    }

    /// Creates an outlet to a queue with room for `room` items (at least one); a sender waits while the queue is full,
    /// without a time limit. So read the receiver, or drop it.
    #[must_use]
    pub fn channel(room: usize) -> (Self, mpsc::Receiver<OutletItem>) {
        struct Queue(mpsc::Sender<OutletItem>);
        impl Sink for Queue {
            fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
                Box::pin(async move { self.0.send(item).await.map_err(|_| ConsumerGone) })
            }
        }
        let (sender, receiver) = mpsc::channel(room.max(1));
        (Self::new(Arc::new(Queue(sender))), receiver)
    }

    /// Sends an item; an item of a kind that is not accepted is dropped without an error.
    ///
    /// # Errors
    /// Returns [`ConsumerGone`] if the consumer no longer accepts items.
    ///
    /// # Cancel safety
    /// If the future is dropped, the item may or may not have been sent.
    pub async fn send(&self, item: OutletItem) -> Result<(), ConsumerGone> {
        match &self.0 {
            Some(sink) if sink.wants(item.kind()) => sink.send(item).await,
            _ => Ok(()),
        }
    }

    /// Sends a piece of text as a chunk of the result.
    ///
    /// # Errors
    /// Returns [`ConsumerGone`] if the consumer no longer accepts items.
    ///
    /// # Cancel safety
    /// If the future is dropped, the item may or may not have been sent.
    pub async fn text(&self, text: &str) -> Result<(), ConsumerGone> {
        if !self.wants(OutletItemKind::Chunk) {
            return Ok(());
        }
        self.send(OutletItem::text(text)).await
    }

    /// Reports the progress of the call: units done, and total units if known.
    ///
    /// To report a step with a message, send an item:
    ///
    /// ```
    /// use mgp_types::service::{ConsumerGone, Outlet, OutletItem, Progress};
    ///
    /// # async fn report(outlet: Outlet) -> Result<(), ConsumerGone> {
    /// let message = Some("copied a file".to_owned());
    /// let step = Progress { progress: 1.0, message, ..Progress::default() };
    /// outlet.send(OutletItem::Progress(step)).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`ConsumerGone`] if the consumer no longer accepts items.
    ///
    /// # Cancel safety
    /// If the future is dropped, the item may or may not have been sent.
    pub async fn progress(
        &self,
        progress: f64,
        total: impl Into<Option<f64>>,
    ) -> Result<(), ConsumerGone> {
        let step = Progress { progress, total: total.into(), ..Progress::default() };
        self.send(OutletItem::Progress(step)).await
    }

    /// Returns whether the outlet's sink accepts items of a kind.
    #[must_use]
    pub fn wants(&self, kind: OutletItemKind) -> bool {
        self.0.as_ref().is_some_and(|sink| sink.wants(kind))
    }

    /// Returns whether the outlet has no sink, so that it drops all items.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Wraps the sink, if any, in another sink, which receives every item first.
    #[must_use]
    pub fn wrap(self, outer: impl FnOnce(Arc<dyn Sink>) -> Arc<dyn Sink>) -> Self {
        Self(self.0.map(outer))
    }
}

crate::opaque_debug!(Outlet);
