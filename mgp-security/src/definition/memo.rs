//! What was looked up last: the gates of one call ask for the same tool, one right after the other.
//!
//! Applies to: both.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_types::service::ServerId;

use crate::tool::Assessment;

/// An assessment, and the table it is from.
struct Last {
    table: u64,
    server: Option<ServerId>,
    tool: Box<str>,
    assessment: Arc<Assessment>,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// A number that no other table of this process has.
pub(super) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What was found last, if it was the same in the same table.
pub(super) fn recall(table: u64, server: Option<&ServerId>, tool: &str) -> Option<Arc<Assessment>> {
    LAST.with_borrow(|last| {
        let last = last.as_ref()?;
        let is_same = last.table == table && *last.tool == *tool && last.server.as_ref() == server;
        is_same.then(|| Arc::clone(&last.assessment))
    })
}

/// Keeps what was found, for the next gate.
pub(super) fn keep(
    table: u64,
    server: Option<&ServerId>,
    tool: &str,
    assessment: &Arc<Assessment>,
) {
    let (server, tool, assessment) = (server.cloned(), tool.into(), Arc::clone(assessment));
    LAST.set(Some(Last { table, server, tool, assessment }));
}
