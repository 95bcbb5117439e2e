//! The events that a subscription keeps: in memory, or in the store if the subscription is durable.

use std::sync::Arc;

use tokio::time::Instant;

use crate::event::draft::PublishedEvent;
use crate::event::window::Window;

/// The maximum number of events that a subscription which is not durable keeps in memory; if they are large, fewer are
/// kept.
pub(in crate::event) const MAX_KEPT: usize = 1_024;
/// The maximum total size of the events that a subscription keeps in memory, in bytes.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;

/// The maximum number of events of a durable subscription that the store keeps.
const MAX_STORED: usize = 10_000;
/// The maximum total size of the events of a durable subscription that the store keeps, in bytes.
const MAX_STORED_BYTES: usize = 32 * 1024 * 1024;

/// The events that a subscription keeps, with consecutive sequence numbers.
pub(in crate::event) enum Queue {
    Memory(Window<Arc<PublishedEvent>>),
    /// The events of a durable subscription are in the store.
    Stored {
        /// The sizes of the events, including those that wait to be stored.
        sizes: Window<()>,
        /// The sequence number of the last event in the store.
        stored: u64,
        /// The time at which the use of the subscription was last stored; `None` if it was not stored by this process.
        use_stored_at: Option<Instant>,
    },
}

impl Queue {
    /// Creates the queue of a subscription whose sequence numbers begin after `base`.
    pub(in crate::event) fn memory(base: u64) -> Self {
        Self::Memory(Window::new(base, MAX_KEPT, MAX_KEPT_BYTES))
    }

    /// Creates the queue of a durable subscription whose sequence numbers begin after `base`. `stored` are the sizes of
    /// the events that the store contains already.
    pub(in crate::event) fn durable(base: u64, stored: &[u32]) -> Self {
        let mut sizes = Window::new(base, MAX_STORED, MAX_STORED_BYTES);
        for size in stored {
            sizes.push((), *size as usize);
        }
        Self::Stored { stored: sizes.last(), sizes, use_stored_at: None }
    }

    pub(super) fn is_durable(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }

    /// Assigns the next sequence number to an event, and drops the oldest events if there are too many.
    pub(super) fn push(&mut self, event: &Arc<PublishedEvent>) {
        match self {
            Self::Memory(events) => events.push(Arc::clone(event), event.bytes()),
            Self::Stored { sizes, .. } => sizes.push((), event.bytes()),
        }
    }

    /// Returns the sequence number that was assigned last.
    pub(super) fn last(&self) -> u64 {
        match self {
            Self::Memory(events) => events.last(),
            Self::Stored { sizes, .. } => sizes.last(),
        }
    }

    /// Returns the sequence number of the oldest event that is kept, or of the next event if none is kept.
    pub(super) fn first(&self) -> u64 {
        match self {
            Self::Memory(events) => events.first(),
            Self::Stored { sizes, .. } => sizes.first(),
        }
    }

    /// Returns the sequence number of the last event that can be sent or read: an event that waits to be stored cannot.
    pub(super) fn readable(&self) -> u64 {
        match self {
            Self::Memory(events) => events.last(),
            Self::Stored { stored, .. } => *stored,
        }
    }

    /// Returns up to `max` events after a sequence number; `None` if the events are in the store.
    pub(super) fn in_memory(
        &self,
        after: u64,
        max: usize,
    ) -> Option<Vec<(u64, Arc<PublishedEvent>)>> {
        let Self::Memory(events) = self else { return None };
        let events = events.after(after).take(max);
        Some(events.map(|(seq, event)| (seq, Arc::clone(event))).collect())
    }
}
