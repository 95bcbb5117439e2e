//! Calls whose round ended with questions, until their next round comes or nobody expects it any more.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Start;

/// How many suspended calls are kept; the oldest gives way.
pub(super) const SUSPENDED_MAX: usize = 1024;

/// How long a suspended call waits for its next round; longer than a sealed state is good for.
pub(super) const SUSPENDED_FOR: Duration = Duration::from_hours(1);

/// Keeps suspended calls for a sink, each with what the sink knows of it.
///
/// At most 1,024 wait, each for at most an hour; what gives way is [given back](Self::next_ended) and has to be
/// recorded as cancelled.
pub struct Suspended<T = ()> {
    /// Oldest first.
    calls: VecDeque<Call<T>>,
}

struct Call<T> {
    start: Arc<Start>,
    known: T,
    since: Instant,
}

impl<T> Suspended<T> {
    /// Keeps none yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { calls: VecDeque::new() }
    }

    /// Keeps a call until its next round begins.
    pub fn keep(&mut self, start: Arc<Start>, known: T) {
        self.calls.push_back(Call { start, known, since: Instant::now() });
    }

    /// Takes out the round before this one; only the same caller and tool go on with it.
    pub fn resume(&mut self, start: &Start) -> Option<(Arc<Start>, T)> {
        let same = |known: &Start| {
            known.logical == start.logical
                && known.principal == start.principal
                && known.server == start.server
                && known.tool == start.tool
        };
        let index = self.calls.iter().rposition(|call| same(&call.start))?;
        self.calls.remove(index).map(|call| (call.start, call.known))
    }

    /// Takes out the oldest call if it is too old, or one too many: nobody goes on with it.
    pub fn next_ended(&mut self) -> Option<(Arc<Start>, T)> {
        let oldest = self.calls.front()?;
        if self.calls.len() <= SUSPENDED_MAX && oldest.since.elapsed() < SUSPENDED_FOR {
            return None;
        }
        self.take_oldest()
    }

    /// Takes out the oldest call, whatever its age.
    pub fn take_oldest(&mut self) -> Option<(Arc<Start>, T)> {
        self.calls.pop_front().map(|call| (call.start, call.known))
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

impl<T> Default for Suspended<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Suspended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Suspended({})", self.calls.len())
    }
}
