//! What a server holds at once, of all its callers.
//!
//! Applies to: inbound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::refusal::Refusal;
use crate::connection::SIGN_BYTES;

/// Requests beyond the bound that may be read to find out whether they ask for a sign of life.
const SPARE: usize = 64;

/// The gauges.
#[derive(Debug, Default)]
pub(super) struct Load {
    running: AtomicUsize,
    held: AtomicUsize,
}

impl Load {
    /// Requests that run.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Bytes of their bodies.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>, bound: usize) -> Result<Busy, Refusal> {
        let busy = self.enter_for_life(bound)?;
        if busy.spare { Err(Refusal::Busy) } else { Ok(busy) }
    }

    /// The same, but beyond the bound a few more are let in to say what they want: they may only ask for a sign of life.
    pub(super) fn enter_for_life(self: &Arc<Self>, bound: usize) -> Result<Busy, Refusal> {
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        let spare = before >= bound;
        let busy = Busy { load: Arc::clone(self), runs: true, bytes: 0, spare };
        if before >= bound.saturating_add(SPARE) { Err(Refusal::Busy) } else { Ok(busy) }
    }
}

/// One request that runs, and the bytes of its body.
#[derive(Debug)]
pub(super) struct Busy {
    load: Arc<Load>,
    runs: bool,
    bytes: usize,
    /// Beyond a bound, where only a sign of life may be asked for.
    spare: bool,
}

impl Busy {
    /// Holds so many bytes more.
    pub(super) fn hold(&mut self, bytes: usize, bound: usize) -> Result<(), Refusal> {
        self.bytes += bytes;
        let held = self.load.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // A single body within its own bound always fits an idle server.
        if held <= bound || held == self.bytes {
            return Ok(());
        }
        self.spare = true;
        self.within_spare(self.bytes)
    }

    /// Whether it may only ask for a sign of life.
    pub(super) fn is_spare(&self) -> bool {
        self.spare
    }

    /// Refuses a body that is too long for a sign of life, where it may be nothing else.
    pub(super) fn within_spare(&self, bytes: usize) -> Result<(), Refusal> {
        if self.spare && bytes > SIGN_BYTES { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// Holds on to its bytes only: it waits for news and does nothing.
    pub(super) fn stop_running(&mut self) {
        if std::mem::take(&mut self.runs) {
            self.load.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop_running();
        self.load.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
