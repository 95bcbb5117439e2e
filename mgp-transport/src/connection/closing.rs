//! The end of a connection: its phases, and the deadlines for a peer that reads too slowly or not at all.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep};

use super::driver::Driver;
use super::{CloseReason, Limits};

/// The minimum time between two checks of a child that has a call and does not read.
const MIN_BUSY_INTERVAL: Duration = Duration::from_secs(1);

/// The phase of a connection, with the deadlines of its end.
#[derive(Default)]
pub(super) struct Closing {
    phase: Phase,
    /// The deadline of the connection: it ends at this time if its peer still does not read, or if closing has not
    /// finished.
    deadline: Option<Pin<Box<Sleep>>>,
    /// If this side closes the connection, the latest time at which it ends, however slowly the peer reads.
    hard_deadline: Option<Instant>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The peer closed its side; running calls can still complete.
    PeerClosed,
    /// This side is closing the connection; running calls can still complete.
    Draining,
    /// The running calls will be dropped; only bytes that are already queued are still written.
    Flushing(FlushReason),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushReason {
    Local,
    Flooded,
}

impl Closing {
    /// Returns whether messages are still read.
    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Allows running calls to complete after the peer closed its side.
    pub(super) fn start_lingering(&mut self, linger: Duration) {
        self.phase = Phase::PeerClosed;
        self.deadline = Some(Box::pin(sleep(linger)));
    }

    /// Stops reading; running calls can still complete.
    pub(super) fn start_draining(&mut self, limits: &Limits) {
        self.phase = Phase::Draining;
        self.deadline = None;
        self.hard_deadline =
            Instant::now().checked_add(limits.stall_timeout.max(limits.linger_timeout));
    }

    /// Stops reading and starts the final flush. The linger timeout, within which the queued bytes must be written,
    /// starts again.
    pub(super) fn start_flush(&mut self, reason: FlushReason) {
        self.phase = Phase::Flushing(reason);
        self.deadline = None;
    }

    /// Records that the peer has read something, which ends a stall. An answer that is being written can take as long
    /// as it needs.
    pub(super) fn note_progress(&mut self) {
        if matches!(self.phase, Phase::Open | Phase::Draining) {
            self.deadline = None;
        }
    }

    /// Waits until the deadline. If no deadline is set yet, this method sets it to `time` from now.
    fn poll_deadline(&mut self, time: Duration, task: &mut Task<'_>) -> Poll<()> {
        let hard_deadline = self.hard_deadline;
        let deadline = self.deadline.get_or_insert_with(|| {
            let left = hard_deadline.map(|latest| latest.saturating_duration_since(Instant::now()));
            Box::pin(sleep(left.map_or(time, |left| left.min(time))))
        });
        deadline.as_mut().poll(task)
    }
}

impl<R, W> Driver<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Waits for the next event, or closes the connection if its deadline has passed. Called when a turn of the loop
    /// found nothing to do.
    pub(super) fn wait_or_close(&mut self, task: &mut Task<'_>) -> Poll<CloseReason> {
        let is_written = self.unwritten() == 0;
        let limits = &self.connection.limits;
        let (stall, linger) = (limits.stall_timeout, limits.linger_timeout);
        match self.closing.phase {
            Phase::Open => {
                // Above `Limits::unread_bytes`, senders and their callers wait. So limit the time for which the peer
                // can block them.
                if !self.outbox().is_high(self.unwritten()) {
                    return Poll::Pending;
                }
                ready!(self.closing.poll_deadline(stall, task));
                if !self.is_child_busy() {
                    return Poll::Ready(CloseReason::Stalled(stall));
                }
                self.closing.deadline = None;
                let _ = self.closing.poll_deadline(stall.max(MIN_BUSY_INTERVAL), task);
                Poll::Pending
            }
            Phase::PeerClosed | Phase::Draining => {
                if !is_written || !self.calls.is_empty() || self.notifications.len() > 0 {
                    ready!(self.closing.poll_deadline(linger, task));
                }
                let by_peer = self.closing.phase == Phase::PeerClosed;
                Poll::Ready(if by_peer { CloseReason::Eof } else { CloseReason::Local })
            }
            Phase::Flushing(reason) => {
                if !is_written {
                    ready!(self.closing.poll_deadline(linger, task));
                }
                Poll::Ready(match reason {
                    FlushReason::Local => CloseReason::Local,
                    FlushReason::Flooded => CloseReason::Flooded,
                })
            }
        }
    }

    /// Returns whether the peer is a child that has received a call and not answered it. Many servers run one call at a
    /// time and read nothing meanwhile, so such a child does not count as stalled; the time limit of the call ends the
    /// wait.
    fn is_child_busy(&self) -> bool {
        self.is_child()
            && self.connection.send_half.pending.has_other_calls(&self.unwritten_requests())
    }
}

impl<R, W> Driver<R, W> {
    /// Drops the running calls, then ends everything else that belongs to the connection.
    pub(super) fn end(&mut self) {
        self.connection.send_half.outbox.close();
        self.calls.clear();
        self.notifications.clear();
        self.held_notifications.set(0);
        self.read_ahead.clear();
        self.connection.counters.unwritten.store(0, Ordering::Relaxed);
        self.connection.end();
    }
}

/// Ends the connection even if the driver is dropped while it runs.
impl<R, W> Drop for Driver<R, W> {
    fn drop(&mut self) {
        self.end();
    }
}
