//! Counts tokens in the background, because somebody searches (MGP §16.8).
//!
//! Nothing is counted on the way to an answer: until the counts are there bounds stand in for them, and fewer tools fit.
//!
//! Applies to: inbound.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::index::{Counted, Shared, ToolIndex};

/// The least time between two batches: making the tables costs more than counting some tools.
const BETWEEN: Duration = Duration::from_secs(10);

/// When tokens were counted last.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting(Arc<Mutex<Last>>);

#[derive(Debug, Default)]
struct Last {
    /// When the last batch began.
    began: Option<Instant>,
    /// The state of the index of which all is counted.
    counted: Option<u64>,
    is_running: bool,
}

impl Counting {
    /// Begins to count what is new in the index, unless that was done a moment ago or is being done.
    pub(super) fn begin(&self, index: &ToolIndex) {
        let generation = index.generation();
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |began| now.saturating_duration_since(began) < BETWEEN;
        if last.is_running || last.counted == Some(generation) || last.began.is_some_and(is_fresh) {
            return;
        }
        (last.began, last.is_running) = (Some(now), true);
        drop(last);
        let running = Running { last: Arc::clone(&self.0), counted: None };
        let index = Arc::downgrade(&index.shared);
        // Neither a runtime nor an index that ends waits for it: a million tools take a minute.
        let run = move || {
            let all = is_all_counted(&index);
            running.done(all.then_some(generation));
        };
        let thread = thread::Builder::new().name("mgp-index-tokens".to_owned());
        if let Err(error) = thread.spawn(run) {
            tracing::warn!(%error, "no thread counts tokens; bounds stand in for counts");
        }
    }
}

/// Counts until nothing is left or the index is gone.
fn is_all_counted(index: &Weak<Shared>) -> bool {
    while let Some(shared) = index.upgrade() {
        match (ToolIndex { shared }).count_some() {
            Counted::Some(tools) => tracing::debug!(tools, "tokens counted"),
            Counted::All => return true,
            Counted::Failed => return false,
        }
    }
    false
}

/// Says that a batch is over, however it ends.
struct Running {
    last: Arc<Mutex<Last>>,
    counted: Option<u64>,
}

impl Running {
    fn done(mut self, counted: Option<u64>) {
        self.counted = counted;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_running = false;
        last.counted = self.counted.or(last.counted);
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::RawObject;
    use mgp_types::mcp::Tool;

    use super::*;
    use crate::ServerEntry;

    #[tokio::test]
    async fn new_tools_are_counted_in_the_background_and_once() {
        let (index, counting) = (ToolIndex::new(), Counting::default());
        let tool = Tool::new("read_file".to_owned(), RawObject::empty());
        index.put(ServerEntry::new("files").tool(tool)).unwrap();
        (0..5).for_each(|_| counting.begin(&index));
        while counting.0.lock().unwrap().is_running {
            tokio::task::yield_now().await;
        }
        assert_eq!(index.count_tokens(), 0);
        assert!(index.get("files", "read_file").unwrap().0.is_counted());
    }
}
