//! The rate at which a caller accepts chunks (MGP §12.8).

use std::time::Duration;

use tokio::time::Instant;

/// The maximum rate of chunks that a caller requested for a call. By default, the rate is not limited.
#[derive(Debug, Default)]
pub(super) struct Pace {
    rate: Rate,
    last: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Rate {
    #[default]
    Any,
    Paused,
    Interval(Duration),
}

/// The earliest time at which the next chunk can be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextSlot {
    Now,
    At(Instant),
    /// No chunk is sent until the caller sets another rate.
    Paused,
}

impl Pace {
    /// Sets the maximum number of chunks per second; 0 pauses the stream.
    pub(super) fn set(&mut self, per_second: u32) {
        self.rate = match Duration::from_secs(1).checked_div(per_second) {
            None => Rate::Paused,
            Some(interval) => Rate::Interval(interval),
        };
    }

    /// Returns the earliest time at which the next chunk can be sent. If that is now, counts the chunk as sent.
    pub(super) fn next_slot(&mut self) -> NextSlot {
        match self.rate {
            Rate::Any => NextSlot::Now,
            Rate::Paused => NextSlot::Paused,
            Rate::Interval(interval) => {
                let now = Instant::now();
                if let Some(next) = self.last.map(|last| last + interval).filter(|next| *next > now)
                {
                    NextSlot::At(next)
                } else {
                    self.last = Some(now);
                    NextSlot::Now
                }
            }
        }
    }
}
