//! Counts the tokens of definitions in the background; searches start the counting (MGP §16.8).
//!
//! A search never waits for exact counts. Until they are known, it uses upper bounds, so fewer tools might fit into its
//! answer.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use mgp_types::sync::Mutex;
use tokio::time::Instant;

use crate::index::{CountProgress, SharedIndex, ToolIndex};

/// The minimum interval between two batches. Each batch builds the tables of the encoding, which costs more than
/// counting a few tools.
const MIN_BATCH_INTERVAL: Duration = Duration::from_secs(10);

/// The state of the background counting; all clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenCounting(Arc<Mutex<CountState>>);

#[derive(Debug, Default)]
struct CountState {
    /// The time when the last batch began.
    began: Option<Instant>,
    /// The last generation of the index whose tokens were all counted.
    counted: Option<u64>,
    is_running: bool,
}

impl TokenCounting {
    /// Starts counting the tokens of new tools, unless a batch is running or began less than [`MIN_BATCH_INTERVAL`]
    /// ago.
    pub(super) fn start(&self, index: &ToolIndex) {
        let generation = index.generation();
        let now = Instant::now();
        let mut last = self.0.lock();
        let is_fresh = |began| now.saturating_duration_since(began) < MIN_BATCH_INTERVAL;
        if last.is_running || last.counted == Some(generation) || last.began.is_some_and(is_fresh) {
            return;
        }
        (last.began, last.is_running) = (Some(now), true);
        drop(last);
        let running = RunningBatch { last: Arc::clone(&self.0), counted: None };
        let index = Arc::downgrade(&index.shared);
        // Count on a thread of its own, because a million tools take a minute, for which it would block a thread of the
        // runtime.
        let run = move || {
            let all = is_all_counted(&index);
            running.done(all.then_some(generation));
        };
        let thread = thread::Builder::new().name("mgp-index-tokens".to_owned());
        if let Err(error) = thread.spawn(run) {
            tracing::warn!(%error, "token counting thread not started; using upper bounds");
        }
    }
}

/// Counts the tokens of tools until all tools are counted. Returns `false` if the index was dropped or counting failed.
fn is_all_counted(index: &Weak<SharedIndex>) -> bool {
    while let Some(shared) = index.upgrade() {
        match (ToolIndex { shared }).count_some() {
            CountProgress::Some(tools) => tracing::debug!(tools, "tokens counted"),
            CountProgress::All => return true,
            CountProgress::Failed => return false,
        }
    }
    false
}

/// A running batch; dropping this value records its end, even after a panic.
struct RunningBatch {
    last: Arc<Mutex<CountState>>,
    counted: Option<u64>,
}

impl RunningBatch {
    fn done(mut self, counted: Option<u64>) {
        self.counted = counted;
    }
}

impl Drop for RunningBatch {
    fn drop(&mut self) {
        let mut last = self.last.lock();
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
        let (index, counting) = (ToolIndex::new(), TokenCounting::default());
        let tool = Tool::new("read_file".to_owned(), RawObject::empty());
        index.put(ServerEntry::new("files").tool(tool)).unwrap();
        (0..5).for_each(|_| counting.start(&index));
        while counting.0.lock().is_running {
            tokio::task::yield_now().await;
        }
        assert_eq!(index.count_tokens(), 0);
        assert!(index.get("files", "read_file").unwrap().0.is_counted());
    }
}
