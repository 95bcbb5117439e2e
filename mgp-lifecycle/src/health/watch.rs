//! Keeps a runtime responsive while a task blocks one of its threads (MGP §11.3).
//!
//! In tokio's multi-thread runtime, one worker waits for sockets, pipes and timers while the other workers can sleep.
//! If a task blocks that very worker, no input is read until the task returns, and a ping is not answered although
//! other threads are free. Therefore one watchdog thread per process looks for polls that do not return. If it finds
//! such a poll, it spawns an empty task. That wakes another worker, which then waits for sockets, pipes and timers
//! instead. The watchdog sleeps while nothing is polled. Each poll costs two atomic additions.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::task::JoinHandle;

/// Interval between two checks. A poll that is running at two consecutive checks counts as blocking.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// The number of consecutive checks without a running poll after which the watchdog stops checking a set of counts, so
/// that it can sleep.
const MAX_IDLE_CHECKS: u32 = 200;
/// The value that one ended poll adds to `PollCounts::polls`; the lower 32 bits contain the number of running polls.
const ENDED: u64 = 1 << 32;

/// Spawns a task that might block its thread. The rest of a multi-thread runtime stays responsive meanwhile.
///
/// On a current-thread runtime, this is the same as `tokio::spawn`, because such a runtime has only one thread. If all
/// threads of a runtime are blocked, this function does not help either.
///
/// ```
/// use mgp_lifecycle::spawn_watched;
///
/// # tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(async {
/// assert_eq!(spawn_watched(async { 42 }).await.unwrap(), 42);
/// # });
/// ```
///
/// # Panics
/// Panics outside a runtime, like `tokio::spawn`.
pub fn spawn_watched<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let runtime = Handle::current();
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return runtime.spawn(future);
    }
    let counts = PollCounts::of_thread(runtime.id());
    runtime.spawn(Watched { future, counts })
}

pin_project! {
    /// Future of [`spawn_watched`].
    #[derive(Debug)]
    pub struct Watched<F> {
        #[pin]
        future: F,
        counts: Arc<PollCounts>,
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _polling = PollGuard::begin(this.counts);
        this.future.poll(task)
    }
}

/// The counts of running and of ended polls of the tasks that one thread has spawned on one runtime.
#[derive(Debug, Default)]
struct PollCounts {
    /// The number of running polls, plus the number of ended polls times [`ENDED`]. The number of ended polls can
    /// overflow without harm.
    polls: AtomicU64,
    /// `true` if the watchdog checks these counts.
    is_listed: AtomicBool,
}

impl PollCounts {
    fn of_thread(runtime: Id) -> Arc<Self> {
        thread_local! {
            static OWN: RefCell<Option<(Id, Arc<PollCounts>)>> = const { RefCell::new(None) };
        }
        OWN.with_borrow_mut(|own| match own {
            Some((known, counts)) if *known == runtime => Arc::clone(counts),
            _ => Arc::clone(&own.insert((runtime, Arc::default())).1),
        })
    }

    #[cold]
    fn list(self: &Arc<Self>) {
        if self.is_listed.swap(true, Ordering::SeqCst) {
            return;
        }
        // Only polls on a runtime are watched, because outside of a runtime no worker can be woken.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut watched = WATCHDOG.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !watched.iter().any(|known| Arc::ptr_eq(&known.counts, self)) {
            watched.push(WatchedCounts { counts: Arc::clone(self), runtime, seen: 0, idle: 0 });
        }
        drop(watched);
        WATCHDOG.wake();
    }
}

/// A guard that counts a poll as running until the guard is dropped.
struct PollGuard<'a>(&'a PollCounts);

impl<'a> PollGuard<'a> {
    fn begin(counts: &'a Arc<PollCounts>) -> Self {
        counts.polls.fetch_add(1, Ordering::SeqCst);
        // No poll is missed: either this code sees that the counts are no longer checked, or the watchdog sees the poll
        // before it stops checking them.
        if !counts.is_listed.load(Ordering::SeqCst) {
            counts.list();
        }
        Self(counts)
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        self.0.polls.fetch_add(ENDED - 1, Ordering::SeqCst);
    }
}

static WATCHDOG: Watchdog =
    Watchdog { watched: Mutex::new(Vec::new()), added: Condvar::new(), begun: Once::new() };

/// The watchdog thread, and the counts that it checks: one set per thread that spawned tasks, until the set has been
/// idle for a second.
struct Watchdog {
    // This is the lock of `std` and not our own, because a `Condvar` of `std` needs its guard.
    watched: Mutex<Vec<WatchedCounts>>,
    added: Condvar,
    begun: Once,
}

struct WatchedCounts {
    counts: Arc<PollCounts>,
    runtime: Handle,
    /// The value of the counts at the latest check of the watchdog.
    seen: u64,
    /// The number of consecutive checks that found no running poll.
    idle: u32,
}

impl Watchdog {
    fn wake(&'static self) {
        self.begun.call_once(|| {
            let thread = std::thread::Builder::new().name("mgp-watch".to_owned());
            if let Err(error) = thread.spawn(|| self.run()) {
                tracing::warn!(%error, "no watchdog thread; pings may be delayed by blocked threads");
            }
        });
        self.added.notify_one();
    }

    fn run(&self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if watched.is_empty() {
                watched = self.added.wait(watched).unwrap_or_else(PoisonError::into_inner);
            }
            let (guard, _) = self
                .added
                .wait_timeout(watched, CHECK_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner);
            watched = guard;
            watched.retain_mut(WatchedCounts::check);
        }
    }
}

impl WatchedCounts {
    /// Wakes a worker if a poll has not returned since the last check; returns `false` once the counts are idle and
    /// need no more checks.
    fn check(&mut self) -> bool {
        let before = self.seen;
        self.seen = self.counts.polls.load(Ordering::SeqCst);
        if self.seen != before {
            self.idle = 0;
            return true;
        }
        let running = self.seen & (ENDED - 1);
        if running > 0 {
            drop(self.runtime.spawn(async {}));
            return true;
        }
        self.idle += 1;
        if self.idle < MAX_IDLE_CHECKS {
            return true;
        }
        self.idle = 0;
        self.counts.is_listed.store(false, Ordering::SeqCst);
        let is_idle = self.counts.polls.load(Ordering::SeqCst) == self.seen;
        if !is_idle {
            self.counts.is_listed.store(true, Ordering::SeqCst);
        }
        !is_idle
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;
    use tokio::time::sleep;

    use super::*;

    /// Without the watchdog, the timer would never fire, because the blocked worker is the worker that waits for
    /// timers.
    #[test]
    fn timers_fire_while_a_task_blocks_the_thread_that_waited_for_them() {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (done, all) = mpsc::channel();
        runtime.spawn(async move {
            for round in 0..20 {
                // Let both workers sleep. The worker that waits for timers then wakes up, so the blocking task below
                // runs on that worker.
                sleep(Duration::from_millis(3)).await;
                let (release, blocked) = mpsc::channel::<()>();
                let blocking = spawn_watched(async move { blocked.recv().is_ok() });
                sleep(Duration::from_millis(1)).await;
                release.send(()).unwrap();
                assert!(blocking.await.unwrap());
                done.send(round).unwrap();
            }
        });
        for round in 0..20 {
            assert_eq!(all.recv_timeout(Duration::from_secs(30)), Ok(round));
        }
    }

    #[test]
    fn idle_counts_are_not_checked_until_the_next_poll() {
        let counts = Arc::<PollCounts>::default();
        counts.is_listed.store(true, Ordering::SeqCst);
        let runtime = Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        let mut watched =
            WatchedCounts { counts: Arc::clone(&counts), runtime: handle, seen: 0, idle: 0 };
        drop(PollGuard::begin(&counts));
        assert!(watched.check(), "there was a poll");
        for _ in 1..MAX_IDLE_CHECKS {
            assert!(watched.check());
        }
        assert!(!watched.check());
        assert!(!counts.is_listed.load(Ordering::SeqCst));
        let _entered = runtime.enter();
        drop(PollGuard::begin(&counts));
        assert!(counts.is_listed.load(Ordering::SeqCst), "it is listed again");
    }
}
