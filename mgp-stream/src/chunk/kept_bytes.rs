//! The limit on the memory for chunks that are kept after they were sent; all calls of a stack share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum size, in bytes, of the chunks that all calls of a stack keep after sending them.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// Counter of the bytes of kept chunks, which refuses more than [`MAX_KEPT_BYTES`].
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptBytes(Arc<AtomicUsize>);

impl KeptBytes {
    /// Reserves memory for kept chunks; returns `false` if that would exceed the limit.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let add = |kept: usize| Some(kept + bytes).filter(|sum| *sum <= MAX_KEPT_BYTES);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Releases memory that was reserved with [`reserve`](Self::reserve).
    pub(crate) fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
