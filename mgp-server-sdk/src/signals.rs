//! SIGTERM and SIGINT: the first one drains, a second one ends the process (MGP §11.4).
//!
//! Once a program listens to a signal, the system does nothing of its own about it any more.
//! So what it would have done is done here: at the second signal, and when nobody serves any longer.
//!
//! Applies to: inbound.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use mgp_lifecycle::Drain;
use mgp_types::mgp::ShutdownReason;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The servers of this process that heed signals.
static SERVING: AtomicUsize = AtomicUsize::new(0);

/// Has a server heed signals as long as this lives.
#[derive(Debug)]
pub(crate) struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Drains at the first signal.
    pub(crate) fn heed(drain: &Drain) -> Self {
        SERVING.fetch_add(1, Ordering::AcqRel);
        let serves = Arc::new(AtomicBool::new(true));
        match Waiting::new() {
            // It outlives the server: somebody has to end the process when it is told to.
            Ok(waiting) => drop(tokio::spawn(waiting.follow(drain.clone(), Arc::clone(&serves)))),
            Err(error) => {
                tracing::warn!(%error, "signals are not heard: they end the process at once");
            }
        }
        Self(serves)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
        SERVING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for signals.
#[cfg(unix)]
struct Waiting([(Signal, i32); 2]);

#[cfg(unix)]
impl Waiting {
    fn new() -> std::io::Result<Self> {
        let heard = |kind: SignalKind| signal(kind).map(|heard| (heard, kind.as_raw_value()));
        Ok(Self([heard(SignalKind::terminate())?, heard(SignalKind::interrupt())?]))
    }

    /// The number of the next signal.
    async fn next(&mut self) -> i32 {
        poll_fn(|task| {
            let came = self
                .0
                .iter_mut()
                .find_map(|(signal, number)| signal.poll_recv(task).is_ready().then_some(*number));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Waits for Ctrl-C, which is all there is.
#[cfg(not(unix))]
struct Waiting;

#[cfg(not(unix))]
impl Waiting {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        2
    }
}

impl Waiting {
    async fn follow(mut self, drain: Drain, serves: Arc<AtomicBool>) {
        let mut is_first = true;
        loop {
            let number = self.next().await;
            let (serves, others) =
                (serves.load(Ordering::Acquire), SERVING.load(Ordering::Acquire) > 0);
            if !serves && others {
                // Those who serve heed it.
                continue;
            }
            if !serves || !is_first {
                tracing::warn!(number, "a signal ends the process at once");
                // As a shell reports a process that the signal ended.
                std::process::exit(128 + number);
            }
            is_first = false;
            tracing::info!(number, "a signal: the server drains, a second one ends it at once");
            drain.begin(ShutdownReason::OperatorRequest, drain.config().timeout);
        }
    }
}
