//! Counts tokens in the background, because somebody searches (MGP §16.8).
//!
//! Nothing is counted on the way to an answer: until the counts are there bounds stand in for them, and fewer tools fit.
//!
//! Applies to: inbound.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::index::ToolIndex;

/// The least time between two batches: making the tables costs more than counting some tools.
const BETWEEN: Duration = Duration::from_secs(10);

/// When tokens were counted last.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting(Arc<Mutex<Last>>);

#[derive(Debug, Default)]
struct Last {
    /// The state of the index when the last batch began, and when that was.
    began: Option<(u64, Instant)>,
    is_running: bool,
}

impl Counting {
    /// Begins to count what is new in the index, unless that was done a moment ago or is being done.
    pub(super) fn begin(&self, index: &ToolIndex) {
        let generation = index.generation();
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |(counted, began): (u64, Instant)| {
            counted == generation || now.saturating_duration_since(began) < BETWEEN
        };
        if last.is_running || last.began.is_some_and(is_fresh) {
            return;
        }
        *last = Last { began: Some((generation, now)), is_running: true };
        drop(last);
        let (index, running) = (index.clone(), Running(Arc::clone(&self.0)));
        tokio::task::spawn_blocking(move || {
            let _running = running;
            let tools = index.count_tokens();
            tracing::debug!(tools, "tokens counted");
        });
    }
}

/// Says that a batch is over, however it ends.
struct Running(Arc<Mutex<Last>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_running = false;
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
