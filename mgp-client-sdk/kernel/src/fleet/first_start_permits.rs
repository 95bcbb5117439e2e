//! The permits that limit how many servers are started at the same time to read their lists.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::processor_times::until_processors_have_room;

/// The time after which a first start must exchange its permit for a permit for slow starts. So servers that hang do
/// not delay others for long.
pub(super) const FIRST_START_PERMIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum time that a slow first start keeps a permit for slow starts. Without this limit, a few servers that hang
/// would make others wait until their starts time out.
pub(super) const SLOW_START_PERMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The minimum and the maximum number of permits for first starts, and of those for slow starts. The number is twice
/// that of the processors, within these bounds.
const FIRST_STARTS: (usize, usize) = (4, 8);

/// The permits that limit how many servers are started at the same time to read their lists. If a kernel started many
/// interpreters at the same time on few processors, none of them would answer before its time limit, and restarts would
/// not help.
#[derive(Clone, Debug)]
pub(crate) struct FirstStartPermits {
    starts: Arc<Semaphore>,
    /// The permits of starts that take longer than [`FIRST_START_PERMIT_TIMEOUT`].
    slow_starts: Arc<Semaphore>,
}

impl FirstStartPermits {
    /// Creates the permits; their number depends on the number of processors.
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let starts = (2 * processors).clamp(FIRST_STARTS.0, FIRST_STARTS.1);
        let permits = || Arc::new(Semaphore::new(starts));
        Self { starts: permits(), slow_starts: permits() }
    }

    /// Waits for a permit, and then runs a start. After a while, a slow start exchanges its permit for a permit for
    /// slow starts, and later returns this permit too. While processors are idle, a start returns its permit early,
    /// because it hangs or waits for something other than a processor, e.g. a download.
    pub(super) async fn run(&self, mut start: Pin<&mut impl Future<Output = ()>>) {
        // Ignore the error, because the semaphores are never closed.
        let permit = self.starts.acquire().await;
        let slow_start = async {
            sleep(FIRST_START_PERMIT_TIMEOUT).await;
            self.slow_starts.acquire().await
        };
        let slow_permit = tokio::select! {
            () = start.as_mut() => return,
            slow_permit = slow_start => Some(slow_permit),
            () = until_processors_have_room() => None,
        };
        drop(permit);
        if slow_permit.is_some() {
            tokio::select! {
                () = start.as_mut() => return,
                () = sleep(SLOW_START_PERMIT_TIMEOUT) => {}
                () = until_processors_have_room() => {}
            }
            drop(slow_permit);
        }
        start.await;
    }

    /// Returns the permits for the beginning of starts, and the permits for slow starts.
    #[cfg(test)]
    pub(super) fn semaphores(&self) -> (Arc<Semaphore>, Arc<Semaphore>) {
        (Arc::clone(&self.starts), Arc::clone(&self.slow_starts))
    }
}
