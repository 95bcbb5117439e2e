//! Work that somebody may ask for again and again: one task does it, and once more where it was asked for meanwhile.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const RESTS: u8 = 0;
const WORKS: u8 = 1;
const AGAIN: u8 = 2;

/// Whether one kind of work is being done; kept by the scope of whoever asks for it.
#[derive(Debug, Default)]
pub(super) struct Again<K>(AtomicU8, std::marker::PhantomData<K>);

impl<K: Send + Sync + 'static> Again<K> {
    /// Does it, or has whoever does it now do it once more.
    pub(super) fn ask<F: Future<Output = ()> + Send>(
        self: Arc<Self>,
        work: impl Fn() -> F + Send + Sync + 'static,
    ) {
        let asked = |now| Some(if now == RESTS { WORKS } else { AGAIN });
        if self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, asked) != Ok(RESTS) {
            return;
        }
        tokio::spawn(async move {
            loop {
                self.0.store(WORKS, Ordering::Release);
                work().await;
                let done =
                    self.0.compare_exchange(WORKS, RESTS, Ordering::AcqRel, Ordering::Acquire);
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
    async fn what_is_asked_for_a_thousand_times_is_done_twice() {
        let (again, goes) = (Arc::new(Again::<()>::default()), Arc::new(Semaphore::new(0)));
        let (begun, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        for _ in 0..1000 {
            let (begun, goes, done) = (Arc::clone(&begun), Arc::clone(&goes), Arc::clone(&done));
            Arc::clone(&again).ask(move || {
                let (begun, goes, done) =
                    (Arc::clone(&begun), Arc::clone(&goes), Arc::clone(&done));
                async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    goes.acquire().await.unwrap().forget();
                    done.add_permits(1);
                }
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        goes.add_permits(1000);
        done.acquire_many(2).await.unwrap().forget();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
