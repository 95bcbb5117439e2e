//! The end of a connection: its phases, and the deadlines for a peer that reads too slowly or not at all.

use std::pin::Pin;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::{CloseReason, Limits};

/// The time after the last byte that was sent until streams of changes end, if the peer closed its side and all other
/// calls have completed. Within it, streams can send what is already on its way.
const STREAM_LINGER: Duration = Duration::from_millis(100);

/// The phase of a connection, with the deadlines of its end.
#[derive(Default)]
pub(super) struct Closing {
    phase: Phase,
    /// The time at which the connection ends if its peer still does not read, or if closing has not finished.
    deadline: Option<Pin<Box<Sleep>>>,
    /// The time at which the connection ends although streams of changes are open.
    stream_deadline: Option<Pin<Box<Sleep>>>,
    /// The latest time at which a closing connection ends, however slowly the peer reads.
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

    /// Returns whether the peer closed its side, and running calls can still complete.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        self.phase == Phase::PeerClosed
    }

    /// Returns whether this side closes the connection, and running calls can still complete.
    pub(super) fn is_draining(&self) -> bool {
        self.phase == Phase::Draining
    }

    /// Returns whether the calls that still run are dropped.
    pub(super) fn drops_calls(&self) -> bool {
        matches!(self.phase, Phase::Flushing(_))
    }

    /// Returns the reason for which the connection ends; `None` while it is open.
    pub(super) fn reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Open => None,
            Phase::PeerClosed => Some(CloseReason::Eof),
            Phase::Draining | Phase::Flushing(FlushReason::Local) => Some(CloseReason::Local),
            Phase::Flushing(FlushReason::Flooded) => Some(CloseReason::Flooded),
        }
    }

    /// Allows running calls to complete after the peer closed its side.
    pub(super) fn start_lingering(&mut self, limits: &Limits) {
        self.phase = Phase::PeerClosed;
        self.deadline = Some(Box::pin(sleep(limits.linger_timeout)));
        self.set_hard_deadline(limits);
    }

    /// Stops reading; running calls can still complete.
    pub(super) fn start_draining(&mut self, limits: &Limits) {
        self.phase = Phase::Draining;
        self.deadline = None;
        self.set_hard_deadline(limits);
    }

    fn set_hard_deadline(&mut self, limits: &Limits) {
        self.hard_deadline =
            Instant::now().checked_add(limits.stall_timeout.max(limits.linger_timeout));
    }

    /// Stops reading and starts the final flush. The linger timeout, within which the queued bytes must be written,
    /// starts again.
    pub(super) fn start_flush(&mut self, reason: FlushReason) {
        self.phase = Phase::Flushing(reason);
        self.deadline = None;
    }

    /// Removes the deadline of streams, and that of an open or draining connection, e.g. because the peer has read
    /// something. The next deadline of the connection is not later than `hard_deadline`.
    pub(super) fn note_progress(&mut self) {
        self.stream_deadline = None;
        if matches!(self.phase, Phase::Open | Phase::Draining) {
            self.deadline = None;
        }
    }

    /// Removes the deadline of a connection whose peer closed its side, but still reads what waits for it.
    pub(super) fn note_slow_reader(&mut self) {
        self.deadline = None;
    }

    /// Waits until the deadline. If no deadline is set yet, this method sets it to `time` from now, or to
    /// `hard_deadline` if that is earlier.
    pub(super) fn poll_deadline(&mut self, time: Duration, task: &mut Task<'_>) -> Poll<()> {
        let hard_deadline = self.hard_deadline;
        let deadline = self.deadline.get_or_insert_with(|| {
            let left = hard_deadline.map(|latest| latest.saturating_duration_since(Instant::now()));
            Box::pin(sleep(left.map_or(time, |left| left.min(time))))
        });
        deadline.as_mut().poll(task)
    }

    /// Waits until nothing was sent for a short time, although streams of changes are open; at most until the deadline,
    /// as [`poll_deadline`](Self::poll_deadline) does.
    pub(super) fn poll_stream_deadline(&mut self, time: Duration, task: &mut Task<'_>) -> Poll<()> {
        if self.poll_deadline(time, task).is_ready() {
            return Poll::Ready(());
        }
        let deadline = self.stream_deadline.get_or_insert_with(|| Box::pin(sleep(STREAM_LINGER)));
        deadline.as_mut().poll(task)
    }
}
