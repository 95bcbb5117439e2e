//! The end of a connection: its phases, and the deadlines for a peer that reads slowly or not at all.

use std::sync::atomic::Ordering;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::CloseReason;
use super::driver::Driver;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The peer closed its side: running calls may finish.
    PeerClosed,
    /// This side closes: running calls may finish.
    Draining,
    /// Running calls are dropped at the end; only bytes already queued are still written.
    Flushing(FlushReason),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushReason {
    Local,
    Flooded,
}

impl<R, W> Driver<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Lets running calls finish after the peer closed its side.
    pub(super) fn start_lingering(&mut self) {
        self.phase = Phase::PeerClosed;
        let end = Instant::now() + self.connection.limits.linger_timeout;
        self.deadline = Some(Box::pin(sleep_until(end)));
    }

    /// Stops reading; running calls may finish.
    pub(super) fn start_draining(&mut self) {
        self.phase = Phase::Draining;
        self.deadline = None;
        let limits = &self.connection.limits;
        self.hard_deadline =
            Instant::now().checked_add(limits.stall_timeout.max(limits.linger_timeout));
    }

    /// Stops reading and starts the final flush: queued bytes get a full linger timeout of their own to be written.
    pub(super) fn start_flush(&mut self, reason: FlushReason) {
        self.phase = Phase::Flushing(reason);
        self.deadline = None;
    }

    /// Waits for progress, or closes the connection once its deadline has passed; called when a turn made no progress.
    pub(super) fn wait_or_close(&mut self, task: &mut Task<'_>) -> Poll<CloseReason> {
        let is_written = self.unwritten() == 0;
        let limits = &self.connection.limits;
        let (stall, linger) = (limits.stall_timeout, limits.linger_timeout);
        match self.phase {
            Phase::Open => {
                // Senders and their callers wait from here on, so the peer may not block them for ever.
                if !self.connection.send_half.outbox.is_high(self.unwritten()) {
                    return Poll::Pending;
                }
                ready!(self.poll_deadline(stall, task));
                Poll::Ready(CloseReason::Stalled(stall))
            }
            Phase::PeerClosed | Phase::Draining => {
                if !is_written || !self.calls.is_empty() || self.notifications.len() > 0 {
                    ready!(self.poll_deadline(linger, task));
                }
                let by_peer = self.phase == Phase::PeerClosed;
                Poll::Ready(if by_peer { CloseReason::Eof } else { CloseReason::Local })
            }
            Phase::Flushing(reason) => {
                if !is_written {
                    ready!(self.poll_deadline(linger, task));
                }
                Poll::Ready(match reason {
                    FlushReason::Local => CloseReason::Local,
                    FlushReason::Flooded => CloseReason::Flooded,
                })
            }
        }
    }

    fn poll_deadline(&mut self, time: Duration, task: &mut Task<'_>) -> Poll<()> {
        let hard_deadline = self.hard_deadline;
        let deadline = self.deadline.get_or_insert_with(|| {
            let end = Instant::now() + time;
            Box::pin(sleep_until(hard_deadline.map_or(end, |latest| latest.min(end))))
        });
        deadline.as_mut().poll(task)
    }
}

impl<R, W> Driver<R, W> {
    /// Drops the running calls, then ends everything else that belongs to the connection.
    pub(super) fn end(&mut self) {
        self.connection.send_half.outbox.close();
        self.calls.clear();
        self.notifications.clear();
        self.read_ahead.clear();
        let counters = &self.connection.counters;
        for gauge in [&counters.running, &counters.held, &counters.unwritten] {
            gauge.store(0, Ordering::Relaxed);
        }
        self.connection.end();
    }
}

/// A driver that is dropped while it runs ends its connection too.
impl<R, W> Drop for Driver<R, W> {
    fn drop(&mut self) {
        self.end();
    }
}
