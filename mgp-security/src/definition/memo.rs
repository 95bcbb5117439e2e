//! What was looked up last: the gates of one call ask for the same tool, one right after the other.
//!
//! Applies to: both.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_types::service::ServerId;

use super::table::Known;

/// What is known of a tool, and the table it is from.
struct Last {
    table: u64,
    server: Option<ServerId>,
    tool: Box<str>,
    known: Arc<Known>,
    is_stale: bool,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// A number that no other table of this process has.
pub(super) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Looks at what was found last, and at whether its list is stale, if it was the same in the same table.
pub(super) fn recall<T>(
    table: u64,
    server: Option<&ServerId>,
    tool: &str,
    look: impl FnOnce(&Known, bool) -> T,
) -> Option<T> {
    LAST.with_borrow(|last| {
        let last = last.as_ref()?;
        let is_it =
            last.table == table && *last.tool == *tool && same(last.server.as_ref(), server);
        is_it.then(|| look(&last.known, last.is_stale))
    })
}

/// Whether two ids are equal; mostly they are the same text, at the same place.
fn same(one: Option<&ServerId>, other: Option<&ServerId>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::ptr::eq(one.as_str(), other.as_str()) || one == other,
        (None, None) => true,
        _ => false,
    }
}

/// Keeps what was found, for the next gate.
pub(super) fn keep(
    table: u64,
    server: Option<&ServerId>,
    tool: &str,
    known: &Arc<Known>,
    is_stale: bool,
) {
    let (server, tool, known) = (server.cloned(), tool.into(), Arc::clone(known));
    LAST.set(Some(Last { table, server, tool, known, is_stale }));
}
