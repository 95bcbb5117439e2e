//! Suspended calls: calls that were answered with questions, and that the caller is expected to repeat with its
//! answers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::CallRecord;
use crate::service::Principal;

/// The maximum number of suspended calls. If there are more, the oldest call of the caller with the most calls expires.
pub(super) const MAX_SUSPENDED: usize = 1024;

/// The time for which a suspended call can be continued. It is longer than the lifetime of the sealed state with which
/// the caller repeats the call.
pub(super) const SUSPENDED_TTL: Duration = Duration::from_hours(1);

/// The suspended calls of a sink, each with additional data that the sink attaches.
///
/// At most 1,024 calls remain suspended, each for at most an hour. The sink must remove expired and surplus calls with
/// [`pop_expired`](Self::pop_expired), and record them as cancelled.
pub struct SuspendedCalls<T = ()> {
    /// The suspended calls, oldest first.
    calls: VecDeque<SuspendedCall<T>>,
}

struct SuspendedCall<T> {
    start: Arc<CallRecord>,
    data: T,
    since: Instant,
}

impl<T> SuspendedCalls<T> {
    /// Creates a collection without suspended calls.
    #[must_use]
    pub const fn new() -> Self {
        Self { calls: VecDeque::new() }
    }

    /// Adds a call that was answered with questions. The call stays in the collection until its caller repeats it (next
    /// round) or it expires.
    pub fn insert(&mut self, start: Arc<CallRecord>, data: T) {
        self.calls.push_back(SuspendedCall { start, data, since: Instant::now() });
    }

    /// Removes the previous round of a call from the collection and returns its record, if the logical id, caller,
    /// server and tool of both rounds are equal.
    pub fn resume(&mut self, start: &CallRecord) -> Option<(Arc<CallRecord>, T)> {
        let same = |data: &CallRecord| {
            data.logical == start.logical
                && data.principal == start.principal
                && data.server == start.server
                && data.tool == start.tool
        };
        let index = self.calls.iter().rposition(|call| same(&call.start))?;
        self.calls.remove(index).map(|call| (call.start, call.data))
    }

    /// Removes and returns the oldest call if it has expired. If there are more calls than allowed, removes and returns
    /// the oldest call of a caller with the most calls, so that such a caller does not end the calls of others.
    pub fn pop_expired(&mut self) -> Option<(Arc<CallRecord>, T)> {
        let oldest = self.calls.front()?;
        if oldest.since.elapsed() >= SUSPENDED_TTL {
            return self.pop_oldest();
        }
        if self.calls.len() <= MAX_SUSPENDED {
            return None;
        }
        let index = self.oldest_of_most()?;
        self.calls.remove(index).map(|call| (call.start, call.data))
    }

    /// Returns the index of the oldest call of the caller with the most calls.
    fn oldest_of_most(&self) -> Option<usize> {
        let mut counts = HashMap::<&Principal, usize>::new();
        for call in &self.calls {
            *counts.entry(&call.start.principal).or_default() += 1;
        }
        let most = counts.values().max().copied();
        self.calls.iter().position(|call| counts.get(&call.start.principal).copied() == most)
    }

    /// Removes the oldest suspended call from the collection and returns it.
    pub fn pop_oldest(&mut self) -> Option<(Arc<CallRecord>, T)> {
        self.calls.pop_front().map(|call| (call.start, call.data))
    }

    /// Returns whether the collection has no suspended calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

impl<T> Default for SuspendedCalls<T> {
    fn default() -> Self {
        Self::new()
    }
}

crate::opaque_debug!(SuspendedCalls<T>);
