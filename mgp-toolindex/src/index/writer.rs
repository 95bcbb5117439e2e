//! The state of the index that only one change at a time can access (MGP §16.4).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, PoisonError};

use mgp_types::mgp::ToolSecurity;
use mgp_types::sync::Mutex;

use crate::catalog::{Interner, LabelInterner};
use crate::keyword::{KeywordWriter, Merged};

/// The state of the index that only the change in progress can access.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    pub(super) keywords: KeywordWriter,
    pub(super) labels: LabelInterner,
    pub(super) slots: NumberAllocator,
    pub(super) servers: NumberAllocator,
    securities: Interner<ToolSecurity>,
    /// The number of documents that have changed since the keyword segments were stored in the database.
    #[cfg(feature = "sqlite")]
    pub(super) unstored_documents: usize,
    /// The merge of keyword segments that is running or finished, until its result is applied.
    pub(super) pending_merge: Option<Arc<PendingMerge>>,
}

#[derive(Debug, Default)]
pub(super) struct PendingMerge {
    state: Mutex<MergeState>,
    changed: Condvar,
}

#[derive(Default)]
enum MergeState {
    #[default]
    Running,
    /// The merge has ended; `None` if it failed, or if the result was already taken.
    Done(Option<Box<Merged>>),
}

impl IndexWriter {
    pub(super) fn new() -> Self {
        Self {
            keywords: KeywordWriter::new(),
            labels: LabelInterner::new(),
            slots: NumberAllocator::default(),
            servers: NumberAllocator::default(),
            securities: Interner::default(),
            #[cfg(feature = "sqlite")]
            unstored_documents: 0,
            pending_merge: None,
        }
    }

    /// Returns the object that all tools with equal metadata share; this saves memory, because most tools have one of a
    /// few values.
    pub(super) fn security(&mut self, security: ToolSecurity) -> Arc<ToolSecurity> {
        match serde_json::to_string(&security) {
            Ok(key) => self.securities.get(&key, || Arc::new(security)),
            Err(_) => Arc::new(security),
        }
    }
}

impl PendingMerge {
    pub(super) fn finish(&self, merged: Option<Merged>) {
        *self.state.lock() = MergeState::Done(merged.map(Box::new));
        self.changed.notify_all();
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(*self.state.lock(), MergeState::Done(_))
    }

    /// Waits for the merge and takes its result; only the first call returns the result.
    pub(super) fn take(&self) -> Option<Merged> {
        let is_running = |state: &mut MergeState| matches!(state, MergeState::Running);
        let state = self.changed.wait_while(self.state.lock(), is_running);
        match &mut *state.unwrap_or_else(PoisonError::into_inner) {
            MergeState::Running => None,
            MergeState::Done(merged) => merged.take().map(|merged| *merged),
        }
    }
}

mgp_types::opaque_debug!(MergeState);

/// An allocator of numbers, which always returns the smallest free number.
#[derive(Debug, Default)]
pub(super) struct NumberAllocator {
    free: BinaryHeap<Reverse<u32>>,
    next: u32,
}

impl NumberAllocator {
    pub(super) fn allocate(&mut self) -> u32 {
        self.free.pop().map_or_else(
            || {
                self.next += 1;
                self.next - 1
            },
            |Reverse(number)| number,
        )
    }

    pub(super) fn release(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.free.extend(numbers.into_iter().map(Reverse));
    }
}
