//! Keeps a runtime reading while a task blocks its thread (MGP §11.3).
//!
//! A worker of the multi-thread runtime that blocks may be the one that was waiting for sockets, pipes and timers, and
//! the other workers may sleep: then nobody reads until it returns, and a ping is not answered although threads are free.
//! One thread of this process looks whether a poll goes on and on; if so it gives the runtime an empty task, which wakes
//! a worker that finds nothing to do and waits for sockets, pipes and timers instead.
//! The thread sleeps while nothing is polled; a poll costs two atomic additions.
//!
//! Applies to: both.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::task::JoinHandle;

/// How often the thread looks; a poll that is there at two looks blocks.
const LOOK: Duration = Duration::from_millis(5);
/// After how many looks without a poll it goes to sleep: calls that come one by one need not wake it each time.
const IDLE: u32 = 200;
/// One poll that ended, beside those that run, which are counted in the lower half.
const ENDED: u64 = 1 << 32;

/// Spawns a task that may block its thread, and keeps the rest of a multi-thread runtime going while it does.
///
/// Elsewhere it spawns, no more: a current-thread runtime has no other thread, and where all threads block nobody is left.
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
/// Outside a runtime, as `tokio::spawn` does.
pub fn spawn_watched<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let runtime = Handle::current();
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return runtime.spawn(future);
    }
    let counts = Counts::of(runtime.id());
    runtime.spawn(Watched { future, counts })
}

pin_project! {
    /// Future of [`spawn_watched`].
    #[derive(Debug)]
    pub struct Watched<F> {
        #[pin]
        future: F,
        counts: Arc<Counts>,
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _polling = Polling::begin(this.counts);
        this.future.poll(task)
    }
}

/// The polls of tasks that one thread has spawned on one runtime.
#[derive(Debug, Default)]
struct Counts {
    /// Those that run, and above them those that ended, which may overflow.
    polls: AtomicU64,
    /// Whether the thread looks at them.
    is_listed: AtomicBool,
}

impl Counts {
    /// Those of this thread.
    fn of(runtime: Id) -> Arc<Self> {
        thread_local! {
            static OWN: RefCell<Option<(Id, Arc<Counts>)>> = const { RefCell::new(None) };
        }
        OWN.with_borrow_mut(|own| match own {
            Some((known, counts)) if *known == runtime => Arc::clone(counts),
            _ => Arc::clone(&own.insert((runtime, Arc::default())).1),
        })
    }

    #[cold]
    fn list(self: &Arc<Self>) {
        // A task is polled on its runtime, or by nobody who could be kept waiting.
        if self.is_listed.swap(true, Ordering::SeqCst) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let mut listed = WATCH.listed();
        if !listed.iter().any(|known| Arc::ptr_eq(&known.counts, self)) {
            listed.push(Listed { counts: Arc::clone(self), runtime, seen: 0, idle: 0 });
        }
        drop(listed);
        WATCH.wake();
    }
}

/// A poll that runs.
struct Polling<'a>(&'a Counts);

impl<'a> Polling<'a> {
    fn begin(counts: &'a Arc<Counts>) -> Self {
        counts.polls.fetch_add(1, Ordering::SeqCst);
        // Either this sees that nobody looks any more, or who stops looking sees the poll.
        if !counts.is_listed.load(Ordering::SeqCst) {
            counts.list();
        }
        Self(counts)
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.0.polls.fetch_add(ENDED - 1, Ordering::SeqCst);
    }
}

static WATCH: Watch =
    Watch { listed: Mutex::new(Vec::new()), more: Condvar::new(), begun: Once::new() };

/// The thread that looks, and what it looks at: as many as threads have spawned something in the last second.
struct Watch {
    listed: Mutex<Vec<Listed>>,
    more: Condvar,
    begun: Once,
}

struct Listed {
    counts: Arc<Counts>,
    runtime: Handle,
    /// The counts at the last look.
    seen: u64,
    /// Looks at which nothing was polled, one after the other.
    idle: u32,
}

impl Watch {
    fn listed(&self) -> std::sync::MutexGuard<'_, Vec<Listed>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&'static self) {
        self.begun.call_once(|| {
            let thread = std::thread::Builder::new().name("mgp-watch".to_owned());
            if let Err(error) = thread.spawn(|| self.look()) {
                tracing::warn!(%error, "no thread to watch over blocked ones; pings may have to wait for them");
            }
        });
        self.more.notify_one();
    }

    fn look(&self) {
        let mut listed = self.listed();
        loop {
            if listed.is_empty() {
                listed = self.more.wait(listed).unwrap_or_else(PoisonError::into_inner);
            }
            let (again, _) =
                self.more.wait_timeout(listed, LOOK).unwrap_or_else(PoisonError::into_inner);
            listed = again;
            listed.retain_mut(Listed::look);
        }
    }
}

impl Listed {
    /// Wakes a worker where a poll goes on and on; `false` once nothing has been polled for long.
    fn look(&mut self) -> bool {
        let before = self.seen;
        self.seen = self.counts.polls.load(Ordering::SeqCst);
        if self.seen != before {
            self.idle = 0;
            return true;
        }
        // The lower half.
        if self.seen % ENDED > 0 {
            drop(self.runtime.spawn(async {}));
            return true;
        }
        self.idle += 1;
        if self.idle < IDLE {
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

    /// Without the thread that looks, the timer never fires: the worker that blocks was the one waiting for it.
    #[test]
    fn timers_fire_while_a_task_blocks_the_thread_that_waited_for_them() {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (done, all) = mpsc::channel();
        runtime.spawn(async move {
            for round in 0..20 {
                // Both workers go to sleep; the one that wakes up for this had waited for timers.
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
    fn who_is_idle_is_looked_at_no_more_until_the_next_poll() {
        let counts = Arc::<Counts>::default();
        counts.is_listed.store(true, Ordering::SeqCst);
        let runtime = Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        let mut listed = Listed { counts: Arc::clone(&counts), runtime: handle, seen: 0, idle: 0 };
        drop(Polling::begin(&counts));
        assert!(listed.look(), "something has happened");
        for _ in 1..IDLE {
            assert!(listed.look());
        }
        assert!(!listed.look());
        assert!(!counts.is_listed.load(Ordering::SeqCst));
        let _entered = runtime.enter();
        drop(Polling::begin(&counts));
        assert!(counts.is_listed.load(Ordering::SeqCst), "it is listed anew");
    }
}
