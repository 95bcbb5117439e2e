//! Merges repeated requests for the same work, so that the work does not run more often than necessary.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures_util::FutureExt as _;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const RUNNING_AND_REQUESTED: u8 = 2;

/// The state of one kind of work, which the type `K` identifies. At most one task at a time does the work; a request
/// during this time makes the task repeat the work afterwards.
///
/// This state is stored in the scope of the caller that requests the work.
#[derive(Debug, Default)]
pub(super) struct Coalesced<K>(AtomicU8, PhantomData<K>);

impl<K: Send + Sync + 'static> Coalesced<K> {
    /// Starts the work. If the work is running, makes the running task repeat it once more.
    pub(super) fn request<F: Future<Output = ()> + Send>(
        self: Arc<Self>,
        work: impl Fn() -> F + Send + Sync + 'static,
    ) {
        let next = |state| Some(if state == IDLE { RUNNING } else { RUNNING_AND_REQUESTED });
        if self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) != Ok(IDLE) {
            return;
        }
        tokio::spawn(async move {
            loop {
                self.0.store(RUNNING, Ordering::Release);
                // Ignore a panic, which the panic hook has reported, so that later requests can start the work again.
                let _ = AssertUnwindSafe(work()).catch_unwind().await;
                let done =
                    self.0.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
                if done.is_ok() {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn work_that_panicked_runs_again() {
        let (work, begun) = (Arc::new(Coalesced::<()>::default()), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            let begun = Arc::clone(&begun);
            Arc::clone(&work).request(move || {
                let is_first = begun.fetch_add(1, Ordering::SeqCst) == 0;
                async move { assert!(!is_first, "expected panic") }
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn work_requested_a_thousand_times_runs_twice() {
        let (work, may_end) = (Arc::new(Coalesced::<()>::default()), Arc::new(Semaphore::new(0)));
        let (begun, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        for _ in 0..1000 {
            let shared = (Arc::clone(&begun), Arc::clone(&may_end), Arc::clone(&done));
            Arc::clone(&work).request(move || {
                let (begun, may_end, done) = shared.clone();
                async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    may_end.acquire().await.unwrap().forget();
                    done.add_permits(1);
                }
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        may_end.add_permits(1000);
        done.acquire_many(2).await.unwrap().forget();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
