//! Measures the busy and idle times of the processors. The result decides whether a kernel starts further servers.

use std::fs;
use std::future;
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

/// The time between two readings of the processor times.
const INTERVAL: Duration = Duration::from_secs(1);

/// The minimum duration of a measurement, per processor, in ticks of the system's clock; a second has 100 ticks.
const MIN_TICKS: u64 = 90;

/// The time of all processors together since the start of the system, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessorTimes {
    processors: u64,
    idle: u64,
    total: u64,
}

impl ProcessorTimes {
    /// Reads the current times; `None` on a system without `/proc/stat`, i.e. most systems other than Linux.
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the content of `/proc/stat`. Its first line has the sums over all processors. The first eight numbers are
    /// the times spent in user programs, in programs with low priority, in the system, idle, waiting for disks, in two
    /// kinds of interrupts, and in other machines on the same hardware. The two numbers after these are already
    /// included in the first two.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let sums = lines.next()?.strip_prefix("cpu ")?.split_ascii_whitespace().take(8);
        let sums: Vec<u64> = sums.map(|sum| sum.parse().ok()).collect::<Option<_>>()?;
        let processors = lines.take_while(|line| line.starts_with("cpu")).count();
        Some(Self {
            processors: u64::try_from(processors).ok().filter(|processors| *processors > 0)?,
            idle: *sums.get(3)?,
            total: sums.iter().sum(),
        })
    }

    /// Returns whether at least a quarter of the available processors was idle since `begin`; `None` if too little time
    /// has passed.
    ///
    /// If this program may use only a part of the processors, e.g. in a container, the work of the whole system counts
    /// as if this part did it.
    fn had_room_since(self, begin: Self, available: u64) -> Option<bool> {
        let total = self.total.saturating_sub(begin.total);
        if total < MIN_TICKS * self.processors {
            return None;
        }
        let busy = total.saturating_sub(self.idle.saturating_sub(begin.idle));
        let (busy, room) = (busy.saturating_mul(4 * self.processors), total.saturating_mul(3));
        Some(busy <= room.saturating_mul(available))
    }
}

/// Waits until at least a quarter of the processors was idle for a second. Waits forever if the system does not report
/// its processor times.
pub(super) async fn until_processors_have_room() {
    let available = thread::available_parallelism().map_or(1, usize::from);
    let available = u64::try_from(available).unwrap_or(u64::MAX);
    let mut begin = None;
    while let Some(now) = ProcessorTimes::now() {
        match begin.map(|begin| now.had_room_since(begin, available)) {
            Some(Some(true)) => return,
            None | Some(Some(false)) => begin = Some(now),
            Some(None) => {}
        }
        sleep(INTERVAL).await;
    }
    future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(processors: u64, idle: u64, total: u64) -> ProcessorTimes {
        ProcessorTimes { processors, idle, total }
    }

    #[test]
    fn the_sums_of_all_processors_are_read() {
        let text = "cpu  10 1 5 80 3 0 1 0 7 0\ncpu0 5 1 2 40 2 0 0 0 0 0\n\
                    cpu1 5 0 3 40 1 0 1 0 7 0\nintr 1 2\n";
        assert_eq!(ProcessorTimes::parse(text), Some(times(2, 80, 100)));
        assert_eq!(ProcessorTimes::parse("cpu  10 1 5\n"), None);
        assert_eq!(ProcessorTimes::parse(""), None);
    }

    #[test]
    fn a_quarter_of_the_available_processors_must_be_idle_for_a_second() {
        let begin = times(4, 1000, 5000);
        let had_room = |idle: u64, total: u64, available: u64| {
            times(4, 1000 + idle, 5000 + total).had_room_since(begin, available)
        };
        assert_eq!(had_room(100, 300, 4), None, "too short");
        assert_eq!(had_room(100, 400, 4), Some(true));
        assert_eq!(had_room(99, 400, 4), Some(false));
        assert_eq!(had_room(0, 400, 4), Some(false));
        // The container may use one of four processors. Three quarters of this processor are 3/16 of all processors.
        assert_eq!(had_room(324, 400, 1), Some(false));
        assert_eq!(had_room(325, 400, 1), Some(true));
    }
}
