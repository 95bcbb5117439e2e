//! The way back from a running call: chunks, progress, logs, events, callbacks (DESIGN §3 D; MGP §12, §13).

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::BoxFuture;
use crate::mcp::ContentBlock;
use crate::wire::Payload;

/// Where the partial results of a call go; forwarding a call keeps it.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use mgp_types::Payload;
/// use mgp_types::mcp::ContentBlock;
/// use mgp_types::service::{BoxFuture, Gone, Item, Outlet, Sink};
///
/// #[derive(Default)]
/// struct Seen(Mutex<Vec<Item>>);
///
/// impl Sink for Seen {
///     fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
///         self.0.lock().unwrap().push(item);
///         Box::pin(async { Ok(()) })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let seen = Arc::new(Seen::default());
/// let outlet = Outlet::new(seen.clone());
/// let chunk = Payload::of(&ContentBlock::text("hello")).unwrap();
/// outlet.send(Item::Chunk(chunk)).await.unwrap();
/// assert_eq!(seen.0.lock().unwrap().len(), 1);
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Outlet(Option<Arc<dyn Sink>>);

/// What can be sent back while a call runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A piece of the result: one content block as JSON, `Payload::of(&ContentBlock::text("…"))` (§12.4).
    Chunk(Payload),
    /// How far the call is (§12.6).
    Progress(Progress),
    /// Params of `notifications/message`.
    Log(Payload),
    /// Params of `notifications/mgp.event` (§13.3).
    Event(Payload),
    /// Params of `notifications/mgp.callback.request` (§13.4).
    Callback(Payload),
}

/// The kind of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// [`Item::Chunk`].
    Chunk,
    /// [`Item::Progress`].
    Progress,
    /// [`Item::Log`].
    Log,
    /// [`Item::Event`].
    Event,
    /// [`Item::Callback`].
    Callback,
}

/// How far a call is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Units done.
    pub progress: f64,
    /// Units in all, where known.
    pub total: Option<f64>,
    /// A word for a person.
    pub message: Option<String>,
    /// How long it may still take (§12.6).
    pub estimated_remaining_ms: Option<u64>,
}

/// The consumer is gone: stop sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes partial results of this call any more")]
pub struct Gone;

/// Takes the items of one call; layers wrap one to see them pass.
pub trait Sink: Send + Sync {
    /// Takes an item; waits while the consumer is slow, within its own bounds.
    ///
    /// # Errors
    /// [`Gone`] when nobody takes items any more.
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>>;

    /// Whether items of a kind are taken at all, so that nothing is made for nobody.
    fn wants(&self, _kind: ItemKind) -> bool {
        true
    }
}

impl Item {
    /// A chunk of text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        // Writing a text block cannot fail; an empty object is the harmless answer.
        let block = Payload::of(&ContentBlock::text(text));
        Self::Chunk(block.unwrap_or_else(|_| Payload::empty_object()))
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ItemKind {
        match self {
            Self::Chunk(_) => ItemKind::Chunk,
            Self::Progress(_) => ItemKind::Progress,
            Self::Log(_) => ItemKind::Log,
            Self::Event(_) => ItemKind::Event,
            Self::Callback(_) => ItemKind::Callback,
        }
    }
}

impl Outlet {
    /// An outlet into a sink.
    #[must_use]
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Self(Some(sink))
    }

    /// An outlet nobody listens at.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// An outlet into a function, which must not wait.
    ///
    /// ```
    /// use mgp_types::service::Outlet;
    ///
    /// let outlet = Outlet::from_fn(|item| println!("{item:?}"));
    /// ```
    #[must_use]
    pub fn from_fn(take: impl Fn(Item) + Send + Sync + 'static) -> Self {
        struct Function<F>(F);
        impl<F: Fn(Item) + Send + Sync> Sink for Function<F> {
            fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
                (self.0)(item);
                Box::pin(std::future::ready(Ok(())))
            }
        }
        Self::new(Arc::new(Function(take)))
    }

    /// An outlet into a queue of `room` items; a sender waits while it is full.
    #[must_use]
    pub fn channel(room: usize) -> (Self, mpsc::Receiver<Item>) {
        struct Queue(mpsc::Sender<Item>);
        impl Sink for Queue {
            fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
                Box::pin(async move { self.0.send(item).await.map_err(|_| Gone) })
            }
        }
        let (sender, receiver) = mpsc::channel(room.max(1));
        (Self::new(Arc::new(Queue(sender))), receiver)
    }

    /// Sends an item; one that nobody wants is no reason to stop working, so it is let go.
    ///
    /// # Errors
    /// [`Gone`] when whoever took items has left.
    ///
    /// # Cancel safety
    /// Dropping the future may or may not have sent the item.
    pub async fn send(&self, item: Item) -> Result<(), Gone> {
        match &self.0 {
            Some(sink) if sink.wants(item.kind()) => sink.send(item).await,
            _ => Ok(()),
        }
    }

    /// Sends a piece of text as a chunk of the result.
    ///
    /// # Errors
    /// [`Gone`] when whoever took items has left.
    ///
    /// # Cancel safety
    /// As [`Outlet::send`].
    pub async fn text(&self, text: &str) -> Result<(), Gone> {
        if !self.wants(ItemKind::Chunk) {
            return Ok(());
        }
        self.send(Item::text(text)).await
    }

    /// Says how far the call is: units done, and units in all where known.
    ///
    /// # Errors
    /// [`Gone`] when whoever took items has left.
    ///
    /// # Cancel safety
    /// As [`Outlet::send`].
    pub async fn progress(&self, progress: f64, total: impl Into<Option<f64>>) -> Result<(), Gone> {
        let step = Progress { progress, total: total.into(), ..Progress::default() };
        self.send(Item::Progress(step)).await
    }

    /// Whether items of a kind go anywhere.
    #[must_use]
    pub fn wants(&self, kind: ItemKind) -> bool {
        self.0.as_ref().is_some_and(|sink| sink.wants(kind))
    }

    /// Whether anybody listens at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Puts a sink around this one, which sees every item first.
    #[must_use]
    pub fn wrap(self, outer: impl FnOnce(Arc<dyn Sink>) -> Arc<dyn Sink>) -> Self {
        Self(self.0.map(outer))
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Outlet" } else { "Outlet(none)" })
    }
}
