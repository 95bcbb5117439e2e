//! Guards for the gauges (counters) of a connection. Each guard adds to a gauge when it is created, and subtracts the
//! same amount when it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Counters;

/// A number of bytes that the gauge `held` includes until this value is dropped. The bytes belong to a running request,
/// to the waiting notifications, or to the answers of a batch that is not complete.
#[derive(Debug)]
pub(super) struct HeldBytes {
    counters: Arc<Counters>,
    bytes: usize,
}

impl HeldBytes {
    pub(super) fn new(counters: &Arc<Counters>, bytes: usize) -> Self {
        let mut held = Self { counters: Arc::clone(counters), bytes: 0 };
        held.set(bytes);
        held
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the number of bytes, and the gauge with it.
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            replace(&self.counters.held, self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A request that the gauge `running` includes until this value is dropped; the gauge `held` includes its bytes.
pub(super) struct CountedRequest(HeldBytes);

impl CountedRequest {
    pub(super) fn new(counters: &Arc<Counters>, bytes: usize) -> Self {
        replace(&counters.running, 0, 1);
        Self(HeldBytes::new(counters, bytes))
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        replace(&self.0.counters.running, 1, 0);
    }
}

/// Replaces a part of a gauge. Only the driver of the connection changes its gauges, and others only read them, so an
/// atomic addition is not needed.
fn replace(gauge: &AtomicUsize, old: usize, new: usize) {
    gauge.store(gauge.load(Ordering::Relaxed) - old + new, Ordering::Relaxed);
}
